"""Preparation of vectors by centring or half-whitening, and its effect on neighbourhoods."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from kinrank import stages
from kinrank.diagnosis.neighborhood_facts import hubness, sample_rows
from kinrank.errors import ConstantVectorsError, InputError
from kinrank.problem import Items
from kinrank.vector_input import Vectors
from kinrank.whitening import ROUNDING_LENGTH, Whitening, split_ranges

MAX_SAMPLE_ITEMS = 4_000  # items to prepare and search again
HALF_WHITENING_POWER = 0.25  # replaces variances by their square roots
MIN_SHARE_CHANGE = 0.02  # smaller changes of a share are not worth a trial
WAYS = ("centred", "half-whitened")


@dataclass(frozen=True)
class Preparation:
    """Preparation fitted on a gallery: subtract the mean, and scale directions of large variance down.

    Attributes:
        way: "centred" or "half-whitened".
        mean: (d,) vector to subtract.
        whitening: scales directions down; None if nothing is scaled.
    """

    way: str
    mean: Vectors
    whitening: Whitening | None = None

    def __call__(self, rows: Vectors) -> Vectors:
        """Prepare rows of length one. A row that equals the mean becomes the first unit vector."""
        if self.whitening is not None:
            turned = np.empty((len(rows), self.whitening.projection.shape[1]), np.float32)
            for block in split_ranges(*rows.shape):
                turned[block] = self.whitening.project(rows[block])
            return turned
        centred = rows - self.mean
        at_mean = np.linalg.norm(centred, axis=1) <= ROUNDING_LENGTH
        centred[at_mean] = 0.0
        centred[at_mean, 0] = 1.0
        return np.ascontiguousarray(centred, np.float32)


@dataclass(frozen=True)
class PreparationEffect:
    """Effect of a preparation on hubness, mutual and common neighbours: after minus before."""

    way: str
    hubness: float
    mutual: float
    common: float

    @property
    def promising(self) -> bool:
        """True if more neighbours list each other and they have no less in common."""
        return self.mutual > MIN_SHARE_CHANGE and self.common > -MIN_SHARE_CHANGE / 4

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "promising": self.promising}


def fit_preparation(way: str, gallery: Vectors) -> Preparation:
    """Fit a preparation on a gallery (n, d), with at most MAX_SAMPLE_ITEMS of its rows."""
    if way not in WAYS:
        raise InputError(parameter="way", given=way, allowed=f"one of: {', '.join(WAYS)}")
    rows = sample_rows(gallery, MAX_SAMPLE_ITEMS)
    mean = rows.mean(axis=0, dtype=np.float64).astype(np.float32)
    if way == "half-whitened":
        with suppress(ConstantVectorsError):  # there is nothing to scale
            return Preparation(way, mean, Whitening.fit(rows, power=HALF_WHITENING_POWER, name="gallery"))
    return Preparation(way, mean)


def measure_effects(gallery: Vectors) -> list[PreparationEffect]:
    """Measure the effect of every preparation on at most MAX_SAMPLE_ITEMS items."""
    rows = sample_rows(gallery, MAX_SAMPLE_ITEMS)
    before = _measure_links(rows)
    effects = []
    for way in WAYS:
        prepared = fit_preparation(way, rows)(rows)
        after = _measure_links(prepared / np.linalg.norm(prepared, axis=1, keepdims=True))
        effects.append(PreparationEffect(way, *(b - a for a, b in zip(before, after, strict=True))))
    return effects


def _measure_links(rows: Vectors) -> tuple[float, float, float]:
    lists = Items.from_gallery(np.ascontiguousarray(rows, np.float32)).neighbors(11)
    trust = stages.pipeline.measure_trust(lists.indices)
    return hubness(lists), trust.mutual, trust.common
