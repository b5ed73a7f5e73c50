"""A Store that never changes, items that left it and rows that came -> a Store over the present items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.features import Vectors
from kinrank.neighbors import nearest
from kinrank.parameters import whole_number
from kinrank.ranking import Ranking
from kinrank.space import rows_by
from kinrank.stores.numbers import item_numbers
from kinrank.stores.over_base import OverBase

TRIES = 4  # searches where too many of those found have left: each four times as deep, the last for everything


class ChangedStore(OverBase):
    """What a Manifold searches after `add` and `remove`, whatever its Store is; nothing is written into that.

    Items are those of the base that stayed, in their order, then those that came, which are searched exactly: the more
    there are, the slower. Numbers beyond the items that the base had at first are ignored, should it grow.
    """

    def __init__(self, base: Any, count: int) -> None:
        self._base = base
        self._stay: NDArray[np.int64] = np.arange(count)  # numbers in the base, ascending
        # the present number of every item of the base, -1 for those who left, and one more for nobody
        self._numbers: NDArray[np.int64] = np.append(self._stay, -1)
        self._more: Vectors | None = None

    def after(self, stay: NDArray[np.int64], rows: Vectors) -> ChangedStore:
        """The store of the items `stay`, numbers in this one, ascending; then `rows`, as the base has them."""
        next_one = ChangedStore(self._base, 0)
        old = len(self._stay)
        next_one._stay = self._stay[stay[stay < old]]
        next_one._numbers = np.full_like(self._numbers, -1)
        next_one._numbers[next_one._stay] = np.arange(len(next_one._stay))
        came = rows if self._more is None else np.concatenate([self._more[stay[stay >= old] - old], rows])
        next_one._more = came
        return next_one

    def renewed(self, vectors: Vectors) -> Any:
        """A store of the base's kind over the present vectors, where the base can tell; else this one."""
        make = getattr(self._base, "renewed", None)
        fresh = None if make is None else make(vectors)
        return self if fresh is None else fresh

    @property
    def came(self) -> int:
        return 0 if self._more is None else len(self._more)

    def __len__(self) -> int:
        return len(self._stay) + self.came

    def search(self, queries: ArrayLike, k: int) -> Ranking:
        rows = rows_by(self.metric, queries, "queries")
        k = min(whole_number(k, "k"), len(self))
        indices, distances = self._stayed(rows, min(k, len(self._stay)))
        if self.came and k:
            assert self._more is not None
            new = nearest(rows, self._more, min(k, self.came), unit=self.metric == "cosine")
            indices = np.concatenate([indices, new.indices.astype(np.int64) + len(self._stay)], axis=1)
            distances = np.concatenate([distances, new.distances], axis=1)
        order = np.lexsort((np.where(indices < 0, len(self), indices), distances), axis=1)[:, :k]
        return Ranking(
            np.take_along_axis(indices, order, axis=1),
            np.take_along_axis(distances, order, axis=1),
            {"mode": "search"},
        )

    def vectors(self, ids: Sequence[int] | NDArray[Any]) -> Vectors:
        numbers = item_numbers(ids, len(self))
        old = numbers < len(self._stay)
        if old.all():
            return np.asarray(self._base.vectors(self._stay[numbers]))
        assert self._more is not None
        rows = np.empty((len(numbers), self._more.shape[1]), self._more.dtype)
        rows[~old] = self._more[numbers[~old] - len(self._stay)]
        if old.any():
            rows[old] = rows_by(self.metric, self._base.vectors(self._stay[numbers[old]]), "vectors of the store")
        return rows

    def _stayed(self, rows: Vectors, k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """(q, k) nearest of those that stayed; asks deeper where too many of those found have left."""
        indices, distances = np.full((len(rows), k), -1, np.int64), np.full((len(rows), k), np.inf, np.float32)
        had = len(self._numbers) - 1
        gone = had - len(self._stay)
        left, depth = np.arange(len(rows)), min(had, k + min(gone, k // 4 + 8))
        for attempt in range(TRIES if k else 0):
            depth = had if attempt == TRIES - 1 else depth
            found = self._base.search(rows[left], depth)
            inside = (found.indices >= 0) & (found.indices < had)
            numbers = self._numbers[np.where(inside, found.indices, had)]
            lengths = np.where(numbers < 0, np.inf, found.distances).astype(np.float32)
            order = np.argsort(numbers < 0, axis=1, kind="stable")[:, :k]  # those that left go behind
            width = order.shape[1]
            indices[left, :width] = np.take_along_axis(numbers, order, axis=1)
            distances[left, :width] = np.take_along_axis(lengths, order, axis=1)
            enough = (indices[left, k - 1] >= 0) | (found.indices.shape[1] < depth) | (found.indices[:, -1] < 0)
            left = left[~enough]
            if not len(left) or depth >= had:
                break
            depth = min(had, 4 * depth)
        return indices, distances
