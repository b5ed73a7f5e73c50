"""PgvectorStore: a Store over a PostgreSQL table with a pgvector column."""

from __future__ import annotations

import inspect
import math
import re
import struct
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from typing import Any
from urllib.parse import unquote
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import InputError
from kinrank.lazy_import import import_extra
from kinrank.stores.client_utils import build_where_sql, check_pair
from kinrank.stores.engine import SCAN_ROWS, EngineStore, Hits
from kinrank.stores.url import StoreUrl, parse_timeout
from kinrank.vector_input import Vectors

STORE_NAME, EXTRA = "PgvectorStore", "pgvector"
NO_TIMEOUT_SECONDS = 1e6
MAX_CONNECTIONS = 4  # in the pool that a store opens
OPERATORS = {"cosine": "<=>", "l2": "<->", "ip": "<#>"}
METRICS = {"cosine": "cosine", "euclidean": "l2"}
URL_OPTIONS = ("table", "vector", "key", "metric", "timeout")  # our options of a URL; all others belong to libpq
SETTING_NAME = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?")
EF_SEARCH_RANGE = 100, 1000  # hnsw.ef_search: our minimum, and the maximum of pgvector
MIN_PROBES = 10  # ivfflat.probes
LENGTH_TOLERANCE = 0.01  # allowed deviation from length one of vectors that are compared by inner product
RETRYABLE_SQLSTATES = ("08", "40", "53300", "57")  # prefixes
SCAN_NUMBERS = count()
KEY_TYPES = {"int2": "int8", "int4": "int8", "int8": "int8", "text": "text", "varchar": "text", "uuid": "uuid"}
VECTOR_DTYPES = {"vector": ">f4", "halfvec": ">f2"}  # in the binary format
TABLE_QUERY = """
SELECT c.oid, n.nspname, c.relname, c.relkind IN ('r', 'm') AND NOT c.relhassubclass,
       (SELECT extversion FROM pg_catalog.pg_extension WHERE extname = 'vector')
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = pg_catalog.to_regclass(%s) AND c.relkind IN ('r', 'm', 'v', 'p', 'f')"""
COLUMNS_QUERY = """
SELECT a.attname, a.attnum, t.typname, t.oid, a.atttypmod, n.nspname, pg_catalog.format_type(t.oid, a.atttypmod)
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
     JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
WHERE a.attrelid = %s AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""
INDEXES_QUERY = """
SELECT o.opcname, i.reloptions
FROM pg_catalog.pg_index x JOIN pg_catalog.pg_class i ON i.oid = x.indexrelid JOIN pg_catalog.pg_am m ON m.oid = i.relam
     JOIN pg_catalog.pg_opclass o ON o.oid = x.indclass[0]
WHERE x.indrelid = %s AND x.indkey[0] = %s AND x.indisvalid AND m.amname IN ('hnsw', 'ivfflat') ORDER BY i.relname"""


class PgvectorStore(EngineStore):
    """A Store over a PostgreSQL table with a column of pgvector's type vector or halfvec. Needs psycopg 3.

    All queries run in read-only transactions. Filters (`where`) are a mapping of columns to values, a pair of a
    condition with placeholders and its values such as ("price < %s", [10]), or a `psycopg.sql` object.

    Args:
        connection_or_dsn: a DSN or URL of libpq, for which the store opens and closes a pool of up to four connections;
            or a psycopg.Connection or psycopg_pool.ConnectionPool, which stays open.
        table: "name" or "schema.name", case-sensitive.
        vector: name of the vector column. Rows in which it is NULL are ignored.
        key: name of the id column: integer, text, varchar or uuid, unique. Rows in which it is NULL are ignored.
        metric: "cosine" or "euclidean"; by default the metric of the column's index, or cosine without an index.
        settings: PostgreSQL settings for the queries of this store, such as {"hnsw.ef_search": 400}.
        timeout: seconds to wait for one query, and for a connection; None for no limit.

    Example:
        >>> with PgvectorStore("postgresql://me@localhost/shop", "items") as store:
        ...     ranking = kinrank.rerank(queries, store, candidates=500, where={"kind": "cat"})
    """

    url_examples = ("postgresql://user@host:5432/db?table=items&vector=embedding&key=id",)

    def __init__(
        self,
        connection_or_dsn: Any,
        table: str,
        vector: str = "embedding",
        key: str = "id",
        *,
        metric: str | None = None,
        settings: Mapping[str, Any] | None = None,
        timeout: float | None = 30.0,
    ) -> None:
        self._psycopg = import_extra("psycopg", STORE_NAME, EXTRA)
        self._table_name = table
        if metric is not None and metric not in METRICS:
            raise InputError(parameter="metric", given=metric, allowed="'cosine', 'euclidean' or None")
        self.timeout = parse_timeout(timeout)
        self._settings = _check_settings(settings or {})
        self._connections = Connections(connection_or_dsn, self.timeout)
        try:
            self._column: VectorColumn = self._call(self._read_column, table, vector, key)
            self._distance = self._choose_distance(metric)
        except BaseException:
            self.close()
            raise
        self.metric = "euclidean" if self._distance == "l2" else "cosine"
        self.exact = self._column.alone and self._distance not in self._column.indexes

    @classmethod
    def from_url(cls, url: StoreUrl) -> PgvectorStore:
        """Open postgresql://user@host/db?table=items. Options of libpq, such as sslmode, are accepted."""
        table, options = url.require_table(), url.options
        return cls(
            build_dsn(url, URL_OPTIONS),
            table,
            options.get("vector", "embedding"),
            options.get("key", "id"),
            metric=options.get("metric"),
            timeout=parse_timeout(options.get("timeout", 30.0)),
        )

    def __repr__(self) -> str:
        return f"PgvectorStore({self._table_name})"

    def _search(self, rows: Vectors, k: int, where: Any, vectors: bool) -> list[Hits]:
        column = self._column
        near = f"{column.vector} OPERATOR({column.schema}.{OPERATORS[self._distance]}) %b"
        text, values = self._select(f"{near}, {column.vector}" if vectors else near, where)
        with self._transaction(k) as connection:
            cursors = [column.adapt(open_cursor(connection)) for _ in rows]
            for cursor, row in zip(cursors, rows, strict=True):
                given = [column.pack(row), *values]
                cursor.execute(f"{text} ORDER BY 2 LIMIT {k}", given, prepare=False, binary=True)
            found = [cursor.fetchall() for cursor in cursors]
        return [self._hits(rows_of_query, vectors) for rows_of_query in found]

    def _fetch(self, keys: list[Any]) -> Hits:
        column = self._column
        text, _ = self._select(column.vector, None)
        with self._transaction() as connection:
            cursor, given = column.adapt(open_cursor(connection)), [column.convert_keys(keys)]
            cursor.execute(f"{text} AND {column.key} = ANY(%s::{column.keys}[])", given, prepare=False, binary=True)
            found = cursor.fetchall()
        return Hits([key for key, _ in found], column.unpack([value for _, value in found], self.dimensions))

    def _scan(self, where: Any, vectors: bool) -> Iterator[Hits]:
        column = self._column
        text, values = self._select(column.vector if vectors else "NULL", where)
        with (
            self._transaction(pipeline=False) as connection,
            open_cursor(connection, f"kinrank_{next(SCAN_NUMBERS)}") as cursor,
        ):
            column.adapt(cursor).execute(text, values, binary=True)
            while found := cursor.fetchmany(SCAN_ROWS):
                rows = column.unpack([value for _, value in found], self.dimensions) if vectors else None
                yield Hits([key for key, _ in found], rows)

    def _count(self) -> int:
        text, values = self._select("NULL", None)
        with self._transaction() as connection:
            cursor = open_cursor(connection).execute(f"SELECT count(*) FROM ({text}) AS items", values, prepare=False)
            return int(cursor.fetchone()[0])

    def _classify(self, error: Exception) -> type[Exception] | None:
        errors = self._psycopg
        if isinstance(error, errors.errors.QueryCanceled):
            return TimeoutError
        if isinstance(error, (errors.OperationalError, errors.InterfaceError)):
            lost = not error.sqlstate or error.sqlstate.startswith(RETRYABLE_SQLSTATES)
            return ConnectionError if lost else InputError
        return InputError if isinstance(error, errors.Error) else None

    def _reopen(self) -> None:
        self._connections.discard_lost()

    def _close(self) -> None:
        self._connections.close()

    def _read_column(self, table: str, vector: str, key: str) -> VectorColumn:
        with self._transaction(pipeline=False) as connection:
            self._column = describe_column(self, open_cursor(connection), table, vector, key)
            cursor, self.dimensions = self._column.adapt(open_cursor(connection)), self._column.dimensions
            text, values = self._select(self._column.vector, None)  # also checks the permission to read
            sample = cursor.execute(f"{text} LIMIT {0 if self.dimensions else 1}", values, binary=True).fetchall()
            if sample:
                self.dimensions = self._column.unpack([sample[0][1]], 0).shape[1]
        return self._column

    def _choose_distance(self, metric: str | None) -> str:
        """Return the distance of searches: "cosine", "l2" or "ip"."""
        indexes = self._column.indexes
        if metric is None:
            known = [name for name in OPERATORS if name in indexes]
            if indexes and not known:
                raise InputError(
                    f"the index of {self!r} compares by {indexes[0]}, which kinrank does not support",
                    remedy="give `metric='cosine'` or `metric='euclidean'` to search without the index",
                )
            return known[0] if known else "cosine"
        if indexes and METRICS[metric] not in indexes:
            warnings.warn(
                f"the index of {self!r} compares by {indexes[0]}; searches by {metric} do not use it and scan all rows",
                stacklevel=3,
            )
        return METRICS[metric]

    def _select(self, what: str, where: Any) -> tuple[str, list[Any]]:
        """Return a query for the key and `what` of all items that pass the filter, and the values to bind."""
        vector, key = self._column.vector, self._column.key
        text = f"SELECT {key}, {what} FROM {self._column.table} WHERE {vector} IS NOT NULL AND {key} IS NOT NULL"
        values: list[Any] = []
        if isinstance(where, self._psycopg.sql.Composable):
            text += f" AND ({where.as_string(None).replace('%', '%%')}\n)"
        elif where is not None:
            condition, values = (
                build_where_sql(where, "%s", quote_name) if isinstance(where, Mapping) else check_pair(where, "%s")
            )
            plain = condition.replace("%%", "")
            placeholders = len(re.findall("%[sbt]", plain))
            if placeholders != len(values) or plain.count("%") != placeholders:
                raise InputError(
                    f"has {placeholders} placeholders and {len(values)} values in {condition!r:.60}",
                    parameter="where",
                    remedy="write %s for each value, and %% for a percent sign",
                )
            text += f" AND ({condition}\n)"
        return text, values

    def _hits(self, found: list[tuple[Any, ...]], vectors: bool) -> Hits:
        """Convert rows of keys, distances and, if `vectors`, vectors. Drop zero vectors, whose cosine is NaN."""
        keys, raw = [row[0] for row in found], np.array([row[1] for row in found], np.float64)
        rows = self._column.unpack([row[2] for row in found], self.dimensions) if vectors else None
        if self._distance == "ip":
            lengths = np.linalg.norm(rows, axis=1) if rows is not None else np.maximum(1.0, -raw)
            if (np.abs(lengths[lengths > 0] - 1) > LENGTH_TOLERANCE).any():
                raise InputError(
                    f"{self!r} compares by inner product, but not all vectors have length one",
                    remedy="store unit vectors, or give `metric='cosine'` to search without the index",
                )
        added = {"cosine": 0.0, "ip": 2.0}.get(self._distance)
        distances = raw if added is None else np.sqrt(np.maximum(2 * raw + added, 0))
        order = np.argsort(distances, kind="stable")[: int((~np.isnan(distances)).sum())]
        if len(order) == len(keys) and (order[1:] > order[:-1]).all():
            return Hits(keys, rows, distances)
        return Hits([keys[place] for place in order], None if rows is None else rows[order], distances[order])

    def _transaction(self, k: int = 0, pipeline: bool = True) -> AbstractContextManager[Any]:
        """Return a read-only connection with settings for finding k items."""
        if not k:
            return self._connections.transaction(self._settings, pipeline)
        probes = max(MIN_PROBES, 2 * math.isqrt(self._column.lists))
        settings = {"hnsw.ef_search": str(int(np.clip(k, *EF_SEARCH_RANGE))), "ivfflat.probes": str(probes)}
        if self._column.version >= (0, 8):  # continue if a filter leaves too few results; the store sorts them
            settings |= {"hnsw.iterative_scan": "relaxed_order", "ivfflat.iterative_scan": "relaxed_order"}
        return self._connections.transaction(settings | self._settings, pipeline)


def _check_settings(settings: Mapping[str, Any]) -> dict[str, str]:
    wrong = [name for name in settings if not (isinstance(name, str) and SETTING_NAME.fullmatch(name))]
    if wrong:
        raise InputError(
            f"contains {wrong[0]!r}, which is not a setting of PostgreSQL",
            parameter="settings",
            allowed="names such as 'hnsw.ef_search'",
        )
    return {name: str(value) for name, value in settings.items()}


class PackedVector(bytes):
    """A vector in the binary format of pgvector."""


@dataclass(frozen=True)
class VectorColumn:
    """A vector column and its key column, with names quoted for queries with placeholders.

    Attributes:
        table, vector, key: quoted names.
        alone: True for a table; False for a view or partitioned table, whose indexes are elsewhere.
        version: version of pgvector.
        schema: schema of pgvector.
        keys: type in which keys are compared.
        oid, numbers: type of the vectors, and dtype of their numbers.
        dimensions: length of the vectors; 0 if the column allows any.
        indexes: distance of each approximate index: "cosine", "l2", "ip" or another.
        lists: number of lists of the largest ivfflat index.
    """

    table: str
    vector: str
    key: str
    alone: bool
    version: tuple[int, ...]
    schema: str
    keys: str
    oid: int
    numbers: str
    dimensions: int
    indexes: list[str]
    lists: int

    def adapt(self, cursor: Any) -> Any:
        """Make a cursor send packed vectors and return vectors as bytes. Return the cursor."""
        dumper, loader = _make_adapters(self.oid)
        cursor.adapters.register_dumper(PackedVector, dumper)
        cursor.adapters.register_loader(self.oid, loader)
        return cursor

    def pack(self, row: NDArray[Any]) -> PackedVector:
        """Pack a vector: two 16-bit integers, the dimensions and 0, then the numbers, big-endian."""
        with np.errstate(over="ignore"):  # PostgreSQL reports numbers that do not fit
            return PackedVector(struct.pack(">HH", len(row), 0) + row.astype(self.numbers).tobytes())

    def unpack(self, values: list[bytes], dimensions: int) -> Vectors:
        """Unpack vectors into (len(values), d) rows."""
        sizes = set(map(len, values))
        if len(sizes) > 1:
            raise InputError(
                f"the column {self.vector} of {self.table} has vectors of different dimensions",
                remedy="give a filter, or a view, that selects vectors of one length",
            )
        size = (sizes.pop() - 4) // np.dtype(self.numbers).itemsize if sizes else max(1, dimensions)
        sent = np.frombuffer(b"".join(values), np.dtype([("head", ">u2", 2), ("row", self.numbers, size)]))
        return sent["row"].astype(np.float32)

    def convert_keys(self, keys: list[Any]) -> list[Any]:
        """Convert keys to the type of the column; omit those that it cannot hold."""
        return [key for key in map(self._convert_key, keys) if key is not None]

    def _convert_key(self, key: Any) -> Any:
        try:
            if self.keys == "int8":
                return int(key) if -(2**63) <= int(key) < 2**63 else None
            return UUID(str(key)) if self.keys == "uuid" else None if "\0" in str(key) else str(key)
        except ValueError:
            return None


@lru_cache
def _make_adapters(oid: int) -> tuple[Any, Any]:
    psycopg = import_extra("psycopg", STORE_NAME, EXTRA)
    sent = {"oid": oid, "format": psycopg.pq.Format.BINARY, "dump": lambda _, packed: bytes(packed)}
    return type("PackedDumper", (psycopg.adapt.Dumper,), sent), psycopg.types.string.ByteaBinaryLoader


def quote_name(*names: str) -> str:
    """Quote a name for SQL with placeholders."""
    if any("\0" in name for name in names):
        raise InputError(f"{'.'.join(names)!r} is not a valid name of a table or column")
    text: str = import_extra("psycopg", STORE_NAME, EXTRA).sql.Identifier(*names).as_string(None)
    return text.replace("%", "%%")


def describe_column(store: PgvectorStore, cursor: Any, table: str, vector: str, key: str) -> VectorColumn:
    """Read the catalog. Raise InputError if the table or a column does not exist or cannot be used."""
    names = table.split(".") if isinstance(table, str) else []
    if len(names) not in (1, 2) or not all(names):
        raise InputError(
            "is not the name of a table", parameter="table", given=table, allowed="'table' or 'schema.table'"
        )
    found = cursor.execute(TABLE_QUERY, [quote_name(*names).replace("%%", "%")]).fetchone()
    if found is None:
        raise InputError(f"there is no table {table!r}", allowed="'table' or 'schema.table', which are case-sensitive")
    oid, schema, name, alone, version = found
    columns = {row[0]: row[1:] for row in cursor.execute(COLUMNS_QUERY, [oid]).fetchall()}
    store.check_columns(columns, vector, key)
    place, kind, number, dimensions, home, called = columns[vector]
    if kind not in VECTOR_DTYPES:
        raise store.column_error("vector", vector, called, "the type vector or halfvec")
    if columns[key][1] not in KEY_TYPES:
        raise store.column_error("key", key, columns[key][-1], "an integer type, text, varchar or uuid")
    indexes = cursor.execute(INDEXES_QUERY, [oid, place]).fetchall()
    lists = [int(option[6:]) for _, options in indexes for option in options or () if option.startswith("lists=")]
    return VectorColumn(
        quote_name(schema, name),
        quote_name(vector),
        quote_name(key),
        alone,
        tuple(int(part) for part in re.findall(r"\d+", version or "0")[:2]),
        quote_name(home),
        KEY_TYPES[columns[key][1]],
        number,
        VECTOR_DTYPES[kind],
        max(0, dimensions),
        [operators.split("_")[1] for operators, _ in indexes],
        max(lists, default=0),
    )


class Connections:
    """Connections for one store: from its own pool, from a pool of the user, or a single connection of the user.

    Args:
        given: a DSN, a psycopg.Connection or a psycopg_pool.ConnectionPool.
        timeout: seconds to wait for a connection.
    """

    def __init__(self, given: Any, timeout: float | None) -> None:
        self._psycopg = psycopg = import_extra("psycopg", STORE_NAME, EXTRA)
        self._timeout = timeout
        self._lock = threading.RLock()
        self._pool: Any = None
        self._connection: Any = None
        self._dsn: str | None = None
        if isinstance(given, str):
            self._dsn, self._options = given, self._default_options(given)
        elif isinstance(given, psycopg.Connection):
            self._connection = given
        elif hasattr(given, "getconn") and not inspect.iscoroutinefunction(given.getconn):
            self._pool = given
        else:
            raise InputError(
                f"{STORE_NAME} got a {type(given).__name__}",
                allowed="a DSN such as 'postgresql://user@host/db', a psycopg.Connection or a "
                "psycopg_pool.ConnectionPool",
            )

    @contextmanager
    def borrow(self) -> Iterator[Any]:
        """Yield a connection for exclusive use."""
        if self._connection is not None:
            with self._lock:
                yield self._connection
            return
        pool = self._pool if self._dsn is None else self._get_pool()
        try:
            connection = pool.getconn(self._timeout)
        except self._psycopg.OperationalError as error:
            if self._dsn is None or not isinstance(error, import_extra("psycopg_pool", STORE_NAME, EXTRA).PoolTimeout):
                raise
            self._try_connect()
            raise TimeoutError(
                f"all {MAX_CONNECTIONS} connections of a {STORE_NAME} were in use for {pool.timeout:g} s; give a "
                "larger timeout=, or a psycopg_pool.ConnectionPool with more connections instead of the DSN"
            ) from error
        try:
            yield connection
        finally:
            pool.putconn(connection)

    @contextmanager
    def transaction(self, settings: Mapping[str, str], pipeline: bool) -> Iterator[Any]:
        """Yield a connection in a read-only transaction. The settings apply to this transaction only.

        With `pipeline`, queries are sent without waiting for the answers to earlier ones.
        """
        limit = {} if self._timeout is None else {"statement_timeout": str(math.ceil(1000 * self._timeout))}
        wanted = {**limit, **settings, "transaction_read_only": "on"}
        text = "SELECT " + ", ".join(["pg_catalog.set_config(%s, %s, true)"] * len(wanted))
        with self.borrow() as connection:
            together = connection.pipeline() if pipeline and self._psycopg.Pipeline.is_supported() else nullcontext()
            with together as batch, connection.transaction(force_rollback=True):
                open_cursor(connection).execute(text, [part for pair in wanted.items() for part in pair], prepare=False)
                try:
                    yield connection
                except self._psycopg.Error:
                    if batch is not None:  # discard the remaining queries of the pipeline
                        with suppress(self._psycopg.Error):
                            batch.sync()
                    raise

    def discard_lost(self) -> None:
        """Discard lost connections, so that the next connection that is handed out works."""
        if self._connection is not None:
            if self._connection.closed:
                raise ConnectionError(
                    f"the connection that was passed to {STORE_NAME} is lost; pass a new one, or a DSN or "
                    "ConnectionPool, which can reconnect"
                )
            return
        try:
            self._try_connect()
        except self._psycopg.OperationalError:
            self.close()  # the next query connects again and reports the reason at once
            raise
        with self._lock:
            if self._pool is not None:
                self._pool.check()

    def close(self) -> None:
        """Close the pool if this object opened it."""
        with self._lock:
            pool, self._pool = (None, self._pool) if self._dsn is None else (self._pool, None)
        if pool is not None:
            pool.close()

    def _get_pool(self) -> Any:
        with self._lock:
            if self._pool is None:
                self._try_connect()
                self._pool = import_extra("psycopg_pool", STORE_NAME, EXTRA).ConnectionPool(
                    self._dsn,
                    min_size=0,
                    max_size=MAX_CONNECTIONS,
                    open=True,
                    kwargs=self._options,
                    timeout=self._timeout or NO_TIMEOUT_SECONDS,
                )
            return self._pool

    def _try_connect(self) -> None:
        """Connect once to get the reason of a failure, which a pool does not report."""
        if self._dsn is not None:
            self._psycopg.connect(self._dsn, **self._options).close()

    def _default_options(self, dsn: str) -> dict[str, Any]:
        """Return connection options that the DSN does not set. Errors never repeat the DSN and its password."""
        try:
            known = self._psycopg.conninfo.conninfo_to_dict(dsn)
        except self._psycopg.Error:
            raise InputError(
                f"the DSN of the {STORE_NAME} cannot be parsed",
                allowed="postgresql://user@host:5432/db or 'host=... dbname=...', with percent codes for characters "
                "such as @ and / in a password (kinrank.open_store takes URLs with ?table=)",
            ) from None
        options: dict[str, Any] = {"fallback_application_name": "kinrank"}
        if self._timeout is not None:
            options |= {
                "connect_timeout": max(2, math.ceil(self._timeout)),
                "tcp_user_timeout": math.ceil(1000 * self._timeout),
            }
        options = {name: value for name, value in options.items() if name not in known}
        return {**options, "autocommit": True, "prepare_threshold": None}


def open_cursor(connection: Any, name: str | None = None) -> Any:
    """Open a cursor that returns tuples, whatever the row factory of the connection; server-side if `name` is set."""
    psycopg = import_extra("psycopg", STORE_NAME, EXTRA)
    rows = psycopg.rows.tuple_row
    if name is not None:
        return psycopg.ServerCursor(connection, name, row_factory=rows)
    return psycopg.Cursor(connection, row_factory=rows)


def build_dsn(url: StoreUrl, own: tuple[str, ...]) -> str:
    """Build the DSN of a URL. Its options belong to libpq, except for `own`."""
    psycopg = import_extra("psycopg", STORE_NAME, EXTRA)
    libpq = {option.keyword.decode() for option in psycopg.pq.Conninfo.get_defaults()}
    unknown = [name for name in url.options if name not in libpq and name not in own]
    if unknown:
        raise InputError(
            f"{url.scheme}: has no option {unknown[0]!r}",
            allowed=f"{', '.join(own)}, or an option of libpq, such as sslmode",
        )
    parts: dict[str, Any] = {
        "host": None if url.host is None else unquote(url.host),
        "port": url.port,
        "user": url.user,
        "password": url.password,
        "dbname": url.path.removeprefix("/") or None,
    }
    parts |= {name: value for name, value in url.options.items() if name not in own}
    dsn: str = psycopg.conninfo.make_conninfo(**parts)
    return dsn
