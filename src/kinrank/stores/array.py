"""ArrayStore: exact search over an array in memory or memory-mapped, in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.neighbors import find_nearest, find_nearest_among
from kinrank.parameters import check_whole_number
from kinrank.ranking import Ranking
from kinrank.stores.base import Store, check_item_numbers, mask_from_filter
from kinrank.vector_input import Vectors
from kinrank.vector_space import check_metric, find_combination, prepare_rows


class ArrayStore(Store):
    """Exact search over the rows of an array, by cosine (rows are normalised) or by Euclidean distance.

    Example:
        >>> ArrayStore(gallery).search(queries, k=100)
        Ranking(70 queries x 100 items, search)
    """

    exact = filters = joint_by_default = True

    def __init__(self, vectors: ArrayLike, metric: str = "cosine") -> None:
        """Create a store over (n, d) rows. The metric "euclidean" does not normalise them."""
        self.metric = check_metric(metric)
        self.how = find_combination(vectors)
        self._rows = prepare_rows(self.metric, vectors, "gallery")

    @classmethod
    def over(cls, rows: Vectors, metric: str = "cosine") -> ArrayStore:
        """Create a store over float32 rows without copying them. Under cosine they must have unit length."""
        store = cls.__new__(cls)
        store._rows, store.metric = rows, check_metric(metric)
        return store

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return "ArrayStore()"

    def rebuild(self, vectors: ArrayLike) -> ArrayStore:
        """Return a store over other vectors."""
        return ArrayStore(vectors, self.metric)

    def search(self, queries: ArrayLike, k: int, where: Any = None) -> Ranking:
        """Return the (q, min(k, n)) nearest items. `where` is a mask or item numbers that restrict the results."""
        rows, unit = prepare_rows(self.metric, queries, "queries", self._rows.shape[1]), self.metric == "cosine"
        k = check_whole_number(k, "k")
        if where is None:
            lists = find_nearest(rows, self._rows, k, unit=unit)
        else:
            allowed = mask_from_filter(where, len(self))
            lists = find_nearest_among(
                rows, min(k, int(allowed.sum())), allowed, lambda numbers: self._rows[numbers], unit=unit
            )
        return Ranking(lists.indices.astype(np.int64), lists.distances, {"mode": "search"})

    def vectors(self, ids: Sequence[int] | NDArray[Any]) -> Vectors:
        return self._rows[check_item_numbers(ids, len(self))]
