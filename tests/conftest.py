"""Where tests find what they share: the folder of real features, and small made-up sets."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

SHARED = Path(os.environ.get("KINRANK_SHARED", Path(__file__).resolve().parents[2] / "shared"))


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder with real features; tests that need it are skipped, with this message, where it is absent."""
    if not (SHARED / "data").is_dir():
        pytest.skip(
            f"real features not found at {SHARED}; set KINRANK_SHARED to the folder that holds data/ and golden/"
        )
    return SHARED


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)
