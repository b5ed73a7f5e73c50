"""SqliteVecStore: a Store over an SQLite table, searched with the extension sqlite-vec.

Two libraries can open SQLite: Python's sqlite3, which cannot load extensions on every platform, and apsw, which
contains its own SQLite. An extension is bound to the SQLite that loaded it last. If both libraries load it, even from
different copies of the file, the process crashes. Therefore one process uses only one of the two.
"""

from __future__ import annotations

import json
import re
import sqlite3
import sys
import warnings
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kinrank.errors import InputError
from kinrank.lazy_import import import_extra
from kinrank.stores.client_utils import build_where_sql
from kinrank.stores.engine import SCAN_ROWS, Hits, TableStore, quote_name
from kinrank.vector_input import Vectors

DISTANCE_FUNCTIONS = {"cosine": "vec_distance_cosine", "euclidean": "vec_distance_L2"}
MAX_VEC0_ITEMS = 4096  # maximum k of a vec0 table
REQUIREMENT = "SqliteVecStore", "sqlite-vec"
MIN_VERSION = (0, 1, 7)  # in older versions one zero or NaN vector hid a thousand others
VERSION_QUERY = "SELECT vec_version()"
loaded_libraries: set[str] = set()  # libraries into which a store has loaded sqlite-vec
SCHEMA_QUERY = "SELECT name, sql FROM sqlite_master UNION ALL SELECT name, sql FROM sqlite_temp_master"
METRICS = {"cosine": "cosine", "l2": "euclidean"}


class SqliteVecStore(TableStore):
    """A Store over a vec0 table, or over an ordinary table with float32 BLOBs. Both are searched exactly.

    Filters (`where`): a mapping of columns to values, or a pair of a condition with ? for each value and the values,
    such as ("price < ?", [10]). Filters are applied before the search.

    Args:
        connection: a connection of sqlite3 or apsw, which stays open; or the path of a database, which is opened
            read-only. The store loads sqlite-vec if the connection does not have it.
        table: name of the table.
        vector: name of the vector column.
        key: name of the id column; by default the primary key, or the rowid if there is none.
        metric: "cosine" or "euclidean"; by default the metric of a vec0 table, and cosine for other tables.
    """

    url_examples = ("sqlite:///folder/file.db?table=items&vector=embedding&key=id",)
    exact = True

    def __init__(
        self,
        connection: Any,
        table: str,
        vector: str = "embedding",
        key: str | None = None,
        *,
        metric: str | None = None,
    ) -> None:
        import_extra("sqlite_vec", *REQUIREMENT)
        if metric not in (None, *DISTANCE_FUNCTIONS):
            raise InputError(parameter="metric", given=metric, allowed="cosine or euclidean")
        super().__init__(connection, table, connection_classes(), "a connection of sqlite3 or apsw,")
        try:
            self._call(load_sqlite_vec, self._connection)
            self._table: Table = self._call(Table.from_schema, self._query, self, table, vector, key)
            self._choose_metric(metric)
            self.dimensions = self._table.dimensions
            self._call(self._detect_dimensions)
        except BaseException:
            self._close()
            raise

    def _connect(self) -> Any:
        assert self._path is not None
        return open_database(self._path)

    def _query(self, text: str, *values: Any) -> list[Any]:
        with self._lock:
            return list(open_cursor(self._connection).execute(text, values))

    def _choose_metric(self, metric: str | None) -> None:
        declared = self._table.metric
        self.metric = metric or declared or "cosine"
        if self.metric not in DISTANCE_FUNCTIONS:
            raise InputError(
                f"{self!r} compares by {declared}",
                remedy="give `metric=cosine` or `metric=euclidean` to compare every row",
            )
        if declared not in (None, self.metric):
            warnings.warn(
                f"{self!r} compares by {declared}, not by {self.metric}: searches compare every row, which is slower",
                stacklevel=3,
            )

    def _detect_dimensions(self) -> int:
        """Return the number of dimensions, from the lengths of BLOBs if necessary; 0 if there are no items yet."""
        if not self.dimensions:
            found = self._query(self._table.size_query())
            good = [size // 4 for kind, size in found if kind == "blob" and size and size % 4 == 0]
            if found and not good:
                raise InputError(
                    f"the column {self._table.vector} of {self!r} contains {found[0][0]} values",
                    remedy="give `vector`, a column of float32 BLOBs as returned by sqlite_vec.serialize_float32",
                )
            self.dimensions = good[0] if good else 0
        return self.dimensions

    def _quote_column(self, name: str) -> str:
        """Return the quoted name of an existing column. SQLite treats an unknown name in quotes as a text."""
        columns = self._table.columns
        if name.lower() not in columns:
            raise InputError(
                f"has the column {name!r}, which {self!r} does not have",
                parameter="where",
                allowed=f"one of: {', '.join(columns.values())}",
            )
        return quote_name(columns[name.lower()])

    def _item_condition(self, where: Any) -> tuple[str, list[Any]]:
        """Return the condition that a row is an item and passes the filter, and its values."""
        has_key = f"{self._table.key} IS NOT NULL"
        condition, values = ("", []) if where is None else build_where_sql(where, "?", self._quote_column)
        return (f"{has_key} AND {condition}" if condition else has_key), values

    def _search(self, rows: Vectors, k: int, where: Any, vectors: bool) -> list[Hits]:
        if not self._detect_dimensions():
            return self._no_hits(rows)
        matched = self._table.metric == self.metric and k <= MAX_VEC0_ITEMS
        text, values = self._match_query(k, where) if matched else self._compare_query(k, where)
        found = [self._to_hits(self._query(text, row.tobytes(), *values)) for row in rows]
        return self._attach_vectors(found, self._fetch) if vectors else found

    def _match_query(self, k: int, where: Any) -> tuple[str, list[Any]]:
        """Return the search of a vec0 table, and its values after the query vector.

        `distance > -1` excludes NaN, which would otherwise come first and hide near items. vec0 applies conditions that
        it does not support, such as OR, after the search, but a list of ids before it.
        """
        _, vector, key, *_ = self._table
        text = f"SELECT {key}, distance FROM {self._table.name} WHERE {vector} MATCH ? AND k = ? AND distance > -1"
        if where is None:
            return text, [k]
        condition, values = self._item_condition(where)
        names = [name for (name,) in self._query(f"SELECT {key} FROM {self._table.name} WHERE {condition}", *values)]
        return f"{text} AND {key} IN (SELECT value FROM json_each(?))", [k, json.dumps(names)]

    def _compare_query(self, k: int, where: Any) -> tuple[str, list[Any]]:
        """Return a search that compares every row. Values that are not vectors of this length come last, as NULL."""
        name, vector, key, *_ = self._table
        good = f"typeof({vector}) = 'blob' AND length({vector}) = {4 * self.dimensions}"
        gap = f"CASE WHEN {good} THEN {DISTANCE_FUNCTIONS[self.metric]}({vector}, ?) END"
        condition, values = self._item_condition(where)
        text = f"SELECT {key}, {gap} AS gap FROM {name} WHERE {condition} ORDER BY gap NULLS LAST LIMIT ?"
        return text, [*values, k]

    def _to_hits(self, answer: list[Any]) -> Hits:
        found = [(name, gap) for name, gap in answer if gap is not None and gap < np.inf]
        gaps = np.maximum([gap for _, gap in found], 0.0)
        return Hits([name for name, _ in found], None, np.sqrt(2.0 * gaps) if self.metric == "cosine" else gaps)

    def _fetch(self, keys: list[Any]) -> Hits:
        name, vector, key, *_ = self._table
        text = f"SELECT {key}, {vector} FROM {name} WHERE {key} IN (SELECT value FROM json_each(?))"
        return self._to_vectors(self._query(text, json.dumps(keys)))

    def _to_vectors(self, answer: list[Any]) -> Hits:
        """Return items with their vectors; NaN for an item without a BLOB of the right length."""
        dimensions = self._detect_dimensions() or 1
        nothing = np.full(dimensions, np.nan, np.float32).tobytes()
        held = [blob if isinstance(blob, bytes) and len(blob) == len(nothing) else nothing for _, blob in answer]
        return Hits([name for name, _ in answer], np.frombuffer(b"".join(held), np.float32).reshape(-1, dimensions))

    def _scan(self, where: Any, vectors: bool) -> Iterator[Hits]:
        condition, values = self._item_condition(where)
        wanted = f"{self._table.key}, {self._table.vector if vectors else 'NULL'}"
        with self._lock:
            answer = open_cursor(self._connection).execute(
                f"SELECT {wanted} FROM {self._table.name} WHERE {condition}", values
            )
        try:
            while part := self._read_block(answer):
                yield self._to_vectors(part) if vectors else Hits([name for name, _ in part])
        finally:
            with self._lock:
                answer.close()

    def _read_block(self, answer: Any) -> list[Any]:
        with self._lock:
            return list(islice(answer, SCAN_ROWS))

    def _count(self) -> int:
        return int(self._query(f"SELECT count(*) FROM {self._table.name}")[0][0])

    def _classify(self, error: Exception) -> type[Exception] | None:
        if not isinstance(error, error_classes()):
            return None
        message = f"{type(error).__name__} {error}".lower()
        if "closed" in message:
            return ConnectionError
        return TimeoutError if "busy" in message or "locked" in message else InputError


def connection_classes() -> tuple[type[Any], ...]:
    """Return the connection classes of the imported SQLite libraries."""
    apsw = sys.modules.get("apsw")
    return (sqlite3.Connection, apsw.Connection) if apsw else (sqlite3.Connection,)


def error_classes() -> tuple[type[Exception], ...]:
    """Return the error classes of the imported SQLite libraries."""
    apsw = sys.modules.get("apsw")
    return (sqlite3.Error, apsw.Error) if apsw else (sqlite3.Error,)


def open_database(path: str) -> Any:
    """Open a read-only connection with sqlite3 if it can load extensions, otherwise with apsw."""
    if not Path(path).is_file():
        raise InputError(f"there is no file {path}")
    able = hasattr(sqlite3.Connection, "enable_load_extension")
    if able and not loaded_libraries and "apsw" in sys.modules:
        raise InputError(
            "this process has imported apsw, and its sqlite3 can load extensions, but only one of them may load "
            "sqlite-vec",
            remedy="give a connection instead of a path",
        )
    if able and "apsw" not in loaded_libraries:
        connection: Any = sqlite3.connect(
            f"{Path(path).absolute().as_uri()}?mode=ro", uri=True, check_same_thread=False
        )
    else:
        apsw = import_extra("apsw", *REQUIREMENT)
        connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
        connection.set_busy_timeout(5000)
    try:
        open_cursor(connection).execute("PRAGMA cache_size = -64000")  # vec0 stores 1024 vectors per chunk
        load_sqlite_vec(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def load_sqlite_vec(connection: Any) -> None:
    """Load sqlite-vec into a connection, and check its version."""
    library = "sqlite3" if isinstance(connection, sqlite3.Connection) else "apsw"
    if loaded_libraries - {library}:
        raise InputError(
            f"sqlite-vec is in use with {' '.join(loaded_libraries)}; loading it with {library} as well would crash "
            "the process",
            remedy="give a connection of the same library, or a path",
        )
    try:
        found = list(open_cursor(connection).execute(VERSION_QUERY))
    except error_classes() as error:
        if "no such function" not in str(error):
            raise
        if not hasattr(connection, "enable_load_extension"):
            raise InputError(
                "the sqlite3 of this Python cannot load extensions",
                remedy="give the path of the database, or a connection of apsw",
            ) from None
        connection.enable_load_extension(True)
        try:
            connection.load_extension(import_extra("sqlite_vec", *REQUIREMENT).loadable_path())
        finally:
            connection.enable_load_extension(False)
        found = list(open_cursor(connection).execute(VERSION_QUERY))
    if tuple(map(int, re.findall(r"\d+", str(found[0][0]))[:3])) < MIN_VERSION:
        raise InputError(f"sqlite-vec {found[0][0]} is too old", remedy="install 0.1.7 or newer")
    loaded_libraries.add(library)


def open_cursor(connection: Any) -> Any:
    """Open a cursor that returns rows as tuples, whatever the row factory of the connection."""
    cursor = connection.cursor()
    if isinstance(cursor, sqlite3.Cursor):
        cursor.row_factory = None
    return cursor


class Table(NamedTuple):
    """A table and its columns. `name`, `vector` and `key` are quoted.

    Attributes:
        columns: column names by lower-case name.
        metric: metric of a vec0 table, by the name of kinrank if it has one; None for an ordinary table.
        dimensions: of a vec0 table; 0 for an ordinary table.
    """

    name: str
    vector: str
    key: str
    columns: dict[str, str]
    metric: str | None
    dimensions: int

    @classmethod
    def from_schema(
        cls, query: Callable[..., list[Any]], store: Any, table: str, vector: str, key: str | None
    ) -> Table:
        """Read the schema of a table. Raise InputError for columns that cannot be searched."""
        made = query(f"SELECT name, sql FROM ({SCHEMA_QUERY}) WHERE lower(name) = lower(?) AND sql IS NOT NULL", table)
        if not made:
            raise InputError(f"the database has no table {table!r}")
        (name, text), *_ = made
        info = query("SELECT name, pk FROM pragma_table_xinfo(?)", name)
        columns = {column.lower(): column for column, _ in info} | {"rowid": "rowid"}
        primary = [column for column, place in info if place]
        ids = primary[0] if len(primary) == 1 else "rowid"
        store.check_columns(columns.values(), vector, key or ids, str.lower)
        metric, dimensions = None, 0
        if re.search(r"\busing\s+vec0\b", text, re.IGNORECASE):
            metric, dimensions = _parse_vec0(text, store, vector)
            if key is not None and key.lower() != ids.lower():
                raise InputError(
                    f"is not the primary key {ids!r} of {store!r}", parameter="key", given=key, remedy="leave it out"
                )
        names = quote_name(columns[vector.lower()]), quote_name(columns[(key or ids).lower()])
        return cls(quote_name(name), *names, columns, metric, dimensions)

    def size_query(self) -> str:
        """Return a SELECT of the types and lengths of a sample of values, the most frequent first."""
        sample = f"SELECT typeof({self.vector}) AS kind, length({self.vector}) AS size FROM {self.name}"
        sample = f"{sample} WHERE {self.vector} IS NOT NULL LIMIT 100"
        return f"SELECT kind, size FROM ({sample}) GROUP BY kind, size ORDER BY count(*) DESC"


def _parse_vec0(text: str, store: Any, vector: str) -> tuple[str, int]:
    """Return metric and dimensions of a vector column from the CREATE statement of a vec0 table."""
    shape = re.search(rf"\b{re.escape(vector)}\s+(\w+)\s*\[\s*(\d+)\s*\]([^,]*)", text, re.IGNORECASE)
    if shape is None or shape[1].lower() not in ("float", "f32"):
        raise InputError(
            "is not a column of float32 vectors",
            parameter="vector",
            given=vector,
            allowed="one that is",
            context=repr(store),
        )
    declared = re.search(r"distance_metric\s*=\s*(\w+)", shape[3], re.IGNORECASE)
    metric = declared[1].lower() if declared else "l2"
    return METRICS.get(metric, metric), int(shape[2])
