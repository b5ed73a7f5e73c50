"""DuckDBStore: a table of DuckDB with a column of arrays or lists -> a Store."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from kinrank.deferred import needed
from kinrank.features import Vectors
from kinrank.stores.address import Address, number, seconds
from kinrank.stores.arrow import hits_of, split
from kinrank.stores.duckdb_table import COLUMNS, WHOLE, Table
from kinrank.stores.engine import LOST, REFUSED, SCANNED, SLOW, EngineStore, Hits
from kinrank.stores.fetched import whole_numbers, with_vectors

GAPS = {"cosine": "array_cosine_distance", "euclidean": "array_distance"}
FEW = 1_000_000  # items that DuckDB keeps in view while it reads; it sorts all where more are asked for
NEEDS = "DuckDBStore", "duckdb"


class DuckDBStore(EngineStore):
    """The rows of a DuckDB table or view. Every search compares every row, so it is exact; an HNSW index is not used.

    Filters (`where`): a mapping of columns to values, or a pair of a condition with ? for each value, and the values,
    such as ("price < ?", [10]).

    Args:
        connection: of duckdb, which stays open; or the path of a database, which is opened read-only.
        table: its name, or "schema.table".
        vector: a column of the type FLOAT[n], FLOAT[], DOUBLE[n] or DOUBLE[].
        key: a column of whole numbers, texts or UUIDs; they should be unique.
        metric: "cosine" or "euclidean".
        timeout: seconds for one question.
    """

    exact = True

    def __init__(
        self, connection: Any, table: str, vector: str = "embedding", key: str = "id", *, metric: str = "cosine",
        timeout: float | None = None,
    ) -> None:  # fmt: skip
        self._duckdb, self._arrow = needed("duckdb", *NEEDS), needed("pyarrow", *NEEDS)
        if metric not in GAPS:
            raise ValueError(f"metric={metric!r} is not allowed; give cosine or euclidean")
        self._shown, self.metric = table, metric
        self.timeout = None if timeout is None else number(timeout, "timeout")
        self._own = os.fspath(connection) if isinstance(connection, (str, os.PathLike)) else None
        if self._own is None and not isinstance(connection, self._duckdb.DuckDBPyConnection):
            raise ValueError(f"connection must be one of duckdb, or a path; got a {type(connection).__name__}")
        self._lock = threading.Lock()
        self._connection = connection if self._own is None else self._ask(self._opened)
        try:
            self._table = self._ask(self._look, vector, key)
        except BaseException:
            self._close()
            raise

    @classmethod
    def at(cls, address: Address) -> DuckDBStore:
        """The store at duckdb:///file.db?table=items&vector=embedding&key=id; duckdb:file.db?... is a file from here.

        Options: table, vector, key, metric, timeout.
        """
        options = address.only("table", "vector", "key", "metric", "timeout")
        path, table = address.needed("path", "a file"), address.needed("table", "the option table")
        if address.host is not None:
            raise ValueError("duckdb: needs a file: duckdb:///file.db from the root, duckdb:file.db from here")
        columns: dict[str, Any] = {name: options[name] for name in ("vector", "key", "metric") if name in options}
        return cls(path, table, timeout=seconds(options, None), **columns)

    def __repr__(self) -> str:
        return f"DuckDBStore({self._shown})"

    def _opened(self) -> Any:
        try:
            return self._duckdb.connect(self._own, read_only=True)
        except self._duckdb.ConnectionException:  # open for writing in this process, which can have it in one way only
            return self._duckdb.connect(self._own)

    def _reopen(self) -> None:
        if self._own is not None:
            self._close()
            self._connection = self._opened()

    def _close(self) -> None:
        if self._own is not None:
            self._connection.close()

    @contextmanager
    def _cursor(self, limited: bool = True, **tables: Any) -> Iterator[Any]:
        """A connection that sees the database as it is now and cannot change it, and these Arrow tables."""
        with self._lock:
            cursor = self._connection.cursor()
        timer = threading.Timer(self.timeout, cursor.interrupt) if limited and self.timeout is not None else None
        try:
            for name, content in tables.items():
                cursor.register(name, content)
            cursor.execute("BEGIN TRANSACTION READ ONLY")
            if timer is not None:
                timer.start()
            yield cursor
        finally:
            if timer is not None:
                timer.cancel()
            cursor.close()

    def _look(self, vector: str, key: str) -> Table:
        with self._cursor() as cursor:
            rows = cursor.sql(COLUMNS, params=[self._shown]).fetchall()
            table = Table.of(rows, self, self._shown, vector, key)
            self._measure(cursor, table)
            return table

    def _measure(self, cursor: Any, table: Table) -> int:
        """How many dimensions there are; lists tell it by their length, and 0 where there is none yet."""
        self.dimensions = self.dimensions or table.size or int(cursor.sql(table.sizes()).fetchall()[0][0] or 0)
        return self.dimensions

    def _search(self, rows: Vectors, k: int, where: Any, vectors: bool) -> list[Hits]:
        lists = self._arrow.FixedSizeListArray.from_arrays(self._arrow.array(rows.ravel()), rows.shape[1])
        asked = self._arrow.table({"place": np.arange(len(rows)), "query": lists})
        with self._cursor(kinrank_asked=asked) as cursor:
            dimensions = self._measure(cursor, self._table)
            if not dimensions:
                return [Hits([], self._nothing(), np.empty(0)) for _ in rows]
            items, values = self._table.items(dimensions, where, True, self.metric == "cosine" and not vectors)
            gap = f"{GAPS[self.metric]}(kinrank_row, CAST(query AS {self._table.number}[{dimensions}]))"
            pairs = f"SELECT place, kinrank_key, {gap} AS gap FROM kinrank_asked, ({items})"
            most = f"{k:d}" if k < FEW else f"(SELECT {k:d})"
            near = f"row_number() OVER (PARTITION BY place ORDER BY gap) <= {most}"
            text = f"SELECT place, kinrank_key, gap FROM ({pairs}) QUALIFY {near} ORDER BY place, gap"
            answer = cursor.sql(text, params=values).to_arrow_table()
            gaps = np.maximum(answer["gap"].to_numpy(), 0.0, dtype=np.float64)
            gaps = np.sqrt(2.0 * gaps) if self.metric == "cosine" else gaps
            found = split(answer["kinrank_key"].combine_chunks(), gaps, answer["place"], len(rows))
            return with_vectors(found, lambda keys: self._fetched(cursor, keys), dimensions) if vectors else found

    def _fetch(self, keys: list[Any]) -> Hits:
        with self._cursor() as cursor:
            return self._fetched(cursor, keys) if self._measure(cursor, self._table) else Hits([], self._nothing())

    def _fetched(self, cursor: Any, keys: list[Any]) -> Hits:
        names = list(map(str, whole_numbers(keys) if self._table.type in WHOLE else keys))
        cursor.register("kinrank_wanted", self._arrow.table({"name": self._arrow.array(names, self._arrow.string())}))
        wanted = f"SELECT TRY_CAST(name AS {self._table.type}) FROM kinrank_wanted"
        text = f"{self._table.items(self.dimensions)[0]} AND {self._table.key} IN ({wanted})"
        answer = cursor.sql(text).to_arrow_table()
        return hits_of(answer["kinrank_key"].combine_chunks(), answer["kinrank_row"], self.dimensions)

    def _scan(self, where: Any, vectors: bool) -> Iterator[Hits]:
        with self._cursor(limited=False) as cursor:
            if not self._measure(cursor, self._table):
                return
            items, values = self._table.items(self.dimensions, where)
            wanted = items if vectors else f"SELECT kinrank_key FROM ({items})"
            for batch in cursor.sql(wanted, params=values).to_arrow_reader(SCANNED):
                yield hits_of(batch["kinrank_key"], batch["kinrank_row"] if vectors else None, self.dimensions)

    def _count(self) -> int:
        with self._cursor() as cursor:
            items, _ = self._table.items(self._measure(cursor, self._table) or 1)
            return int(cursor.sql(f"SELECT count(*) FROM ({items})").fetchall()[0][0])

    def _kind(self, error: Exception) -> str | None:
        if isinstance(error, self._duckdb.InterruptException):
            return SLOW
        if isinstance(error, (self._duckdb.ConnectionException, self._duckdb.FatalException)):
            return LOST
        return REFUSED if isinstance(error, self._duckdb.Error) else None
