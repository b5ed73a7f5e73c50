"""Kernels for chains from a query outside the graph: prices of its first steps, best-first search, several sources."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.stages.distance_fusion import MIN_UNIT_SHARE, START_SHARE, Units, mix_distance, root_of_cost
from kinrank.stages.kernels.compiler import compile_inner, compile_kernel
from kinrank.stages.kernels.data_structures import allows_item, new_range, pop_first, sift_down, sift_up
from kinrank.stages.kernels.fastmath import power32
from kinrank.stages.kernels.nearest_search import exact_distance, squared_distance
from kinrank.stages.sparse_rows import Rows
from kinrank.stages.step_costs import release_slots
from kinrank.stages.transport import State, new_transport_scratch, price_problem, set_up_problem

SETTLED = -2  # value in `place`: the item's cheapest chain is known; -1: the item was not met yet
OVERLAP_BINS = 64  # histogram of the overlap of wide states; more bins end searches only slightly sooner


class SearchLabels(NamedTuple):
    """Work arrays of a search, one entry per item; label is inf and place -1 before and after.

    label: float32, cost of the cheapest chain so far. place, heap: int32, see kernels/data_structures.py. before:
    int32, the previous item on that chain.
    """

    label: Any
    place: Any
    heap: Any
    before: Any


class SearchScratch(NamedTuple):
    """Work arrays of one search, one entry per item. Kernels reset the entries that they touch.

    mass: float64, UNTOUCHED. slots: int32, -1. labels: SearchLabels. shared: float32, 0, overlap with the query's wide
    state; touched: int32, the items with any. These two have length 0 if wide states have no share in d*.
    """

    mass: Any
    slots: Any
    labels: Any
    shared: Any
    touched: Any


class QueryStates(NamedTuple):
    """States of queries: row q has the items items[q, : sizes[q]] with the masses masses[q, : sizes[q]]."""

    items: NDArray[np.int32]
    masses: NDArray[np.float32]
    sizes: NDArray[np.int64]

    def state(self, row: int) -> State:
        """Return the state of one query."""
        size = int(self.sizes[row])
        return self.items[row, :size], self.masses[row, :size]


class SearchedQueries(NamedTuple):
    """Queries of a search: vectors (q, d) float32.

    items (q, c) int32, padded with -1, and distances (q, c): their neighbours, nearest first. first (q, e) float32: the
    prices of the steps to the first e of them. wide: QueryStates, their wide states, or empty.
    """

    vectors: Any
    items: Any
    distances: Any
    first: Any
    wide: Any


class SearchedGraph(NamedTuple):
    """Vectors (n, d) float32, steps: Rows, columns: PackedRows, `PackedRows.transpose` of the wide states."""

    vectors: Any
    steps: Any
    columns: Any


class SearchLimits(NamedTuple):
    """Number of items that must be certain, of items that may be settled, and an item to settle instead, or -1."""

    k: int
    budget: int
    goal: int


class ChainOutput(NamedTuple):
    """One chain from its end to its start: items (n,) int32 and the cost of reaching each, totals (n,) float32."""

    items: Any
    totals: Any


class SearchOutput(NamedTuple):
    """Results: items (q, depth) int64, distances (q, depth) float32, certain (q,) bool, settled (q,) int64.

    chain: ChainOutput, written if there is a goal; `settled` is its length then.
    """

    items: Any
    distances: Any
    certain: Any
    settled: Any
    chain: Any


@compile_inner
def _gather_states(row: Any, found: Any, query: Any, states: Any, own: Any, columns: Any, slots: Any) -> Any:
    """Fill `own` with the state of the query, then with those of the neighbours found.

    Returns the number of neighbours and the number of distinct columns.
    """
    size = query.sizes[row]
    for position in range(size):
        own.indices[position] = query.items[row, position]
        own.data[position] = query.masses[row, position]
    own.indptr[1] = size
    filled = size
    used = 0
    count = 0
    while count < len(found) and found[count] >= 0:
        for entry in range(states.indptr[found[count]], states.indptr[found[count] + 1]):
            item = states.indices[entry]
            own.indices[filled] = item
            own.data[filled] = states.data[entry]
            filled += 1
            if slots[item] < 0:
                slots[item] = used
                columns[used] = item
                used += 1
        count += 1
        own.indptr[count + 1] = filled
    return count, used


@compile_inner
def _ground_costs_to_columns(rows: Any, size: Any, columns: Any, used: Any, vectors: Any, rho: Any) -> Any:
    """Return (size, used) d^rho, summed from differences, because BLAS would start threads of its own inside ours."""
    half = np.float32(0.5 * rho)
    ground = np.empty((size, used), np.float32)
    for x in range(size):
        mine = vectors[rows[x]]
        for y in range(used):
            ground[x, y] = squared_distance(mine, vectors[columns[y]])
        line = ground[x]
        for y in range(used):
            line[y] = power32(line[y], half)
    return ground


@compile_kernel
def first_step_costs(found: Any, query: Any, states: Any, vectors: Any, settings: Any, slots: Any, costs: Any) -> None:
    """Write costs[q, c] = W(p_q, p_j; d^rho)^gamma, the price of the step from query q to its c-th item j.

    found (q, >= c) int32, padded with -1; query: QueryStates; states: Rows; settings: TransportSettings; slots (n,)
    int32, all -1 before and after; costs (q, c) float32.
    """
    most = costs.shape[1]
    longest = query.items.shape[1]
    for row in range(len(costs)):
        for column in range(most):
            if found[row, column] >= 0:
                longest = max(longest, states.indptr[found[row, column] + 1] - states.indptr[found[row, column]])
    total = (most + 1) * longest
    own = Rows(np.zeros(most + 2, np.int64), np.empty(total, np.int32), np.empty(total, np.float32))
    columns = np.empty(total, np.int32)
    scratch = new_transport_scratch(longest, slots)
    everyone = new_range(most + 1)
    for row in range(len(costs)):
        count, used = _gather_states(row, found[row, :most], query, states, own, columns, slots)
        ground = _ground_costs_to_columns(own.indices, query.sizes[row], columns, used, vectors, settings.rho)
        for other in range(count):
            problem = set_up_problem(count - count, np.int32(other + 1), own, ground, scratch)
            costs[row, other] = price_problem(problem, np.float32(1.0), scratch, settings)
        release_slots(everyone[1 : count + 1], own, slots)


@compile_inner
def queue_first_steps(found: Any, first: Any, labels: Any) -> Any:
    """Put the first steps of a query into the queue; return their number and the highest price."""
    size = 0 * len(first)  # a literal has another type, for which Numba would compile the callees again
    largest = np.float32(0.0)
    for entry in range(len(first)):
        item = found[entry]
        if item < 0:
            break
        labels.label[item] = first[entry]
        labels.before[item] = -1
        largest = max(largest, first[entry])
        sift_up(labels.heap, labels.place, labels.label, item, size)
        size += 1
    return size, largest


@compile_inner
def relax_steps(item: Any, steps: Any, labels: Any, size: Any) -> Any:
    """Offer the steps from a settled item to the queue; return the new size of the queue."""
    label, place = labels.label, labels.place
    for entry in range(steps.indptr[item], steps.indptr[item + 1]):
        other = steps.indices[entry]
        total = label[item] + steps.data[entry]
        if place[other] != SETTLED and total < label[other]:
            label[other] = total
            labels.before[other] = item
            at = place[other]
            if at < 0:
                at = size
                size += 1
            sift_up(labels.heap, place, label, other, at)
    return size


@compile_inner
def _trace_chain(goal: Any, labels: Any, chain: Any) -> Any:
    """Write the chain to an item, from its end, and the labels along it; return its length, 0 if there is no chain."""
    count = 0
    item = goal if labels.place[goal] == SETTLED else -1
    while item >= 0:
        chain.items[count] = item
        chain.totals[count] = labels.label[item]
        count += 1
        item = labels.before[item]
    return count


@compile_inner
def _reset_labels(items: Any, labels: Any) -> None:
    """Forget the chains to these items."""
    for position in range(len(items)):
        labels.label[items[position]] = np.inf
        labels.place[items[position]] = -1


@compile_inner
def _first_and_kth_distance(found: Any, found_at: Any, k: Any, counted: Any) -> Any:
    """Return the distances of the first counted item and of the k-th, or of the last if there are fewer."""
    known = 0 * len(found)
    first = np.float32(0.0)
    kth = np.float32(0.0)
    for position in range(len(found)):
        if found[position] < 0 or known == k:
            break
        if allows_item(counted, found[position]):
            known += 1
            kth = found_at[position]
            if known == 1:
                first = kth
    return first, kth


class BestItems(NamedTuple):
    """The k best items so far: a heap of -d* (k,) float32 and numbers (k,) int32 whose root is the worst of them."""

    values: Any
    numbers: Any


class SettledItems(NamedTuple):
    """Items in the order in which they were settled: numbers int32; roots of d', d and -d* float32; best: BestItems."""

    numbers: Any
    roots: Any
    distances: Any
    values: Any
    best: Any


@compile_inner
def _units_of_query(found: Any, found_at: Any, mixture: Any, counted: Any) -> Any:
    """Return the units that the neighbours set; those of roots and wide states are 1 until they are known."""
    start, near = np.float32(0.0), np.float32(1.0)
    if not mixture.plain and len(found) > 0:  # among duplicates the k-th distance is only rounding, see distance_fusion
        nearest, kth = _first_and_kth_distance(found, found_at, mixture.k, counted)
        start = np.float32(START_SHARE) * nearest
        near = max(kth, np.float32(MIN_UNIT_SHARE)) - start
    return Units(start, near, np.float32(1.0), np.float32(1.0))


@compile_inner
def _unit_of_roots(kth_root: Any, largest: Any, mixture: Any) -> Any:
    """Return the unit of roots: that of the k-th counted item, and not much smaller than the largest first step."""
    if mixture.plain:
        return np.float32(1.0)
    unit = max(kth_root, np.float32(MIN_UNIT_SHARE) * root_of_cost(largest, mixture))
    return unit if unit > 0.0 else np.float32(1.0)


@compile_inner
def _mix_settled(first: Any, last: Any, settled: Any, mixture: Any, units: Any, shared: Any, results: Any) -> None:
    """Compute -d* of the items settled between two moments and offer those that may be results to the k best."""
    best = settled.best
    apart = np.float32(0.0)
    for entry in range(first, last):
        item = settled.numbers[entry]
        if mixture.direct > 0.0:
            apart = max(np.float32(1.0) - shared[item], np.float32(0.0))
        value = -mix_distance(settled.distances[entry], settled.roots[entry], apart, mixture, units)
        settled.values[entry] = value
        better = value > best.values[0] or (value == best.values[0] and item < best.numbers[0])
        if better and allows_item(results, item):
            best.values[0] = value
            best.numbers[0] = item
            sift_down(best.values, best.numbers, 0, len(best.values))


@compile_inner
def _least_distance(nearest: Any, cost: Any, full: Any, mixture: Any, units: Any) -> Any:
    """Return a lower bound of d* for items at `nearest` or beyond whose chains cost at least `cost`.

    `full` is the last bin of overlaps that holds such items.
    """
    nearest = np.sqrt(max(nearest * nearest - np.float32(1e-6), np.float32(0.0)))  # from rounded inner products
    apart = np.float32(0.0)
    if mixture.direct > 0.0:
        apart = np.float32(1.0) - np.float32(full + 1) / np.float32(OVERLAP_BINS)
    least = mix_distance(nearest, root_of_cost(cost, mixture), apart, mixture, units)
    return least * np.float32(0.99999)  # margin for the rounding of exp and power


@compile_inner
def _sort_results(count: Any, settled: Any, results: Any) -> Any:
    """Move the settled items that may be results to the front, by d*; return their number and the largest d* of all."""
    values, numbers = settled.values, settled.numbers
    kept = 0 * count
    last = np.float32(0.0)
    for entry in range(count):
        last = max(last, -values[entry])
        if allows_item(results, numbers[entry]):
            values[kept], values[entry] = values[entry], values[kept]
            numbers[kept], numbers[entry] = numbers[entry], numbers[kept]
            kept += 1
    for entry in range(kept // 2 - 1, -1, -1):
        sift_down(values, numbers, entry, kept)
    for end in range(kept - 1, 0, -1):
        values[0], values[end] = values[end], values[0]
        numbers[0], numbers[end] = numbers[end], numbers[0]
        sift_down(values, numbers, 0, end)
    return kept, last


@compile_inner
def _write_results(row: Any, count: Any, settled: Any, queries: Any, place: Any, results: Any, output: Any) -> None:
    """Write settled items by d*, then other items in the order of the search, farther than all settled ones.

    Only items that may be results are written.
    """
    kept, last = _sort_results(count, settled, results)
    items, distances = output.items[row], output.distances[row]
    written = min(kept, len(items))
    for position in range(written):
        items[position] = settled.numbers[position]
        distances[position] = -settled.values[position]
    found, found_at = queries.items[row], queries.distances[row]
    for position in range(len(found)):
        item = found[position]
        if written == len(items) or item < 0:
            break
        if place[item] != SETTLED and allows_item(results, item):
            items[written] = item
            distances[written] = last + np.float32(1.0) + found_at[position]
            written += 1


@compile_kernel
def search_best_first(
    queries: Any, graph: Any, mixture: Any, limits: Any, masks: Any, scratch: Any, result: Any
) -> None:
    """Find the cheapest chains from all queries, nearest items first, until the k best d* are certain.

    SearchedQueries, SearchedGraph, Mixture, SearchLimits, Masks, SearchScratch, SearchOutput. The d* of an item that is
    not settled is at least the mixture of the smallest d, the smallest root and the smallest distance of wide states
    among such items. Only items that may be results are among the k best, and units are measured from items that
    count. With a goal, that item is settled instead and its chain is written.
    """
    n = len(graph.steps.indptr) - 1
    k, goal = limits.k, limits.goal
    most = min(limits.budget, n)
    labels, shared, direct = scratch.labels, scratch.shared, mixture.direct > 0.0
    roots, distances, values = np.empty(most, np.float32), np.empty(most, np.float32), np.empty(most, np.float32)
    best = BestItems(np.empty(k, np.float32), np.empty(k, np.int32))
    settled = SettledItems(np.empty(most, np.int32), roots, distances, values, best)
    nearest_wide, bins = np.empty(mixture.k, np.float32), np.zeros(OVERLAP_BINS, np.int64)
    for row in range(len(queries.vectors)):
        found, found_at = queries.items[row], queries.distances[row]
        size, largest = queue_first_steps(found, queries.first[row], labels)
        listed = 0
        while listed < len(found) and found[listed] >= 0:
            listed += 1
        for position in range(k):
            best.values[position] = -np.inf
            best.numbers[position] = n
        units = _units_of_query(found[:listed], found_at, mixture, masks.counted)
        touched = 0
        full = OVERLAP_BINS - 1  # last bin that may hold items
        if direct:
            touched = sum_overlaps(row, queries.wide, graph.columns, scratch)
            overlapping = scratch.touched[:touched]
            apart_unit = kth_wide_distance(overlapping, shared, masks.counted, nearest_wide)
            units = Units(units.start, units.near, units.root, apart_unit)
            count_overlap_bins(overlapping, shared, masks.results, bins)
        kth_root = np.float32(0.0)
        count = 0
        counted = 0
        mixed = 0  # settled items whose d* is known
        waiting = 0  # position of the first listed item that may be a result and is not settled
        result.certain[row] = True
        while size > 0:
            if count == most:
                result.certain[row] = False
                break
            item = pop_first(labels.heap, labels.place, labels.label, size)
            size -= 1
            labels.place[item] = SETTLED
            settled.numbers[count] = item
            settled.roots[count] = root_of_cost(labels.label[item], mixture)
            settled.distances[count] = exact_distance(queries.vectors[row], graph.vectors[item])
            if direct and shared[item] > 0.0 and allows_item(masks.results, item):
                bins[overlap_bin(shared[item], OVERLAP_BINS)] -= 1
            if counted < mixture.k and allows_item(masks.counted, item):
                kth_root = settled.roots[count]
                counted += 1
            count += 1
            if item == goal:
                break
            size = relax_steps(item, graph.steps, labels, size)
            if counted < mixture.k and count < most and size > 0:
                continue
            if mixed == 0:
                root_unit = _unit_of_roots(kth_root, largest, mixture)
                units = Units(units.start, units.near, root_unit, units.apart)
            _mix_settled(mixed, count, settled, mixture, units, shared, masks.results)
            mixed = count
            if goal < 0 and count >= k and size > 0:
                while waiting < listed and (
                    labels.place[found[waiting]] == SETTLED or not allows_item(masks.results, found[waiting])
                ):
                    waiting += 1
                while direct and full >= 0 and bins[full] == 0:
                    full -= 1
                nearest = found_at[min(waiting, listed - 1)]
                least = _least_distance(nearest, labels.label[labels.heap[0]], full, mixture, units)
                enough = k == masks.possible and best.values[0] > -np.inf  # no other item can be a result
                if least > -best.values[0] or enough:
                    break
        result.settled[row] = count
        if goal >= 0:
            result.settled[row] = _trace_chain(goal, labels, result.chain)
        else:
            _write_results(row, count, settled, queries, labels.place, masks.results, result)
        for position in range(touched):
            shared[scratch.touched[position]] = 0.0
        _reset_labels(settled.numbers[:count], labels)
        _reset_labels(labels.heap[:size], labels)


@compile_inner
def sum_overlaps(row: Any, wide: Any, columns: Any, scratch: Any) -> Any:
    """Compute shared[x] = sum_c min(r_q(c), r_x(c)) for one query.

    Returns the number of items with any overlap; `touched` lists them.
    """
    count = 0 * row
    for place in range(wide.sizes[row]):
        item, mine = wide.items[row, place], wide.masses[row, place]
        other = 0 * row
        for entry in range(columns.indptr[item], columns.indptr[item + 1]):
            other += columns.gaps[entry]
            code = np.int64(columns.codes[entry])
            both = min(mine, np.float32(code * code) * columns.scales[other])
            if not both > 0.0:
                continue
            if scratch.shared[other] == 0.0:
                scratch.touched[count] = other
                count += 1
            scratch.shared[other] += both
    return count


@compile_inner
def kth_wide_distance(items: Any, shared: Any, counted: Any, nearest: Any) -> Any:
    """Return the distance of the k-th nearest wide state among counted items, or of the last one.

    items: those with any overlap; nearest (k,) float32 is a work array.
    """
    k = len(nearest)
    if len(counted) > 0:
        k = 0 * k
        for item in range(len(counted)):
            k += counted[item]
            if k == len(nearest):
                break
        k = max(k, 1)
    for place in range(k):
        nearest[place] = 0.0
    for item in items:
        value = shared[item]
        if value <= nearest[k - 1] or not allows_item(counted, item):
            continue
        at = k - 1
        while at > 0 and nearest[at - 1] < value:
            nearest[at] = nearest[at - 1]
            at -= 1
        nearest[at] = value
    return max(np.float32(1.0) - nearest[k - 1], np.float32(MIN_UNIT_SHARE))


@compile_inner
def overlap_bin(shared: Any, count: Any) -> Any:
    """Return the bin of an item with this overlap."""
    return min(int(shared * count), count - 1)


@compile_inner
def count_overlap_bins(items: Any, shared: Any, results: Any, bins: Any) -> None:
    """Count the items that may be results in each bin of overlap.

    The search takes an item out of its bin when it settles the item.
    """
    for place in range(len(bins)):
        bins[place] = 0
    for item in items:
        if allows_item(results, item):
            bins[overlap_bin(shared[item], len(bins))] += 1


@compile_kernel
def settle_items(first: Any, prices: Any, steps: Any, through: Any, labels: Any, items: Any, totals: Any) -> Any:
    """Find the items that chains reach from these first steps, cheapest first; for searches with several sources.

    Returns the numbers of settled and of waiting items; `items` and `totals` limit how many are settled. first (c,)
    int32, padded with -1, with their prices (c,) float32; steps csr.Rows; through (n,) bool: chains pass only through
    these items but may end at others; length 0: through all. labels SearchLabels. Writes items (m,) int32 and totals
    (m,) float32, the cost of reaching each, ascending.
    """
    label, place = labels.label, labels.place
    size, _ = queue_first_steps(first, prices, labels)
    count = 0 * size
    while size > 0 and count < len(items):
        item = pop_first(labels.heap, place, label, size)
        size -= 1
        place[item] = SETTLED
        items[count] = item
        totals[count] = label[item]
        count += 1
        if allows_item(through, item):
            size = relax_steps(item, steps, labels, size)
    _reset_labels(items[:count], labels)
    _reset_labels(labels.heap[:size], labels)
    return count, size
