"""Search for a query outside the graph: its state, its first steps, and the best items along cheap chains.

The gallery is prepared once: states p_i, steps and their prices. A query that is not part of it gets

    w_j = exp(-d(q, j)^2 / (sigma^2 l_q l_j)) on its k2 nearest, summing to one     l: gaussian_graph.kernel_lengths
    p_q = sum_j w_j p_j,  r_q = sum_j w_j r_j                                       (their largest entries)
    d'(q, x) = min over its first steps q -> j of W(p_q, p_j; d^rho)^gamma + d'(j, x)

The state has no mass on the query itself, only on its neighbours, because no other state could share that mass. In
measurements this was better than the query's own row of the diffusion and better than rebuilding the graph around the
query; docs/decisions/ has the numbers.
"""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.neighbors import Neighbors
from kinrank.stages import chain_search
from kinrank.stages.chain_search import ChainOutput, QueryStates, SearchScratch
from kinrank.stages.csr import Rows
from kinrank.stages.distance_fusion import Mixture, make_mixture
from kinrank.stages.kernels.compiler import run_on_threads, split_rows
from kinrank.stages.kernels.data_structures import UNTOUCHED
from kinrank.stages.lpmt_settings import LpmtSettings
from kinrank.stages.pipeline import LpmtGraph, transport_settings
from kinrank.stages.request import UNRESTRICTED, Mask, Request
from kinrank.stages.states import PackedRows, RowMixture, average_rows, wide_distances_from
from kinrank.stages.transport import State, TransportSettings, get_state, solve_exact_flows
from kinrank.vector_input import are_unit

Floats = NDArray[np.float32]
FIRST_STEPS_FACTOR = 2  # in units of path_k: no item lists a query, which doubles the steps of other items
QUERIES_PER_CALL = 16  # queries that one kernel call handles


@dataclass(frozen=True, eq=False, kw_only=True)
class SearchGraph(LpmtGraph[PackedRows]):
    """Graph that chains run over, ready for queries.

    Attributes:
        settings: settings of LPMT.
        pricing, mixture: how steps are priced and how distances are mixed.
    """

    settings: LpmtSettings
    pricing: TransportSettings
    mixture: Mixture
    _free: queue.SimpleQueue[SearchScratch] = field(default_factory=queue.SimpleQueue, init=False, repr=False)

    @classmethod
    def over(cls, graph: LpmtGraph[PackedRows], settings: LpmtSettings) -> SearchGraph:
        """Prepare the search of a graph that was built with these settings."""
        powers = graph.powers
        unit = settings.transport == "sinkhorn" or are_unit(graph.vectors)  # only exact transport depends on it
        pricing = transport_settings(settings, powers, unit)
        theta, k = settings.answer_values.theta, min(settings.k, len(graph.vectors))
        mixture = make_mixture(theta, powers.gamma, k, direct=powers.direct)
        return cls(**vars(graph), settings=settings, pricing=pricing, mixture=mixture)

    @cached_property
    def columns(self) -> PackedRows:
        """Wide states by column: for each item, the items whose wide state has mass on it, and how much."""
        return self.wide.transpose()

    @contextmanager
    def scratch(self) -> Iterator[SearchScratch]:
        """Lend work arrays for one search.

        They are kept between searches, one set per working thread, because clearing n entries would cost more than a
        search.
        """
        try:
            scratch = self._free.get_nowait()
        except queue.Empty:
            n = len(self.steps.indptr) - 1
            labels = chain_search.SearchLabels(
                np.full(n, np.inf, np.float32), np.full(n, -1, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
            )
            compared = n if len(self.wide.codes) else 0
            room = np.zeros(compared, np.float32), np.empty(compared, np.int32)
            scratch = SearchScratch(np.full(n, UNTOUCHED, np.float64), np.full(n, -1, np.int32), labels, *room)
        yield scratch
        self._free.put(scratch)  # not after an error, when it may not be clean


@dataclass(frozen=True, eq=False)
class ChainResults:
    """Results of a search along chains.

    Attributes:
        indices, distances: (q, depth) items and d*, nearest first, padded with -1 and inf.
        certain: (q,) True if no other item can be among the k best.
        settled: (q,) number of items whose cheapest chain was found.
    """

    indices: NDArray[np.int64]
    distances: Floats
    certain: NDArray[np.bool_]
    settled: NDArray[np.int64]

    @classmethod
    def empty(cls, count: int, depth: int) -> ChainResults:
        """Return rows to fill."""
        shape = count, depth
        indices, distances = np.full(shape, -1, np.int64), np.full(shape, np.inf, np.float32)
        return cls(indices, distances, np.zeros(count, np.bool_), np.zeros(count, np.int64))

    def select(self, rows: slice) -> ChainResults:
        """Return some rows, as views."""
        return ChainResults(self.indices[rows], self.distances[rows], self.certain[rows], self.settled[rows])


def compute_entry_weights(graph: SearchGraph, neighbors: Neighbors, counted: Mask = UNRESTRICTED.counted) -> Floats:
    """Return the (q, <= k2) weights w of the nearest items, summing to one; 0 where the list is padded with -1.

    l_q is the distance of the k-th item of the list, or of the last one; only items in `counted` count.
    """
    settings, k2 = graph.settings, graph.settings.answer_values.k2
    own = neighbors.distances[np.arange(len(neighbors.indices)), find_kth_counted(neighbors, settings.k, counted)]
    near = neighbors.indices[:, :k2]
    present = near >= 0
    others = graph.lengths[np.maximum(near, 0)].astype(np.float64)
    scale = np.where(own > 0, own, others[:, 0])[:, None]
    squared = np.where(present, neighbors.distances[:, :k2], 0.0).astype(np.float64) ** 2
    exponent = np.where(present, squared / (settings.sigma**2 * scale * others), np.inf)
    weights = np.exp(exponent.min(axis=1, keepdims=True, initial=1e300) - exponent)
    return np.ascontiguousarray(weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-300), np.float32)


def find_kth_counted(neighbors: Neighbors, k: int, counted: Mask) -> NDArray[np.int64]:
    """Return (q,) the position of the k-th counted item, or of the last one; 0 if there is none."""
    present = neighbors.indices >= 0
    if len(counted):
        present &= counted[np.maximum(neighbors.indices, 0)]
    so_far: NDArray[np.int64] = np.cumsum(present, axis=1)
    place: NDArray[np.int64] = np.argmax(so_far == np.minimum(k, so_far[:, -1:]), axis=1)
    return place


class QueryEntry(NamedTuple):
    """Place of queries in the graph: states p_q, wide states r_q (empty if they have no share in d*), first prices."""

    states: QueryStates
    wide: QueryStates
    first: Floats


def enter_graph(graph: SearchGraph, request: Request, scratch: SearchScratch) -> QueryEntry:
    """Compute the states and first steps of queries from their nearest items."""
    neighbors, settings = request.neighbors, graph.settings
    weights = compute_entry_weights(graph, neighbors, request.masks.counted)
    entries = max(weights.shape[1], min(FIRST_STEPS_FACTOR * settings.path_k, neighbors.k))
    near = NearStates.of(graph.states, neighbors.indices[:, :entries])
    states = _average_states(near, settings.support, weights, scratch.mass)
    wide = QueryStates(np.empty((0, 0), np.int32), np.empty((0, 0), np.float32), np.empty(0, np.int64))
    if graph.mixture.direct:
        near_wide = NearStates.of(graph.wide, neighbors.indices[:, : weights.shape[1]])
        wide = _average_states(near_wide, settings.answer_values.direct_support, weights, scratch.mass)
    return QueryEntry(states, wide, price_first_steps(graph, near, states, scratch.slots))


class NearStates(NamedTuple):
    """Unpacked states of the nearest items of queries: that of item (q, c) is row places[q, c], -1 where none is."""

    places: NDArray[np.int32]
    rows: Rows

    @classmethod
    def of(cls, states: PackedRows, items: NDArray[np.int32]) -> NearStates:
        """Unpack the states of items (q, c), padded with -1."""
        places = np.arange(items.size, dtype=np.int32).reshape(items.shape)
        return cls(np.where(items < 0, np.int32(-1), places), states.unpack(items.ravel()))


def _average_states(near: NearStates, support: int, weights: Floats, mass: NDArray[np.float64]) -> QueryStates:
    """Average the states of the nearest items of every query with these weights."""
    count, width = len(weights), support
    if not width:
        sizes = np.diff(near.rows.indptr).reshape(near.places.shape)
        width = int(sizes[:, : weights.shape[1]].sum(axis=1).max(initial=1))
    width = min(width, len(mass))
    result = QueryStates(
        np.zeros((count, width), np.int32), np.zeros((count, width), np.float32), np.zeros(count, np.int64)
    )
    average_rows(0, count, RowMixture(near.places, weights, near.rows, mass), *result)
    return result


def price_first_steps(graph: SearchGraph, near: NearStates, states: QueryStates, slots: NDArray[np.int32]) -> Floats:
    """Return (q, entries) the prices of the steps from each query to its nearest items."""
    entries, transport = FIRST_STEPS_FACTOR * graph.settings.path_k, graph.pricing
    costs = np.zeros((len(near.places), min(entries, near.places.shape[1])), np.float32)
    if transport.iterations:
        chain_search.first_step_costs(near.places, states, near.rows, graph.vectors, transport, slots, costs)
        return costs
    for row, column in zip(*np.nonzero(near.places[:, : costs.shape[1]] >= 0), strict=True):
        other = get_state(near.rows, int(near.places[row, column]))
        flows = solve_exact_flows(states.state(row), other, graph.vectors, transport.rho, transport.unit)
        costs[row, column] = sum(mass * cost for _, _, mass, cost in flows) ** transport.gamma
    return costs


def search_in_blocks(graph: SearchGraph, request: Request) -> ChainResults:
    """Rank items by d*, QUERIES_PER_CALL queries at a time, on several threads.

    The k best are certain unless the budget of settled items did not suffice. Rows with fewer than `depth` possible
    results are padded.
    """
    results = ChainResults.empty(len(request.queries), request.depth)
    no_chain = ChainOutput(np.empty(0, np.int32), np.empty(0, np.float32))

    def search(start: int, stop: int) -> None:
        near, rows = request.neighbors, slice(start, stop)
        nearest = Neighbors(near.indices[rows], near.distances[rows])
        part = replace(request, queries=request.queries[rows], neighbors=nearest)
        _run_search(graph, part, -1, results.select(rows), no_chain)

    run_on_threads(search, split_rows(len(request.queries), QUERIES_PER_CALL))
    return results


def find_chain(graph: SearchGraph, request: Request, item: int) -> tuple[list[int], list[float], State]:
    """Find the cheapest chain from one query to `item`: its items, d' along it, and the state of the query.

    The chain is empty if none leads to the item.
    """
    n = len(graph.steps.indptr) - 1
    results = ChainResults.empty(1, 0)
    chain = ChainOutput(np.empty(n, np.int32), np.empty(n, np.float32))
    entry = _run_search(graph, replace(request, k=1, budget=n), item, results, chain)
    size = int(results.settled[0])
    return chain.items[:size][::-1].tolist(), chain.totals[:size][::-1].tolist(), entry.states.state(0)


def wide_distances_to_items(graph: SearchGraph, request: Request) -> Floats:
    """Return (n,) the distance of the query's wide state from that of every item."""
    with graph.scratch() as scratch:
        entry = enter_graph(graph, request, scratch)
    return wide_distances_from(entry.wide.state(0), graph.columns)


def _run_search(
    graph: SearchGraph, request: Request, goal: int, results: ChainResults, chain: ChainOutput
) -> QueryEntry:
    """Run the best-first search kernel and write into `results` and `chain`; return the place of the queries."""
    assert request.budget is not None
    neighbors, mixture = request.neighbors, graph.mixture
    limits = chain_search.SearchLimits(int(request.k), int(max(request.budget, request.k, mixture.k)), int(goal))
    written = chain_search.SearchOutput(results.indices, results.distances, results.certain, results.settled, chain)
    with graph.scratch() as scratch:
        entry = enter_graph(graph, request, scratch)
        columns = graph.columns if len(entry.wide.sizes) else graph.wide  # not read
        queries = chain_search.SearchedQueries(
            request.queries, neighbors.indices, neighbors.distances, entry.first, entry.wide
        )
        searched = chain_search.SearchedGraph(graph.vectors, graph.steps, columns)
        chain_search.search_best_first(queries, searched, mixture, limits, request.masks, scratch, written)
    return entry
