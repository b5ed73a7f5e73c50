"""PgvectorStore: a table of PostgreSQL with a column of pgvector -> a Store."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from itertools import count
from typing import Any

import numpy as np

from kinrank.deferred import needed
from kinrank.features import Vectors
from kinrank.parameters import whole_number
from kinrank.stores.address import Address, number, seconds
from kinrank.stores.engine import LOST, REFUSED, SCANNED, SLOW, EngineStore, Hits
from kinrank.stores.filters import pair, sql_where
from kinrank.stores.pgvector_column import Column, described, quoted
from kinrank.stores.postgres import EXTRA, STORE, Connections, cursor_of, dsn_of

OPERATORS = {"cosine": "<=>", "l2": "<->", "ip": "<#>"}
METRICS = {"cosine": "cosine", "euclidean": "l2"}
OWN = ("table", "vector", "key", "metric", "timeout")  # options of a URL; all others are those of libpq
SETTING = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?")
EFFORT = 100, 1000  # hnsw.ef_search: the least, and the most that pgvector allows
PROBES = 10  # ivfflat.probes at least
LENGTH = 0.01  # how far the length of a vector may be from one where inner products stand for cosines
AGAIN = ("08", "40", "53300", "57")  # how the SQLSTATE begins where it is worth asking again
SCANS = count()


class PgvectorStore(EngineStore):
    """A table of PostgreSQL, its vectors in a column of pgvector's type vector or halfvec. Needs psycopg 3.

    All questions are asked in transactions that only read. Filters (`where`) are a mapping of columns to values,
    a pair of a condition with placeholders and its values such as ("price < %s", [10]), or a `psycopg.sql` object.

    Args:
        connection_or_dsn: a DSN or URL of libpq, for which a pool of connections is opened and closed here; or a
            psycopg.Connection or psycopg_pool.ConnectionPool, which stays open.
        table: its name, or "schema.name", with capitals as they are.
        vector: the column of vectors. Rows where it is NULL are no items.
        key: the column of ids: whole numbers, text, varchar or uuid, each once. Rows where it is NULL are no items.
        metric: "cosine" or "euclidean"; None for that of the column's index, and cosine where there is none.
        settings: of PostgreSQL, for the questions of this store, such as {"hnsw.ef_search": 400}.
        timeout: seconds that one query may take, and that a connection is waited for; None for no limit.
        connections: how many a pool opened here may have.

    Example:
        >>> with PgvectorStore("postgresql://me@localhost/shop", "items") as store:
        ...     ranking = kinrank.rerank(queries, store, candidates=500, where={"kind": "cat"})
    """

    def __init__(
        self, connection_or_dsn: Any, table: str, vector: str = "embedding", key: str = "id", *,
        metric: str | None = None, settings: Mapping[str, Any] | None = None, timeout: float | None = 30.0,
        connections: int = 4,
    ) -> None:  # fmt: skip
        self._psycopg = needed("psycopg", STORE, EXTRA)
        self._named = table
        if metric is not None and metric not in METRICS:
            raise ValueError(f"metric={metric!r} is not allowed; give 'cosine', 'euclidean' or None")
        self.timeout = None if timeout is None else number(timeout, "timeout")
        self._settings = _checked(settings or {})
        self._connections = Connections(connection_or_dsn, whole_number(connections, "connections"), self.timeout)
        try:
            self._column: Column = self._ask(self._described, table, vector, key)
            self._compares = self._comparison(metric)
        except BaseException:
            self.close()
            raise
        self.metric = "euclidean" if self._compares == "l2" else "cosine"
        self.exact = self._column.alone and self._compares not in self._column.indexes

    @classmethod
    def at(cls, address: Address) -> PgvectorStore:
        """The store at postgresql://user@host/db?table=items; options of libpq, such as sslmode, may be given, too."""
        table, asked = address.needed("table", "the name of a table, as in ?table=items"), address.options
        return cls(
            dsn_of(address, OWN), table, asked.get("vector", "embedding"), asked.get("key", "id"),
            metric=asked.get("metric"), timeout=seconds(asked, 30.0),
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"PgvectorStore({self._named})"

    def _search(self, rows: Vectors, k: int, where: Any, vectors: bool) -> list[Hits]:
        column = self._column
        near = f"{column.vector} OPERATOR({column.schema}.{OPERATORS[self._compares]}) %b"
        text, values = self._select(f"{near}, {column.vector}" if vectors else near, where)
        with self._reading(k) as connection:
            cursors = [column.adapt(cursor_of(connection)) for _ in rows]
            for cursor, row in zip(cursors, rows, strict=True):
                given = [column.packed(row), *values]
                cursor.execute(f"{text} ORDER BY 2 LIMIT {k}", given, prepare=False, binary=True)
            found = [cursor.fetchall() for cursor in cursors]
        return [self._hits(one, vectors) for one in found]

    def _fetch(self, keys: list[Any]) -> Hits:
        column = self._column
        text, _ = self._select(column.vector, None)
        with self._reading() as connection:
            cursor, given = column.adapt(cursor_of(connection)), [column.wanted(keys)]
            cursor.execute(f"{text} AND {column.key} = ANY(%s::{column.keys}[])", given, prepare=False, binary=True)
            found = cursor.fetchall()
        return Hits([key for key, _ in found], column.unpacked([value for _, value in found], self.dimensions))

    def _scan(self, where: Any, vectors: bool) -> Iterator[Hits]:
        column = self._column
        text, values = self._select(column.vector if vectors else "NULL", where)
        with self._reading(pipeline=False) as connection, cursor_of(connection, f"kinrank_{next(SCANS)}") as cursor:
            column.adapt(cursor).execute(text, values, binary=True)
            while found := cursor.fetchmany(SCANNED):
                rows = column.unpacked([value for _, value in found], self.dimensions) if vectors else None
                yield Hits([key for key, _ in found], rows)

    def _count(self) -> int:
        text, values = self._select("NULL", None)
        with self._reading() as connection:
            cursor = cursor_of(connection).execute(f"SELECT count(*) FROM ({text}) AS items", values, prepare=False)
            return int(cursor.fetchone()[0])

    def _kind(self, error: Exception) -> str | None:
        errors = self._psycopg
        if isinstance(error, errors.errors.QueryCanceled):
            return SLOW
        if isinstance(error, (errors.OperationalError, errors.InterfaceError)):
            return LOST if not error.sqlstate or error.sqlstate.startswith(AGAIN) else REFUSED
        return REFUSED if isinstance(error, errors.Error) else None

    def _reopen(self) -> None:
        self._connections.renew()

    def _close(self) -> None:
        self._connections.close()

    def _described(self, table: str, vector: str, key: str) -> Column:
        with self._reading(pipeline=False) as connection:
            self._column = described(cursor_of(connection), table, vector, key)
            cursor, self.dimensions = self._column.adapt(cursor_of(connection)), self._column.dimensions
            text, values = self._select(self._column.vector, None)  # also asks whether we may read it
            one = cursor.execute(f"{text} LIMIT {0 if self.dimensions else 1}", values, binary=True).fetchall()
            if one:
                self.dimensions = self._column.unpacked([one[0][1]], 0).shape[1]
        return self._column

    def _comparison(self, metric: str | None) -> str:
        """What searches compare by: "cosine", "l2" or "ip"."""
        indexes = self._column.indexes
        if metric is None:
            known = [name for name in OPERATORS if name in indexes]
            if indexes and not known:
                raise ValueError(f"the index of {self!r} compares by {indexes[0]}, which kinrank does not; give "
                                 "metric='cosine' or metric='euclidean' to search without it")  # fmt: skip
            return known[0] if known else "cosine"
        if indexes and METRICS[metric] not in indexes:
            warnings.warn(f"the index of {self!r} compares by {indexes[0]}; searches by {metric} do without it and "
                          "read every row", stacklevel=3)  # fmt: skip
        return METRICS[metric]

    def _select(self, what: str, where: Any) -> tuple[str, list[Any]]:
        """The query of a key and something else, for the rows that are items, and the values to be bound."""
        vector, key = self._column.vector, self._column.key
        text = f"SELECT {key}, {what} FROM {self._column.table} WHERE {vector} IS NOT NULL AND {key} IS NOT NULL"
        values: list[Any] = []
        if isinstance(where, self._psycopg.sql.Composable):
            text += f" AND ({where.as_string(None).replace('%', '%%')}\n)"
        elif where is not None:
            condition, values = sql_where(where, "%s", quoted) if isinstance(where, Mapping) else pair(where, "%s")
            plain = condition.replace("%%", "")
            holes = len(re.findall("%[sbt]", plain))
            if holes != len(values) or plain.count("%") != holes:
                raise ValueError(f"where has {holes} placeholders and {len(values)} values in {condition!r:.60}; write "
                                 "%s for each value, and %% for a plain %")  # fmt: skip
            text += f" AND ({condition}\n)"
        return text, values

    def _hits(self, found: list[tuple[Any, ...]], vectors: bool) -> Hits:
        """Rows of keys, distances and perhaps vectors; zero vectors have no cosine, and come last as NaN."""
        keys, said = [row[0] for row in found], np.array([row[1] for row in found], np.float64)
        rows = self._column.unpacked([row[2] for row in found], self.dimensions) if vectors else None
        if self._compares == "ip":
            lengths = np.linalg.norm(rows, axis=1) if rows is not None else np.maximum(1.0, -said)
            if (np.abs(lengths[lengths > 0] - 1) > LENGTH).any():
                raise ValueError(f"{self!r} compares by inner product, and not all vectors have length one; store them "
                                 "so, or give metric='cosine' to search without the index")  # fmt: skip
        added = {"cosine": 0.0, "ip": 2.0}.get(self._compares)
        distances = said if added is None else np.sqrt(np.maximum(2 * said + added, 0))
        order = np.argsort(distances, kind="stable")[: int((~np.isnan(distances)).sum())]
        if len(order) == len(keys) and (order[1:] > order[:-1]).all():
            return Hits(keys, rows, distances)
        return Hits([keys[place] for place in order], None if rows is None else rows[order], distances[order])

    def _reading(self, k: int = 0, pipeline: bool = True) -> AbstractContextManager[Any]:
        """A connection that only reads, with settings for finding k items."""
        if not k:
            return self._connections.reading(self._settings, pipeline)
        probes = max(PROBES, 2 * math.isqrt(self._column.lists))
        settings = {"hnsw.ef_search": str(int(np.clip(k, *EFFORT))), "ivfflat.probes": str(probes)}
        if self._column.version >= (0, 8):  # go on where a filter left too few; the order is made here
            settings |= {"hnsw.iterative_scan": "relaxed_order", "ivfflat.iterative_scan": "relaxed_order"}
        return self._connections.reading(settings | self._settings, pipeline)


def _checked(settings: Mapping[str, Any]) -> dict[str, str]:
    wrong = [name for name in settings if not (isinstance(name, str) and SETTING.fullmatch(name))]
    if wrong:
        raise ValueError(f"settings names {wrong[0]!r}, which is no setting of PostgreSQL; give names such as "
                         "'hnsw.ef_search'")  # fmt: skip
    return {name: str(value) for name, value in settings.items()}
