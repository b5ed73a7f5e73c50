"""Example for the first visit: a query and an item that show the effect of re-ranking."""

from __future__ import annotations

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
from kinrank.web.page_data.likeness import Likeness, measure_steps
from kinrank.web.page_data.question import Question, get_query_vector

MAX_QUERIES_TRIED = 40
RESULTS_SHOWN = 20  # the item must be among them
SEARCH_DEPTH = 1000
MAX_SECONDS = 1.5  # then the best example so far is used


class Climb(NamedTuple):
    """An item that rose in the results of a query, and how many right results this query gained."""

    gain: int
    query: QueryRef
    item: Any


def find_example(manifold: Manifold, collection: Collection) -> dict[str, Any] | None:
    """Find an item that rose into the first results over small steps, at least two, among the queries that gained most.

    Small are steps between items that are alike, without one that is much longer or dearer than the others.

    Returns:
        {"query": as the page writes it, "item": its id}, or None. Methods without chains need no chain.
    """
    started, fixed = time.monotonic(), Manifold(manifold.snapshot)
    climbs = _find_climbs(fixed, collection)
    most = max((climb.gain for climb in climbs), default=0)
    examples: list[tuple[tuple[bool, float], Climb]] = []
    alike = Likeness.measure(fixed.snapshot).alike if climbs else 0.0
    for climb in (climb for climb in climbs if 2 * climb.gain >= most):
        comparison = compare_lists(fixed, collection, Question(climb.query, RESULTS_SHOWN))
        if not comparison.method.can("explain"):
            examples.append(((False, 0.0), climb))
            break
        row = comparison.find_rows([climb.item])[0]
        chain = find_chain(comparison, row, CandidateProblem(comparison))
        steps = measure_steps(comparison, chain)
        if len(steps) > 1:
            examples.append(((max(steps) > alike, max(steps) * max(chain.shares)), climb))
        if time.monotonic() - started > MAX_SECONDS:
            break
    if not examples:
        return None
    best = min(examples, key=lambda example: example[0])[1]
    return {"query": {best.query[0]: best.query[1]}, "item": best.item}


def _find_climbs(manifold: Manifold, collection: Collection) -> list[Climb]:
    """Return for each query tried an item that rose; only right ones if ground truth is known."""
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
    """Return the first item that rose into the results of one query, if these gained."""
    own = query[1] if query[0] == "item" else None
    before, after = ([item for item in items if item not in (own, "", -1)] for items in (near, best))
    ranks = {item: rank for rank, item in enumerate(before, 1)}
    first = after[:RESULTS_SHOWN]
    right = collection.relevance.judge(query, None, first)
    risen = [
        item
        for place, item in enumerate(first)
        if ranks.get(item, RESULTS_SHOWN + 1) > RESULTS_SHOWN and (right is None or right[place])
    ]
    gain = 1
    if right is not None:
        gain = right.count(True) - (collection.relevance.judge(query, None, before[:RESULTS_SHOWN]) or []).count(True)
    return Climb(gain, query, risen[0]) if risen and gain > 0 else None
