"""Ranking: per query, the items and their distances, nearest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank import given

Integers = NDArray[np.int64]
Floats = NDArray[np.float32]
BLOCK = 500_000  # entries looked at together


@dataclass(frozen=True, eq=False)
class Ranking:
    """What a search returns, a method returns and an evaluation reads. A row lists an item once.

    That is checked where rankings are saved, loaded and evaluated, not whenever one is made.

    Attributes:
        indices: (queries, depth) item numbers, nearest first; -1 pads a row that found fewer items. They count the
            gallery from 0. In a manifold with ids they are places in `manifold.ids`, which move when items are removed.
        distances: (queries, depth) how far, by the method; never decreasing along a row; inf where the row is padded.
            They order the items of one query and mean nothing beyond: most methods measure in units of the query's own
            neighbourhood, or negate a score (then some are below 0), so that rows, methods, and galleries before and
            after a change cannot be compared. Nor do equal vectors always get equal distances: a method that works on
            a graph, such as LPMT, tells copies apart by the neighbours they have in it, and among more copies than a
            neighbour list holds, those with lower numbers are listed. `none` and query expansion do not: equal vectors
            are equally far.
        meta: how it came about: `mode` (joint, candidates, online, search), `method`, `seconds`, ...
        ids: (queries, depth) the names of the items, which stay whatever happens to others; where items have none,
            `indices` themselves. Texts (dtype object, padded with "") or whole numbers (padded with -1). This is what
            is written to files and compared with the truth.
        query_ids: (queries,) the names of the queries; None where they have none and go by their row.

    Example:
        >>> Ranking([[2, 0]], [[0.1, 0.4]]).with_ids(["a", "b", "c"]).ids.tolist()
        [['c', 'a']]
    """

    indices: Integers
    distances: Floats
    meta: dict[str, Any] = field(default_factory=dict)
    ids: NDArray[Any] = field(default=cast(Any, None))
    query_ids: NDArray[Any] | None = None

    def __post_init__(self) -> None:
        indices = whole_numbers(self.indices)
        distances = np.ascontiguousarray(given.unmasked(self.distances, "distances"), dtype=np.float32)
        if indices.ndim != 2 or indices.shape != distances.shape:
            raise ValueError(
                f"ranking: indices {indices.shape} and distances {distances.shape} must be two equal 2-d shapes"
            )
        ids = indices if self.ids is None or self.ids is self.indices else _names_of_items(self.ids, indices.shape)
        query_ids = None if self.query_ids is None else given.names(self.query_ids, "query_ids")
        if query_ids is not None and len(query_ids) != len(indices):
            raise ValueError(f"query_ids has {len(query_ids)} names but the ranking needs {len(indices)}")
        for name, value in (("indices", indices), ("distances", distances), ("ids", ids), ("query_ids", query_ids)):
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def depth(self) -> int:
        return int(self.indices.shape[1])

    @property
    def has_ids(self) -> bool:
        """Whether ids were given; otherwise `ids` are the `indices`, places in whatever gallery they came from."""
        return self.ids is not self.indices

    @property
    def numbered(self) -> bool:
        """Whether items have no names but their numbers, as in a manifold without ids."""
        return not self.has_ids or np.array_equal(self.ids, self.indices)

    def top(self, depth: int) -> Ranking:
        """The same ranking cut to its first `depth` items."""
        ids = self.ids[:, :depth] if self.has_ids else None
        return Ranking(self.indices[:, :depth], self.distances[:, :depth], self.meta, cast(Any, ids), self.query_ids)

    def with_ids(
        self, item_ids: Sequence[Any] | ArrayLike | None = None, query_ids: Sequence[Any] | ArrayLike | None = None
    ) -> Ranking:
        """The same ranking with names; `item_ids[i]` is that of item number i, `query_ids[j]` that of row j.

        Texts, whole numbers or UUIDs, no two alike. Names that are there already are never replaced: a ValueError.
        """
        if item_ids is None and query_ids is None:
            return self
        ids, rows = None if self.numbered else self.ids, self.query_ids
        for parameter, names, there in (("item_ids", item_ids, ids), ("query_ids", query_ids, rows)):
            if names is not None and there is not None:
                raise ValueError(f"this ranking has {parameter.replace('item_', '')} already; leave {parameter} out")
        if item_ids is not None:
            known = given.names(item_ids, "item_ids")
            needed = int(self.indices.max(initial=-1)) + 1
            if len(known) < needed:
                raise ValueError(
                    f"item_ids has {len(known)} names but the ranking needs {needed}; give one per item, in order"
                )
            ids = chosen(known, self.indices)
        elif self.has_ids:
            ids = self.ids
        rows = rows if query_ids is None else given.names(query_ids, "query_ids")
        return Ranking(self.indices, self.distances, self.meta, cast(Any, ids), rows)

    def __repr__(self) -> str:
        mode = self.meta.get("mode", "search")
        return f"Ranking({len(self)} queries x {self.depth} items, {mode})"


def chosen(ids: NDArray[Any], places: Integers) -> NDArray[Any]:
    """The ids at some places of any shape; padding (-1) becomes -1, or an empty text."""
    if ids.dtype.kind == "u":  # above int64: Python's numbers, among which -1 can stand
        ids = ids.astype(object)
        nothing: Any = -1
    else:
        nothing = "" if ids.dtype.kind == "O" else -1
    found = ids[np.maximum(places, 0)] if len(ids) else np.empty(places.shape, ids.dtype)
    found[places < 0] = nothing
    return found


def whole_numbers(indices: Any) -> Integers:
    """Item numbers as int64; a ValueError for what is no whole number, instead of cutting it off."""
    array = np.asarray(given.unmasked(indices, "indices"))
    if array.dtype.kind == "O":
        try:
            array = np.array(array.tolist())
        except ValueError as error:
            raise ValueError(f"indices must be item numbers, in rows of equal length: {error}") from None
    if array.size == 0 or array.dtype == np.int64:
        return np.ascontiguousarray(array, dtype=np.int64)
    if array.dtype.kind not in "iuf":
        raise ValueError(f"indices must be item numbers; got dtype {array.dtype}")
    if array.dtype.kind in "uf":
        with np.errstate(invalid="ignore"):
            wrong = ~((array >= -(2.0**63)) & (array < 2.0**63)) | (array != np.floor(array))
        if wrong.any():
            raise ValueError(
                f"indices must be whole item numbers below 2**63; got {array[wrong][0]} ({int(wrong.sum())} such)"
            )
    return np.ascontiguousarray(array, dtype=np.int64)


def refuse_repeats(indices: Integers) -> None:
    """A ValueError if a row lists an item twice: it would be found twice and lift every measure."""
    step = max(1, BLOCK // max(1, indices.shape[1]))
    kind = np.int32 if indices.max(initial=0) < 2**31 else np.int64  # half the size is twice as fast
    for start in range(0, len(indices), step):
        ordered = np.sort(indices[start : start + step].astype(kind), axis=1)
        twice = ordered[:, 1:] == ordered[:, :-1]
        twice &= ordered[:, 1:] >= 0
        if twice.any():
            row, place = (int(number) for number in np.argwhere(twice)[0])
            raise ValueError(
                f"ranking of query {start + row} lists item {ordered[row, place]} twice; "
                "every item may stand in a row once"
            )


def _names_of_items(ids: Any, shape: tuple[int, ...]) -> NDArray[Any]:
    found = np.asarray(given.unmasked(ids, "ids"))
    if found.shape != shape or found.dtype.kind not in "iuUO":
        raise ValueError(
            f"ids must be texts or whole numbers in the shape {shape} of the indices; got {found.dtype} {found.shape}"
        )
    return found.astype(object) if found.dtype.kind == "U" else found


def rank_rows(distances: NDArray[Any], depth: int) -> tuple[Integers, Floats]:
    """Order each row of a dense block by (distance, item number) and cut it to `depth`.

    Shapes: (rows, items) -> two of (rows, min(depth, items)). NaN is a bug upstream and sorts last.
    """
    items = distances.shape[1]
    depth = min(depth, items)
    order = np.argsort(distances, axis=1, kind="stable")[:, :depth]
    return order.astype(np.int64, copy=False), np.take_along_axis(distances, order, axis=1).astype(np.float32)
