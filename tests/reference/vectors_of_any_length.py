"""Rows of different lengths, and the comparison of their rankings."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import kinrank as kr

EUCLIDEAN = "euclidean"


def made(count: int = 120, dimensions: int = 12, spread: float = 0.5, seed: int = 0) -> NDArray[np.float32]:
    """Return items in groups, of very different lengths: their order by direction differs from that by distance."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(max(2, count // 10), dimensions))
    rows = centres[rng.integers(0, len(centres), count)] + 0.4 * rng.normal(size=(count, dimensions))
    return (rows * np.exp(spread * rng.normal(size=(count, 1)))).astype(np.float32)


def same_but_for_ties(one: kr.Ranking, two: kr.Ranking, gap: float = 1e-4) -> bool:
    """Return True if two rankings differ only in the order of items with equal distances up to rounding."""
    for left, right, distances in zip(one.indices, two.indices, one.distances, strict=True):
        known = dict(zip(left.tolist(), distances.tolist(), strict=True))
        theirs = np.array([known[item] for item in right.tolist()])
        if (np.diff(theirs) < -gap * max(1.0, float(np.abs(theirs).max()))).any():
            return False
    return True
