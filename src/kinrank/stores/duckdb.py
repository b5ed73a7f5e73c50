"""DuckDBStore: a Store over a DuckDB table with a column of arrays or lists."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from kinrank.errors import InputError
from kinrank.lazy_import import import_extra
from kinrank.stores.client_utils import build_where_sql
from kinrank.stores.engine import SCAN_ROWS, Hits, TableStore, parse_integer_keys, quote_name
from kinrank.stores.url import parse_timeout
from kinrank.vector_input import Vectors

DISTANCE_FUNCTIONS = {"cosine": "array_cosine_distance", "euclidean": "array_distance"}
# Largest k for which DuckDB keeps a heap; for larger ones a subquery makes it sort all rows
MAX_LITERAL_LIMIT = 1_000_000
REQUIREMENT = "DuckDBStore", "duckdb"
INTEGER_TYPES = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT")
SQUARED_LENGTH_RANGE = "1e-90 AND 1e76"  # of comparable vectors; float32 cannot exceed it
COLUMNS_QUERY = """
SELECT column_name, data_type, database_name, schema_name, table_name FROM duckdb_columns()
WHERE lower(?) IN (lower(table_name), lower(concat_ws('.', schema_name, table_name)),
                   lower(concat_ws('.', database_name, schema_name, table_name)))
ORDER BY database_name = current_database() DESC, schema_name = current_schema() DESC, 3, 4, 5, column_index
"""


class DuckDBStore(TableStore):
    """A Store over a DuckDB table or view. Searches compare every row, so they are exact; an HNSW index is not used.

    Filters (`where`): a mapping of columns to values, or a pair of a condition with ? for each value and the values,
    such as ("price < ?", [10]).

    Args:
        connection: a duckdb connection, which stays open; or the path of a database, which is opened read-only.
        table: "table" or "schema.table".
        vector: name of a column of the type FLOAT[n], FLOAT[], DOUBLE[n] or DOUBLE[].
        key: name of a column of integers, texts or UUIDs; they should be unique.
        metric: "cosine" or "euclidean".
        timeout: seconds for one request.
    """

    url_examples = ("duckdb:///folder/file.db?table=items&vector=embedding&key=id",)
    exact = True
    _url_options = ("table", "vector", "key", "metric", "timeout")

    def __init__(
        self,
        connection: Any,
        table: str,
        vector: str = "embedding",
        key: str = "id",
        *,
        metric: str = "cosine",
        timeout: float | None = None,
    ) -> None:
        self._duckdb, self._arrow = import_extra("duckdb", *REQUIREMENT), import_extra("pyarrow", *REQUIREMENT)
        if metric not in DISTANCE_FUNCTIONS:
            raise InputError(parameter="metric", given=metric, allowed="cosine or euclidean")
        self.metric, self.timeout = metric, parse_timeout(timeout)
        super().__init__(connection, table, (self._duckdb.DuckDBPyConnection,), "a duckdb connection")
        try:
            self._table = self._call(self._read_table, vector, key)
        except BaseException:
            self._close()
            raise

    def _connect(self) -> Any:
        try:
            return self._duckdb.connect(self._path, read_only=True)
        except self._duckdb.ConnectionException:  # this process has opened it for writing, and cannot mix both modes
            return self._duckdb.connect(self._path)

    @contextmanager
    def _cursor(self, limited: bool = True, **tables: Any) -> Iterator[Any]:
        """Open a read-only transaction over the current state of the database, with these Arrow tables."""
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

    def _read_table(self, vector: str, key: str) -> Table:
        with self._cursor() as cursor:
            rows = cursor.sql(COLUMNS_QUERY, params=[self._table_name]).fetchall()
            table = Table.from_columns(rows, self, self._table_name, vector, key)
            self._detect_dimensions(cursor, table)
            return table

    def _detect_dimensions(self, cursor: Any, table: Table) -> int:
        """Return the number of dimensions, from the lengths of lists if necessary; 0 if there are no items yet."""
        self.dimensions = self.dimensions or table.size or int(cursor.sql(table.size_query()).fetchall()[0][0] or 0)
        return self.dimensions

    def _search(self, rows: Vectors, k: int, where: Any, vectors: bool) -> list[Hits]:
        lists = self._arrow.FixedSizeListArray.from_arrays(self._arrow.array(rows.ravel()), rows.shape[1])
        queries = self._arrow.table({"place": np.arange(len(rows)), "query": lists})
        with self._cursor(kinrank_queries=queries) as cursor:
            dimensions = self._detect_dimensions(cursor, self._table)
            if not dimensions:
                return self._no_hits(rows)
            items, values = self._table.items(dimensions, where, True, self.metric == "cosine" and not vectors)
            gap = f"{DISTANCE_FUNCTIONS[self.metric]}(kinrank_row, CAST(query AS {self._table.number}[{dimensions}]))"
            pairs = f"SELECT place, kinrank_key, {gap} AS gap FROM kinrank_queries, ({items})"
            most = f"{k:d}" if k < MAX_LITERAL_LIMIT else f"(SELECT {k:d})"
            near = f"row_number() OVER (PARTITION BY place ORDER BY gap) <= {most}"
            text = f"SELECT place, kinrank_key, gap FROM ({pairs}) QUALIFY {near} ORDER BY place, gap"
            answer = cursor.sql(text, params=values).to_arrow_table()
            gaps = np.maximum(answer["gap"].to_numpy(), 0.0, dtype=np.float64)
            gaps = np.sqrt(2.0 * gaps) if self.metric == "cosine" else gaps
            found = self._split_by_query(answer["kinrank_key"].combine_chunks(), gaps, answer["place"], len(rows))
            return self._attach_vectors(found, lambda keys: self._fetch_with(cursor, keys)) if vectors else found

    def _fetch(self, keys: list[Any]) -> Hits:
        with self._cursor() as cursor:
            known = self._detect_dimensions(cursor, self._table) > 0
            return self._fetch_with(cursor, keys) if known else Hits([], self._no_rows())

    def _fetch_with(self, cursor: Any, keys: list[Any]) -> Hits:
        names = list(map(str, parse_integer_keys(keys) if self._table.type in INTEGER_TYPES else keys))
        cursor.register("kinrank_wanted", self._arrow.table({"name": self._arrow.array(names, self._arrow.string())}))
        wanted = f"SELECT TRY_CAST(name AS {self._table.type}) FROM kinrank_wanted"
        text = f"{self._table.items(self.dimensions)[0]} AND {self._table.key} IN ({wanted})"
        answer = cursor.sql(text).to_arrow_table()
        return self._hits_from_arrow(answer["kinrank_key"].combine_chunks(), answer["kinrank_row"])

    def _scan(self, where: Any, vectors: bool) -> Iterator[Hits]:
        with self._cursor(limited=False) as cursor:
            if not self._detect_dimensions(cursor, self._table):
                return
            items, values = self._table.items(self.dimensions, where)
            wanted = items if vectors else f"SELECT kinrank_key FROM ({items})"
            for batch in cursor.sql(wanted, params=values).to_arrow_reader(SCAN_ROWS):
                yield self._hits_from_arrow(batch["kinrank_key"], batch["kinrank_row"] if vectors else None)

    def _count(self) -> int:
        with self._cursor() as cursor:
            items, _ = self._table.items(self._detect_dimensions(cursor, self._table) or 1)
            return int(cursor.sql(f"SELECT count(*) FROM ({items})").fetchall()[0][0])

    def _classify(self, error: Exception) -> type[Exception] | None:
        if isinstance(error, self._duckdb.InterruptException):
            return TimeoutError
        if isinstance(error, (self._duckdb.ConnectionException, self._duckdb.FatalException)):
            return ConnectionError
        return InputError if isinstance(error, self._duckdb.Error) else None


class Table(NamedTuple):
    """A table with its vector and key columns. Names are quoted.

    Attributes:
        number: type of the numbers in a vector, FLOAT or DOUBLE.
        size: length of the vectors; 0 if the column has lists of any length.
        type: type of the ids.
    """

    name: str
    vector: str
    key: str
    number: str
    size: int
    type: str

    @classmethod
    def from_columns(cls, rows: list[Any], store: Any, table: str, vector: str, key: str) -> Table:
        """Parse the answer to COLUMNS_QUERY. Raise InputError for columns that cannot be searched."""
        if not rows:
            raise InputError(f"the database has no table {table!r} (temporary tables of a connection are not visible)")
        rows_of_table = [row for row in rows if row[2:] == rows[0][2:]]
        store.check_columns([row[0] for row in rows_of_table], vector, key, str.lower)
        types = {row[0].lower(): row[1] for row in rows_of_table}
        held, ids = types[vector.lower()], types[key.lower()]
        shape = re.fullmatch(r"(FLOAT|DOUBLE)\[(\d*)\]", held)
        if shape is None:
            allowed = "the type FLOAT[n], FLOAT[], DOUBLE[n] or DOUBLE[]"
            raise store.column_error("vector", vector, held, allowed)
        if ids not in (*INTEGER_TYPES, "VARCHAR", "UUID"):
            raise store.column_error("key", key, ids, "integers, texts or UUIDs")
        name = ".".join(map(quote_name, rows[0][2:]))
        return cls(name, quote_name(vector), quote_name(key), shape[1], int(shape[2] or 0), ids)

    def size_query(self) -> str:
        """Return a SELECT of the most frequent length of lists; NULL if there are none."""
        sample = f"SELECT len({self.vector}) AS size FROM {self.name} WHERE len({self.vector}) > 0 LIMIT 100"
        return f"SELECT mode(size) FROM ({sample})"

    def items(
        self, dimensions: int, where: Any = None, compared: bool = False, nonzero: bool = False
    ) -> tuple[str, list[Any]]:
        """Return a SELECT of ids (kinrank_key) and vectors (kinrank_row), and its values.

        Args:
            compared: omit rows that contain NULL, for which array functions would fail.
            nonzero: also omit zero vectors and vectors that are not finite. CASE evaluates complete rows only.
        """
        row = self.vector if self.size else f"CAST({self.vector} AS {self.number}[{dimensions}])"
        is_valid = f"{self.vector} IS NOT NULL" if self.size else f"len({self.vector}) = {dimensions}"
        if compared:
            is_valid = f"{is_valid} AND list_count({self.vector}) = {dimensions}"
        if nonzero:
            in_range = f"array_inner_product({row}, {row}) BETWEEN {SQUARED_LENGTH_RANGE}"
            is_valid = f"CASE WHEN {is_valid} THEN {in_range} ELSE false END"
        condition, values = ("", []) if where is None else build_where_sql(where, "?", quote_name)
        name = f"CAST({self.key} AS VARCHAR)" if self.type == "UUID" else self.key
        wanted = " AND ".join([is_valid, f"{self.key} IS NOT NULL", *([condition] if condition else [])])
        return f"SELECT {name} AS kinrank_key, {row} AS kinrank_row FROM {self.name} WHERE {wanted}", values
