"""Several features of the same items -> one array: unit rows side by side, each feature with a weight."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.features import Vectors, check, evenly, unit
from kinrank.neighbors import nearest

K = 10  # neighbours that two features are compared by
ENOUGH = 1000  # items from which on they are: in a smaller set, honest features may share no more than chance does
SAMPLE = 500  # items whose neighbours are compared
AGREED = 3.0  # times what chance gives is the least that features of the same items agree on


@dataclass(frozen=True)
class Combination:
    """How features are put side by side: the number of columns of each, and its weight; the weights sum to 1."""

    sizes: tuple[int, ...]
    weights: tuple[float, ...]

    @property
    def in_words(self) -> str:
        """Such as "128 dimensions (weight 0.5) + 64 (0.5)"."""
        parts = [f"{size} ({weight:.4g})" for size, weight in zip(self.sizes, self.weights, strict=True)]
        return " + ".join(parts).replace(" (", " dimensions (weight ", 1)

    def rows(self, features: Sequence[Any], name: str = "features") -> Vectors:
        """(n, sum of sizes) unit rows: (sqrt w_1 x_1 / |x_1|, sqrt w_2 x_2 / |x_2|, ...).

        So the inner product of two rows is the weighted mean of the cosines of their features.
        """
        if len(features) != len(self.sizes):
            raise ValueError(
                f"{name} holds {len(features)} features but the gallery was combined from {len(self.sizes)}; "
                "give one array for each, in the same order"
            )
        parts = [
            check(part, f"{name}[{place}]", size)
            for place, (part, size) in enumerate(zip(features, self.sizes, strict=True))
        ]
        counts = [len(part) for part in parts]
        if len(set(counts)) > 1:
            raise ValueError(
                f"{name} have different numbers of items: {', '.join(map(str, counts))}; "
                "row i of every feature must belong to item i"
            )
        scaled = [
            unit(part, f"{name}[{place}]") * np.float32(math.sqrt(weight))
            for place, (part, weight) in enumerate(zip(parts, self.weights, strict=True))
        ]
        return np.concatenate(scaled, axis=1)


@dataclass(frozen=True, eq=False)
class Combined:
    """Features that were combined; it can be given wherever an array of vectors can.

    Attributes:
        rows: (n, d) float32 unit rows.
        how: the size and the weight of every feature. A Manifold keeps it, so that queries are combined the same way.
    """

    rows: Vectors
    how: Combination

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.rows, dtype) if copy else np.asarray(self.rows, dtype)

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return f"Combined({len(self)} items x {self.how.in_words})"


def combination_of(vectors: Any) -> Combination | None:
    """How vectors, or those that a store was made of, were combined; None where they are one feature."""
    how = getattr(vectors, "how", None)
    return how if isinstance(how, Combination) else None


def combine(
    features: Sequence[ArrayLike], weights: Sequence[float] | None = None, *, check_rows: bool = True
) -> Combined:
    """Several features of the same items as one array: unit rows side by side, scaled by the roots of their weights.

    The result has length one, so that both metrics rank it alike.

    Args:
        features: one (n, d_i) array per feature; row i of each belongs to item i.
        weights: one number from 0 per feature; only their ratios matter. Equal unless given.
        check_rows: whether to refuse features whose rows do not seem to belong to the same items: from 1000 items on,
            the 10 nearest items by one feature and by another must have more in common than three times what chance
            gives. Features that know nothing of each other, such as random numbers, are refused as well.

    Example:
        >>> gallery = kinrank.combine([shapes, colours])
        >>> manifold = kinrank.Manifold.build(gallery)
        >>> manifold.search([shapes_of_queries, colours_of_queries])
    """
    if isinstance(features, (np.ndarray, Combined)) or not isinstance(features, Sequence) or isinstance(features, str):
        raise ValueError(f"features must be a list of arrays, one per feature; got {type(features).__name__}")
    if not len(features):
        raise ValueError("features is empty; give at least one array")
    sizes = tuple(check(part, f"features[{place}]").shape[1] for place, part in enumerate(features))
    how = Combination(sizes, _weights(weights, len(sizes)))
    rows = how.rows(features)
    if check_rows and len(rows) >= ENOUGH:
        _check_aligned(rows, how)
    return Combined(rows, how)


def per_feature(vectors: Any) -> bool:
    """Whether vectors are given as a list of arrays, one per feature, instead of one array or a list of rows."""
    return isinstance(vectors, (list, tuple)) and len(vectors) > 0 and all(_depth(part) == 2 for part in vectors)


def _depth(given: Any) -> int:
    """The number of dimensions, as far as the first entries tell."""
    if not isinstance(given, (list, tuple)):
        return int(getattr(given, "ndim", 0))
    return 1 + (_depth(given[0]) if len(given) else 0)


def _weights(weights: Any, count: int) -> tuple[float, ...]:
    """Weights that sum to 1."""
    if weights is None:
        return (1.0 / count,) * count
    try:
        numbers = np.asarray(weights, np.float64)
    except (TypeError, ValueError):
        numbers = np.array(np.nan)
    if numbers.shape != (count,):
        raise ValueError(f"weights={weights!r} is not allowed; give {count} numbers, one per feature")
    if not np.isfinite(numbers).all() or numbers.min() < 0 or not numbers.any():
        raise ValueError(f"weights={weights!r} is not allowed; give numbers from 0, not all of them 0")
    numbers = numbers / numbers.max()  # first, so that the sum is a number
    return tuple((numbers / numbers.sum()).tolist())


def _check_aligned(rows: Vectors, how: Combination) -> None:
    """A ValueError if the neighbours by one feature have nothing in common with those by another."""
    some = evenly(len(rows), SAMPLE)
    ends = np.cumsum(how.sizes)
    found: dict[int, NDArray[np.int32]] = {}
    for place, (size, weight) in enumerate(zip(how.sizes, how.weights, strict=True)):
        if weight > 0:
            part = unit(np.ascontiguousarray(rows[:, ends[place] - size : ends[place]]))
            found[place] = nearest(part[some], part, K, own=some, self_first=False).indices
    first = next(iter(found))
    for place in found:
        common = (found[first][:, :, None] == found[place][:, None, :]).any(axis=2).mean()
        if common < AGREED * K / len(rows):
            raise ValueError(
                f"features[{first}] and features[{place}] do not seem to belong to the same items: the {K} nearest by "
                f"the one and by the other have {common:.2%} in common, where chance gives {K / len(rows):.2%}; check "
                "that row i of both belongs to item i. If it does, one of them says nothing of what the other says: "
                "leave it out, or pass check_rows=False"
            )
