"""Vectors -> vectors, centred or partly whitened; and what that does to neighbourhoods."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kinrank import stages
from kinrank.diagnosis.facts import hubness, sampled
from kinrank.features import Vectors
from kinrank.items import Items

SAMPLE = 4_000  # items that are prepared and searched again
LEAST = 1e-6  # share of the largest variance below which a direction is left out
NOTHING = 1e-6  # length up to which what is left of a row of length one is rounding
HALF = 0.25  # the power of half whitening: variances are brought to their square roots
CLEARLY = 0.02  # what a share must change by to be worth trying
WAYS = ("centred", "half-whitened")


@dataclass(frozen=True)
class Preparation:
    """A way to prepare vectors, fitted on a gallery: subtract the mean, and scale directions of large variance down.

    Attributes:
        way: "centred" or "half-whitened".
        mean: (d,) what is subtracted.
        turn: (d, r) what is multiplied with; None where nothing is.
    """

    way: str
    mean: Vectors
    turn: Vectors | None = None

    def __call__(self, rows: Vectors) -> Vectors:
        """Rows of length one, prepared; one that is the mean itself has no direction left and is given the first."""
        moved = rows - self.mean
        made = moved if self.turn is None else moved @ self.turn
        gone = (np.linalg.norm(moved, axis=1) <= NOTHING) | ~made.any(axis=1)
        made[gone] = 0.0
        made[gone, 0] = 1.0
        return np.ascontiguousarray(made, np.float32)


@dataclass(frozen=True)
class Change:
    """What a preparation changes: hubness, mutual and common neighbours, after minus before."""

    way: str
    hubness: float
    mutual: float
    common: float

    @property
    def promising(self) -> bool:
        """More neighbours list each other, and they have no less in common."""
        return self.mutual > CLEARLY and self.common > -CLEARLY / 4

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "promising": self.promising}


def preparation(way: str, gallery: Vectors) -> Preparation:
    """Fitted on a gallery (n, d), at most SAMPLE of its rows."""
    if way not in WAYS:
        raise ValueError(f"{way!r} is not a way to prepare vectors; give one of: {', '.join(WAYS)}")
    rows = sampled(gallery, SAMPLE).astype(np.float64)
    mean = rows.mean(axis=0)
    if way == "centred":
        return Preparation(way, mean.astype(np.float32))
    values, vectors = _principal(rows - mean)
    return Preparation(way, mean.astype(np.float32), (vectors * values**-HALF).astype(np.float32))


def _principal(rows: Any) -> tuple[Any, Any]:
    """Variances (r,) and directions (d, r), without those of next to no variance; one of them at least."""
    count, dimensions = rows.shape
    few = count < dimensions
    values, vectors = np.linalg.eigh((rows @ rows.T if few else rows.T @ rows) / count)
    if values[-1] <= NOTHING**2:  # all rows are the same
        return np.ones(1), np.eye(dimensions, 1)
    kept = values > LEAST * values[-1]
    if few:
        return values[kept], rows.T @ (vectors[:, kept] / np.sqrt(count * values[kept]))
    return values[kept], vectors[:, kept]


def changes(gallery: Vectors) -> list[Change]:
    """What every preparation changes, on at most SAMPLE items."""
    rows = sampled(gallery, SAMPLE)
    before = _looked_at(rows)
    found = []
    for way in WAYS:
        made = preparation(way, rows)(rows)
        after = _looked_at(made / np.linalg.norm(made, axis=1, keepdims=True))
        found.append(Change(way, *(b - a for a, b in zip(before, after, strict=True))))
    return found


def _looked_at(rows: Vectors) -> tuple[float, float, float]:
    lists = Items.everyone(np.ascontiguousarray(rows, np.float32)).neighbors(11)
    trust = stages.trust.trust_of(lists.indices)
    return hubness(lists), trust.mutual, trust.common
