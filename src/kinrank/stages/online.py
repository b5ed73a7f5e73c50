"""Neighbours of a query outside the graph -> its state, its first steps, and the best items along cheap chains.

The gallery is prepared once: states p_i, steps and their costs. A query that is not among them gets

    w_j = exp(-d(q, j)^2 / (sigma^2 l_q l_j)) on its k2 nearest, summing to one     l: as in graph.kernel_scale
    p_q = sum_j w_j p_j                                                             (its largest entries)
    d'(q, x) = min over its first steps q -> j of W(p_q, p_j; d^rho)^gamma + d'(j, x)

It has no mass on itself: a state of its neighbours only, which nothing else could share. Measured, this is better than
the query's own row of the diffusion, and better than rebuilding the graph around it; docs/decisions/ has the numbers.
"""

from __future__ import annotations

import itertools
import queue
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.neighbors import Neighbors
from kinrank.stages.paths import Steps

Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Terrain:
    """What chains run over: unit vectors, states (csr of three arrays), steps with their costs, kernel lengths l_i."""

    vectors: Vectors
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    values: Floats
    links: NDArray[np.int64]
    ends: NDArray[np.int32]
    costs: Floats
    lengths: Floats
    _free: queue.SimpleQueue[tuple[NDArray[Any], ...]] = field(
        default_factory=queue.SimpleQueue, init=False, repr=False
    )

    @property
    def states(self) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats]:
        return self.indptr, self.indices, self.values

    @contextmanager
    def scratch(self) -> Iterator[tuple[NDArray[Any], ...]]:
        """(mass, slots, label, place, heap, before), one entry per item, clean; loops put back what they touched.

        Kept between searches, one set per thread at work, because clearing n entries would cost more than a search.
        """
        try:
            room = self._free.get_nowait()
        except queue.Empty:
            n = len(self.links) - 1
            room = (
                np.zeros(n, np.float32), np.full(n, -1, np.int32), np.full(n, np.inf, np.float32),
                np.full(n, -1, np.int32), np.empty(n, np.int32), np.empty(n, np.int32),
            )  # fmt: skip
        yield room
        self._free.put(room)  # not after an error: then it may not be clean


@dataclass(frozen=True)
class Attachment:
    """How queries enter: sigma and k2 of their states, `entries` first steps, and the transport of LPMT."""

    sigma: float
    k2: int
    support: int
    entries: int
    rho: float
    gamma: float
    epsilon: float
    iterations: int


@dataclass(frozen=True, eq=False)
class Attached:
    """States of queries, rows `places[q, : sizes[q]]` with `masses`, and the costs of their first steps."""

    places: NDArray[np.int32]
    masses: Floats
    sizes: NDArray[np.int64]
    first: Floats


def all_costs(steps: Steps, states: Any, vectors: Vectors, how: Attachment) -> Floats:
    """(len(steps.ends),) W(p_i, p_j; d^rho)^gamma of every step, each solved once; exact for iterations = 0."""
    from kinrank.stages.kernels.compiled import in_chunks
    from kinrank.stages.kernels.online import first_higher

    costs = np.zeros(len(steps.ends), np.float32)
    if how.iterations == 0:
        forward = np.flatnonzero(steps.origins < steps.ends)
        costs[forward] = costs[steps.mirror[forward]] = pair_costs(
            steps.origins[forward], steps.ends[forward], states, vectors, how
        )
        return costs
    n = len(steps.links) - 1
    firsts = np.empty(n, np.int64)
    in_chunks(first_higher, n, steps.links, steps.ends, firsts, chunk=chunk_of(n))
    _solve(firsts, steps.links, steps.ends, steps.mirror, states, vectors, how, costs)
    return costs


def pair_costs(sources: NDArray[Any], targets: NDArray[Any], states: Any, vectors: Vectors, how: Attachment) -> Floats:
    """(pairs,) the same for some pairs; those of one source are solved together."""
    from kinrank.stages.transport import transition_costs

    if how.iterations == 0:
        pairs = np.stack([sources, targets], axis=1).astype(np.int32, copy=False)
        prices = transition_costs(pairs, states, vectors, how.rho, 0.0, 0)
        return np.asarray(prices ** np.float32(how.gamma), np.float32)
    order = np.argsort(sources, kind="stable")
    links = np.zeros(states.shape[0] + 1, np.int64)
    np.cumsum(np.bincount(sources, minlength=states.shape[0]), out=links[1:])
    costs, found = np.zeros(len(order), np.float32), np.empty(len(order), np.float32)
    ends = targets[order].astype(np.int32, copy=False)
    _solve(links[:-1].copy(), links, ends, np.arange(len(order)), states, vectors, how, costs)
    found[order] = costs
    return found


def _solve(
    firsts: NDArray[np.int64],
    links: NDArray[np.int64],
    ends: NDArray[np.int32],
    mirror: NDArray[np.int64],
    states: Any,
    vectors: Vectors,
    how: Attachment,
    costs: Floats,
) -> None:
    """Fill in the costs of the steps firsts[i]..links[i + 1] of every item i, and of their mirrors."""
    from kinrank.stages.kernels.compiled import in_chunks, one_blas_thread, threads
    from kinrank.stages.kernels.online import step_costs

    kinds = np.int64, np.int32, np.float32
    parts = states.indptr, states.indices, states.data
    arrays = (part.astype(kind, copy=False) for part, kind in zip(parts, kinds, strict=True))
    n = len(firsts)
    work = np.concatenate([[0], np.cumsum(links[1:] - firsts)])  # steps to solve before each item
    cuts = np.searchsorted(work, np.linspace(0, work[-1], 16 * threads() + 1)[1:-1])
    ends_of = np.unique(np.concatenate([cuts, [n]]))
    spans = [(int(a), int(b)) for a, b in itertools.pairwise([0, *ends_of]) if a < b]
    with one_blas_thread():
        in_chunks(
            step_costs, n, firsts, links, ends, mirror, *arrays, vectors, float(how.rho), np.float32(how.gamma),
            float(how.epsilon), int(how.iterations), costs, spans=spans,
        )  # fmt: skip


def chunk_of(rows: int, least: int = 64) -> int:
    """Rows per call of a loop that clears n entries first: few calls, but enough for every thread."""
    from kinrank.stages.kernels.compiled import threads

    return max(least, rows // (16 * threads()))


def weights_of(found: Neighbors, lengths: Floats, how: Attachment, own: Floats | None) -> Floats:
    """(q, <= k2) weights w of the nearest items, summing to one; 0 where the list is padded with -1.

    own (q,): the lengths l_q; None takes that of the nearest item.
    """
    near = found.indices[:, : how.k2]
    there = near >= 0
    others = lengths[np.maximum(near, 0)].astype(np.float64)
    mine = others[:, :1] if own is None else np.where(own > 0, own, others[:, 0])[:, None]
    squared = np.where(there, found.distances[:, : how.k2], 0.0).astype(np.float64) ** 2
    exponent = np.where(there, squared / (how.sigma**2 * mine * others), np.inf)
    weights = np.exp(exponent.min(axis=1, keepdims=True, initial=1e300) - exponent)
    return np.ascontiguousarray(weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-300), np.float32)


def attach(
    terrain: Terrain, found: Neighbors, how: Attachment, own: Floats | None, room: tuple[NDArray[Any], ...]
) -> Attached:
    """States and first steps of the queries that found these items."""
    from kinrank.stages.kernels.compiled import say_compiling
    from kinrank.stages.kernels.online import first_costs, mean_states

    count = len(found.indices)
    weights = weights_of(found, terrain.lengths, how, own)
    width = how.support
    if not width:
        sizes = np.diff(terrain.indptr)
        width = int(sizes[np.maximum(found.indices[:, : how.k2], 0)].sum(axis=1).max(initial=1))
    places = np.zeros((count, width), np.int32)
    masses = np.zeros((count, width), np.float32)
    sizes = np.zeros(count, np.int64)
    first = np.zeros((count, min(how.entries, found.k)), np.float32)
    say_compiling(first_costs)
    mean_states(0, count, found.indices, weights, *terrain.states, width, room[0], places, masses, sizes)
    attached = Attached(places, masses, sizes, first)
    if how.iterations == 0:
        _exact_first(terrain, found, attached, how)
        return attached
    first_costs(
        0, count, found.indices, places, masses, sizes, *terrain.states, terrain.vectors, float(how.rho),
        np.float32(how.gamma), float(how.epsilon), int(how.iterations), room[1], first,
    )  # fmt: skip
    return attached


def _exact_first(terrain: Terrain, found: Neighbors, attached: Attached, how: Attachment) -> None:
    """The costs of the first steps by exact transport, one after the other."""
    for row in range(len(found.indices)):
        for column in range(attached.first.shape[1]):
            item = int(found.indices[row, column])
            if item >= 0:
                flows = flows_to(terrain, attached, row, item, how.rho)
                cost = sum(mass * price for _, _, mass, price in flows)
                attached.first[row, column] = cost**how.gamma


def flows_to(
    terrain: Terrain, attached: Attached, row: int, item: int, rho: float
) -> list[tuple[int, int, float, float]]:
    """The exact plan between the states of a query and of an item: (from, to, mass, cost), largest flows first."""
    size = int(attached.sizes[row])
    return plan_between(
        (attached.places[row, :size], attached.masses[row, :size]),
        state_of(terrain, item),
        terrain.vectors,
        rho,
    )


def state_of(terrain: Terrain, item: int) -> tuple[NDArray[np.int32], Floats]:
    """p_i: its items and their masses."""
    entries = slice(int(terrain.indptr[item]), int(terrain.indptr[item + 1]))
    return terrain.indices[entries], terrain.values[entries]


def plan_between(
    left: tuple[NDArray[np.int32], Floats],
    right: tuple[NDArray[np.int32], Floats],
    vectors: Vectors,
    rho: float,
) -> list[tuple[int, int, float, float]]:
    """`transport.residual_plan` between two states given by their items and masses."""
    from scipy import sparse

    from kinrank.stages.transport import residual_plan

    items, inverse = np.unique(np.concatenate([left[0], right[0]]), return_inverse=True)
    rows = np.repeat([0, 1], [len(left[0]), len(right[0])])
    masses = np.concatenate([left[1], right[1]])
    both = sparse.csr_array((masses, (rows, inverse)), shape=(2, len(items)))
    flows = residual_plan(0, 1, both, vectors[items], rho)
    return [(int(items[a]), int(items[b]), mass, cost) for a, b, mass, cost in flows]


@dataclass(frozen=True)
class Mixture:
    """How d and d' are mixed, as in stages/fusion.py: theta, gamma, the scales, and which neighbour sets them."""

    theta: float
    gamma: float
    kind: str
    k: int


@dataclass(frozen=True, eq=False)
class Found:
    """(q, depth) items and d*, nearest first, -1 and inf behind them; (q,) whether the k best are certain, and
    how many items were settled."""

    indices: NDArray[np.int64]
    distances: Floats
    certain: NDArray[np.bool_]
    settled: NDArray[np.int64]


def travel(
    terrain: Terrain,
    queries: Vectors,
    found: Neighbors,
    attached: Attached,
    mixture: Mixture,
    k: int,
    depth: int,
    budget: int,
    room: tuple[NDArray[Any], ...],
) -> Found:
    """Items by d* = theta d + (1 - theta) d', the k best of them certain unless `budget` items did not suffice."""
    count = len(queries)
    result = Found(
        np.full((count, depth), -1, np.int64),
        np.full((count, depth), np.inf, np.float32),
        np.zeros(count, np.bool_),
        np.zeros(count, np.int64),
    )
    nothing = np.empty(0, np.int32), np.empty(0, np.float32)
    _run(terrain, queries, found, attached, mixture, k, budget, -1, room, result, nothing)
    return result


def chain_from(
    terrain: Terrain,
    query: Vectors,
    found: Neighbors,
    attached: Attached,
    mixture: Mixture,
    item: int,
    room: tuple[NDArray[Any], ...],
) -> tuple[list[int], list[float]]:
    """(items, reach): the cheapest chain from one query to `item`, and d' of every link; empty where none leads."""
    n = len(terrain.links) - 1
    result = Found(
        np.empty((1, 0), np.int64), np.empty((1, 0), np.float32), np.zeros(1, np.bool_), np.zeros(1, np.int64)
    )
    chain = np.empty(n, np.int32), np.empty(n, np.float32)
    _run(terrain, query, found, attached, mixture, 1, n, item, room, result, chain)
    size = int(result.settled[0])
    return chain[0][:size][::-1].tolist(), chain[1][:size][::-1].tolist()


def _run(
    terrain: Terrain,
    queries: Vectors,
    found: Neighbors,
    attached: Attached,
    mixture: Mixture,
    k: int,
    budget: int,
    goal: int,
    room: tuple[NDArray[Any], ...],
    result: Found,
    chain: tuple[NDArray[np.int32], Floats],
) -> None:
    from kinrank.stages.kernels.compiled import say_compiling
    from kinrank.stages.kernels.online import best_first

    plain = mixture.kind == "plain" or mixture.theta == 1.0
    say_compiling(best_first)
    best_first(
        0, len(queries), queries, terrain.vectors, found.indices, found.distances, attached.first, terrain.links,
        terrain.ends, terrain.costs, np.float32(mixture.theta), np.float32(1.0 / mixture.gamma), plain, int(mixture.k),
        int(k), int(max(budget, k, mixture.k)), int(goal), *room[2:], result.indices, result.distances, result.certain,
        result.settled, *chain,
    )  # fmt: skip
