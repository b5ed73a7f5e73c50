"""Any Store -> the lists and vectors that re-ranking over candidates asks it for, each vector fetched once."""

from __future__ import annotations

import inspect
import time
from collections.abc import Sized
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors, check
from kinrank.neighbors import Neighbors, nearest_among
from kinrank.ranking import Ranking
from kinrank.space import rows_by
from kinrank.stores import Store
from kinrank.stores.engine import BYTES, QUERIES, EngineStore
from kinrank.stores.found import tidied
from kinrank.stores.rows import VECTORS, given_rows

Ids = NDArray[Any]
Lists = list[tuple[Ids, NDArray[np.float32]]]  # per query: ids, nearest first, each once, and their distances


class Source:
    """A Store, as re-ranking over candidates asks it.

    Items go by what the store calls them: item numbers, or the ids of an engine. `seconds` adds up what searching and
    fetching took, and what re-ranking says that it took.
    """

    def __init__(self, store: Store, metric: str) -> None:
        self.store, self.metric = store, metric
        self.engine = store if isinstance(store, EngineStore) else None
        self.seconds = {"search": 0.0, "fetch": 0.0, "rerank": 0.0}
        self.fetched = 0  # vectors that came from an engine
        self.deepest = 0  # entries of the longest list that a search gave, padding included
        self._known: dict[Any, Vectors] = {}

    def block(self, k: int) -> int | None:
        """How many queries to ask at once, because their vectors come along; None for all."""
        if self.engine is None:
            return None
        return max(1, min(QUERIES, BYTES // max(1, 4 * k * self.engine.dimensions)))

    @property
    def sized(self) -> bool:
        return isinstance(self.store, Sized)

    def __len__(self) -> int:
        if isinstance(self.store, Sized):
            return len(self.store)
        raise ValueError(
            "this store does not tell how many vectors it holds; give it a __len__, or leave out where=, positives= "
            "and negatives="
        )

    def everything(self) -> tuple[Ids, Vectors]:
        """All items and their vectors."""
        if self.engine is not None:
            return self.engine.everything()
        rows = given_rows(self.store)
        return np.arange(len(rows)), rows

    def search(self, queries: Vectors, k: int, where: Any = None) -> Lists:
        """The k nearest items of every query: of all, or of those that a filter leaves."""
        started = time.perf_counter()
        if self.engine is not None:
            found, known = self.engine.search_with_vectors(queries, k, where)
            self.fetched += len(known.keys() - self._known.keys())
            self._known.update(known)
        elif where is None:
            found = self.store.search(queries, k)
        elif "where" in inspect.signature(self.store.search).parameters:
            found = self.store.search(queries, k, where=where)  # type: ignore[call-arg]
        else:
            found = self._among(queries, k, where)
        self.seconds["search"] += time.perf_counter() - started
        self.deepest = max(self.deepest, found.depth)
        return _lists(found) if self.engine is not None else _tidy(found)

    def neighbours(self, rows: Vectors, k: int, where: Any = None) -> Lists:
        """The same by the order and distances of the engine: no vectors are fetched."""
        if self.engine is None:
            return self.search(rows, k, where)
        started = time.perf_counter()
        found = self.engine.nearest_ids(rows, k, where)
        self.seconds["search"] += time.perf_counter() - started
        self.deepest = max(self.deepest, found.depth)
        return _lists(found)

    def vectors(self, ids: Ids) -> tuple[NDArray[np.bool_], Vectors]:
        """Which of these items are (still) there, and their vectors, in this order."""
        started = time.perf_counter()
        if self.engine is None:
            there, rows = np.ones(len(ids), np.bool_), check(self.store.vectors(ids), VECTORS)
        else:
            there, rows = self._at_hand(self.engine, ids)
        self.seconds["fetch"] += time.perf_counter() - started
        return there, rows

    def forget(self) -> None:
        """Let go of the vectors at hand."""
        self._known = {}

    def _at_hand(self, engine: EngineStore, ids: Ids) -> tuple[NDArray[np.bool_], Vectors]:
        names = ids.tolist()
        missing = np.array([name not in self._known for name in names], np.bool_)
        if missing.any():
            there, rows = engine.vectors_there(ids[missing])
            self._known.update(zip(ids[missing][there].tolist(), rows, strict=True))
            self.fetched += len(rows)
        found = [self._known.get(name) for name in names]
        held = [row for row in found if row is not None]
        stacked = np.array(held, np.float32).reshape(len(held), max(1, engine.dimensions))
        return np.array([row is not None for row in found], np.bool_), stacked

    def _among(self, queries: Vectors, k: int, allowed: NDArray[np.bool_]) -> Ranking:
        """The same from a store that knows no filters: what it finds that is allowed, exactly where that is little."""

        def rows(numbers: NDArray[np.int64]) -> Vectors:
            return rows_by(self.metric, self.store.vectors(numbers), VECTORS, queries.shape[1])

        def search(some: Vectors, depth: int) -> Neighbors:
            found = self.store.search(some, depth)
            numbers, lengths = tidied(found.indices, found.distances, found.depth)
            return Neighbors(numbers.astype(np.int32), lengths)

        found = nearest_among(queries, min(k, int(allowed.sum())), allowed, rows, search, self.metric == "cosine")
        return Ranking(found.indices.astype(np.int64), found.distances)


def _tidy(found: Ranking) -> Lists:
    """What a store found by item numbers; approximate ones pad, repeat and disorder."""
    numbers, lengths = tidied(found.indices, found.distances, found.depth)
    there = numbers >= 0
    return [(row[some], gaps[some]) for row, gaps, some in zip(numbers, lengths, there, strict=True)]


def _lists(found: Ranking) -> Lists:
    """What an engine found, by its ids."""
    there = found.indices >= 0
    return [(row[some], gaps[some]) for row, gaps, some in zip(found.ids, found.distances, there, strict=True)]
