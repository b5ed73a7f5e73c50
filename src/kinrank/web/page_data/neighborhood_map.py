"""Map of the neighbourhood of a query in two dimensions, before and after re-ranking."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.chain import Chain
from kinrank.neighbors import pairwise_distances
from kinrank.stages.request import Request
from kinrank.web.collection import Collection
from kinrank.web.page_data.before_after import QUERY_ROW, Comparison
from kinrank.web.page_data.item_chain import CandidateProblem

Floats = NDArray[np.float64]

ITEMS_PER_LIST = 30
MAX_POINTS = 72
SEARCH_BUDGET = 500  # items examined for each point
STRESS_ROUNDS = 60  # iterations of stress minimisation
QUERY_WEIGHT = 20.0  # of pairs with the query, because distances to the query matter most
MARGIN = 0.04  # of the unit square, free on all sides


def build_map(
    comparison: Comparison, chain: Chain, collection: Collection, problem: CandidateProblem
) -> dict[str, Any]:
    """Return the points with their positions before and after, and the chain over them, as JSON."""
    lists = (comparison.before, comparison.after)
    before, after = (comparison.find_rows(items.ids[:ITEMS_PER_LIST]) for items in lists)
    if not comparison.online:  # items that are not re-ranked have no position after re-ranking
        inside = set(problem.rows)
        before, after = ([row for row in rows if row in inside] for rows in (before, after))
    on_chain = chain.names if chain.reached else ()
    rows = list(dict.fromkeys([QUERY_ROW, *on_chain, *after, *before]))[:MAX_POINTS]
    if comparison.online:
        distances = _measure_online_distances(comparison, rows)
    else:
        nodes = np.array([problem.rows.index(row) for row in rows])
        distances = np.asarray(comparison.method.distances(problem.prepared, nodes)[:, nodes], np.float64)
    vectors = _stack_vectors(comparison, rows)
    plain = np.asarray(pairwise_distances(vectors, vectors, comparison.snapshot.space.unit), np.float64)
    layouts = compute_layouts(plain, _measure_mutual_distances(comparison, rows, distances))
    rounded = (layout.round(5).tolist() for layout in layouts)
    cards = [comparison.describe_row(collection, row) for row in rows]
    right = _judge_points(comparison, collection, rows, cards)
    members = set(on_chain), set(before), set(after)
    points = [
        {
            "card": card,
            "role": _get_role(row, *members),
            "right": verdict,
            "before": old,
            "after": new,
        }
        for row, card, verdict, old, new in zip(rows, cards, right, *rounded, strict=True)
    ]
    return {"points": points, "chain": [rows.index(row) for row in (QUERY_ROW, *on_chain) if row in rows]}


def _measure_mutual_distances(comparison: Comparison, rows: list[int], distances: Floats) -> Floats:
    """Return (m, m) distances of points from distances (m, m) whose rows cannot be compared with each other.

    No item finds the query or a remembered query; for other points they get the ranks that these have for them.
    """
    ranks, remembered = rank_within_rows(distances), comparison.snapshot.remembered.mask
    is_query = np.array([row == QUERY_ROW or bool(remembered[row]) for row in rows])
    ranks[:, is_query] = ranks[is_query].T
    return measure_mutual_ranks(ranks)


def _measure_online_distances(comparison: Comparison, rows: list[int]) -> Floats:
    """Return (m, m) distances of the prepared gallery: each point is a query for all others."""
    snapshot, count = comparison.snapshot, len(rows)
    column_of = np.full(len(snapshot) + 1, count)  # by item number; an extra column for items that are not on the map
    for column, row in enumerate(rows):
        if row != QUERY_ROW and not snapshot.remembered.mask[row]:
            column_of[snapshot.remembered.numbers(np.array([row]))] = column
    distances = np.full((count, count + 1), np.inf)
    allowed = column_of[:-1] < count
    if allowed.any():
        vectors = _stack_vectors(comparison, rows)
        answer = snapshot.search(Request(vectors, count, count, SEARCH_BUDGET, snapshot.masks(allowed)))
        np.put_along_axis(distances, column_of[answer.indices], answer.distances.astype(np.float64), axis=1)
    return distances[:, :count]


def _stack_vectors(comparison: Comparison, rows: list[int]) -> NDArray[np.float32]:
    items = [row for row in rows if row != QUERY_ROW]
    return np.concatenate([comparison.query, comparison.snapshot.vectors[items]])  # the query is always the first row


def _judge_points(
    comparison: Comparison, collection: Collection, rows: list[int], cards: list[dict[str, Any]]
) -> list[bool | None]:
    pairs = list(zip(rows, cards, strict=True))
    items = [card["id"] for row, card in pairs if row != QUERY_ROW and card["id"] is not None]
    verdicts = collection.relevance.judge(comparison.question.query, comparison.question.level, items)
    known: dict[Any, bool | None] = {} if verdicts is None else dict(zip(items, verdicts, strict=True))
    return [None if row == QUERY_ROW else known.get(card["id"]) for row, card in pairs]


def _get_role(row: int, chain: set[int], before: set[int], after: set[int]) -> str:
    if row == QUERY_ROW:
        return "query"
    if row in chain:
        return "chain"
    if row in before and row in after:
        return "both"
    return "before" if row in before else "after"


def rank_within_rows(distances: Floats) -> Floats:
    """Return (m, m) ranks along each row: 1 + the number of nearer points; 0 on the diagonal, equal ranks for ties.

    Distances in different rows cannot be compared; ranks can.
    """
    rows = np.array(distances, np.float64)
    np.fill_diagonal(rows, -np.inf)
    return np.asarray((rows[:, None, :] < rows[:, :, None]).sum(axis=2), np.float64)


def measure_mutual_ranks(ranks: Floats) -> Floats:
    """Return (m, m) distances from 0 to 1: the worse of the two ranks that two points have for each other."""
    return np.asarray(np.maximum(ranks, ranks.T) / max(1, len(ranks) - 1))


def compute_layouts(before: Floats, after: Floats) -> tuple[Floats, Floats]:
    """Return two layouts (m, 2) in the unit square for two distance matrices (m, m) of the same points.

    Each minimises stress, the squared differences between given and drawn distances, with a larger weight for the first
    point. The second layout is rotated and mirrored onto the first, so that only real changes move.
    """
    first, second = _normalize_size(_minimize_stress(before)), _normalize_size(_minimize_stress(after))
    left, _, right = np.linalg.svd(second.T @ first)
    both = np.concatenate([first, second @ (left @ right)])
    low, high = both.min(axis=0, initial=0.0), both.max(axis=0, initial=0.0)
    scale = (1.0 - 2.0 * MARGIN) / max(float((high - low).max()), 1e-12)
    inside = np.clip((both - (low + high) / 2.0) * scale + 0.5, MARGIN, 1.0 - MARGIN)
    return inside[: len(first)], inside[len(first) :]


def _minimize_stress(distances: Floats) -> Floats:
    """Return (m, 2) coordinates by weighted SMACOF, started from classical scaling."""
    count = len(distances)
    if count < 2:
        return np.zeros((count, 2))
    points = _compute_classical_scaling(distances)
    weights = np.ones_like(distances)
    weights[0, :], weights[:, 0] = QUERY_WEIGHT, QUERY_WEIGHT
    np.fill_diagonal(weights, 0.0)
    inverse = np.linalg.pinv(np.diag(weights.sum(axis=1)) - weights)
    for _ in range(STRESS_ROUNDS):
        gaps = np.sqrt(np.square(points[:, None] - points[None]).sum(axis=2))
        pull = -np.divide(weights * distances, gaps, out=np.zeros_like(gaps), where=gaps > 1e-9)
        pull[np.arange(count), np.arange(count)] = -pull.sum(axis=1)
        points = inverse @ (pull @ points)
    return points


def _compute_classical_scaling(distances: Floats) -> Floats:
    """Return the two largest axes of the centred squared distances, with fixed signs, so that layouts are stable."""
    squared = np.square(distances)
    centred = squared - squared.mean(axis=0) - squared.mean(axis=1, keepdims=True) + squared.mean()
    values, axes = np.linalg.eigh(-0.5 * (centred + centred.T) / 2.0)
    values, axes = values[::-1][:2], axes[:, ::-1][:, :2]
    axes = axes * np.where(axes[np.abs(axes).argmax(axis=0), np.arange(2)] < 0, -1.0, 1.0)
    return np.asarray(axes * np.sqrt(np.maximum(values, 0.0)))


def _normalize_size(points: Floats) -> Floats:
    """Centre the points and scale them to a root mean square distance of 1, unless all are equal."""
    centred = points - points.mean(axis=0, keepdims=True) if len(points) else points
    size = float(np.sqrt(np.square(centred).sum(axis=1).mean())) if len(points) else 0.0
    return centred / size if size > 1e-12 else np.zeros_like(centred)
