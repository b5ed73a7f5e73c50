"""A question of the page -> two lists of items, as the plain search finds them and as they are re-ranked."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.manifold import Manifold
from kinrank.manifold.snapshot import Snapshot
from kinrank.methods import Method
from kinrank.neighbors import Neighbors
from kinrank.parameters import whole_number
from kinrank.ranking import Ranking
from kinrank.web.asking import Asked, Shown, method_asked, place_of, vector_of
from kinrank.web.searching import nearest_items, searched

DEEP = 1000  # places of a list that are known, however few are shown
ASKING = -1  # stands for the query where others are told by their row
NOBODY = np.empty(0, np.int64)


@dataclass(frozen=True, eq=False)
class Listed:
    """Items of one list, nearest first: their ids and distances."""

    ids: list[Any]
    distances: list[float]

    @cached_property
    def ranks(self) -> dict[Any, int]:
        """The rank of every item that is known, from 1."""
        return {name: place for place, name in enumerate(self.ids, 1)}


@dataclass(frozen=True, eq=False)
class Compared:
    """What the plain search found and what re-ranking made of it.

    Attributes:
        snapshot: the state of the gallery that both come from.
        asked: the question.
        query: (1, d) the vector that asks, as rows of the snapshot are.
        method: what re-ranks.
        online: whether the prepared gallery does it; otherwise a graph of candidates.
        own: the row of the item that asks; ASKING where no item does.
        before, after: the two lists, without the item that asks and without marked ones.
        candidates: rows of the items that are re-ranked; empty where all of them are.
        seconds: what `search` and `rerank` took.
        certain: whether the first of the second list are certain; None where the method does not say.
        marks_count: whether marked items have a part in it.
    """

    snapshot: Snapshot
    asked: Asked
    query: Vectors
    method: Method
    online: bool
    own: int
    before: Listed
    after: Listed
    candidates: NDArray[np.int64]
    seconds: dict[str, float]
    certain: bool | None
    marks_count: bool

    def rows_of(self, ids: Sequence[Any]) -> list[int]:
        """The rows of items by their ids."""
        snapshot = self.snapshot
        found: list[int] = snapshot.remembered.items[snapshot.names.places_of(list(ids), "items")].tolist()
        return found

    def card_at(self, collection: Shown, row: int) -> dict[str, Any]:
        """What is shown of a row: of an item, of a remembered query, or of the query itself."""
        remembered, names = self.snapshot.remembered, self.snapshot.names
        if row == ASKING:
            return query_card(collection, self.asked)
        number = int(remembered.numbers(np.array([row]))[0])
        if remembered.mask[row]:
            return _nameless(f"remembered query {number}")
        return collection.card(names.of(np.array([number])).tolist()[0])


def compared(manifold: Manifold, collection: Shown, asked: Asked) -> Compared:
    """Both lists, from one state of the gallery, DEEP items of each or all that are re-ranked."""
    fixed = Manifold(manifold._snapshot)  # whatever others change in the meantime
    snapshot = fixed._snapshot
    k, candidates = whole_number(asked.k, "k"), whole_number(asked.candidates, "candidates")
    method = method_asked(snapshot.method, asked.method, asked.parameters)
    online = method == snapshot.method
    vector = vector_of(fixed, collection, asked.query)
    query = snapshot.space.rows(vector[None], "vector", snapshot.vectors.shape[1])
    own = asked.query[1] if asked.query[0] == "item" else None
    marks = bool(asked.marked) and _uses_marks(method)
    left_out = {*asked.marked} if marks else set()
    deep = max(k, DEEP, 0 if online else candidates)
    more = 0 if own is None else 1

    near = nearest_items(snapshot, query, deep + more + len(left_out))
    clock = _Clock(snapshot)
    found = searched(
        clock.manifold, vector[None], k=k + more, depth=deep + more, method=asked.method, parameters=asked.parameters,
        candidates=None if online else candidates, positives=asked.positives if marks else None,
        negatives=asked.negatives if marks else None,
    )  # fmt: skip
    spent = found.meta.get("seconds_in", {"search": clock.seconds})["search"]
    certain = found.meta.get("certain")
    before = snapshot.names.ranking(near.indices, near.distances * np.float32(snapshot.space.scale or 1.0), {})
    return Compared(
        snapshot=snapshot,
        asked=asked,
        query=query,
        method=method,
        online=online,
        own=ASKING if own is None else int(snapshot.remembered.items[place_of(snapshot, own)]),
        before=_listed(before, {own, *left_out}, deep),
        after=_listed(found, {own, *left_out}, deep),
        candidates=NOBODY if online else _reranked(snapshot, near, asked.marked if marks else [], candidates),
        seconds={"search": spent, "rerank": max(0.0, found.meta["seconds"] - spent)},
        certain=None if certain is None or not found.depth else bool(certain == 1.0),
        marks_count=marks,
    )


class _Clock:
    """A manifold of a snapshot that adds up what its searches for neighbours take."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.seconds, self._search = 0.0, snapshot.gallery.search
        gallery = replace(snapshot.gallery, search=self._timed)
        self.manifold = Manifold(replace(snapshot, gallery=gallery))

    def _timed(self, queries: Vectors, k: int) -> Neighbors:
        started = time.perf_counter()
        found = self._search(queries, k)
        self.seconds += time.perf_counter() - started
        return found


def query_card(collection: Shown, asked: Asked) -> dict[str, Any]:
    """What is shown of who asks."""
    kind, value = asked.query
    if kind == "item":
        return collection.card(value)
    return collection.query_card(int(value)) if kind == "query" else _nameless("your vector")


def _nameless(words: str) -> dict[str, Any]:
    return {"id": None, "name": words, "label": None, "text": None, "picture": None}


def _uses_marks(method: Method) -> bool:
    try:
        method.check_marked()
    except ValueError:
        return False
    return True


def _listed(ranking: Ranking, left_out: set[Any], deep: int) -> Listed:
    """The first row of a ranking, without padding and without some items."""
    rows = zip(ranking.indices[0].tolist(), ranking.ids[0].tolist(), ranking.distances[0].tolist(), strict=True)
    kept = [(name, far) for place, name, far in rows if place >= 0 and name not in left_out][:deep]
    return Listed([name for name, _ in kept], [far for _, far in kept])


def _reranked(snapshot: Snapshot, near: Ranking, marked: list[Any], candidates: int) -> NDArray[np.int64]:
    """Rows of the items whose graph re-ranks them: the nearest that are not marked, and the marked ones."""
    marks = snapshot.names.places_of(marked, "items")
    found = near.indices[0]
    first = found[(found >= 0) & ~np.isin(found, marks)][:candidates]
    rows: NDArray[np.int64] = snapshot.remembered.items[np.union1d(first, marks)]
    return rows
