"""Neighbours of a query outside the graph -> its state, its first steps, and the best items along cheap chains.

The gallery is prepared once: states p_i, steps and their prices. A query that is not among them gets

    w_j = exp(-d(q, j)^2 / (sigma^2 l_q l_j)) on its k2 nearest, summing to one     l: as in graph.kernel_lengths
    p_q = sum_j w_j p_j,  r_q = sum_j w_j r_j                                       (their largest entries)
    d'(q, x) = min over its first steps q -> j of W(p_q, p_j; d^rho)^gamma + d'(j, x)

It has no mass on itself: a state of its neighbours only, which nothing else could share. Measured, this is better than
the query's own row of the diffusion, and better than rebuilding the graph around it; docs/decisions/ has the numbers.
"""

from __future__ import annotations

import queue
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.neighbors import Neighbors
from kinrank.stages import direct
from kinrank.stages.csr import Rows
from kinrank.stages.kernels import attach as kernels
from kinrank.stages.kernels.arrays import UNTOUCHED
from kinrank.stages.kernels.compiled import chunks, over_threads
from kinrank.stages.kernels.fusion import Mixture
from kinrank.stages.kernels.states import average
from kinrank.stages.kernels.transport import Transport
from kinrank.stages.kernels.wide import Wide
from kinrank.stages.masks import EVERYONE, Mask, Masks
from kinrank.stages.transport import State, exact_flows, state_of

Floats = NDArray[np.float32]
ROWS = 16  # queries answered by one call of the loops


class Scratch(NamedTuple):
    """Room for one search, one entry per item each, clean: loops put back what they touched."""

    mass: Floats
    slots: NDArray[np.int32]
    labels: kernels.Labels
    shared: Floats
    touched: NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class PreparedGraph:
    """What chains run over: unit vectors, states, steps with their prices, kernel lengths l_i; and the wide states."""

    vectors: Vectors
    states: Rows
    steps: Rows
    wide: Rows
    lengths: NDArray[np.floating]
    _free: queue.SimpleQueue[Scratch] = field(default_factory=queue.SimpleQueue, init=False, repr=False)

    @cached_property
    def columns(self) -> Rows:
        """Who has a wide state with mass on an item, and how much."""
        return direct.columns_of(self.wide)

    @contextmanager
    def scratch(self) -> Iterator[Scratch]:
        """Room for one search.

        Kept between searches, one set per thread at work, because clearing n entries would cost more than a search.
        """
        try:
            scratch = self._free.get_nowait()
        except queue.Empty:
            n = len(self.steps.indptr) - 1
            labels = kernels.Labels(
                np.full(n, np.inf, np.float32), np.full(n, -1, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
            )
            compared = n if len(self.wide.data) else 0
            room = np.zeros(compared, np.float32), np.empty(compared, np.int32)
            scratch = Scratch(np.full(n, UNTOUCHED), np.full(n, -1, np.int32), labels, *room)
        yield scratch
        self._free.put(scratch)  # not after an error: then it may not be clean


@dataclass(frozen=True)
class Attachment:
    """How queries enter: sigma, k2, k and support of their states and wide states, `entries` first steps, and how these
    are priced."""

    sigma: float
    k2: int
    k: int
    support: int
    wide_support: int
    entries: int
    transport: Transport
    mixture: Mixture


class QueryStates(NamedTuple):
    """States of queries: row q is items[q, : sizes[q]] with masses[q, : sizes[q]]."""

    items: NDArray[np.int32]
    masses: Floats
    sizes: NDArray[np.int64]

    def state(self, row: int) -> State:
        size = int(self.sizes[row])
        return self.items[row, :size], self.masses[row, :size]


@dataclass(frozen=True, eq=False)
class Found:
    """(q, depth) items and d*, nearest first, -1 and inf behind them; (q,) whether the k best are certain, and
    how many items were settled."""

    indices: NDArray[np.int64]
    distances: Floats
    certain: NDArray[np.bool_]
    settled: NDArray[np.int64]


def weights_of(
    found: Neighbors, lengths: NDArray[np.floating], settings: Attachment, counted: Mask = EVERYONE.counted
) -> Floats:
    """(q, <= k2) weights w of the nearest items, summing to one; 0 where the list is padded with -1.

    l_q is the distance of the k-th item found, or of the last one; only items that are counted count.
    """
    own = found.distances[np.arange(len(found.indices)), kth_counted(found, settings.k, counted)]
    near = found.indices[:, : settings.k2]
    there = near >= 0
    others = lengths[np.maximum(near, 0)].astype(np.float64)
    mine = np.where(own > 0, own, others[:, 0])[:, None]
    squared = np.where(there, found.distances[:, : settings.k2], 0.0).astype(np.float64) ** 2
    exponent = np.where(there, squared / (settings.sigma**2 * mine * others), np.inf)
    weights = np.exp(exponent.min(axis=1, keepdims=True, initial=1e300) - exponent)
    return np.ascontiguousarray(weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-300), np.float32)


def kth_counted(found: Neighbors, k: int, counted: Mask) -> NDArray[np.int64]:
    """(q,) where the k-th item that is counted stands, or the last such; 0 where there is none."""
    there = found.indices >= 0
    if len(counted):
        there &= counted[np.maximum(found.indices, 0)]
    so_far: NDArray[np.int64] = np.cumsum(there, axis=1)
    place: NDArray[np.int64] = np.argmax(so_far == np.minimum(k, so_far[:, -1:]), axis=1)
    return place


class Entered(NamedTuple):
    """How queries stand in the graph: p_q, r_q (of no query where wide states have no share), prices of first steps."""

    states: QueryStates
    wide: QueryStates
    first: Floats


def entered(
    graph: PreparedGraph, found: Neighbors, settings: Attachment, scratch: Scratch, counted: Mask = EVERYONE.counted
) -> Entered:
    """The states and first steps of the queries that found these items."""
    weights = weights_of(found, graph.lengths, settings, counted)
    states = _averaged(graph.states, settings.support, found, weights, scratch.mass)
    wide = QueryStates(np.empty((0, 0), np.int32), np.empty((0, 0), np.float32), np.empty(0, np.int64))
    if settings.mixture.direct:
        wide = _averaged(graph.wide, settings.wide_support, found, weights, scratch.mass)
    return Entered(states, wide, first_steps(graph, found, states, settings, scratch.slots))


def _averaged(states: Rows, support: int, found: Neighbors, weights: Floats, mass: Floats) -> QueryStates:
    """The states of the nearest items, averaged for every query with these weights."""
    count, width = len(found.indices), support
    if not width:
        sizes = np.diff(states.indptr)
        width = int(sizes[np.maximum(found.indices[:, : weights.shape[1]], 0)].sum(axis=1).max(initial=1))
    width = min(width, len(states.indptr) - 1)
    made = QueryStates(
        np.zeros((count, width), np.int32), np.zeros((count, width), np.float32), np.zeros(count, np.int64)
    )
    average(0, count, found.indices, weights, states, mass, *made)
    return made


def first_steps(
    graph: PreparedGraph, found: Neighbors, states: QueryStates, settings: Attachment, slots: NDArray[np.int32]
) -> Floats:
    """(q, entries) the prices of the steps from each query to the items it found first."""
    costs = np.zeros((len(found.indices), min(settings.entries, found.k)), np.float32)
    transport = settings.transport
    if transport.iterations:
        kernels.first_costs(
            0, len(costs), found.indices, states, graph.states, graph.vectors, transport, slots, costs
        )  # fmt: skip
        return costs
    for row, column in zip(*np.nonzero(found.indices[:, : costs.shape[1]] >= 0), strict=True):
        item = int(found.indices[row, column])
        flows = exact_flows(
            states.state(row), state_of(graph.states, item), graph.vectors, transport.rho, transport.unit
        )
        costs[row, column] = sum(mass * cost for _, _, mass, cost in flows) ** transport.gamma
    return costs


def search_chains(
    graph: PreparedGraph, queries: Vectors, found: Neighbors, settings: Attachment, k: int, depth: int, budget: int,
    masks: Masks = EVERYONE,
) -> Found:  # fmt: skip
    """Items by d*, the k best of them certain unless `budget` items did not suffice.

    `masks` says who may be a result; rows that know fewer than `depth` such items are padded.
    """
    count = len(queries)
    result = Found(
        np.full((count, depth), -1, np.int64),
        np.full((count, depth), np.inf, np.float32),
        np.zeros(count, np.bool_),
        np.zeros(count, np.int64),
    )
    nothing = kernels.Chain(np.empty(0, np.int32), np.empty(0, np.float32))
    with graph.scratch() as scratch:
        here = entered(graph, found, settings, scratch, masks.counted)
        _run(graph, queries, found, here, settings.mixture, k, budget, -1, masks, scratch, result, nothing)
    return result


def search_all(
    graph: PreparedGraph, queries: Vectors, found: Neighbors, settings: Attachment, k: int, depth: int, budget: int,
    masks: Masks = EVERYONE,
) -> Found:  # fmt: skip
    """`search_chains` for any number of queries, ROWS at a time, over the threads."""
    spans = chunks(len(queries), ROWS)
    parts: dict[int, Found] = {}

    def search(start: int, stop: int) -> None:
        nearest = Neighbors(found.indices[start:stop], found.distances[start:stop])
        parts[start] = search_chains(graph, queries[start:stop], nearest, settings, k, depth, budget, masks)

    over_threads(search, spans)
    ordered = [parts[start] for start, _ in spans]
    return Found(
        np.concatenate([part.indices for part in ordered]),
        np.concatenate([part.distances for part in ordered]),
        np.concatenate([part.certain for part in ordered]),
        np.concatenate([part.settled for part in ordered]),
    )


def chain_from(
    graph: PreparedGraph, query: Vectors, found: Neighbors, settings: Attachment, item: int, masks: Masks = EVERYONE
) -> tuple[list[int], list[float], State]:
    """(items, totals, state): the cheapest chain from one query to `item`, d' along it, and the state of the query.

    The chain is empty where none leads there.
    """
    n = len(graph.steps.indptr) - 1
    empty = np.empty((1, 0), np.int64), np.empty((1, 0), np.float32)
    result = Found(*empty, np.zeros(1, np.bool_), np.zeros(1, np.int64))
    chain = kernels.Chain(np.empty(n, np.int32), np.empty(n, np.float32))
    with graph.scratch() as scratch:
        here = entered(graph, found, settings, scratch, masks.counted)
        _run(graph, query, found, here, settings.mixture, 1, n, item, masks, scratch, result, chain)
    size = int(result.settled[0])
    return chain.items[:size][::-1].tolist(), chain.totals[:size][::-1].tolist(), here.states.state(0)


def apart_from_items(graph: PreparedGraph, found: Neighbors, settings: Attachment, masks: Masks = EVERYONE) -> Floats:
    """(n,) how far apart the wide states of one query and of every item are."""
    with graph.scratch() as scratch:
        here = entered(graph, found, settings, scratch, masks.counted)
    return direct.apart_from(here.wide.state(0), graph.columns)


def _run(
    graph: PreparedGraph,
    queries: Vectors,
    found: Neighbors,
    here: Entered,
    mixture: Mixture,
    k: int,
    budget: int,
    goal: int,
    masks: Masks,
    scratch: Scratch,
    result: Found,
    chain: kernels.Chain,
) -> None:
    candidates = kernels.Candidates(found.indices, found.distances)
    written = kernels.Result(result.indices, result.distances, result.certain, result.settled)
    columns = graph.columns if len(here.wide.sizes) else graph.wide
    wide = Wide(*here.wide, columns, scratch.shared, scratch.touched)
    kernels.best_first(
        0, len(queries), queries, graph.vectors, candidates, here.first, graph.steps, wide, mixture, int(k),
        int(max(budget, k, mixture.k)), int(goal), masks, scratch.labels, written, chain,
    )  # fmt: skip
