"""LanceDBStore: a Store over a LanceDB table."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import numpy as np

from kinrank.errors import InputError
from kinrank.lazy_import import import_extra
from kinrank.parameters import check_whole_number
from kinrank.stores.client_utils import (
    Condition,
    check_unit_rows,
    filter_error,
    is_raised_by,
    parse_conditions,
    parse_flag,
)
from kinrank.stores.engine import SCAN_ROWS, EngineStore, Hits, parse_integer_keys
from kinrank.stores.url import StoreUrl, parse_timeout
from kinrank.vector_input import Vectors

DISTANCE_TYPES = {"cosine": "cosine", "euclidean": "l2"}
METRICS = {"cosine": "cosine", "l2": "euclidean", "dot": "cosine"}
DEFAULT_EFFORT = {"nprobes": 20, "refine_factor": 2}  # of a search in an index, unless `settings` overrides it
INTEGER_SETTINGS = ("nprobes", "refine_factor", "ef")
REQUIREMENT = "LanceDBStore", "lancedb"


class LanceDBStore(EngineStore):
    """A Store over a LanceDB table.

    Filters (`where`): a mapping of columns to values, an expression of `lancedb.col` and `lancedb.lit`, or a condition
    in LanceDB's SQL, such as "price < 10". Never insert untrusted text into such a condition.

    Args:
        table: a `lancedb.table.Table`.
        vector: name of the vector column.
        key: name of the id column, integers or texts; they should be unique.
        metric: "cosine" or "euclidean"; by default the metric of the index on the column, or cosine.
        settings: search settings of an index: "nprobes" (minimum number of partitions to search, 20), "refine_factor"
            (multiple of k that is compared exactly, 2), "ef", and "bypass_vector_index": True to search exactly.
        timeout: seconds for one request.
        latest: read the newest version of the table; False for the version that is checked out.
    """

    url_examples = ("lancedb:///folder?table=items&vector=vector&key=id",)

    def __init__(
        self,
        table: Any,
        vector: str = "vector",
        key: str = "id",
        *,
        metric: str | None = None,
        settings: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        latest: bool = True,
    ) -> None:
        if not isinstance(table, import_extra("lancedb.table", *REQUIREMENT).Table):
            raise InputError(
                f"must be a LanceDB table, such as db.open_table(name); got a {type(table).__name__}",
                parameter="table",
            )
        self._expr = import_extra("lancedb.expr", *REQUIREMENT)
        self._table, self._vector, self._key, self._latest = table, vector, key, latest
        self.timeout = parse_timeout(timeout)
        self._settings = _check_settings(settings or {})
        self._call(self._read_schema, metric)

    @classmethod
    def from_url(cls, url: StoreUrl) -> LanceDBStore:
        """Open lancedb:///folder?table=items&vector=vector&key=id, or lancedb:folder?... for a relative path.

        Options: table, vector, key, metric, timeout, nprobes, refine_factor, ef, and exact=true to search without an
        index.
        """
        options = url.check_options("table", "vector", "key", "metric", "timeout", "exact", *INTEGER_SETTINGS)
        folder = Path(url.require("path", "a folder"))
        name = url.require_table()
        if url.host is not None:
            raise InputError("lancedb: needs a folder: lancedb:///folder (absolute) or lancedb:folder (relative)")
        if not folder.is_dir():
            raise InputError(f"there is no folder {folder}")
        settings: dict[str, Any] = {
            name: _parse_integer(options[name], name) for name in INTEGER_SETTINGS if name in options
        }
        settings |= {"bypass_vector_index": True} if parse_flag(options, "exact") else {}
        try:
            table = import_extra("lancedb", *REQUIREMENT).connect(folder).open_table(name)
        except ValueError as error:
            raise InputError(f"the folder {folder} has no table {name!r} that LanceDB can open: {error}") from error
        columns: dict[str, Any] = {
            option: options[option] for option in ("vector", "key", "metric") if option in options
        }
        return cls(table, settings=settings, timeout=parse_timeout(options.get("timeout")), **columns)

    def __repr__(self) -> str:
        return f"LanceDBStore({self._table.name})"

    def _read_schema(self, metric: str | None) -> None:
        """Read the columns and the index of the table."""
        before = self._table.version
        self._refresh()
        if self._table.version != before:
            warnings.warn(
                f"{self!r}: version {before} was checked out, but the newest, {self._table.version}, is read; give "
                "latest=False to keep the older one",
                stacklevel=5,
            )
        self.dimensions, self._integer_keys = _inspect_columns(self, self._table.schema, self._vector, self._key)
        indexed = [
            self._table.index_stats(index.name).distance_type
            for index in self._table.list_indices()
            if list(index.columns) == [self._vector]
        ]
        found = indexed[0] if indexed else None
        self.metric = metric or METRICS.get(str(found), "cosine")
        if self.metric not in DISTANCE_TYPES:
            raise InputError(parameter="metric", given=metric, allowed="cosine or euclidean")
        usable = found is not None and METRICS.get(found) == self.metric
        if found is not None and not usable:
            warnings.warn(
                f"{self!r}: its index compares by {found}, not by {self.metric}; searches compare every row instead",
                stacklevel=5,
            )
        self.exact = not usable or "bypass_vector_index" in self._settings
        self._inner = found == "dot" and not self.exact

    def _refresh(self) -> None:
        if self._latest:
            self._table.checkout_latest()

    @property
    def _timeout_delta(self) -> timedelta | None:
        return None if self.timeout is None else timedelta(seconds=self.timeout)

    def _search(self, rows: Vectors, k: int, where: Any, vectors: bool) -> list[Hits]:
        self._refresh()
        vectors = vectors or self._inner
        query = self._table.search(list(rows) if len(rows) > 1 else rows[0], self._vector, "vector").limit(k)
        query = query.distance_type("dot" if self._inner else DISTANCE_TYPES[self.metric])
        if self.exact:
            query = query.bypass_vector_index()
        else:
            effort = DEFAULT_EFFORT | self._settings
            query = query.minimum_nprobes(effort["nprobes"]).maximum_nprobes(0).refine_factor(effort["refine_factor"])
            query = query.ef(effort["ef"]) if "ef" in effort else query
        columns = [self._key, *([self._vector] if vectors and len(rows) == 1 else []), "_distance"]
        answer = self._apply_filter(query, where).select(columns).to_arrow(timeout=self._timeout_delta)
        gaps = np.maximum(answer["_distance"].to_numpy(), 0.0, dtype=np.float64)
        gaps = np.sqrt(2.0 * gaps if self.metric == "cosine" else gaps)
        keys = answer[self._key].combine_chunks()
        if len(rows) == 1:
            found = [self._hits_from_arrow(keys, answer[self._vector] if vectors else None, gaps)]
        else:
            found = self._split_by_query(keys, gaps, answer["query_index"], len(rows))
            found = self._attach_vectors(found, self._fetch_now) if vectors else found
        return [self._check_unit_length(hits) for hits in found] if self._inner else found

    def _check_unit_length(self, hits: Hits) -> Hits:
        """Check that vectors have length one, as inner product requires, and drop zero vectors."""
        assert hits.rows is not None
        return hits.select(np.asarray(check_unit_rows(hits.rows, self).any(axis=1)))

    def _fetch(self, keys: list[Any]) -> Hits:
        self._refresh()
        return self._fetch_now(keys)

    def _fetch_now(self, keys: list[Any]) -> Hits:
        known: list[Any] = parse_integer_keys(keys) if self._integer_keys else [str(key) for key in keys]
        if not known:
            return Hits([], self._no_rows())
        query = self._table.search().where(self._expr.col(self._key).isin(known))
        answer = query.select([self._key, self._vector]).to_arrow(timeout=self._timeout_delta)
        return self._hits_from_arrow(answer[self._key].combine_chunks(), answer[self._vector])

    def _scan(self, where: Any, vectors: bool) -> Iterator[Hits]:
        self._refresh()
        columns = [self._key, self._vector] if vectors else [self._key]
        query = self._apply_filter(self._table.search(), where).select(columns)
        with query.to_batches(SCAN_ROWS, timeout=self._timeout_delta) as batches:
            for batch in batches:
                yield self._hits_from_arrow(batch[self._key], batch[self._vector] if vectors else None)

    def _count(self) -> int:
        self._refresh()
        return int(self._table.count_rows())

    def _apply_filter(self, query: Any, where: Any) -> Any:
        return query if where is None else query.where(build_condition(where, self._expr, self._table.schema.names))

    def _classify(self, error: Exception) -> type[Exception] | None:
        if not is_raised_by(error, "lancedb"):
            return None
        return TimeoutError if "query timeout" in str(error).lower() else InputError


def _inspect_columns(store: LanceDBStore, schema: Any, vector: str, key: str) -> tuple[int, bool]:
    """Return the number of dimensions, and True if ids are integers."""
    types = import_extra("pyarrow.types", *REQUIREMENT)
    store.check_columns(schema.names, vector, key)
    held, ids = schema.field(vector).type, schema.field(key).type
    if not (types.is_fixed_size_list(held) and types.is_floating(held.value_type)):
        raise store.column_error("vector", vector, held, "fixed-size lists of float16, float32 or float64")
    if not (types.is_integer(ids) or types.is_string(ids) or types.is_large_string(ids)):
        raise store.column_error("key", key, ids, "integers or texts")
    return int(held.list_size), bool(types.is_integer(ids))


def _check_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    unknown = [name for name in settings if name not in (*INTEGER_SETTINGS, "bypass_vector_index")]
    if unknown:
        raise InputError(
            f"contains the unknown {unknown[0]!r}",
            parameter="settings",
            allowed=f"{', '.join(INTEGER_SETTINGS)} or bypass_vector_index",
        )
    if settings.get("bypass_vector_index", True) is not True:
        raise InputError(
            "has a wrong bypass_vector_index", parameter="settings", remedy="set it to True, or leave it out"
        )
    numbers = {
        name: check_whole_number(settings[name], f"settings[{name!r}]") for name in INTEGER_SETTINGS if name in settings
    }
    return numbers | ({"bypass_vector_index": True} if "bypass_vector_index" in settings else {})


def _parse_integer(text: str, name: str) -> int:
    if not text.isdecimal():
        raise InputError(parameter=name, given=text, allowed="a whole number")
    return int(text)


def build_condition(where: Any, expressions: Any, columns: list[str]) -> Any:
    """Build the argument of `query.where`. LanceDB has no bound values, so expression objects carry them.

    Args:
        where: a mapping of columns to values, an expression, or a condition in LanceDB's SQL.
        expressions: the module lancedb.expr.
        columns: column names of the table.
    """
    if isinstance(where, Mapping):
        wanted = parse_conditions(where)
        unknown = [column for column, _ in wanted if column not in columns]
        if unknown:
            raise InputError(
                f"has the unknown column {unknown[0]!r}", parameter="where", allowed=f"one of: {', '.join(columns)}"
            )
        if all(None not in values for _, values in wanted):
            return reduce(and_, (expressions.col(column).isin(values) for column, values in wanted))
        return " AND ".join(map(_condition_to_sql, wanted))  # there is no expression for IS NULL
    if isinstance(where, expressions.Expr) or (isinstance(where, str) and where.strip()):
        return where
    raise filter_error(
        where,
        'a mapping of columns to values, such as {"kind": "cat"}, an expression of lancedb.col and lancedb.lit, or a '
        'condition in LanceDB\'s SQL, such as "price < 10"',
    )


def _condition_to_sql(condition: Condition) -> str:
    """Return a condition as SQL. `Expr.to_sql` is not safe: it does not escape a quote after a backslash."""
    name = "`" + condition.column.replace("`", "``") + "`"
    literals = [_literal_to_sql(value) for value in condition.values if value is not None]
    alternatives = [f"{name} IN ({', '.join(literals)})"] if literals else []
    return f"({' OR '.join([*alternatives, f'{name} IS NULL'] if None in condition.values else alternatives)})"


def _literal_to_sql(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value).lower() if isinstance(value, bool) else repr(value)
