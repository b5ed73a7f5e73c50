"""Whitening, one row and one pair at a time, as the papers state it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def rows_of(count: int = 120, dimensions: int = 8, seed: int = 0) -> np.ndarray:
    """Return rows far from the origin, with directions of different variance."""
    rng = np.random.default_rng(seed)
    return rng.standard_normal((count, dimensions)) * np.linspace(2, 0.3, dimensions) + 1.0


def pairs_of(count: int = 120, many: int = 60, seed: int = 1) -> np.ndarray:
    """Return rows in pairs, no row twice."""
    return np.random.default_rng(seed).permutation(count)[: 2 * many].reshape(many, 2)


def unit(row: Floats) -> Floats:
    return row / math.sqrt(math.fsum(float(number) ** 2 for number in row))


def mean_of(rows: Sequence[Floats]) -> Floats:
    return np.array([math.fsum(column) / len(rows) for column in zip(*rows, strict=True)])


def scatter(rows: Sequence[Floats]) -> Floats:
    """Return the mean of x x', entry by entry."""
    columns = list(zip(*rows, strict=True))
    return np.array(
        [[math.fsum(a * b for a, b in zip(x, y, strict=True)) / len(rows) for y in columns] for x in columns]
    )


def by_variance(vectors: Floats, power: float) -> tuple[Floats, Floats]:
    """Return the mean and P (r, d): one row per eigenvector of the covariance, divided by its variance to the power."""
    rows = [unit(row) for row in vectors]
    mean = mean_of(rows)
    values, directions = np.linalg.eigh(scatter([row - mean for row in rows]))
    order = [place for place in np.argsort(-values) if values[place] > 1e-6 * values.max()]
    return mean, np.array([directions[:, place] / values[place] ** power for place in order])


def by_pairs(vectors: Floats, pairs: Sequence[tuple[int, int]], power: float) -> tuple[Floats, Floats]:
    """Return mean and P of learned whitening: S^-power by the eigenvectors of S, rotated to principal directions."""
    rows = [unit(row) for row in vectors]
    mean = mean_of([rows[first] for first, _ in pairs])
    values, axes = np.linalg.eigh(scatter([rows[first] - rows[second] for first, second in pairs]))
    damped = np.array([axis / value**power for axis, value in zip(axes.T, values, strict=True)])
    spread, directions = np.linalg.eigh(scatter([damped @ (row - mean) for row in rows]))
    return mean, directions[:, np.argsort(-spread)].T @ damped


def applied(vectors: Floats, mean: Floats, projection: Floats) -> Floats:
    return np.array([unit(projection @ (unit(row) - mean)) for row in vectors])
