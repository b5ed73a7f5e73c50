"""Search with relevance feedback: items by their chains from positive marks, away from negative ones.

With the query q, the positives P and the negatives N, all in the units of the search without marks:

    D_s(x) = d* from s to x: d, d' and the distance of wide states, mixed as in distance_fusion.py
    D+(x)  = -1/4 log mean over s in {q} and P of exp(-4 D_s(x)),    D-(x) = min over s in N of D_s(x)
    score  = D+ + max(0, D+ - D-) if there is a positive, else D+

Chains from q and P do not pass through N. Every source uses the units of the query. Each source is searched separately:
one search from all of them together loses a third of what marks gain.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.neighbors import Neighbors
from kinrank.stages.chain_search import SearchLabels, settle_items
from kinrank.stages.csr import Rows
from kinrank.stages.distance_fusion import (
    MIN_UNIT_SHARE,
    NO_VALUES,
    START_SHARE,
    DistanceParts,
    Mixture,
    Units,
    measure_units,
    mix_rows,
    write_roots,
)
from kinrank.stages.kernels.compiler import THREAD_RUNNER, Output
from kinrank.stages.online_query import ChainResults, SearchGraph, enter_graph
from kinrank.stages.request import UNRESTRICTED, Marks, Mask, Request
from kinrank.stages.states import wide_distances, wide_distances_from
from kinrank.stages.step_costs import find_chains
from kinrank.vector_input import Vectors

Floats = NDArray[np.float32]
SHARPNESS = 4.0  # of the soft minimum
ITEMS_PER_BLOCK = 2048  # items whose distances to a source are computed together


class ReachedItems(NamedTuple):
    """Items and the cost of reaching each, cheapest first; `everything`: chains reach no other items."""

    items: NDArray[np.int32]
    totals: Floats
    everything: bool


class Sources(NamedTuple):
    """The sources of a search, rows of all arrays: the query, the positives, the negatives.

    Attributes:
        vectors: one per source.
        reached: the items that chains reach from each.
        apart: distances of wide states to all items; empty without a share.
        positives: number of positives.
    """

    vectors: list[Vectors]
    reached: list[ReachedItems]
    apart: Floats
    positives: int


class MarkedItem(NamedTuple):
    """An item of the graph as a query with marks; `query` and `marks` are numbers in the graph.

    distances (1 + marks, g): distances to the gallery items from the query, the positives, the negatives.
    """

    query: int
    marks: Marks
    distances: Floats
    gallery: NDArray[np.int64]


def score_items(parts: DistanceParts, mixture: Mixture, units: Units, positives: int) -> tuple[Floats, Floats]:
    """Return (score, D+) of m items, inf without a chain.

    `parts`: d, d' and distances of wide states, each (sources, m): from the query, the positives, the negatives.
    """
    values = _mix_sources(parts, mixture, units)
    plus = soft_minimum(values[: 1 + positives])
    if not positives or len(values) == 1 + positives:
        return plus, plus
    nearer = np.where(np.isfinite(plus), plus, 0.0) - values[1 + positives :].min(axis=0)
    return plus + np.maximum(nearer, np.float32(0.0)), plus


def soft_minimum(values: Floats) -> Floats:
    """Return (m,) -1/4 log mean exp(-4 D) over the rows of D (s, m), inf if all are."""
    least = values.min(axis=0)
    finite = np.where(np.isfinite(least), least, np.float32(0.0))
    mean = np.exp(-SHARPNESS * (values - finite)).mean(axis=0)
    with np.errstate(divide="ignore"):
        return np.asarray(finite - np.log(mean) / SHARPNESS, np.float32)


def search_with_marks(graph: SearchGraph, request: Request) -> ChainResults:
    """Rank items for one query (1, d) outside the graph by their score; the k best are certain unless the budget ended.

    At most `budget` items are settled from every source.
    """
    assert request.budget is not None
    (marks,), mixture, neighbors = request.marks, graph.mixture, request.neighbors
    most = min(max(request.budget, request.k, mixture.k), len(graph.lengths))
    everybody = UNRESTRICTED.results
    through = everybody
    if len(marks.negatives):
        through = np.ones(len(graph.lengths), np.bool_)
        through[marks.negatives] = False
    with graph.scratch() as scratch:
        labels = scratch.labels
        entry = enter_graph(graph, request, scratch)
        prices = entry.first[0]
        first = np.ascontiguousarray(neighbors.indices[0, : len(prices)])
        reached = [_reach_items(graph.steps, first, prices, through, most, labels)]
        unmarked = (
            reached[0] if through is everybody else _reach_items(graph.steps, first, prices, everybody, most, labels)
        )
        for item in marks.all:
            start, free = np.array([item], np.int32), np.zeros(1, np.float32)
            ways = everybody if item in marks.negatives else through
            reached.append(_reach_items(graph.steps, start, free, ways, most, labels))
    apart = NO_VALUES
    if mixture.direct:
        asking = [entry.wide.state(0), *(graph.wide.state(item) for item in marks.all)]
        apart = np.array([wide_distances_from(state, graph.columns) for state in asking])
    units = _measure_query_units(neighbors, unmarked, prices, apart, mixture, request.masks.counted)
    vectors = [request.queries[0], *graph.vectors[marks.all]]
    sources = Sources(vectors, reached, apart, len(marks.positives))
    return _merge_sources(graph, request, sources, units)


def score_with_marks(
    marked: MarkedItem, steps: Rows, wide: Rows, mixture: Mixture, own: bool
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return (score, reached) of the gallery; `own`: it contains the query itself."""
    query, marks, distances, gallery = marked
    closed = steps
    if len(marks.negatives):
        data = steps.data.copy()
        for item in marks.negatives:
            data[steps.indptr[item] : steps.indptr[item + 1]] = np.inf
        closed = Rows(steps.indptr, steps.indices, data)
    source = np.array([query])
    chained = find_chains(np.concatenate([source, marks.positives]), closed)[0][:, gallery]
    unmarked = chained[:1]
    if len(marks.negatives):
        chained = np.concatenate([chained, find_chains(marks.negatives, steps)[0][:, gallery]])
        unmarked = find_chains(source, steps)[0][:, gallery]
    apart = NO_VALUES
    if mixture.direct:
        apart = wide_distances(wide, np.concatenate([source, marks.all]), gallery)
    first = measure_units(distances[:1], _compute_roots(unmarked, mixture), mixture, own, apart[:1])
    units = Units(*(float(values[0]) for values in first))
    result, _ = score_items(DistanceParts(distances, chained, apart), mixture, units, len(marks.positives))
    return result, np.isfinite(result)


def _reach_items(
    steps: Rows, first: NDArray[np.int32], prices: Floats, through: Mask, most: int, labels: SearchLabels
) -> ReachedItems:
    """Settle at most `most` items from these first steps."""
    items, totals = np.empty(most, np.int32), np.empty(most, np.float32)
    count, waiting = settle_items(first, prices, steps, through, labels, items, totals)
    return ReachedItems(items[:count], totals[:count], waiting == 0)


def _measure_query_units(
    neighbors: Neighbors, unmarked: ReachedItems, prices: Floats, apart: Floats, mixture: Mixture, counted: Mask
) -> Units:
    """Measure units as `chain_search.search_best_first` does: from the k-th counted item, and never close to 0."""
    if mixture.plain:
        return Units(0.0, 1.0, 1.0, 1.0)
    present = neighbors.indices[0] >= 0
    lengths, totals = neighbors.distances[0][present], unmarked.totals
    if len(counted):
        lengths, totals = lengths[counted[neighbors.indices[0][present]]], totals[counted[unmarked.items]]
    largest = prices[: int(present.sum())].max(initial=0.0)
    kth = totals[min(mixture.k, len(totals)) - 1] if len(totals) else 0.0
    roots = _compute_roots(np.array([[kth, largest]], np.float32), mixture)[0]
    near = max(float(lengths[min(mixture.k, len(lengths)) - 1]), MIN_UNIT_SHARE) if len(lengths) else 1.0
    start = START_SHARE * float(lengths[0]) if len(lengths) else 0.0
    wide = 1.0
    if mixture.direct:
        gaps = apart[0][counted] if len(counted) else apart[0]
        wide = max(
            float(np.partition(gaps, min(mixture.k, len(gaps)) - 1)[min(mixture.k, len(gaps)) - 1]), MIN_UNIT_SHARE
        )
    return Units(start, near - start, float(max(roots[0], MIN_UNIT_SHARE * roots[1])) or 1.0, wide)


def _merge_sources(graph: SearchGraph, request: Request, sources: Sources, units: Units) -> ChainResults:
    """Merge the items reached from all sources into one result."""
    mixture, reached, positives, masks, k = graph.mixture, sources.reached, sources.positives, request.masks, request.k
    items = np.unique(np.concatenate([source.items for source in reached]))
    chained = np.empty((len(reached), len(items)), np.float32)
    known = np.zeros(chained.shape, np.bool_)
    for row, source in enumerate(reached):  # an item that is not settled costs at least as much as the last settled one
        chained[row] = _min_unsettled_cost(source)
        places = np.searchsorted(items, source.items)
        chained[row, places], known[row, places] = source.totals, True
        known[row] |= source.everything
    distances = np.array([_distances_from(vector, graph.vectors, items) for vector in sources.vectors])
    gaps = sources.apart[:, items] if mixture.direct else sources.apart
    score, plus = score_items(DistanceParts(distances, chained, gaps), mixture, units, positives)
    last = float(score[np.isfinite(score)].max(initial=0.0))
    possible = np.isfinite(score)
    if len(masks.results):
        possible &= masks.results[items]
    ranked = np.flatnonzero(possible)
    ranked = ranked[np.argsort(score[ranked], kind="stable")]  # items ascend, so ties go to the lower number
    result = ChainResults.empty(1, request.depth)
    result.certain[0], result.settled[0] = True, len(items)
    if not all(source.everything for source in reached):
        outside = np.array([[_min_unsettled_cost(source)] for source in reached[: 1 + positives]], np.float32)
        zeros = np.zeros_like(outside)
        unsettled = float(soft_minimum(_mix_sources(DistanceParts(zeros, outside, zeros), mixture, units))[0])
        first, rest = ranked[:k], ranked[k:]
        kth = float(score[first[-1]]) if len(first) == k else np.inf
        result.certain[0] = bool(known[:, first].all()) and unsettled > kth
        result.certain[0] &= bool((plus[rest[~known[:, rest].all(axis=0)]] > kth).all())
    near = request.neighbors.indices[0]
    others = (near >= 0) & ~np.isin(near, items[np.isfinite(score)])
    if len(masks.results):
        others &= masks.results[np.maximum(near, 0)]
    numbers = np.concatenate([items[ranked], near[others]])[: request.depth]
    lengths = np.concatenate([score[ranked], last + 1.0 + request.neighbors.distances[0][others]])[: request.depth]
    result.indices[0, : len(numbers)], result.distances[0, : len(numbers)] = numbers, lengths
    return result


def _min_unsettled_cost(source: ReachedItems) -> float:
    """Return the lowest possible cost of a chain to an item that this source has not settled."""
    return np.inf if source.everything or not len(source.totals) else float(source.totals[-1])


def _distances_from(vector: Vectors, vectors: Vectors, items: NDArray[np.int32]) -> Floats:
    """Return (m,) Euclidean distances of items from one vector."""
    gaps = np.empty(len(items), np.float32)
    for start in range(0, len(items), ITEMS_PER_BLOCK):
        differences = vectors[items[start : start + ITEMS_PER_BLOCK]] - vector
        gaps[start : start + ITEMS_PER_BLOCK] = np.sqrt(np.einsum("nd,nd->n", differences, differences))
    return gaps


def _compute_roots(chained: Floats, mixture: Mixture) -> Floats:
    """Return the roots of chain costs."""
    roots = np.empty_like(chained)
    THREAD_RUNNER(write_roots, len(chained), (chained, mixture), (Output(roots),))
    return roots


def _mix_sources(parts: DistanceParts, mixture: Mixture, units: Units) -> Floats:
    """Return (s, m) D_s of d, d' and distances of wide states, inf without a chain."""
    roots = _compute_roots(np.ascontiguousarray(parts.chained), mixture)
    values, reached = np.empty(roots.shape, np.float32), np.isfinite(roots)
    each = Units(*(np.full(len(roots), unit, np.float32) for unit in units))
    finite = parts._replace(chained=np.where(reached, roots, np.float32(0.0)))
    THREAD_RUNNER(mix_rows, len(roots), (finite, mixture, each), (Output(values),))
    return np.where(reached, values, np.float32(np.inf))
