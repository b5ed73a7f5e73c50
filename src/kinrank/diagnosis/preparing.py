"""Vectors -> vectors, centred or partly whitened; and what that does to neighbourhoods."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kinrank import stages
from kinrank.diagnosis.facts import hubness, sampled
from kinrank.features import Vectors
from kinrank.items import Items
from kinrank.whitening import Whitening
from kinrank.whitening.blocks import ranges
from kinrank.whitening.fitting import NOTHING, AllTheSame

SAMPLE = 4_000  # items that are prepared and searched again
HALF = 0.25  # the power of half whitening: variances are brought to their square roots
CLEARLY = 0.02  # what a share must change by to be worth trying
WAYS = ("centred", "half-whitened")


@dataclass(frozen=True)
class Preparation:
    """A way to prepare vectors, fitted on a gallery: subtract the mean, and scale directions of large variance down.

    Attributes:
        way: "centred" or "half-whitened".
        mean: (d,) what is subtracted.
        whitening: what scales directions down; None where nothing does.
    """

    way: str
    mean: Vectors
    whitening: Whitening | None = None

    def __call__(self, rows: Vectors) -> Vectors:
        """Rows of length one, prepared; one that is the mean itself has no direction left and is given the first."""
        if self.whitening is not None:
            turned = np.empty((len(rows), self.whitening.projection.shape[1]), np.float32)
            for some in ranges(*rows.shape):
                turned[some] = self.whitening.turned(rows[some])
            return turned
        made = rows - self.mean
        gone = np.linalg.norm(made, axis=1) <= NOTHING
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
    rows = sampled(gallery, SAMPLE)
    mean = rows.mean(axis=0, dtype=np.float64).astype(np.float32)
    if way == "half-whitened":
        with suppress(AllTheSame):  # then there is nothing to scale
            return Preparation(way, mean, Whitening.fit(rows, power=HALF, name="gallery"))
    return Preparation(way, mean)


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
