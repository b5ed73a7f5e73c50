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
        """The rows prepared; one that becomes nothing stays as it was."""
        moved = rows - self.mean
        made = moved if self.turn is None else moved @ self.turn
        gone = ~made.any(axis=1)
        if gone.any():
            made = made.copy()
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
    """Variances (r,) and directions (d, r), without those of next to no variance."""
    count, dimensions = rows.shape
    if count < dimensions:
        values, left = np.linalg.eigh(rows @ rows.T)
        kept = values > LEAST * max(values[-1], 1e-30)
        return values[kept] / count, rows.T @ (left[:, kept] / np.sqrt(values[kept]))
    values, vectors = np.linalg.eigh(rows.T @ rows / count)
    kept = values > LEAST * max(values[-1], 1e-30)
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
