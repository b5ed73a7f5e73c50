"""`kinrank fit`, interrupted and killed at random moments: a second run learns the same weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="torch is not installed: make test-learned installs it")

from reference.interruptions import MOMENTS, Interruptions

pytestmark = pytest.mark.slow


def test_fit_survives_interruptions(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(10), 12)
    np.save(tmp_path / "f.npy", (rng.standard_normal((10, 16))[labels] + rng.standard_normal((120, 16))))
    np.save(tmp_path / "l.npy", labels)
    sizes = ["--anchors", "8", "--width", "16", "--depth", "1", "--heads", "2", "--lists", "1600"]
    words = ["fit", "csa", "--features", "f.npy", "--labels", "l.npy", "-o", "w.npz", *sizes]
    runs = Interruptions(words, tmp_path, seed=0)
    runs.survive(MOMENTS)
    assert runs.counts["finished"] > 0
