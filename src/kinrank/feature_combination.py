"""Combination of several features of the same items into one array: unit rows side by side, one weight per feature."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.errors import InputError
from kinrank.neighbors import find_nearest
from kinrank.vector_input import Vectors, check_vectors, sample_evenly, to_unit_rows

COMPARED_NEIGHBORS = 10  # neighbours by which two features are compared
MIN_CHECKED_ITEMS = 1000  # in smaller sets, features of the same items may agree no more than chance does
MAX_SAMPLED_ITEMS = 500  # items whose neighbours are compared
MIN_AGREEMENT_RATIO = 3.0  # between two features of the same items, as a multiple of chance


@dataclass(frozen=True)
class Combination:
    """Layout of combined features: the number of columns and the weight of each. The weights sum to 1."""

    sizes: tuple[int, ...]
    weights: tuple[float, ...]

    @property
    def description(self) -> str:
        """Text such as "128 dimensions (weight 0.5) + 64 (0.5)"."""
        parts = [f"{size} ({weight:.4g})" for size, weight in zip(self.sizes, self.weights, strict=True)]
        return " + ".join(parts).replace(" (", " dimensions (weight ", 1)

    def rows(self, features: Sequence[Any], name: str = "features") -> Vectors:
        """Return (n, sum of sizes) unit rows: (sqrt w_1 x_1 / |x_1|, sqrt w_2 x_2 / |x_2|, ...).

        The inner product of two rows is the weighted mean of the cosines of their features.
        """
        if len(features) != len(self.sizes):
            raise InputError(
                f"holds {len(features)} features but the gallery was combined from {len(self.sizes)}",
                parameter=name,
                remedy="give one array for each, in the same order",
            )
        parts = [
            check_vectors(part, f"{name}[{place}]", size)
            for place, (part, size) in enumerate(zip(features, self.sizes, strict=True))
        ]
        counts = [len(part) for part in parts]
        if len(set(counts)) > 1:
            raise InputError(
                f"have different numbers of items: {', '.join(map(str, counts))}",
                parameter=name,
                remedy="row i of every feature must belong to item i",
            )
        scaled = [
            to_unit_rows(part, f"{name}[{place}]") * np.float32(math.sqrt(weight))
            for place, (part, weight) in enumerate(zip(parts, self.weights, strict=True))
        ]
        return np.concatenate(scaled, axis=1)


@dataclass(frozen=True, eq=False)
class Combined:
    """Combined features. Accepted wherever an array of vectors is.

    Attributes:
        rows: (n, d) float32 unit rows.
        how: size and weight of every feature. A Manifold keeps it so that it can combine queries in the same way.
    """

    rows: Vectors
    how: Combination

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.rows, dtype) if copy else np.asarray(self.rows, dtype)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"Combined({len(self)} items x {self.how.description})"


def combine(
    features: Sequence[ArrayLike], weights: Sequence[float] | None = None, *, check_rows: bool = True
) -> Combined:
    """Combine several features of the same items into one array.

    Each feature becomes unit rows, scaled by the root of its weight; the features are put side by side. The resulting
    rows have length one, so both metrics rank them in the same order.

    Args:
        features: one (n, d_i) array per feature; row i of each belongs to item i.
        weights: one number >= 0 per feature; only their ratios matter. Equal by default.
        check_rows: refuse features whose rows do not seem to belong to the same items. From 1000 items on, the 10
            nearest items by one feature and by another must have more than three times as many items in common as
            chance would give. This also refuses features that are unrelated to each other, such as random numbers.

    Example:
        >>> gallery = kinrank.combine([shapes, colours])
        >>> manifold = kinrank.Manifold.build(gallery)
        >>> manifold.search([shapes_of_queries, colours_of_queries])
    """
    if isinstance(features, (np.ndarray, Combined)) or not isinstance(features, Sequence) or isinstance(features, str):
        raise InputError(
            f"must be a list of arrays, one per feature; got {type(features).__name__}", parameter="features"
        )
    if not len(features):
        raise InputError("is empty", parameter="features", allowed="at least one array")
    sizes = tuple(check_vectors(part, f"features[{place}]").shape[1] for place, part in enumerate(features))
    how = Combination(sizes, _normalize_weights(weights, len(sizes)))
    rows = how.rows(features)
    if check_rows and len(rows) >= MIN_CHECKED_ITEMS:
        _check_alignment(rows, how)
    return Combined(rows, how)


def is_per_feature(vectors: Any) -> bool:
    """True if the vectors are a list of arrays, one per feature, and not one array or a list of rows."""
    return (
        isinstance(vectors, (list, tuple))
        and len(vectors) > 0
        and all(_count_dimensions(part) == 2 for part in vectors)
    )


def _count_dimensions(given: Any) -> int:
    """Count the dimensions of nested lists, judging by their first entries."""
    if not isinstance(given, (list, tuple)):
        return int(getattr(given, "ndim", 0))
    return 1 + (_count_dimensions(given[0]) if len(given) else 0)


def _normalize_weights(weights: Any, count: int) -> tuple[float, ...]:
    """Check the weights and scale them to sum 1."""
    if weights is None:
        return (1.0 / count,) * count
    try:
        numbers = np.asarray(weights, np.float64)
    except (TypeError, ValueError):
        numbers = np.array(np.nan)
    if numbers.shape != (count,):
        raise InputError(parameter="weights", given=weights, allowed=f"{count} numbers, one per feature")
    if not np.isfinite(numbers).all() or numbers.min() < 0 or not numbers.any():
        raise InputError(parameter="weights", given=weights, allowed="numbers >= 0, at least one of them above 0")
    numbers = numbers / numbers.max()  # first, so that the sum does not overflow
    return tuple((numbers / numbers.sum()).tolist())


def _check_alignment(rows: Vectors, how: Combination) -> None:
    """Raise an InputError if the neighbours by one feature have nothing in common with those by another."""
    sample = sample_evenly(len(rows), MAX_SAMPLED_ITEMS)
    ends = np.cumsum(how.sizes)
    neighbors: dict[int, NDArray[np.int32]] = {}
    for place, (size, weight) in enumerate(zip(how.sizes, how.weights, strict=True)):
        if weight > 0:
            part = to_unit_rows(np.ascontiguousarray(rows[:, ends[place] - size : ends[place]]))
            neighbors[place] = find_nearest(
                part[sample], part, COMPARED_NEIGHBORS, own=sample, self_first=False
            ).indices
    first = next(iter(neighbors))
    for place in neighbors:
        common = (neighbors[first][:, :, None] == neighbors[place][:, None, :]).any(axis=2).mean()
        if common < MIN_AGREEMENT_RATIO * COMPARED_NEIGHBORS / len(rows):
            raise InputError(
                f"features[{first}] and features[{place}] do not seem to belong to the same items: their "
                f"{COMPARED_NEIGHBORS} nearest items have {common:.2%} in common, and chance would give "
                f"{COMPARED_NEIGHBORS / len(rows):.2%}",
                remedy="check that row i of both belongs to item i; if it does, the features are unrelated: leave one "
                "out, or pass `check_rows=False`",
            )
