"""EngineStore: what is the same for every vector database; a file per engine adds how that one is asked.

An engine knows its items by its own ids: whole numbers, texts or UUIDs. They come back in `Ranking.ids`, and `vectors`
takes them. Queries are checked before an engine sees them, whatever it would do with them. Vectors that come with a
search are compared again here, so that distances are exact, equal vectors are equally far and ties go to the lower id.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank import given
from kinrank.features import Vectors
from kinrank.parameters import whole_number
from kinrank.ranking import Ranking
from kinrank.space import rows_by
from kinrank.stores.ids import named, names_of
from kinrank.stores.ordered import Listed, comparable, ordered

BYTES = 64_000_000  # of vectors that one question to an engine may bring
QUERIES = 64  # in one question at most
MARGIN = 8  # more items than wanted: engines round, and the last one wanted may be any of several
SCANNED = 4096  # rows read at once

LOST, SLOW, REFUSED = "lost", "slow", "refused"  # what an engine's error means

Result = TypeVar("Result")


class Hits(NamedTuple):
    """Items as an engine gives them.

    Attributes:
        keys: their ids; nearest first, where they were searched for.
        rows: (len(keys), d) their vectors, NaN where one has none; None where they were not asked for.
        distances: (len(keys),) as the engine measures them, made Euclidean; None where it was not a search.
    """

    keys: Sequence[Any]
    rows: NDArray[Any] | None = None
    distances: NDArray[Any] | None = None


class EngineStore(ABC):
    """A Store over a vector database that is already there; nothing is ever written to it.

    Use it in a `with` block, or call `close()`, to give its connections back.

    Attributes:
        metric: "cosine" or "euclidean", how the engine compares.
        dimensions: of its vectors; 0 where it is empty and cannot tell.
        exact: whether its searches find the nearest items, all of them.
        timeout: seconds after which a question is given up; None where the engine has no such limit.
    """

    metric: str = "cosine"
    dimensions: int = 0
    exact: bool = False
    timeout: float | None = None
    _closed: bool = False

    # what every engine adds

    @abstractmethod
    def _search(self, rows: Vectors, k: int, where: Any, vectors: bool) -> list[Hits]:
        """For each query (q, d) its k nearest items, with their vectors if asked for; in one round trip if possible."""

    @abstractmethod
    def _fetch(self, keys: list[Any]) -> Hits:
        """The vectors of these items, as far as they are there, in any order; one call."""

    @abstractmethod
    def _scan(self, where: Any, vectors: bool) -> Iterator[Hits]:
        """All items, or those a filter leaves, some thousand at a time; those without a vector may be left out."""

    @abstractmethod
    def _count(self) -> int:
        """How many items there are."""

    def _kind(self, error: Exception) -> str | None:
        """What an error of the engine means: LOST, SLOW, REFUSED, or None for anything else."""
        return None

    def _reopen(self) -> None:  # noqa: B027 - not every engine has a connection
        """Connect again, after the connection was lost."""

    def _close(self) -> None:  # noqa: B027
        """Give back what this store opened itself; what users gave stays open."""

    # what users call

    def search(self, queries: ArrayLike, k: int, where: Any = None) -> Ranking:
        """(q, <= k) nearest items by Euclidean distance, of unit rows where the metric is cosine.

        Args:
            queries: (q, d) rows.
            k: how many items; those there are, where there are fewer.
            where: only these items: a filter in the engine's own form, see the page of the engine. A mapping of names
                to values, such as {"kind": "cat", "year": [2020, 2021]}, is understood by all that keep such values.
        """
        return self.search_with_vectors(queries, k, where, keep=False)[0]

    def search_with_vectors(
        self, queries: ArrayLike, k: int, where: Any = None, keep: bool = True
    ) -> tuple[Ranking, dict[Any, Vectors]]:
        """The same, and the vectors that came with it by their ids: they need not be fetched again."""
        rows, k = self._asked(queries), whole_number(k, "k")
        found: list[Listed] = []
        known: dict[Any, Vectors] = {}
        size = max(1, min(QUERIES, BYTES // max(1, 4 * k * self.dimensions)))
        for start in range(0, len(rows), size):
            block = rows[start : start + size]
            for query, hits in zip(block, self._ask(self._search, block, k + MARGIN, where, True), strict=True):
                assert hits.rows is not None
                one = ordered(query, names_of(hits.keys), hits.rows, k, self.metric, self.dimensions)
                found.append(one)
                if keep:
                    known.update(zip(one.ids.tolist(), one.rows, strict=True))
        return named(found, {"mode": "search", "metric": self.metric}), known

    def nearest_ids(self, queries: ArrayLike, k: int, where: Any = None) -> Ranking:
        """Like `search`, without fetching vectors: order and distances are the engine's own."""
        rows, k = self._asked(queries), whole_number(k, "k")
        found = []
        for start in range(0, len(rows), QUERIES):
            for hits in self._ask(self._search, rows[start : start + QUERIES], k, where, False):
                ids, distances = names_of(hits.keys), np.asarray(hits.distances, np.float32)
                found.append(Listed(ids, distances, np.empty((len(ids), 0), np.float32)))
        return named(found, {"mode": "search", "metric": self.metric})

    def vectors(self, ids: Sequence[Any] | NDArray[Any]) -> Vectors:
        """(len(ids), d) the vectors of these items, in this order; a ValueError if one is not there."""
        wanted = names_of(given.listed(ids, "ids"))
        there, rows = self.vectors_there(wanted)
        if not there.all():
            gone = wanted[~there].tolist()
            raise ValueError(f"ids names {gone[0]!r}, which {self!r} does not hold ({len(gone)} such)")
        return rows

    def vectors_there(self, ids: NDArray[Any]) -> tuple[NDArray[np.bool_], Vectors]:
        """Which of these items are there, and their vectors, in this order; fetched in one call."""
        hits = self._ask(self._fetch, list(dict.fromkeys(ids.tolist()))) if len(ids) else Hits([], self._nothing())
        assert hits.rows is not None
        names, rows = comparable(names_of(hits.keys), hits.rows, self.metric, self.dimensions)
        if ids.dtype.kind == "O" and names.dtype.kind != "O":  # numbers that came as texts, beside others
            names = names.astype(str).astype(object)
        place = {name: number for number, name in enumerate(names.tolist())}
        places = np.array([place.get(name, -1) for name in ids.tolist()], np.int64)
        return places >= 0, rows[places[places >= 0]]

    def blocks(self, where: Any = None) -> Iterator[tuple[NDArray[Any], Vectors]]:
        """Ids and vectors of all items, some thousand at a time, in the engine's order.

        Items whose vector is missing, NaN, or zero where directions are compared, are left out; a warning counts them.
        """
        left_out = 0
        for hits in self._asked_for(lambda: self._scan(where, True)):
            assert hits.rows is not None
            names = names_of(hits.keys)
            ids, rows = comparable(names, hits.rows, self.metric, self.dimensions or None)
            left_out += len(names) - len(ids)
            self.dimensions = self.dimensions or rows.shape[1]
            yield ids, rows
        if left_out:
            warnings.warn(f"{self!r}: {left_out} items have no vector that can be compared (missing, NaN or zero) and "
                          "are left out", stacklevel=2)  # fmt: skip

    def everything(self, where: Any = None) -> tuple[NDArray[Any], Vectors]:
        """(n,) the ids of all items, lowest first, no two alike, and (n, d) their vectors."""
        parts = list(self.blocks(where))
        ids = names_of([name for some, _ in parts for name in some.tolist()])
        rows = np.concatenate([rows for _, rows in parts]) if parts else self._nothing()
        del parts
        order = np.argsort(ids, kind="stable")
        twice = np.flatnonzero(ids[order[1:]] == ids[order[:-1]])
        if len(twice):
            again = ids[order[twice[0]]]
            raise ValueError(f"{self!r} holds the id {again!s:.80} twice; give a key that differs from item to item")
        if (order == np.arange(len(order))).all():
            return ids, rows
        return ids[order], rows[order]

    def ids_where(self, where: Any = None) -> NDArray[Any]:
        """The ids of the items that a filter leaves, in any order; of all items without one."""
        return names_of([key for hits in self._asked_for(lambda: self._scan(where, False)) for key in hits.keys])

    def __len__(self) -> int:
        return self._ask(self._count)

    def __enter__(self) -> EngineStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that this store opened; searching it afterwards is an error."""
        if not self._closed:
            self._closed = True
            self._close()

    # what is the same for all

    def _nothing(self) -> Vectors:
        return np.empty((0, max(1, self.dimensions)), np.float32)

    def _asked(self, queries: ArrayLike) -> Vectors:
        """Checked queries: native code may read beyond a row that is too short, or find anything for NaN."""
        return rows_by(self.metric, queries, "queries", self.dimensions or None)

    def _ask(self, call: Callable[..., Result], *args: Any) -> Result:
        """What the engine answers; asked once more where the connection was lost on the way."""
        if self._closed:
            raise ValueError(f"{self!r} is closed; open it again")
        try:
            return call(*args)
        except Exception as error:
            if self._kind(error) != LOST:
                self._raise(error)
        try:
            self._reopen()
            return call(*args)
        except Exception as error:
            self._raise(error)

    def _asked_for(self, scan: Callable[[], Iterator[Result]]) -> Iterator[Result]:
        """The same for answers that come in parts; once the first is there, nothing is asked for again."""

        def begun() -> tuple[Iterator[Result], Result | None]:
            parts = scan()
            return parts, next(parts, None)

        parts, part = self._ask(begun)
        while part is not None:
            yield part
            try:
                part = next(parts, None)
            except Exception as error:
                self._raise(error, "in the middle of reading it")

    def _raise(self, error: Exception, when: str = "tried twice") -> NoReturn:
        """The error of an engine as one sentence of ours; other errors as they are."""
        kind, said = self._kind(error), " ".join(str(error).split())[:300]
        if kind == LOST:
            raise ConnectionError(f"{self!r} cannot be reached, {when}: {said}") from error
        if kind == SLOW:
            limit = "in time" if self.timeout is None else f"within {self.timeout:g} s"
            raise TimeoutError(f"{self!r} did not answer {limit}; give a larger timeout=, ask for less, or give the "
                               f"table an index ({said})") from error  # fmt: skip
        if kind == REFUSED:
            raise ValueError(f"{self!r} refused: {said}") from error
        raise error
