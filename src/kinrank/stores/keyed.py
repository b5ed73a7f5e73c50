"""A vector database and the items of a Manifold -> a Store that finds these items by their places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.features import Vectors, check
from kinrank.neighbors import pairwise
from kinrank.parameters import whole_number
from kinrank.ranking import Ranking
from kinrank.stores.engine import EngineStore
from kinrank.stores.found import tidied
from kinrank.stores.numbers import item_numbers

MARGIN = 8  # asked for beyond k: some of what is found may have come after the Manifold was built
DEEPER = 4  # times as many are asked for where that was not enough


class Keyed:
    """What a Manifold built from a database searches.

    The engine says which items are near, by its ids; how far they are is measured from the Manifold's own vectors.
    Items that the Manifold does not know yet are left out.
    """

    in_units = True

    def __init__(self, engine: EngineStore, ids: NDArray[Any], vectors: Vectors, scale: float | None = None) -> None:
        """`ids` (n,) and `vectors` (n, d) are those of the Manifold, divided by `scale` where lengths matter."""
        self.engine, self.metric = engine, engine.metric
        self._vectors, self._scale = vectors, np.float32(1.0 if scale is None else scale)
        self._texts = ids.dtype.kind == "O"
        ids = ids.astype(object) if ids.dtype.kind == "u" else ids  # numpy compares uint64 and int64 as floats
        self._order = np.argsort(ids, kind="stable")
        self._sorted = ids[self._order]

    def __len__(self) -> int:
        return len(self._order)

    def __repr__(self) -> str:
        return repr(self.engine)

    @property
    def exact(self) -> bool:
        """Whether the engine finds the nearest items, all of them."""
        return self.engine.exact

    def search(self, queries: ArrayLike, k: int) -> Ranking:
        rows = check(queries, "queries")
        k = min(whole_number(k, "k"), len(self))
        if not k or not len(rows):
            shape = len(rows), k
            return Ranking(np.empty(shape, np.int64), np.empty(shape, np.float32), {"mode": "search"})
        places = self._found(rows, k + MARGIN)
        short = (places >= 0).sum(axis=1) < k
        if short.any() and bool((places[short] < 0).any()):
            places = np.pad(places, ((0, 0), (0, DEEPER * k + MARGIN - places.shape[1])), constant_values=-1)
            deeper = self._found(rows[short], DEEPER * k + MARGIN)
            places[short, : deeper.shape[1]] = deeper
        distances = np.full(places.shape, np.inf, np.float32)
        for row, (query, some) in enumerate(zip(rows, places, strict=True)):
            there = np.flatnonzero(some >= 0)
            distances[row, there] = pairwise(query[None, :], self._vectors[some[there]], self.metric == "cosine")[0]
        return Ranking(*tidied(places, distances, k), {"mode": "search"})

    def vectors(self, ids: Sequence[int] | NDArray[Any]) -> Vectors:
        return self._vectors[item_numbers(ids, len(self))]

    def places(self, ids: NDArray[Any]) -> NDArray[np.int64]:
        """The places of items by their ids, of any shape; -1 for those that the Manifold does not hold."""
        texts = ids.dtype.kind == "O" and bool(ids.size) and isinstance(ids.flat[0], str)
        if self._texts and not texts:  # the engine mixes numbers and texts, and found numbers only
            ids = ids.astype(str).astype(object)
        if not len(self) or (texts and not self._texts):
            return np.full(ids.shape, -1, np.int64)
        near = np.minimum(np.searchsorted(self._sorted, ids), len(self) - 1)
        return np.where(self._sorted[near] == ids, self._order[near], -1)

    def _found(self, rows: Vectors, depth: int) -> NDArray[np.int64]:
        """(q, depth) places of the nearest items, -1 behind them and for unknown ones."""
        found = self.engine.nearest_ids(rows * self._scale, depth)
        places = np.full((len(rows), depth), -1, np.int64)
        places[:, : found.depth] = np.where(found.indices >= 0, self.places(found.ids), -1)
        return places
