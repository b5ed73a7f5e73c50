"""Example for the first visit: a query and an item that show the effect of re-ranking."""

from __future__ import annotations

import math
import time
from typing import Any, NamedTuple

import numpy as np

from kinrank.evaluation.relevance import QueryRef
from kinrank.manifold import Manifold
from kinrank.vector_input import sample_evenly
from kinrank.web.collection import Collection
from kinrank.web.page_data.before_after import compare_lists
from kinrank.web.page_data.gallery_search import find_nearest_items
from kinrank.web.page_data.item_chain import CandidateProblem, find_chain
from kinrank.web.page_data.question import Question, get_query_vector

MAX_QUERIES_TRIED = 40
RESULTS_SHOWN = 20  # the item must be among them
SEARCH_DEPTH = 1000
MAX_CHAINS_TRIED = 12
MAX_SECONDS = 1.5  # then the best example so far is used


class Climb(NamedTuple):
    """An item that rose in the results of a query, and how impressive that is."""

    worth: float
    query: QueryRef
    item: Any


def find_example(manifold: Manifold, collection: Collection) -> dict[str, Any] | None:
    """Find the query whose list gained most by an item that rose far, over a chain of at least two steps.

    Returns:
        {"query": as the page writes it, "item": its id}, or None. Methods without chains need no chain.
    """
    started, fixed = time.monotonic(), Manifold(manifold.snapshot)
    climbs = sorted(_find_climbs(fixed, collection), key=lambda climb: -climb.worth)
    for climb in climbs[:MAX_CHAINS_TRIED]:
        comparison = compare_lists(fixed, collection, Question(climb.query, RESULTS_SHOWN))
        row = comparison.find_rows([climb.item])[0]
        steps = len(find_chain(comparison, row, CandidateProblem(comparison)).costs)
        if steps > 1 or not comparison.method.can("explain"):
            kind, value = climb.query
            return {"query": {kind: value}, "item": climb.item}
        if time.monotonic() - started > MAX_SECONDS:
            break
    return None


def _find_climbs(manifold: Manifold, collection: Collection) -> list[Climb]:
    """Return for each query tried the item that rose most; only right ones if ground truth is known."""
    queries = _choose_queries(manifold, collection)
    if not queries:
        return []
    vectors = np.stack([get_query_vector(manifold, collection, query) for query in queries])
    snapshot = manifold.snapshot
    rows = snapshot.space.rows(vectors, "queries", snapshot.vectors.shape[1])
    near = snapshot.names.of(find_nearest_items(snapshot, rows, SEARCH_DEPTH).indices).tolist()
    best = manifold.search(vectors, RESULTS_SHOWN + 1).ids.tolist()
    climbs = (_find_climb(collection, *lists) for lists in zip(queries, near, best, strict=True))
    return [climb for climb in climbs if climb is not None]


def _choose_queries(manifold: Manifold, collection: Collection) -> list[QueryRef]:
    """Return the first queries, or items spread over the gallery."""
    if collection.queries is not None and len(collection.queries):
        return [("query", number) for number in range(min(MAX_QUERIES_TRIED, len(collection.queries)))]
    ids = manifold.snapshot.names.all
    places = sample_evenly(len(ids), MAX_QUERIES_TRIED)
    return [("item", name) for name in ids[places].tolist()] if len(ids) else []


def _find_climb(collection: Collection, query: QueryRef, near: list[Any], best: list[Any]) -> Climb | None:
    """Return the item that rose most in the list of one query, if the list gained."""
    own = query[1] if query[0] == "item" else None
    before, after = ([item for item in items if item not in (own, "", -1)] for items in (near, best))
    ranks = {item: rank for rank, item in enumerate(before, 1)}
    first = after[:RESULTS_SHOWN]
    right = collection.relevance.judge(query, None, first)
    risen = [
        (ranks.get(item, len(before) + 1) / place, item)
        for place, item in enumerate(first, 1)
        if ranks.get(item, RESULTS_SHOWN + 1) > RESULTS_SHOWN and (right is None or right[place - 1])
    ]
    if not risen:
        return None
    rise, item = max(risen, key=lambda pair: pair[0])
    gain = 1.0
    if right is not None:
        gain = right.count(True) - (collection.relevance.judge(query, None, before[:RESULTS_SHOWN]) or []).count(True)
    return Climb(gain * math.log2(rise), query, item) if gain > 0 else None
