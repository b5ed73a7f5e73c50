"""Two small sets with classes, in files with the published names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="session")
def two_sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with ORL (every item is a query) and LFW (separate queries)."""
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    label = np.arange(96) % 8
    rows = (rng.normal(size=(8, 16))[label] + rng.normal(size=(96, 16)) + 0.5).astype(np.float32)
    np.savez(folder / "orl_pixels.npz", x=rows[:48], label=label[:48])
    np.savez(folder / "lfw_dlib.npz", x=rows, label=label, is_query=np.arange(96) < 16)
    return folder
