"""An array in memory, or memory-mapped -> exact search in blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.combine import combination_of
from kinrank.features import Vectors
from kinrank.neighbors import nearest, nearest_among
from kinrank.parameters import whole_number
from kinrank.ranking import Ranking
from kinrank.space import check_metric, rows_by
from kinrank.stores.numbers import allowed_by, item_numbers


class ArrayStore:
    """Exact search over the rows of an array, by direction (rows are brought to unit length), or as they are.

    Example:
        >>> ArrayStore(gallery).search(queries, k=100)
        Ranking(70 queries x 100 items, search)
    """

    def __init__(self, vectors: ArrayLike, metric: str = "cosine") -> None:
        """A store over (n, d) rows; metric "euclidean" leaves them as long as they are."""
        self.metric = check_metric(metric)
        self.how = combination_of(vectors)
        self._rows = rows_by(self.metric, vectors, "gallery")

    @classmethod
    def over(cls, rows: Vectors, metric: str = "cosine") -> ArrayStore:
        """A store over rows that are float32, and of unit length unless length matters; they are not copied."""
        store = cls.__new__(cls)
        store._rows, store.metric = rows, check_metric(metric)
        return store

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return "ArrayStore()"

    @property
    def exact(self) -> bool:
        """Every search finds the nearest items, all of them."""
        return True

    def renewed(self, vectors: ArrayLike) -> ArrayStore:
        """A store over other vectors."""
        return ArrayStore(vectors, self.metric)

    def search(self, queries: ArrayLike, k: int, where: Any = None) -> Ranking:
        """(q, min(k, n)) nearest items; `where`: only of these, a mask or item numbers."""
        rows, unit = rows_by(self.metric, queries, "queries", self._rows.shape[1]), self.metric == "cosine"
        k = whole_number(k, "k")
        if where is None:
            lists = nearest(rows, self._rows, k, unit=unit)
        else:
            allowed = allowed_by(where, len(self))
            lists = nearest_among(rows, min(k, int(allowed.sum())), allowed, lambda some: self._rows[some], unit=unit)
        return Ranking(lists.indices.astype(np.int64), lists.distances, {"mode": "search"})

    def vectors(self, ids: Sequence[int] | NDArray[Any]) -> Vectors:
        return self._rows[item_numbers(ids, len(self))]
