"""Steps that a chain may take, the price of each, W(p_i, p_j; d^rho)^gamma, and the cheapest chains (TMT: Eq. 20).

d' is the cost of the cheapest chain. With gamma = 1 and an unrestricted region the direct step is the cheapest, because
W1 obeys the triangle inequality; gamma > 1 makes many small steps cheaper than one large one. online_query.py handles
queries outside the graph.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.stages.csr import Rows
from kinrank.stages.gaussian_graph import union_pattern
from kinrank.stages.kernels.compiler import (
    THREAD_RUNNER,
    Output,
    Runner,
    choose_chunk_rows,
    compile_inner,
    compile_kernel,
    run_in_chunks,
    single_blas_thread,
    thread_count,
)
from kinrank.stages.kernels.data_structures import new_missing_numbers
from kinrank.stages.kernels.nearest_search import multiply_pairs
from kinrank.stages.sparse_rows import Pattern
from kinrank.stages.transport import (
    LANES,
    CostTable,
    TransportSettings,
    compute_ground_costs,
    encode_costs,
    get_state,
    longest_row,
    new_transport_scratch,
    price_problem,
    set_up_from_table,
    set_up_problem,
    solve_exact_flows,
)
from kinrank.vector_input import Vectors

MAX_TABLE_ITEMS = 6000  # up to here ground costs of all pairs are computed at once: 72 MB, half of the time
MAX_TABLE_EXPONENT = 60  # costs from 2^60 on do not fit a table
STEPS_PER_BLOCK = 16  # steps of one item whose ground costs are computed together
SOURCES_TOGETHER, MAX_LABELS = 64, 2**22  # sources whose chains are searched together, and costs of chains in memory
NO_PRODUCTS = np.empty((0, 0), np.float32)
NO_TABLE = CostTable(np.empty((0, 0), np.uint16), np.float32(1.0))


def build_step_pattern(nearest: NDArray[np.int32], k: int) -> Pattern:
    """Return the steps between items of which one has the other among its k nearest; rows ascend.

    nearest (n, > k), each row starting with the item itself.
    """
    return union_pattern(np.ascontiguousarray(nearest[:, 1 : k + 1]))


def price_steps(
    pattern: Pattern,
    states: Rows,
    vectors: Vectors,
    settings: TransportSettings,
    run: Runner = THREAD_RUNNER,
    products: NDArray[np.float32] = NO_PRODUCTS,
    order: NDArray[np.int64] | None = None,
) -> NDArray[np.float32]:
    """Return (steps,) the price of every step of a symmetric pattern, each solved once, from its lower item.

    `products`: (n, n) the inner products of all vectors, if they are known; they are overwritten. `order`: all items in
    the order of their computation.
    """
    n = len(vectors)
    origins = np.repeat(np.arange(n, dtype=np.int32), np.diff(pattern.indptr))
    firsts = pattern.indptr[:-1] + np.bincount(origins[pattern.indices < origins], minlength=n)
    table = NO_TABLE
    if settings.iterations and n <= MAX_TABLE_ITEMS:
        table = _build_table(vectors, products if len(products) else multiply_pairs(vectors), settings)
    steps = StepRanges(np.arange(n) if order is None else order, firsts, *pattern)
    costs = _solve_steps(steps, states, GroundSource(vectors, table), settings, run)
    mirror_prices(pattern, costs)
    return costs


def _build_table(vectors: Vectors, products: NDArray[np.float32], settings: TransportSettings) -> CostTable:
    """Return the ground costs of all pairs, which replace the products in memory.

    There is no table if costs exceed its range, which only long vectors do.
    """
    longest = 1.0 if settings.unit else max(1.0, float(np.sqrt(products.diagonal().max())))
    exponent = math.ceil(settings.rho * math.log2(2.0 * longest))
    if exponent > MAX_TABLE_EXPONENT:
        return NO_TABLE
    table = CostTable(products.view(np.uint16), np.float32(2.0 ** (64 + exponent)))
    run_in_chunks(encode_costs, len(vectors), vectors, products, settings, table, chunk=choose_chunk_rows(len(vectors)))
    return table


def mirror_prices(pattern: Pattern, costs: NDArray[np.float32]) -> None:
    """Copy the price of each step to a lower item from its reverse step, in place."""
    THREAD_RUNNER(mirror_costs, len(pattern.indptr) - 1, (pattern,), (Output(costs, pattern.indptr),))


def price_pairs(
    sources: NDArray[np.int64], targets: NDArray[np.int32], states: Rows, vectors: Vectors, settings: TransportSettings
) -> NDArray[np.float32]:
    """Return (pairs,) the prices of single steps; those from one source are solved together."""
    n = len(states.indptr) - 1
    order = np.argsort(sources, kind="stable")
    indptr = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(sources, minlength=n), out=indptr[1:])
    steps = StepRanges(np.arange(n), indptr[:-1].copy(), indptr, targets[order].astype(np.int32, copy=False))
    costs = np.empty(len(order), np.float32)
    costs[order] = _solve_steps(steps, states, GroundSource(vectors, NO_TABLE), settings, THREAD_RUNNER)
    return costs


class StepRanges(NamedTuple):
    """Steps to price: entries firsts[i] to indptr[i + 1] of the items i in `order`, both (n,) int64; see Pattern."""

    order: NDArray[np.int64]
    firsts: NDArray[np.int64]
    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]


class GroundSource(NamedTuple):
    """Source of ground costs: vectors (n, d) float32 and the costs of all pairs, or NO_TABLE."""

    vectors: Vectors
    table: CostTable


def _solve_steps(
    steps: StepRanges, states: Rows, ground: GroundSource, settings: TransportSettings, run: Runner
) -> NDArray[np.float32]:
    """Return the prices of the steps."""
    costs = run.empty((len(steps.indices),), np.float32)
    if not settings.iterations:
        _solve_exactly(steps, states, ground.vectors, settings, costs)
        return costs
    with single_blas_thread():
        inputs = steps, states, ground, settings
        run(solve_step_costs, len(steps.firsts), inputs, (Output(costs, steps.indptr),), "steps")
    return costs


def _solve_exactly(
    steps: StepRanges, states: Rows, vectors: Vectors, settings: TransportSettings, costs: NDArray[np.float32]
) -> None:
    """Solve exact transport step by step: for comparisons only, so not worth a kernel of its own."""
    for item in range(len(steps.firsts)):
        for entry in range(int(steps.firsts[item]), int(steps.indptr[item + 1])):
            pair = get_state(states, item), get_state(states, int(steps.indices[entry]))
            flows = solve_exact_flows(*pair, vectors, settings.rho, settings.unit)
            costs[entry] = sum(mass * cost for _, _, mass, cost in flows) ** settings.gamma


@compile_inner
def _copy_row(source: Any, target: Any) -> None:
    """Copy one row into another; a slice assignment would take several seconds to compile."""
    for column in range(len(source)):
        target[column] = source[column]


@compile_inner
def _fill_ground_block(i: Any, others: Any, states: Any, vectors: Any, settings: Any, scratch: Any) -> Any:
    """Return ground costs from the items of p_i to those of all `others`; `scratch.slots` has the column of each item.

    The states of neighbours overlap, so together they have far fewer items than one after the other.
    """
    begin, end = states.indptr[i], states.indptr[i + 1]
    used = 0
    for j in others:
        for entry in range(np.uint64(states.indptr[j]), np.uint64(states.indptr[j + 1])):
            item = np.uint32(states.indices[entry])
            if scratch.slots[item] < 0:
                scratch.slots[item] = used
                scratch.column_items[used] = item
                used += 1
    row_items, column_items = states.indices[begin:end], scratch.column_items[:used]
    for row in range(end - begin):
        _copy_row(vectors[row_items[row]], scratch.rows[row])
    for column in range(used):
        _copy_row(vectors[column_items[column]], scratch.columns[column])
    costs = np.dot(scratch.rows[: end - begin], scratch.columns[:used].T)
    compute_ground_costs(costs, vectors, row_items, column_items, settings)
    return costs


@compile_inner
def release_slots(others: Any, states: Any, slots: Any) -> None:
    """Forget the columns of the items of `others`."""
    for j in others:
        for entry in range(np.uint64(states.indptr[j]), np.uint64(states.indptr[j + 1])):
            slots[np.uint32(states.indices[entry])] = -1


class GroundScratch(NamedTuple):
    """Work arrays for the ground costs of a group of steps; `transport` has those for pricing one of them.

    rows, columns: float32 vectors of the two sides. column_items: int32 the items of the columns. slots: (n,) int32 the
    column of each item, -1 for none.
    """

    rows: Any
    columns: Any
    column_items: Any
    slots: Any


@compile_inner
def _new_ground_scratch(states: Any, dimensions: Any) -> Any:
    """Allocate the work arrays of `solve_step_costs`; `dimensions` is 0 if costs come from a table."""
    n, longest = len(states.indptr) - 1, longest_row(states.indptr)
    most = min(n, STEPS_PER_BLOCK * longest)
    rows, columns = np.empty((longest, dimensions), np.float32), np.empty((most, dimensions), np.float32)
    return GroundScratch(rows, columns, np.empty(most, np.int32), new_missing_numbers(n))


@compile_kernel
def solve_step_costs(start: Any, stop: Any, steps: Any, states: Any, ground: Any, settings: Any, costs: Any) -> None:
    """Write costs (steps,) float32 of the steps from items start to stop.

    steps: StepRanges; states: Rows; ground: GroundSource; settings: TransportSettings. Steps are priced in groups that
    do not depend on the range, so that a step has the same bits in every run.
    """
    indptr, indices = steps.indptr, steps.indices
    vectors, table = ground
    known = len(table.codes) > 0
    unit = table.unit if known else np.float32(1.0)
    scratch = _new_ground_scratch(states, 0 if known else vectors.shape[1])
    transport = new_transport_scratch(longest_row(states.indptr), scratch.slots)
    block = np.empty((0, 0), np.float32)
    for place in range(start, stop):
        low = steps.order[place]
        begin = steps.firsts[low]
        while begin < indptr[low + 1]:
            group = indices[begin : min(begin + STEPS_PER_BLOCK, indptr[low + 1])]
            if not known:
                block = _fill_ground_block(low, group, states, vectors, settings, scratch)
            for position in range(len(group)):
                if known:
                    problem = set_up_from_table(low, group[position], states, table, transport)
                else:
                    problem = set_up_problem(low, group[position], states, block, transport)
                costs[begin + position] = price_problem(problem, unit, transport, settings)
            if not known:
                release_slots(group, states, scratch.slots)
            begin += len(group)


@compile_kernel
def mirror_costs(start: Any, stop: Any, pattern: Any, costs: Any) -> None:
    """Copy the costs of steps from items start..stop to lower items from the reverse steps; costs (steps,) float32."""
    indptr, indices = pattern
    for high in range(start, stop):
        for entry in range(indptr[high], indptr[high + 1]):
            low = indices[entry]
            if low >= high:
                break
            first, last = indptr[low], indptr[low + 1]
            while first < last:
                middle = (first + last) // 2
                if indices[middle] < high:
                    first = middle + 1
                else:
                    last = middle
            costs[entry] = costs[first]


def find_chains(
    sources: NDArray[np.int64], steps: Rows, parents: bool = False
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """Return (totals, parents): (sources, n) costs of the cheapest chains, inf without a chain, and previous items."""
    n = len(steps.indptr) - 1
    totals = np.empty((len(sources), n), np.float32)
    before = np.full((len(sources) if parents else 0, n), -1, np.int32)
    together = -(-len(sources) // thread_count())
    if together >= LANES:
        together = -(-together // LANES) * LANES  # nothing remains for a slow last loop
    together = max(1, min(together, SOURCES_TOGETHER, MAX_LABELS // max(n, 1)))
    blocks = -(-len(sources) // together)
    run_in_chunks(search_cheapest_chains, blocks, sources, steps, together, totals, before, chunk=1)
    return totals, before


def trace_chain(parents: NDArray[np.int32], item: int) -> list[int]:
    """Return the items of one chain, from its source to `item`; only `item` itself if no chain leads there."""
    chain = [item]
    while parents[chain[-1]] >= 0:
        chain.append(int(parents[chain[-1]]))
    return chain[::-1]


@compile_kernel
def search_cheapest_chains(
    start: Any, stop: Any, sources: Any, steps: Any, together: Any, totals: Any, parents: Any
) -> None:
    """Find the cheapest chains of blocks start..stop of `together` sources each.

    sources (m,) int64; steps csr.Rows with prices as data -> totals (m, n) float32, inf without a chain; parents (m, n)
    int32, the previous item on the chain to each item, -1 for none; shape (0, n) if they are not needed.

    Items whose totals have fallen offer their steps again, in turns forwards and backwards, until no total falls. For
    many sources at once this takes a quarter of the time of one Dijkstra search each, and gives the same bits: rounded
    sums never fall along a chain.
    """
    n = len(steps.indptr) - 1
    labels, fallen = np.empty((n, together), np.float32), np.zeros(n, np.bool_)
    for block in range(start, stop):
        first, last = block * together, min((block + 1) * together, len(sources))
        for item in range(n):
            for column in range(labels.shape[1]):
                labels[item, column] = np.inf
        for row in range(first, last):
            labels[sources[row], row - first] = 0.0
            fallen[sources[row]] = True
        turn, waiting = 0, 1
        while waiting > 0:
            waiting = 0
            for position in range(n):
                item = np.uint64(position if turn == 0 else n - 1 - position)
                if fallen[item]:
                    fallen[item] = False
                    waiting += 1
                    _offer_steps(item, steps, labels, fallen, parents[first:last])
            turn = 1 - turn
        for row in range(first, last):
            for item in range(n):
                totals[row, item] = labels[item, row - first]


@compile_inner
def _offer_steps(item: Any, steps: Any, labels: Any, fallen: Any, parents: Any) -> None:
    """Lower the totals of all items that a step from this item reaches at less cost, and mark them as fallen."""
    mine = labels[item]
    for entry in range(np.uint64(steps.indptr[item]), np.uint64(steps.indptr[item + np.uint64(1)])):
        other, price = np.uint32(steps.indices[entry]), steps.data[entry]
        theirs = labels[other]
        for row in range(len(parents)):
            if mine[row] + price < theirs[row]:
                parents[row, other] = item
        lower = np.int32(0)
        for column in range(len(theirs)):
            total = mine[column] + price
            lower += np.int32(total < theirs[column])
            theirs[column] = total if total < theirs[column] else theirs[column]
        if lower > 0:
            fallen[other] = True
