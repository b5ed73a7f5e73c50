"""LanceDBStore: a table of LanceDB -> a Store."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from kinrank.deferred import needed
from kinrank.features import Vectors
from kinrank.parameters import whole_number
from kinrank.stores.address import Address, number, seconds
from kinrank.stores.arrow import hits_of, left, split
from kinrank.stores.clients import flag, raised_by, unit_checked
from kinrank.stores.engine import REFUSED, SCANNED, SLOW, EngineStore, Hits
from kinrank.stores.fetched import whole_numbers, with_vectors
from kinrank.stores.lancedb_filters import condition

TYPES = {"cosine": "cosine", "euclidean": "l2"}
METRICS = {"cosine": "cosine", "l2": "euclidean", "dot": "cosine"}
EFFORT = {"nprobes": 20, "refine_factor": 2}  # of a search in an index, where `settings` says nothing else
NUMBERS = ("nprobes", "refine_factor", "ef")
NEEDS = "LanceDBStore", "lancedb"


class LanceDBStore(EngineStore):
    """The rows of a LanceDB table.

    Filters (`where`): a mapping of columns to values, an expression of `lancedb.col` and `lancedb.lit`, or a condition
    as LanceDB writes it, such as "price < 10". Never put text of strangers into such a text.

    Args:
        table: a `lancedb.table.Table`.
        vector: the column of vectors.
        key: the column of ids, whole numbers or texts; they should be unique.
        metric: "cosine" or "euclidean"; that of the index on the column where it is left out, or cosine.
        settings: of searches in an index: "nprobes" (parts that are searched at least, 20), "refine_factor" (times as
            many are compared exactly, 2), "ef", and "bypass_vector_index": True for exact searches without it.
        timeout: seconds for one question.
        latest: read the newest version of the table, whoever wrote it; False for the one that is checked out.
    """

    def __init__(
        self, table: Any, vector: str = "vector", key: str = "id", *, metric: str | None = None,
        settings: Mapping[str, Any] | None = None, timeout: float | None = None, latest: bool = True,
    ) -> None:  # fmt: skip
        if not isinstance(table, needed("lancedb.table", *NEEDS).Table):
            raise ValueError(
                f"table must be a table of LanceDB, such as db.open_table(name); got a {type(table).__name__}"
            )
        self._expr = needed("lancedb.expr", *NEEDS)
        self._table, self._vector, self._key, self._latest = table, vector, key, latest
        self.timeout = None if timeout is None else number(timeout, "timeout")
        self._settings = _checked(settings or {})
        self._ask(self._look, metric)

    @classmethod
    def at(cls, address: Address) -> LanceDBStore:
        """The store at lancedb:///folder?vector=vector&key=id#table, or lancedb:folder#table for a folder from here.

        Options: vector, key, metric, timeout, nprobes, refine_factor, ef, and exact=true for searches without an index.
        """
        options = address.only("vector", "key", "metric", "timeout", "exact", *NUMBERS)
        folder = Path(address.needed("path", "a folder"))
        name = address.needed("fragment", "the name of the table behind #")
        if address.host is not None:
            raise ValueError("lancedb: needs a folder: lancedb:///folder from the root, lancedb:folder from here")
        if not folder.is_dir():
            raise ValueError(f"there is no folder {folder}")
        settings: dict[str, Any] = {name: _whole(options[name], name) for name in NUMBERS if name in options}
        settings |= {"bypass_vector_index": True} if flag(options, "exact") else {}
        try:
            table = needed("lancedb", *NEEDS).connect(folder).open_table(name)
        except ValueError as error:
            raise ValueError(f"the folder {folder} has no table {name!r} that LanceDB can open: {error}") from error
        columns: dict[str, Any] = {
            option: options[option] for option in ("vector", "key", "metric") if option in options
        }
        return cls(table, settings=settings, timeout=seconds(options, None), **columns)

    def __repr__(self) -> str:
        return f"LanceDBStore({self._table.name})"

    def _look(self, metric: str | None) -> None:
        """What the table says of its columns and of its index."""
        before = self._table.version
        self._refresh()
        if self._table.version != before:
            warnings.warn(f"{self!r}: version {before} was checked out; {self._table.version}, the newest, is read; "
                          "latest=False stays there", stacklevel=5)  # fmt: skip
        self.dimensions, self._whole = _columns(self, self._table.schema, self._vector, self._key)
        indexed = [self._table.index_stats(index.name).distance_type for index in self._table.list_indices()
                   if list(index.columns) == [self._vector]]  # fmt: skip
        found = indexed[0] if indexed else None
        self.metric = metric or METRICS.get(str(found), "cosine")
        if self.metric not in TYPES:
            raise ValueError(f"metric={metric!r} is not allowed; give cosine or euclidean")
        usable = found is not None and METRICS.get(found) == self.metric
        if found is not None and not usable:
            warnings.warn(f"{self!r}: its index compares by {found}, not by {self.metric}; every row is compared "
                          "instead", stacklevel=5)  # fmt: skip
        self.exact = not usable or "bypass_vector_index" in self._settings
        self._inner = found == "dot" and not self.exact

    def _refresh(self) -> None:
        if self._latest:
            self._table.checkout_latest()

    @property
    def _limit(self) -> timedelta | None:
        return None if self.timeout is None else timedelta(seconds=self.timeout)

    def _search(self, rows: Vectors, k: int, where: Any, vectors: bool) -> list[Hits]:
        self._refresh()
        vectors = vectors or self._inner
        query = self._table.search(list(rows) if len(rows) > 1 else rows[0], self._vector, "vector").limit(k)
        query = query.distance_type("dot" if self._inner else TYPES[self.metric])
        if self.exact:
            query = query.bypass_vector_index()
        else:
            effort = EFFORT | self._settings
            query = query.minimum_nprobes(effort["nprobes"]).maximum_nprobes(0).refine_factor(effort["refine_factor"])
            query = query.ef(effort["ef"]) if "ef" in effort else query
        columns = [self._key, *([self._vector] if vectors and len(rows) == 1 else []), "_distance"]
        answer = self._filtered(query, where).select(columns).to_arrow(timeout=self._limit)
        gaps = np.maximum(answer["_distance"].to_numpy(), 0.0, dtype=np.float64)
        gaps = np.sqrt(2.0 * gaps if self.metric == "cosine" else gaps)
        keys = answer[self._key].combine_chunks()
        if len(rows) == 1:
            found = [hits_of(keys, answer[self._vector] if vectors else None, self.dimensions, gaps)]
        else:
            found = split(keys, gaps, answer["query_index"], len(rows))
            found = with_vectors(found, self._fetch_now, self.dimensions) if vectors else found
        return [self._of_unit_length(hits) for hits in found] if self._inner else found

    def _of_unit_length(self, hits: Hits) -> Hits:
        """Inner products are those of cosine only where lengths are one; zero vectors are no results."""
        assert hits.rows is not None
        return left(hits, np.asarray(unit_checked(hits.rows, self).any(axis=1)))

    def _fetch(self, keys: list[Any]) -> Hits:
        self._refresh()
        return self._fetch_now(keys)

    def _fetch_now(self, keys: list[Any]) -> Hits:
        known: list[Any] = whole_numbers(keys) if self._whole else [str(key) for key in keys]
        if not known:
            return Hits([], self._nothing())
        query = self._table.search().where(self._expr.col(self._key).isin(known))
        answer = query.select([self._key, self._vector]).to_arrow(timeout=self._limit)
        return hits_of(answer[self._key].combine_chunks(), answer[self._vector], self.dimensions)

    def _scan(self, where: Any, vectors: bool) -> Iterator[Hits]:
        self._refresh()
        columns = [self._key, self._vector] if vectors else [self._key]
        query = self._filtered(self._table.search(), where).select(columns)
        with query.to_batches(SCANNED, timeout=self._limit) as batches:
            for batch in batches:
                yield hits_of(batch[self._key], batch[self._vector] if vectors else None, self.dimensions)

    def _count(self) -> int:
        self._refresh()
        return int(self._table.count_rows())

    def _filtered(self, query: Any, where: Any) -> Any:
        return query if where is None else query.where(condition(where, self._expr, self._table.schema.names))

    def _kind(self, error: Exception) -> str | None:
        if not raised_by(error, "lancedb"):
            return None
        return SLOW if "query timeout" in str(error).lower() else REFUSED


def _columns(store: LanceDBStore, schema: Any, vector: str, key: str) -> tuple[int, bool]:
    """How many dimensions the vectors have, and whether ids are whole numbers."""
    types = needed("pyarrow.types", *NEEDS)
    for name, what in ((vector, "vector"), (key, "key")):
        if name not in schema.names:
            raise ValueError(f"{store!r} has no column {name!r}; give {what}= one of: {', '.join(schema.names)}")
    held, ids = schema.field(vector).type, schema.field(key).type
    if not (types.is_fixed_size_list(held) and types.is_floating(held.value_type)):
        raise ValueError(f"the column {vector!r} of {store!r} holds no vectors but {held}; give vector= a column of "
                         "fixed-size lists of float16, float32 or float64")  # fmt: skip
    if not (types.is_integer(ids) or types.is_string(ids) or types.is_large_string(ids)):
        raise ValueError(f"the column {key!r} of {store!r} holds {ids}; give key= a column of whole numbers or texts")
    return int(held.list_size), bool(types.is_integer(ids))


def _checked(settings: Mapping[str, Any]) -> dict[str, Any]:
    unknown = [name for name in settings if name not in (*NUMBERS, "bypass_vector_index")]
    if unknown:
        raise ValueError(f"settings has no {unknown[0]!r}; it has {', '.join(NUMBERS)} and bypass_vector_index")
    if settings.get("bypass_vector_index", True) is not True:
        raise ValueError("settings: bypass_vector_index is True, or left out")
    numbers = {name: whole_number(settings[name], f"settings[{name!r}]") for name in NUMBERS if name in settings}
    return numbers | ({"bypass_vector_index": True} if "bypass_vector_index" in settings else {})


def _whole(text: str, name: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{name}={text!r} is not allowed; give a whole number")
    return int(text)
