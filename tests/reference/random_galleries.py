"""Small galleries with the structure of real ones, for model-based tests of manifolds and services."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]
Draw = Callable[[np.random.Generator, np.random.Generator, int, int], NDArray[np.float64]]


def _tight(shape: np.random.Generator, rng: np.random.Generator, count: int, width: int) -> NDArray[np.float64]:
    """Tight clusters."""
    centres = shape.normal(size=(5, width))
    return centres[rng.integers(0, 5, count)] + 0.03 * rng.normal(size=(count, width))


def _copies(shape: np.random.Generator, rng: np.random.Generator, count: int, width: int) -> NDArray[np.float64]:
    """Exact copies of a few rows, and near copies."""
    centres = shape.normal(size=(8, width)).astype(np.float32).astype(np.float64)
    near = 1e-4 * rng.normal(size=(count, width)) * rng.integers(0, 2, (count, 1))
    return centres[rng.integers(0, 8, count)] + near


def _long_tail(shape: np.random.Generator, rng: np.random.Generator, count: int, width: int) -> NDArray[np.float64]:
    """A few large clusters, many small ones."""
    centres = shape.normal(size=(40, width))
    sizes = 1.0 / np.arange(1, 41)
    return centres[rng.choice(40, count, p=sizes / sizes.sum())] + 0.2 * rng.normal(size=(count, width))


def _blob(shape: np.random.Generator, rng: np.random.Generator, count: int, width: int) -> NDArray[np.float64]:
    """One dense blob, and outliers."""
    centre, far = shape.normal(size=width), rng.random((count, 1)) < 0.15
    return np.where(far, rng.normal(size=(count, width)), centre + 0.02 * rng.normal(size=(count, width)))


def _low_rank(shape: np.random.Generator, rng: np.random.Generator, count: int, width: int) -> NDArray[np.float64]:
    """Rows that lie in a plane."""
    return rng.normal(size=(count, 2)) @ shape.normal(size=(2, width))


def _integers(shape: np.random.Generator, rng: np.random.Generator, count: int, width: int) -> NDArray[np.float64]:
    """Small integers: many equal distances."""
    rows = rng.integers(0, 3, (count, width)).astype(np.float64)
    rows[:, 0] += 1
    return rows


def _noise(shape: np.random.Generator, rng: np.random.Generator, count: int, width: int) -> NDArray[np.float64]:
    """No structure at all."""
    return rng.normal(size=(count, width))


KINDS: dict[str, Draw] = {
    "tight": _tight,
    "copies": _copies,
    "long tail": _long_tail,
    "blob": _blob,
    "low rank": _low_rank,
    "integers": _integers,
    "noise": _noise,
}


def rows_of(kind: str, seed: int, count: int, width: int = 6, gallery: int = 0) -> Rows:
    """Return (count, width) rows of a gallery of this kind; other seeds give other rows of the same gallery."""
    drawn = KINDS[kind](np.random.default_rng(gallery), np.random.default_rng([seed, gallery]), count, width)
    return drawn.astype(np.float32)
