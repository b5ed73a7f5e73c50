"""A gallery and what is known of its items -> a query and an item that show at first sight what re-ranking does."""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

import numpy as np

from kinrank.features import evenly
from kinrank.manifold import Manifold
from kinrank.web.asked.asking import Asked, Query, Shown, vector_of
from kinrank.web.asked.chains import Problem, has_chains, walked
from kinrank.web.asked.comparing import compared
from kinrank.web.asked.searching import nearest_items

TRIED = 40  # queries, or items that ask
SHOWN = 20  # results in which it has to be
DEEP = 1000
EXPLAINED = 12  # chains that are looked at
SECONDS = 1.5  # after which the best so far has to do


class Climb(NamedTuple):
    """How impressive it is, who asks, and the item that came up."""

    worth: float
    query: Query
    item: Any


def example(manifold: Manifold, collection: Shown) -> dict[str, Any] | None:
    """The query whose list gained most by an item that came from far behind, over a chain of two steps or more.

    {"query": as the page asks it, "item": the id}; None where nothing like that is found. A method without chains has
    to do without.
    """
    started, fixed = time.monotonic(), Manifold(manifold._snapshot)
    climbs = sorted(_climbs(fixed, collection), key=lambda climb: -climb.worth)
    for climb in climbs[:EXPLAINED]:
        found = compared(fixed, collection, Asked(climb.query, SHOWN))
        steps = len(walked(found, found.rows_of([climb.item])[0], Problem(found)).rows)
        if steps > 1 or not has_chains(found.method):
            kind, value = climb.query
            return {"query": {kind: value}, "item": climb.item}
        if time.monotonic() - started > SECONDS:
            break
    return None


def _climbs(manifold: Manifold, collection: Shown) -> list[Climb]:
    """For every query that is tried the item that came from farthest behind, right ones only where that is known."""
    asking = _asking(manifold, collection)
    if not asking:
        return []
    snapshot, vectors = manifold._snapshot, np.stack([vector_of(manifold, collection, query) for query in asking])
    rows = snapshot.space.rows(vectors, "queries", snapshot.vectors.shape[1])
    near = snapshot.names.of(nearest_items(snapshot, rows, DEEP).indices).tolist()
    best = manifold.search(vectors, SHOWN + 1).ids.tolist()
    found = (_climb(collection, *one) for one in zip(asking, near, best, strict=True))
    return [climb for climb in found if climb is not None]


def _asking(manifold: Manifold, collection: Shown) -> list[Query]:
    """The first queries, or items spread over the gallery."""
    if collection.queries is not None and len(collection.queries):
        return [("query", number) for number in range(min(TRIED, len(collection.queries)))]
    ids = manifold._snapshot.names.all
    places = evenly(len(ids), TRIED)
    return [("item", name) for name in ids[places].tolist()] if len(ids) else []


def _climb(collection: Shown, query: Query, near: list[Any], best: list[Any]) -> Climb | None:
    """What the list of one query gained, and by whom."""
    own = query[1] if query[0] == "item" else None
    before, after = ([item for item in items if item not in (own, "", -1)] for items in (near, best))
    ranks = {item: rank for rank, item in enumerate(before, 1)}
    first = after[:SHOWN]
    right = collection.verdicts(query, None, first)
    come = [
        (ranks.get(item, len(before) + 1) / place, item)
        for place, item in enumerate(first, 1)
        if ranks.get(item, SHOWN + 1) > SHOWN and (right is None or right[place - 1])
    ]
    if not come:
        return None
    rise, item = max(come, key=lambda one: one[0])
    gained = 1.0
    if right is not None:
        gained = right.count(True) - (collection.verdicts(query, None, before[:SHOWN]) or []).count(True)
    return Climb(gained * math.log2(rise), query, item) if gained > 0 else None
