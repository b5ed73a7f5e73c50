"""A Store and the numbers its items have elsewhere -> a Store that finds them by those numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.features import Vectors
from kinrank.ranking import Ranking
from kinrank.stores.numbers import item_numbers
from kinrank.stores.over_base import OverBase


class Renumbered(OverBase):
    """The items of a store under other numbers: item i of the base is item `numbers[i]` here.

    Example:
        >>> Renumbered(ArrayStore([[1, 0], [0, 1]]), np.array([1, 0])).search([[1, 0]], 1).indices
        array([[1]])
    """

    def __init__(self, base: Any, numbers: NDArray[np.int64]) -> None:
        self._base = base
        self._numbers = np.append(numbers, -1)  # the last for -1, which stays
        self._places = np.argsort(numbers)

    def __len__(self) -> int:
        return len(self._places)

    def renewed(self, vectors: Vectors) -> Any:
        """A store of the base's kind over other vectors, in their order; None where the base cannot tell."""
        make = getattr(self._base, "renewed", None)
        fresh = None if make is None else make(vectors)
        return None if fresh is self._base else fresh

    def search(self, queries: ArrayLike, k: int) -> Ranking:
        found = self._base.search(queries, k)
        return Ranking(self._numbers[found.indices], found.distances, {"mode": "search"})

    def vectors(self, ids: Sequence[int] | NDArray[Any]) -> Vectors:
        return np.asarray(self._base.vectors(self._places[item_numbers(ids, len(self))]))
