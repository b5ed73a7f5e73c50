"""SqliteVecStore: a table of SQLite, searched by the extension sqlite-vec -> a Store."""

from __future__ import annotations

import json
import os
import threading
import warnings
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np

from kinrank.deferred import needed
from kinrank.features import Vectors
from kinrank.stores.address import Address
from kinrank.stores.engine import LOST, REFUSED, SCANNED, SLOW, EngineStore, Hits
from kinrank.stores.fetched import with_vectors
from kinrank.stores.filters import sql_where
from kinrank.stores.sqlite_files import NEEDS, connections, cursor_of, errors, extended, opened
from kinrank.stores.sqlite_table import Table, quoted

GAPS = {"cosine": "vec_distance_cosine", "euclidean": "vec_distance_L2"}
MOST = 4096  # items that a vec0 table finds at once


class SqliteVecStore(EngineStore):
    """The rows of a vec0 table, or of an ordinary table whose vectors are BLOBs of float32. Both are searched exactly.

    Filters (`where`): a mapping of columns to values, or a pair of a condition with ? for each value, and the values,
    such as ("price < ?", [10]). They are applied before the search, whatever they say.

    Args:
        connection: of the module sqlite3 or of apsw, which stays open; or the path of a database, which is opened
            read-only. sqlite-vec is loaded where the connection does not have it.
        table: its name.
        vector: the column of vectors.
        key: the column of ids; the primary key where it is left out, or the rowid where there is none.
        metric: "cosine" or "euclidean"; where it is left out, what a vec0 table says, and cosine for other tables.
    """

    exact = True

    def __init__(
        self, connection: Any, table: str, vector: str = "embedding", key: str | None = None, *,
        metric: str | None = None,
    ) -> None:  # fmt: skip
        needed("sqlite_vec", *NEEDS)
        if metric not in (None, *GAPS):
            raise ValueError(f"metric={metric!r} is not allowed; give cosine or euclidean")
        self._shown, self._lock = table, threading.Lock()
        self._own = os.fspath(connection) if isinstance(connection, (str, os.PathLike)) else None
        if self._own is None and not isinstance(connection, connections()):
            raise ValueError(f"connection must be one of sqlite3 or apsw, or a path; got a {type(connection).__name__}")
        self._connection = connection if self._own is None else self._ask(opened, self._own)
        try:
            self._ask(extended, self._connection)
            self._table: Table = self._ask(Table.of, self._rows, self, table, vector, key)
            self._choose(metric)
            self.dimensions = self._table.dimensions
            self._ask(self._measure)
        except BaseException:
            self._close()
            raise

    @classmethod
    def at(cls, address: Address) -> SqliteVecStore:
        """The store at sqlite:///file.db?table=items&vector=embedding&key=id; sqlite:file.db?... is a file from here.

        Options: table, vector, key, metric.
        """
        options = address.only("table", "vector", "key", "metric")
        path, table = address.needed("path", "a file"), address.needed("table", "the option table")
        if address.host is not None:
            raise ValueError("sqlite: needs a file: sqlite:///file.db from the root, sqlite:file.db from here")
        return cls(path, table, **{name: options[name] for name in ("vector", "key", "metric") if name in options})

    def __repr__(self) -> str:
        return f"SqliteVecStore({self._shown})"

    def _reopen(self) -> None:
        if self._own is not None:
            self._close()
            self._connection = opened(self._own)

    def _close(self) -> None:
        if self._own is not None:
            with self._lock:
                self._connection.close()

    def _rows(self, text: str, *values: Any) -> list[Any]:
        with self._lock:
            return list(cursor_of(self._connection).execute(text, values))

    def _choose(self, metric: str | None) -> None:
        said = self._table.metric
        self.metric = metric or said or "cosine"
        if self.metric not in GAPS:
            raise ValueError(
                f"{self!r} compares by {said}; give metric= cosine or euclidean, and every row is compared"
            )
        if said not in (None, self.metric):
            warnings.warn(f"{self!r} compares by {said}, not by {self.metric}: it is read row by row, which is slower",
                          stacklevel=3)  # fmt: skip

    def _measure(self) -> int:
        """How many dimensions there are; BLOBs tell it by their length, and 0 where there is none yet."""
        if not self.dimensions:
            found = self._rows(self._table.sizes())
            good = [size // 4 for kind, size in found if kind == "blob" and size and size % 4 == 0]
            if found and not good:
                raise ValueError(f"the column {self._table.vector} of {self!r} holds {found[0][0]} values; give vector="
                                 " a column of float32 BLOBs, as sqlite_vec.serialize_float32 makes them")  # fmt: skip
            self.dimensions = good[0] if good else 0
        return self.dimensions

    def _column(self, name: str) -> str:
        """The quoted name of a column that is there; SQLite takes others in quotes for texts."""
        columns = self._table.columns
        if name.lower() not in columns:
            raise ValueError(f"where names the column {name!r}; {self!r} has {', '.join(columns.values())}")
        return quoted(columns[name.lower()])

    def _passing(self, where: Any) -> tuple[str, list[Any]]:
        """The condition that a row is an item and passes the filter, and its values."""
        condition, values = sql_where(where, "?", self._column)
        there = f"{self._table.key} IS NOT NULL"
        return (f"{there} AND {condition}" if condition else there), values

    def _search(self, rows: Vectors, k: int, where: Any, vectors: bool) -> list[Hits]:
        dimensions = self._measure()
        if not dimensions:
            return [Hits([], self._nothing(), np.empty(0)) for _ in rows]
        matched = self._table.metric == self.metric and k <= MOST
        text, values = self._matching(k, where) if matched else self._comparing(k, where)
        found = [self._listed(self._rows(text, row.tobytes(), *values)) for row in rows]
        return with_vectors(found, self._fetch, dimensions) if vectors else found

    def _matching(self, k: int, where: Any) -> tuple[str, list[Any]]:
        """The search of a vec0 table, and its values behind the query.

        NaN is not above -1: it would come first, and hide what is near. Conditions that vec0 does not know, such as OR,
        it applies to what was found; a list of ids is applied before.
        """
        _, vector, key, *_ = self._table
        text = f"SELECT {key}, distance FROM {self._table.name} WHERE {vector} MATCH ? AND k = ? AND distance > -1"
        if where is None:
            return text, [k]
        condition, values = self._passing(where)
        names = [name for (name,) in self._rows(f"SELECT {key} FROM {self._table.name} WHERE {condition}", *values)]
        return f"{text} AND {key} IN (SELECT value FROM json_each(?))", [k, json.dumps(names)]

    def _comparing(self, k: int, where: Any) -> tuple[str, list[Any]]:
        """The search that compares row by row; values that are no vectors of the right length come last, as NULL."""
        name, vector, key, *_ = self._table
        good = f"typeof({vector}) = 'blob' AND length({vector}) = {4 * self.dimensions}"
        gap = f"CASE WHEN {good} THEN {GAPS[self.metric]}({vector}, ?) END"
        condition, values = self._passing(where)
        text = f"SELECT {key}, {gap} AS gap FROM {name} WHERE {condition} ORDER BY gap NULLS LAST LIMIT ?"
        return text, [*values, k]

    def _listed(self, answer: list[Any]) -> Hits:
        found = [(name, gap) for name, gap in answer if gap is not None and gap < np.inf]
        gaps = np.maximum([gap for _, gap in found], 0.0)
        return Hits([name for name, _ in found], None, np.sqrt(2.0 * gaps) if self.metric == "cosine" else gaps)

    def _fetch(self, keys: list[Any]) -> Hits:
        name, vector, key, *_ = self._table
        text = f"SELECT {key}, {vector} FROM {name} WHERE {key} IN (SELECT value FROM json_each(?))"
        return self._held(self._rows(text, json.dumps(keys)))

    def _held(self, answer: list[Any]) -> Hits:
        """The items with their vectors; NaN where there is no BLOB of the right length."""
        dimensions = self._measure() or 1
        nothing = np.full(dimensions, np.nan, np.float32).tobytes()
        held = [blob if isinstance(blob, bytes) and len(blob) == len(nothing) else nothing for _, blob in answer]
        return Hits([name for name, _ in answer], np.frombuffer(b"".join(held), np.float32).reshape(-1, dimensions))

    def _scan(self, where: Any, vectors: bool) -> Iterator[Hits]:
        condition, values = self._passing(where)
        wanted = f"{self._table.key}, {self._table.vector if vectors else 'NULL'}"
        with self._lock:
            answer = cursor_of(self._connection).execute(
                f"SELECT {wanted} FROM {self._table.name} WHERE {condition}", values
            )
        try:
            while part := self._part(answer):
                yield self._held(part) if vectors else Hits([name for name, _ in part])
        finally:
            with self._lock:
                answer.close()

    def _part(self, answer: Any) -> list[Any]:
        with self._lock:
            return list(islice(answer, SCANNED))

    def _count(self) -> int:
        return int(self._rows(f"SELECT count(*) FROM {self._table.name}")[0][0])

    def _kind(self, error: Exception) -> str | None:
        if not isinstance(error, errors()):
            return None
        said = f"{type(error).__name__} {error}".lower()
        return LOST if "closed" in said else SLOW if "busy" in said or "locked" in said else REFUSED
