"""A question of the page -> two lists of items, as the plain search finds them and as they are re-ranked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.manifold import Manifold
from kinrank.manifold.snapshot import Snapshot
from kinrank.methods import Method
from kinrank.parameters import whole_number
from kinrank.ranking import Ranking
from kinrank.web.asked.asking import Asked, Shown, method_asked, place_of, vector_of
from kinrank.web.asked.searching import nearest_items, searched
from kinrank.web.asked.timed import Timed

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

    def and_then(self, other: Listed) -> Listed:
        """Followed by what another list has more."""
        more = [(name, far) for name, far in zip(other.ids, other.distances, strict=True) if name not in self.ranks]
        return Listed(self.ids + [name for name, _ in more], self.distances + [far for _, far in more])


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
    timed = Timed(manifold._snapshot)  # whatever others change in the meantime
    snapshot = timed.snapshot
    k, candidates = whole_number(asked.k, "k"), whole_number(asked.candidates, "candidates")
    method = method_asked(snapshot.method, asked.method, asked.parameters)
    online = method == snapshot.method
    method = method if online else method.over_candidates()
    vector = vector_of(timed.manifold, collection, asked.query)
    query = snapshot.space.rows(vector[None], "vector", snapshot.vectors.shape[1])
    own = asked.query[1] if asked.query[0] == "item" else None
    marks = asked.marked if _uses_marks(method) else []
    left_out, deep = {own, *marks}, max(k, DEEP, 0 if online else candidates)

    near = nearest_items(snapshot, query, deep + len(left_out))
    scale = np.float32(snapshot.space.scale or 1.0)
    seconds = {"search": timed.seconds}
    after, seconds["rerank"], certain = _reranked(timed, vector, asked, online, left_out, bool(marks), deep)
    return Compared(
        snapshot=snapshot,
        asked=asked,
        query=query,
        method=method,
        online=online,
        own=ASKING if own is None else int(snapshot.remembered.items[place_of(snapshot, own)]),
        before=_listed(snapshot.names.ranking(near.indices, near.distances * scale, {}), left_out, deep),
        after=after,
        candidates=NOBODY if online else _candidates(snapshot, near, marks, candidates),
        seconds=seconds,
        certain=certain,
        marks_count=bool(marks),
    )


def _reranked(
    timed: Timed, vector: Vectors, asked: Asked, online: bool, left_out: set[Any], marks: bool, deep: int
) -> tuple[Listed, float, bool | None]:
    """The second list; the seconds that re-ranking took for it; whether its first k are certain."""
    more = int(asked.query[0] == "item")  # it finds itself, too
    ask: dict[str, Any] = {"method": asked.method, "parameters": asked.parameters}
    if marks:
        ask |= {"positives": asked.positives, "negatives": asked.negatives}
    if not online:
        ask |= {"candidates": asked.candidates, "depth": deep + more}
    searching = timed.seconds
    found = searched(timed.manifold, vector[None], k=asked.k + more, **ask)
    searching = found.meta.get("seconds_in", {"search": timed.seconds - searching})["search"]
    seconds, certain = found.meta["seconds"] - searching, found.meta.get("certain") if found.depth else None
    listed = _listed(found, left_out, deep if not online else asked.k)
    if online:  # only the first k are certain: to know the ranks of others takes a search that goes as deep
        further = _listed(searched(timed.manifold, vector[None], k=deep + more, **ask), left_out, deep)
        listed = listed.and_then(further)
    return listed, max(0.0, seconds), None if certain is None else bool(certain == 1.0)


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


def _candidates(snapshot: Snapshot, near: Ranking, marked: list[Any], count: int) -> NDArray[np.int64]:
    """Rows of the items whose graph re-ranks them: the nearest that are not marked, and the marked ones."""
    marks = snapshot.names.places_of(marked, "items")
    found = near.indices[0]
    first = found[(found >= 0) & ~np.isin(found, marks)][:count]
    rows: NDArray[np.int64] = snapshot.remembered.items[np.union1d(first, marks)]
    return rows
