"""Shared fixtures: the folder of real features, and small synthetic sets."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import kinrank
from kinrank.testing import add_random_weights

os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "false")

SHARED = Path(os.environ.get("KINRANK_SHARED", Path(__file__).resolve().parents[2] / "shared"))


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """Return the folder with real features; tests that need it are skipped with this message if it is missing."""
    if not (SHARED / "data").is_dir():
        pytest.skip(
            f"real features not found at {SHARED}; set KINRANK_SHARED to the folder that holds data/ and golden/"
        )
    return SHARED


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture(scope="session")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., kinrank.Method]:
    """Return `ready(name, dimensions=12)`: a method that can run; a learned one gets small random weights."""
    folder = tmp_path_factory.mktemp("weights")

    @functools.cache
    def made(name: str, dimensions: int = 12) -> kinrank.Method:
        return add_random_weights(name, folder / f"{name}-{dimensions}.npz", dimensions)

    return made
