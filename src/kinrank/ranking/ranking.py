"""Ranking: the items and their distances for each query, nearest first."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, cast, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.errors import InputError
from kinrank.ids import parse_ids, pick_ids, unwrap_masked_array
from kinrank.parameters import check_whole_number
from kinrank.ranking import ranking_tables

Integers = NDArray[np.int64]
Floats = NDArray[np.float32]
VALUES_PER_BLOCK = 500_000  # entries checked at once


@dataclass(frozen=True, eq=False)
class QueryResult:
    """The results of one query, nearest first, without padding. Iterating yields pairs of id and distance.

    Attributes:
        query_id: id of the query, or its row in the ranking.
        indices, ids, distances: (n,) item numbers, ids and distances, as in `Ranking`.
    """

    query_id: Any
    indices: Integers
    ids: NDArray[Any]
    distances: Floats

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[tuple[Any, float]]:
        return iter(zip(self.ids.tolist(), self.distances.tolist(), strict=True))

    def head(self, k: int = 10) -> QueryResult:
        """Return the first k results."""
        return QueryResult(self.query_id, self.indices[:k], self.ids[:k], self.distances[:k])

    def __repr__(self) -> str:
        return f"QueryResult({ranking_tables.render_line(self)})"


@dataclass(frozen=True, eq=False)
class Ranking:
    """The result of a search or a method, and the input of an evaluation. A row lists an item once.

    `len`, indexing and iteration are by query: `ranking[0]` is a QueryResult, by row or by text id; `ranking[:5]`
    and `ranking[[3, 0]]` are Rankings. Prints its first rows, as a table in a notebook.

    Repeated items are detected when rankings are saved, loaded and evaluated, not whenever one is made.

    Attributes:
        indices: (queries, depth) item numbers, nearest first; -1 pads a row that found fewer items. They count the
            gallery from 0. In a manifold with ids they are positions in `manifold.ids`, which move when items are
            removed.
        distances: (queries, depth) distances by the method, never decreasing along a row; inf where the row is padded.
            They order the items of one query and have no further meaning: most methods measure in units of the query's
            own neighbourhood, or negate a score (then some are below 0). Distances of different rows, methods, or
            galleries before and after a change cannot be compared. Nor do equal vectors always get equal distances: a
            method that works on a graph, such as LPMT, distinguishes copies by their neighbours in the graph, and among
            more copies than a neighbour list holds, those with lower numbers are listed. `none` and query expansion do
            not: equal vectors have equal distances.
        meta: origin of the ranking: `mode` (joint, candidates, online, search), `method`, `seconds`, ...
        ids: (queries, depth) ids of the items, which other changes of the gallery do not affect; without ids,
            `indices` themselves. Texts (dtype object, padded with "") or whole numbers (padded with -1). Files contain
            these ids, and evaluation compares them with the truth.
        query_ids: (queries,) ids of the queries; None if queries are identified by their row.

    Example:
        >>> Ranking([[2, 0]], [[0.1, 0.4]]).with_ids(["a", "b", "c"]).ids.tolist()
        [['c', 'a']]
    """

    indices: Integers
    distances: Floats
    meta: dict[str, Any] = field(default_factory=dict)
    _: KW_ONLY
    ids: NDArray[Any] = field(default=cast(Any, None))
    query_ids: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        indices = to_item_numbers(self.indices)
        distances = np.ascontiguousarray(_to_array(self.distances, "distances"), dtype=np.float32)
        if indices.ndim != 2 or indices.shape != distances.shape:
            raise InputError(
                f"ranking: indices {indices.shape} and distances {distances.shape} must have the same 2-d shape"
            )
        ids = indices if self.ids is None or self.ids is self.indices else _check_id_array(self.ids, indices.shape)
        query_ids = None if self.query_ids is None else parse_ids(self.query_ids, "query_ids")
        if query_ids is not None and len(query_ids) != len(indices):
            raise InputError(f"has {len(query_ids)} ids but the ranking needs {len(indices)}", parameter="query_ids")
        for name, value in (("indices", indices), ("distances", distances), ("ids", ids), ("query_ids", query_ids)):
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.indices)

    @overload
    def __getitem__(self, query: slice | list[int] | NDArray[Any]) -> Ranking: ...
    @overload
    def __getitem__(self, query: int | str) -> QueryResult: ...
    def __getitem__(self, query: int | str | slice | list[int] | NDArray[Any]) -> QueryResult | Ranking:
        if isinstance(query, (slice, list, np.ndarray)):
            ids = self.ids[query] if self.has_ids else None
            query_ids = None if self.query_ids is None else self.query_ids[query]
            return Ranking(
                self.indices[query], self.distances[query], self.meta, ids=cast(Any, ids), query_ids=query_ids
            )
        row = self._find_row(query)
        found = self.indices[row] >= 0
        query_id = row if self.query_ids is None else self.query_ids[row : row + 1].tolist()[0]
        return QueryResult(query_id, self.indices[row][found], self.ids[row][found], self.distances[row][found])

    def __iter__(self) -> Iterator[QueryResult]:
        return (self[row] for row in range(len(self)))

    def _find_row(self, query: int | str) -> int:
        """Return the row of a query: a row number, negative from the end, or an id that is a text."""
        if isinstance(query, str):
            rows = [] if self.query_ids is None else np.flatnonzero(self.query_ids == query).tolist()
            if not rows:
                raise KeyError(f"no query has the id {query!r}")
            return int(rows[0])
        return range(len(self))[query]

    @property
    def depth(self) -> int:
        """Number of columns: the largest number of results of a query."""
        return int(self.indices.shape[1])

    @property
    def has_ids(self) -> bool:
        """True if ids were given; otherwise `ids` are the `indices`, positions in the gallery of the ranking."""
        return self.ids is not self.indices

    @property
    def has_numbers_only(self) -> bool:
        """True if items have no ids except their numbers, as in a manifold without ids."""
        return not self.has_ids or np.array_equal(self.ids, self.indices)

    def head(self, k: int = 10) -> Ranking:
        """Return the ranking cut to the first k items of every query.

        Example:
            >>> Ranking([[2, 0]], [[0.1, 0.4]]).head(1).indices.tolist()
            [[2]]
        """
        k = check_whole_number(k, "k", low=0)
        ids = self.ids[:, :k] if self.has_ids else None
        indices, distances = self.indices[:, :k], self.distances[:, :k]
        return Ranking(indices, distances, self.meta, ids=cast(Any, ids), query_ids=self.query_ids)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the ranking atomically in the format given by the ending of its path.

        Writes `ids` and `query_ids`, or item numbers and row numbers from 0 if there are none; see `with_ids`.

        `.npz` stores ids, numbers, distances and meta unchanged. `.trec` writes run lines `query Q0 item rank score
        tag` with scores that strictly decrease even in single precision, so that no program's handling of ties can
        change the order. `.csv` and `.parquet` (with kinrank[io]) are tables of query, rank, item, distance. Only
        `.npz` contains padding and queries without results. The tag of a run and the heading of a table (`query_id`,
        `item_id`) tell whether items have ids or numbers.

        Example:
            >>> ranking.with_ids(query_ids=names).save("run.trec")
        """
        from kinrank.ranking.ranking_files import write_ranking

        write_ranking(self, path)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        query_ids: Sequence[Any] | ArrayLike | None = None,
        item_ids: Sequence[Any] | ArrayLike | None = None,
        ties: str = "rank",
    ) -> Ranking:
        """Read a file that `save` wrote, or the run of another program.

        The ranking has the ids of the file. Text does not tell whether "7" is a number: in .trec and .csv, ids that all
        look like whole numbers are read as numbers. If kinrank wrote item numbers, these are both `indices` and `ids`.
        Items of another program's run always have ids; without `item_ids`, their `indices` count them in order of
        appearance.

        Args:
            path: .npz, .trec, .csv or .parquet file.
            query_ids: the queries in the wanted order. A query without lines becomes a row of padding; a query of the
                file that is not among them raises an InputError.
            item_ids: the items in the order of the gallery: `indices` are positions in it. An .npz contains its own ids
                and accepts `query_ids` and `item_ids` only if it was saved without.
            ties: order of equal scores in a run: "rank" by the rank in the file, or "trec_eval" as that program does:
                it ignores the rank, reads scores in single precision, and puts the id that is last in the alphabet
                first.

        Distances of a run are its negative scores. A file that is not a ranking, a row that lists an item twice, and a
        table whose ranks contradict its distances raise an InputError.

        Example:
            >>> Ranking.load("run.trec", ties="trec_eval")
        """
        from kinrank.ranking.ranking_files import read_ranking

        return read_ranking(path, query_ids, item_ids, ties)

    def to_run(self) -> dict[str, dict[str, float]]:
        """Return {query id: {item id: score}}, as ranx, ir_measures and pytrec_eval accept it; higher is better.

        Scores are negative distances that strictly decrease, so that ties cannot change the order.

        Example:
            >>> Ranking([[2, 0]], [[0.25, 0.5]]).to_run()
            {'0': {'2': -0.25, '0': -0.5}}
        """
        decrease = ranking_tables.make_strictly_decreasing
        rows = ranking_tables.iterate_rows(self)
        return {query: dict(zip(items, decrease(-lengths).tolist(), strict=True)) for query, items, lengths in rows}

    def to_arrow(self) -> Any:
        """Return a pyarrow Table with one row per result: query, rank, item, distance. Needs kinrank[io].

        Example:
            >>> Ranking([[2, 0]], [[0.25, 0.5]]).to_arrow()["item"].to_pylist()
            [2, 0]
        """
        return ranking_tables.to_table(self)

    def to_dataframe(self, library: str | None = None) -> Any:
        """Return a data frame with the columns of `to_arrow`.

        Args:
            library: "pandas" or "polars". Default: the first of them that is installed.

        Example:
            >>> ranking.to_dataframe("polars")
        """
        return ranking_tables.to_data_frame(self, library)

    def with_ids(
        self, item_ids: Sequence[Any] | ArrayLike | None = None, query_ids: Sequence[Any] | ArrayLike | None = None
    ) -> Ranking:
        """Return the ranking with ids: `item_ids[i]` of item number i, `query_ids[j]` of row j.

        Ids are unique texts, whole numbers or UUIDs. Existing ids are never replaced: that is an InputError.
        """
        if item_ids is None and query_ids is None:
            return self
        ids, rows = None if self.has_numbers_only else self.ids, self.query_ids
        for parameter, names, existing in (("item_ids", item_ids, ids), ("query_ids", query_ids, rows)):
            if names is not None and existing is not None:
                raise InputError(
                    f"this ranking already has {parameter.replace('item_', '')}", remedy=f"leave `{parameter}` out"
                )
        if item_ids is not None:
            item_array = parse_ids(item_ids, "item_ids")
            needed = int(self.indices.max(initial=-1)) + 1
            if len(item_array) < needed:
                raise InputError(
                    f"has {len(item_array)} ids but the ranking needs {needed}",
                    parameter="item_ids",
                    allowed="one per item, in order",
                )
            ids = pick_ids(item_array, self.indices)
        elif self.has_ids:
            ids = self.ids
        rows = rows if query_ids is None else parse_ids(query_ids, "query_ids")
        return Ranking(self.indices, self.distances, self.meta, ids=cast(Any, ids), query_ids=rows)

    def __repr__(self) -> str:
        return ranking_tables.render_text(self)

    def _repr_html_(self) -> str:
        return ranking_tables.render_html(self)


def _to_array(values: Any, name: str) -> NDArray[Any]:
    """Return an array; raise an InputError if entries are masked."""
    return values if type(values) is np.ndarray else np.asarray(unwrap_masked_array(values, name))


def to_item_numbers(indices: Any) -> Integers:
    """Convert item numbers to int64; raise an InputError for fractions instead of truncating them."""
    array = _to_array(indices, "indices")
    if array.dtype.kind == "O":
        try:
            array = np.array(array.tolist())
        except ValueError as error:
            raise InputError(f"must be item numbers, in rows of equal length: {error}", parameter="indices") from None
    if array.size == 0 or array.dtype == np.int64:
        return np.ascontiguousarray(array, dtype=np.int64)
    if array.dtype.kind not in "iuf":
        raise InputError(f"must be item numbers; got dtype {array.dtype}", parameter="indices")
    if array.dtype.kind in "uf":
        with np.errstate(invalid="ignore"):
            wrong = ~((array >= -(2.0**63)) & (array < 2.0**63)) | (array != np.floor(array))
        if wrong.any():
            raise InputError(
                f"must be whole item numbers below 2**63; got {array[wrong][0]} ({int(wrong.sum())} such)",
                parameter="indices",
            )
    return np.ascontiguousarray(array, dtype=np.int64)


def refuse_repeats(indices: Integers) -> None:
    """Raise an InputError if a row lists an item twice: it would be found twice and raise every measure."""
    step = max(1, VALUES_PER_BLOCK // max(1, indices.shape[1]))
    kind = np.int32 if indices.max(initial=0) < 2**31 else np.int64  # half the size is twice as fast
    for start in range(0, len(indices), step):
        ordered = np.sort(indices[start : start + step].astype(kind), axis=1)
        twice = ordered[:, 1:] == ordered[:, :-1]
        twice &= ordered[:, 1:] >= 0
        if twice.any():
            row, place = (int(number) for number in np.argwhere(twice)[0])
            raise InputError(
                f"ranking of query {start + row} lists item {ordered[row, place]} twice",
                remedy="list every item at most once per row",
            )


def _check_id_array(ids: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    array = np.asarray(unwrap_masked_array(ids, "ids"))
    if array.shape != shape or array.dtype.kind not in "iuUO":
        raise InputError(
            f"must be texts or whole numbers in the shape {shape} of the indices; got {array.dtype} {array.shape}",
            parameter="ids",
        )
    return array.astype(object) if array.dtype.kind == "U" else array


def rank_rows(distances: NDArray[Any], depth: int) -> tuple[Integers, Floats]:
    """Order each row of a dense block by (distance, item number) and cut it to `depth`.

    Shapes: (rows, items) -> two of (rows, min(depth, items)). NaN is a bug upstream and sorts last.
    """
    items = distances.shape[1]
    depth = min(depth, items)
    order = np.argsort(distances, axis=1, kind="stable")[:, :depth]
    return order.astype(np.int64, copy=False), np.take_along_axis(distances, order, axis=1).astype(np.float32)
