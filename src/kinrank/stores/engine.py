"""EngineStore: base class of the stores over vector databases. Each engine has a module with its queries.

An engine identifies items by its own ids: integers, strings or UUIDs. `Ranking.ids` contains them, and `vectors`
accepts them. Queries are validated before the engine receives them. Distances are computed again from the vectors that
a search returns, so that they are exact, equal vectors are equally far away and ties go to the lower id.
"""

from __future__ import annotations

import os
import threading
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, NoReturn, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.errors import InputError
from kinrank.ids import to_list
from kinrank.parameters import check_whole_number
from kinrank.ranking import Ranking
from kinrank.stores.base import (
    QueryHits,
    Store,
    drop_incomparable,
    rank_by_distance,
    ranking_from_lists,
    to_id_array,
)
from kinrank.stores.url import StoreUrl
from kinrank.vector_input import Vectors
from kinrank.vector_space import prepare_rows

MAX_BLOCK_BYTES = 64_000_000  # of vectors that one request may return
MAX_BLOCK_QUERIES = 64  # in one request
EXTRA_ITEMS = 8  # requested beyond k: engines round distances, so that the k-th item may be any of several
SCAN_ROWS = 4096  # rows read at once

Result = TypeVar("Result")


class Hits(NamedTuple):
    """Items that an engine returned.

    Attributes:
        keys: ids of the items; nearest first if they come from a search.
        rows: (len(keys), d) vectors, NaN for an item without one; None if they were not requested.
        distances: (len(keys),) distances of the engine, converted to Euclidean ones; None if this was not a search.
    """

    keys: Sequence[Any]
    rows: NDArray[Any] | None = None
    distances: NDArray[Any] | None = None

    def select(self, good: NDArray[np.bool_]) -> Hits:
        """Return the items selected by a mask."""
        if good.all():
            return self
        names = [self.keys[place] for place in np.flatnonzero(good).tolist()]
        gaps = None if self.distances is None else self.distances[good]
        return Hits(names, None if self.rows is None else self.rows[good], gaps)


class EngineStore(Store):
    """A Store over an existing vector database. It only reads, and identifies items by the ids of the database.

    Use it in a `with` block or call `close()` to release its connections.

    Attributes:
        dimensions: length of the vectors; 0 if the database is empty and does not declare it.
        timeout: seconds after which a request is cancelled; None for no limit.
        url_examples: complete URLs for `open_store`, which messages and the documentation print.
    """

    url_examples: ClassVar[tuple[str, ...]] = ()
    filters = True
    dimensions: int = 0
    timeout: float | None = None
    _closed: bool = False

    # Implemented by each engine

    @abstractmethod
    def _search(self, rows: Vectors, k: int, where: Any, vectors: bool) -> list[Hits]:
        """Return the k nearest items of each query (q, d), with vectors if `vectors`; in one round trip if possible."""

    @abstractmethod
    def _fetch(self, keys: list[Any]) -> Hits:
        """Return the vectors of those items that exist, in any order. This is a single call."""

    @abstractmethod
    def _scan(self, where: Any, vectors: bool) -> Iterator[Hits]:
        """Yield all items, or those that pass a filter, in blocks of some thousand. Items without a vector may be
        omitted.
        """

    @abstractmethod
    def _count(self) -> int:
        """Return the number of items."""

    def _classify(self, error: Exception) -> type[Exception] | None:
        """Classify an error of the engine.

        Return ConnectionError if the connection was lost, TimeoutError if the engine was too slow, InputError if it
        refuses the request, and None for anything else.
        """
        return None

    def _reopen(self) -> None:
        """Connect again after the connection was lost."""

    def _close(self) -> None:
        """Close what this store opened itself. Connections that the user passed in stay open."""

    @classmethod
    def from_url(cls, url: StoreUrl) -> EngineStore:
        """Open the store at a URL, see `open_store`."""
        raise InputError(f"a {cls.__name__} has no URL")

    # Public methods

    def search(self, queries: ArrayLike, k: int, where: Any = None) -> Ranking:
        """Return the (q, <= k) nearest items by Euclidean distance, between unit vectors if the metric is cosine.

        Args:
            queries: (q, d) vectors.
            k: number of items per query. Fewer are returned if the database has fewer.
            where: restricts the results: a filter in the syntax of the engine, see the page of the engine. Every engine
                with fields also accepts a mapping of names to values, such as {"kind": "cat", "year": [2020, 2021]}.
        """
        return ranking_from_lists(self.search_lists(queries, k, where), {"mode": "search", "metric": self.metric})

    def search_lists(self, queries: ArrayLike, k: int, where: Any = None) -> list[QueryHits]:
        """Search, and return one list per query, with vectors, so that these need no second request."""
        rows, k = self._check_queries(queries), check_whole_number(k, "k")
        found: list[QueryHits] = []
        size = self.block_size(k)
        for start in range(0, len(rows), size):
            block = rows[start : start + size]
            for query, hits in zip(block, self._call(self._search, block, k + EXTRA_ITEMS, where, True), strict=True):
                assert hits.rows is not None
                ids = to_id_array(hits.keys)
                found.append(rank_by_distance(query, ids, hits.rows, k, self.metric, self.dimensions))
        return found

    def nearest_ids(self, queries: ArrayLike, k: int, where: Any = None) -> Ranking:
        """Search without fetching vectors. Order and distances are those of the engine."""
        return ranking_from_lists(self.nearest_lists(queries, k, where), {"mode": "search", "metric": self.metric})

    def nearest_lists(self, queries: ArrayLike, k: int, where: Any = None) -> list[QueryHits]:
        """Return the results of `nearest_ids` as one list per query, without vectors."""
        rows, k = self._check_queries(queries), check_whole_number(k, "k")
        found = []
        for start in range(0, len(rows), MAX_BLOCK_QUERIES):
            for hits in self._call(self._search, rows[start : start + MAX_BLOCK_QUERIES], k, where, False):
                ids, distances = to_id_array(hits.keys), np.asarray(hits.distances, np.float32)
                found.append(QueryHits(ids, distances, np.empty((len(ids), 0), np.float32)))
        return found

    def block_size(self, k: int) -> int:
        """Return how many queries to send in one request, which is limited by the returned vectors."""
        return max(1, min(MAX_BLOCK_QUERIES, MAX_BLOCK_BYTES // max(1, 4 * k * self.dimensions)))

    def vectors(self, ids: Sequence[Any] | NDArray[Any]) -> Vectors:
        """Return the (len(ids), d) vectors of these items, in this order. Raise InputError if one does not exist."""
        wanted = to_id_array(to_list(ids, "ids"))
        exists, rows = self.find_vectors(wanted)
        if not exists.all():
            missing = wanted[~exists].tolist()
            raise InputError(
                f"contains {missing[0]!r}, which {self!r} does not hold ({len(missing)} such ids)", parameter="ids"
            )
        return rows

    def find_vectors(self, ids: NDArray[Any]) -> tuple[NDArray[np.bool_], Vectors]:
        """Return a mask of the ids that exist, and the vectors of these, in this order. Fetched in one call."""
        hits = self._call(self._fetch, list(dict.fromkeys(ids.tolist()))) if len(ids) else Hits([], self._no_rows())
        assert hits.rows is not None
        names, rows = drop_incomparable(to_id_array(hits.keys), hits.rows, self.metric, self.dimensions)
        if ids.dtype.kind == "O" and names.dtype.kind != "O":  # integers among strings: compare all of them as strings
            names = names.astype(str).astype(object)
        place = {name: number for number, name in enumerate(names.tolist())}
        places = np.array([place.get(name, -1) for name in ids.tolist()], np.int64)
        return places >= 0, rows[places[places >= 0]]

    def blocks(self, where: Any = None) -> Iterator[tuple[NDArray[Any], Vectors]]:
        """Yield ids and vectors of all items in blocks of some thousand, in the order of the engine.

        Omit items whose vector is missing, NaN, or zero under cosine. A warning counts them.
        """
        omitted = 0
        for hits in self._iterate(lambda: self._scan(where, True)):
            assert hits.rows is not None
            names = to_id_array(hits.keys)
            ids, rows = drop_incomparable(names, hits.rows, self.metric, self.dimensions or None)
            omitted += len(names) - len(ids)
            self.dimensions = self.dimensions or rows.shape[1]
            yield ids, rows
        if omitted:
            warnings.warn(
                f"{self!r}: {omitted} items are left out because their vector is missing, NaN or zero", stacklevel=2
            )

    def everything(self, where: Any = None) -> tuple[NDArray[Any], Vectors]:
        """Return the (n,) ids of all items, ascending and unique, and their (n, d) vectors."""
        parts = list(self.blocks(where))
        ids = to_id_array([name for block, _ in parts for name in block.tolist()])
        rows = np.concatenate([rows for _, rows in parts]) if parts else self._no_rows()
        del parts
        order = np.argsort(ids, kind="stable")
        repeated = np.flatnonzero(ids[order[1:]] == ids[order[:-1]])
        if len(repeated):
            raise InputError(
                f"{self!r} contains the id {ids[order[repeated[0]]]!s:.80} twice", remedy="use a key that is unique"
            )
        if (order == np.arange(len(order))).all():
            return ids, rows
        return ids[order], rows[order]

    def ids_where(self, where: Any = None) -> NDArray[Any]:
        """Return the ids of the items that pass a filter, or of all items, in any order."""
        return to_id_array([key for hits in self._iterate(lambda: self._scan(where, False)) for key in hits.keys])

    def __len__(self) -> int:
        return self._call(self._count)

    @property
    def engine(self) -> EngineStore:
        return self

    def __enter__(self) -> EngineStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections that this store opened. Later searches raise InputError."""
        if not self._closed:
            self._closed = True
            self._close()

    # Shared by all engines

    def _no_rows(self) -> Vectors:
        return np.empty((0, max(1, self.dimensions)), np.float32)

    def _check_queries(self, queries: ArrayLike) -> Vectors:
        """Validate queries. Native code could read past the end of a short row, or return anything for NaN."""
        return prepare_rows(self.metric, queries, "queries", self.dimensions or None)

    def _call(self, call: Callable[..., Result], *args: Any) -> Result:
        """Call the engine; reconnect and repeat the call once if the connection was lost."""
        if self._closed:
            raise InputError(f"{self!r} is closed", remedy="open it again")
        try:
            return call(*args)
        except Exception as error:
            if self._classify(error) is not ConnectionError:
                self._raise(error)
        try:
            self._reopen()
            return call(*args)
        except Exception as error:
            self._raise(error)

    def _iterate(self, scan: Callable[[], Iterator[Result]]) -> Iterator[Result]:
        """Iterate over an answer in parts. Only the request for the first part is repeated after a lost connection."""

        def start() -> tuple[Iterator[Result], Result | None]:
            parts = scan()
            return parts, next(parts, None)

        parts, part = self._call(start)
        while part is not None:
            yield part
            try:
                part = next(parts, None)
            except Exception as error:
                self._raise(error, "while reading its answer")

    def _raise(self, error: Exception, when: str = "tried twice") -> NoReturn:
        """Raise an error of the engine as a kinrank error with one sentence; raise other errors unchanged."""
        kind, message = self._classify(error), " ".join(str(error).split())[:300]
        if kind is ConnectionError:
            raise ConnectionError(f"{self!r} cannot be reached, {when}: {message}") from error
        if kind is TimeoutError:
            limit = "in time" if self.timeout is None else f"within {self.timeout:g} s"
            raise TimeoutError(
                f"{self!r} did not answer {limit}; give a larger timeout=, request fewer items, or create an index on "
                f"the table ({message})"
            ) from error
        if kind is InputError:
            raise InputError(f"{self!r} refused: {message}") from error
        raise error

    # Helpers of engines

    def check_columns(self, columns: Iterable[str], vector: str, key: str, fold: Callable[[str], str] = str) -> None:
        """Raise InputError if a table lacks the column of vectors or that of ids. `str.lower` ignores case."""
        known = list(columns)
        for parameter, name in (("vector", vector), ("key", key)):
            if fold(name) not in map(fold, known):
                raise InputError(
                    f"is not a column of {self!r}",
                    parameter=parameter,
                    given=name,
                    allowed=f"one of: {', '.join(known)}",
                )

    def column_error(self, parameter: str, name: str, found: Any, allowed: str) -> InputError:
        """Return the error for a column of vectors or ids that has a wrong type."""
        problem = f"is a column of {found}, not of vectors" if parameter == "vector" else f"is a column of {found}"
        return InputError(
            problem, parameter=parameter, given=name, allowed=f"a column of {allowed}", context=repr(self)
        )

    def _attach_vectors(self, lists: list[Hits], fetch: Callable[[list[Any]], Hits]) -> list[Hits]:
        """Add vectors to lists of hits, fetched in one call; NaN for items that no longer exist.

        Queries of one request often find the same items. Fetching each vector once is then several times faster than
        requesting vectors with every list.
        """
        found = fetch(list(dict.fromkeys(name for hits in lists for name in hits.keys)))
        assert found.rows is not None
        place = {name: number for number, name in enumerate(found.keys)}
        rows = np.vstack([found.rows, np.full((1, found.rows.shape[1]), np.nan, np.float32)])
        return [Hits(hits.keys, rows[[place.get(name, -1) for name in hits.keys]], hits.distances) for hits in lists]

    def _hits_from_arrow(self, keys: Any, vectors: Any = None, distances: NDArray[Any] | None = None) -> Hits:
        """Return the items of an Arrow answer without those that have no id or no finite distance.

        `vectors` is a column of fixed-size lists. A missing list or number becomes NaN.
        """
        good = keys.is_valid().to_numpy(zero_copy_only=False) if keys.null_count else np.ones(len(keys), np.bool_)
        if distances is not None:
            with np.errstate(over="ignore"):
                good &= np.isfinite(distances.astype(np.float32))
        rows = None if vectors is None else _rows_from_arrow(vectors, self.dimensions)
        return Hits(keys.to_pylist(), rows, distances).select(good)

    def _split_by_query(self, keys: Any, distances: NDArray[Any], places: Any, queries: int) -> list[Hits]:
        """Split an Arrow answer into one list per query, nearest first. `places` has the number of each query."""
        numbers = np.asarray(places)
        if (np.diff(numbers) < 0).any():
            order = np.lexsort((distances, numbers))
            keys, distances = keys.take(order), distances[order]
        ends = np.bincount(numbers, minlength=queries).cumsum().tolist()
        spans = zip([0, *ends[:-1]], ends, strict=True)
        return [self._hits_from_arrow(keys[start:end], None, distances[start:end]) for start, end in spans]


class TableStore(EngineStore):
    """A Store over a table of an SQL database in a file: a column of vectors and a column of ids.

    A subclass implements `_connect` in addition to the methods of EngineStore.
    """

    _url_options: tuple[str, ...] = ("table", "vector", "key", "metric")
    _path: str | None = None  # of a database that this store opened
    _connection: Any = None

    @abstractmethod
    def _connect(self) -> Any:
        """Open the database at `_path`, read-only."""

    def __init__(self, connection: Any, table: str, classes: tuple[type[Any], ...], accepted: str) -> None:
        """Set the connection, an instance of one of `classes`; or open the database at a path.

        `accepted` describes the classes for an error.
        """
        self._table_name, self._lock = table, threading.Lock()
        if isinstance(connection, (str, os.PathLike)):
            self._path = os.fspath(connection)
            self._connection = self._call(self._connect)
        elif isinstance(connection, classes):
            self._connection = connection
        else:
            raise InputError(f"must be {accepted} or a path; got a {type(connection).__name__}", parameter="connection")

    @classmethod
    def from_url(cls, url: StoreUrl) -> TableStore:
        """Open SCHEME:///file.db?table=items&vector=embedding&key=id, or SCHEME:file.db?... for a relative path.

        Options: table, vector, key, metric, and timeout if the engine has one.
        """
        options: dict[str, Any] = url.check_options(*cls._url_options)
        path, table = url.require("path", "a file"), url.require_table()
        if url.host is not None:
            scheme = url.scheme
            raise InputError(f"{scheme}: needs a file: {scheme}:///file.db (absolute) or {scheme}:file.db (relative)")
        del options["table"]
        return cls(path, table, **options)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._table_name})"

    def _reopen(self) -> None:
        if self._path is not None:
            self._close()
            self._connection = self._connect()

    def _close(self) -> None:
        if self._path is not None:
            with self._lock:
                self._connection.close()

    def _no_hits(self, queries: Vectors) -> list[Hits]:
        """Return the answer of an empty table, whose vectors have an unknown length."""
        return [Hits([], self._no_rows(), np.empty(0)) for _ in queries]


def quote_name(name: str) -> str:
    """Quote a name for SQL."""
    return '"' + name.replace('"', '""') + '"'


def parse_integer_keys(keys: Iterable[Any]) -> list[int]:
    """Return the ids that are 64-bit integers, also those written as text. An integer column cannot hold others."""
    found = (key if isinstance(key, int) else int(key) if _is_integer_text(key) else None for key in keys)
    return [key for key in found if key is not None and -(2**63) <= key < 2**64]


def _is_integer_text(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").isdigit() and len(text) <= 20


def _rows_from_arrow(column: Any, dimensions: int) -> Vectors:
    lists = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    numbers = lists.values.slice(lists.offset * dimensions, len(lists) * dimensions).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        rows: Vectors = numbers.reshape(len(lists), dimensions).astype(np.float32, copy=False)
    if lists.null_count:
        rows = np.where(lists.is_valid().to_numpy(zero_copy_only=False)[:, None], rows, np.float32(np.nan))
    return rows
