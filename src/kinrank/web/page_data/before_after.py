"""Comparison of two result lists for a question: the plain search, and the re-ranked results."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.manifold import Manifold
from kinrank.manifold.snapshot import Snapshot
from kinrank.methods import Method
from kinrank.methods.base import for_candidates
from kinrank.neighbors import Neighbors
from kinrank.parameters import check_whole_number
from kinrank.ranking import Ranking
from kinrank.vector_input import Vectors
from kinrank.web.collection import Collection
from kinrank.web.page_data.gallery_search import find_nearest_items, run_search
from kinrank.web.page_data.question import Question, find_item_position, get_query_vector, resolve_method

LIST_DEPTH = 1000  # known ranks of a list, however few are shown
QUERY_ROW = -1  # stands for the query among rows of the gallery
NO_ROWS = np.empty(0, np.int64)


class MemoizedSearch:
    """Snapshot wrapper that memoises the neighbour search and measures its time, for one request.

    The request searches the neighbours of one query several times; the first search should be the deepest.

    Attributes:
        seconds: time of the neighbour searches.
        snapshot, manifold: the given snapshot, searched through this wrapper.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.seconds, self._search = 0.0, snapshot.gallery.search
        self._last: tuple[Vectors, int, Neighbors] | None = None
        self.snapshot = replace(snapshot, gallery=replace(snapshot.gallery, search=self._search_once))
        self.manifold = Manifold(self.snapshot)

    def _search_once(self, queries: Vectors, k: int) -> Neighbors:
        if self._last is not None and k <= self._last[1] and np.array_equal(queries, self._last[0]):
            return self._last[2].first(k)
        started = time.perf_counter()
        neighbors = self._search(queries, k)
        self.seconds += time.perf_counter() - started
        self._last = queries, k, neighbors
        return neighbors


@dataclass(frozen=True, eq=False)
class RankedItems:
    """Ids and distances of one list, nearest first."""

    ids: list[Any]
    distances: list[float]

    @cached_property
    def ranks(self) -> dict[Any, int]:
        """Rank of each item, from 1."""
        return {name: place for place, name in enumerate(self.ids, 1)}

    def append(self, other: RankedItems) -> RankedItems:
        """Return this list followed by the items that only the other list has."""
        pairs = zip(other.ids, other.distances, strict=True)
        rest = [(name, distance) for name, distance in pairs if name not in self.ranks]
        return RankedItems(self.ids + [name for name, _ in rest], self.distances + [distance for _, distance in rest])


@dataclass(frozen=True, eq=False)
class Comparison:
    """Results of the plain search and of the re-ranking.

    Attributes:
        snapshot: state of the gallery for both.
        question: the question.
        query: (1, d) query vector in the vector space of the snapshot.
        method: method that re-ranks.
        online: True if the prepared gallery re-ranks; otherwise a graph of candidates does.
        own: row of the query item; QUERY_ROW if the query is not an item.
        before, after: both lists, without the query item and without marked items.
        candidates: rows of the re-ranked items; empty if all items are.
        seconds: time of `search` and `rerank`.
        certain: True if the first k of the second list are certain; None if the method does not report it.
        marks_count: True if marked items influence the result.
    """

    snapshot: Snapshot
    question: Question
    query: Vectors
    method: Method
    online: bool
    own: int
    before: RankedItems
    after: RankedItems
    candidates: NDArray[np.int64]
    seconds: dict[str, float]
    certain: bool | None
    marks_count: bool

    def find_rows(self, ids: Sequence[Any]) -> list[int]:
        """Return the rows of items by their ids."""
        snapshot = self.snapshot
        rows: list[int] = snapshot.remembered.items[snapshot.names.places_of(list(ids), "items")].tolist()
        return rows

    def describe_row(self, collection: Collection, row: int) -> dict[str, Any]:
        """Return the card of a row: of an item, of a remembered query, or of the query itself."""
        remembered, names = self.snapshot.remembered, self.snapshot.names
        if row == QUERY_ROW:
            return describe_query(collection, self.question)
        number = int(remembered.numbers(np.array([row]))[0])
        if remembered.mask[row]:
            return _make_plain_card(f"remembered query {number}")
        return collection.card(names.of(np.array([number])).tolist()[0])


def compare_lists(manifold: Manifold, collection: Collection, question: Question) -> Comparison:
    """Compute both lists from one state of the gallery, LIST_DEPTH items of each or all re-ranked ones."""
    memo = MemoizedSearch(manifold.snapshot)  # one state, whatever changes in the meantime
    snapshot = memo.snapshot
    k, candidates = check_whole_number(question.k, "k"), question.candidate_count
    method = resolve_method(snapshot.method, question.method, question.parameters)
    online = method == snapshot.method
    method = method if online else for_candidates(method)
    vector = get_query_vector(memo.manifold, collection, question.query)
    query = snapshot.space.rows(vector[None], "vector", snapshot.vectors.shape[1])
    own = question.query[1] if question.query[0] == "item" else None
    marks = question.marked if method.can("feedback") else []
    left_out, depth = {own, *marks}, max(k, LIST_DEPTH, 0 if online else candidates)
    near = find_nearest_items(snapshot, query, depth + len(left_out))
    scale = np.float32(snapshot.space.scale or 1.0)
    seconds = {"search": memo.seconds}
    after, seconds["rerank"], certain = _rerank_list(memo, vector, question, online, left_out, bool(marks), depth)
    return Comparison(
        snapshot=snapshot,
        question=question,
        query=query,
        method=method,
        online=online,
        own=QUERY_ROW if own is None else int(snapshot.remembered.items[find_item_position(snapshot, own)]),
        before=_take_ranked_items(snapshot.to_ranking(near.indices, near.distances * scale, {}), left_out, depth),
        after=after,
        candidates=NO_ROWS if online else _find_candidate_rows(snapshot, near, marks, candidates),
        seconds=seconds,
        certain=certain,
        marks_count=bool(marks),
    )


def _rerank_list(
    memo: MemoizedSearch,
    vector: Vectors,
    question: Question,
    online: bool,
    left_out: set[Any],
    marks: bool,
    depth: int,
) -> tuple[RankedItems, float, bool | None]:
    """Return the second list, the seconds of its re-ranking, and whether its first k are certain."""
    extra = int(question.query[0] == "item")  # an item finds itself as well
    options = replace(
        question,
        k=question.k + extra,
        positives=question.positives if marks else None,
        negatives=question.negatives if marks else None,
        candidates=None if online else question.candidate_count,
        depth=None if online else depth + extra,
    )
    search_seconds = memo.seconds
    ranking = run_search(memo.manifold, vector[None], options)
    search_seconds = ranking.meta.get("seconds_in", {"search": memo.seconds - search_seconds})["search"]
    seconds = ranking.meta["seconds"] - search_seconds
    certain = ranking.meta.get("certain") if ranking.depth else None
    items = _take_ranked_items(ranking, left_out, depth if not online else question.k)
    if online:  # only the first k are certain; the ranks of other items need a deeper search
        deeper = run_search(memo.manifold, vector[None], replace(options, k=depth + extra))
        items = items.append(_take_ranked_items(deeper, left_out, depth))
    return items, max(0.0, seconds), None if certain is None else bool(certain == 1.0)


def describe_query(collection: Collection, question: Question) -> dict[str, Any]:
    """Return the card of the query."""
    kind, value = question.query
    if kind == "item":
        return collection.card(value)
    return collection.query_card(int(value)) if kind == "query" else _make_plain_card("your vector")


def _make_plain_card(name: str) -> dict[str, Any]:
    return {"id": None, "name": name, "label": None, "text": None, "picture": None}


def _take_ranked_items(ranking: Ranking, left_out: set[Any], depth: int) -> RankedItems:
    """Return the first row of a ranking, without padding and without the items to leave out."""
    rows = zip(ranking.indices[0].tolist(), ranking.ids[0].tolist(), ranking.distances[0].tolist(), strict=True)
    items = [(name, distance) for place, name, distance in rows if place >= 0 and name not in left_out][:depth]
    return RankedItems([name for name, _ in items], [distance for _, distance in items])


def _find_candidate_rows(snapshot: Snapshot, near: Ranking, marked: list[Any], count: int) -> NDArray[np.int64]:
    """Return the rows of the items in the graph: the nearest unmarked items, and the marked ones."""
    marks = snapshot.names.places_of(marked, "items")
    places = near.indices[0]
    first = places[(places >= 0) & ~np.isin(places, marks)][:count]
    rows: NDArray[np.int64] = snapshot.remembered.items[np.union1d(first, marks)]
    return rows
