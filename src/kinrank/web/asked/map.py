"""Two compared lists and a chain -> the neighbourhood as a map: what was near before, and what is near now."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.neighbors import pairwise
from kinrank.web.asked.asking import Shown, worded
from kinrank.web.asked.chains import Problem, Walk
from kinrank.web.asked.comparing import ASKING, Compared
from kinrank.web.asked.layout import Floats, laid_out, mutual, ranks_within

FIRST = 30  # items of each list that are on the map
MOST = 72  # points in all
BUDGET = 500  # items whose chains are looked at for each point


def mapped(found: Compared, walk: Walk, collection: Shown, problem: Problem) -> dict[str, Any]:
    """The points with where they are before and after, the chain over them, and how they were laid out."""
    before, after = (found.rows_of(one.ids[:FIRST]) for one in (found.before, found.after))
    if not found.online:  # what is not re-ranked has no place among those who are
        inside = set(problem.rows)
        before, after = ([row for row in rows if row in inside] for rows in (before, after))
    rows = list(dict.fromkeys([ASKING, *walk.rows, *after, *before]))[:MOST]
    near_now = _searched(found, rows) if found.online else _in_one_graph(found, rows, problem)
    places = laid_out(_by_vectors(found, rows), _apart(found, rows, near_now))
    cards = [found.card_at(collection, row) for row in rows]
    right = _judged(found, collection, rows, cards)
    chain, lists = set(walk.rows), (set(before), set(after))
    points = [
        {"card": card, "role": _role(row, chain, *lists), "right": verdict, "before": _point(old), "after": _point(new)}
        for row, card, verdict, old, new in zip(rows, cards, right, *places, strict=True)
    ]
    note = (
        "Before: distance on the map follows the distance between vectors, as far as two dimensions allow. "
        "After: two items are close if each ranks the other high after re-ranking "
        f"({worded(found.method)}), among the {len(rows)} items shown."
    )
    return {"points": points, "chain": [rows.index(row) for row in (ASKING, *walk.rows) if row in rows], "note": note}


def _apart(found: Compared, rows: list[int], distances: Floats) -> Floats:
    """(m, m) how far apart points are, from their distances (m, m), of which every row is for itself.

    Nobody finds the query, nor one that is remembered: for others they have the rank that these have for them.
    """
    ranks, remembered = ranks_within(distances), found.snapshot.remembered.mask
    asking = np.array([row == ASKING or bool(remembered[row]) for row in rows])
    ranks[:, asking] = ranks[asking].T
    return mutual(ranks)


def _by_vectors(found: Compared, rows: list[int]) -> Floats:
    vectors = _vectors(found, rows)
    return np.asarray(pairwise(vectors, vectors, found.snapshot.space.unit), np.float64)


def _searched(found: Compared, rows: list[int]) -> Floats:
    """(m, m) distances of the prepared gallery: every point asks for all the others."""
    snapshot, count = found.snapshot, len(rows)
    column_of = np.full(len(snapshot) + 1, count)  # by item number; one column too many, for those not on the map
    for column, row in enumerate(rows):
        if row != ASKING and not snapshot.remembered.mask[row]:
            column_of[snapshot.remembered.numbers(np.array([row]))] = column
    distances = np.full((count, count + 1), np.inf)
    allowed = column_of[:-1] < count
    if allowed.any():
        answer = snapshot.search(_vectors(found, rows), count, count, BUDGET, snapshot.masks(allowed))
        np.put_along_axis(distances, column_of[answer.indices], answer.distances.astype(np.float64), axis=1)
    return distances[:, :count]


def _in_one_graph(found: Compared, rows: list[int], problem: Problem) -> Floats:
    """(m, m) distances of the method in the graph of the query and its candidates, in which everyone asks."""
    nodes = np.array([problem.rows.index(row) for row in rows])
    return np.asarray(found.method.distances(problem.prepared, nodes)[:, nodes], np.float64)


def _vectors(found: Compared, rows: list[int]) -> NDArray[np.float32]:
    items = [row for row in rows if row != ASKING]
    return np.concatenate([found.query, found.snapshot.vectors[items]])  # the query always comes first


def _judged(found: Compared, collection: Shown, rows: list[int], cards: list[dict[str, Any]]) -> list[bool | None]:
    items = [card["id"] for row, card in zip(rows, cards, strict=True) if row != ASKING and card["id"] is not None]
    verdicts = collection.verdicts(found.asked.query, found.asked.level, items)
    known: dict[Any, bool | None] = {} if verdicts is None else dict(zip(items, verdicts, strict=True))
    return [None if row == ASKING else known.get(card["id"]) for row, card in zip(rows, cards, strict=True)]


def _role(row: int, chain: set[int], before: set[int], after: set[int]) -> str:
    if row == ASKING:
        return "query"
    if row in chain:
        return "chain"
    if row in before and row in after:
        return "both"
    return "before" if row in before else "after"


def _point(place: NDArray[np.float64]) -> list[float]:
    return [round(float(one), 5) for one in place]
