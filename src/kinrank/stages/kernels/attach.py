"""A query outside the graph -> the prices of its first steps, and the items its cheapest chains reach."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kinrank.stages.kernels.arrays import has, numbered
from kinrank.stages.kernels.compiled import compiled, inner
from kinrank.stages.kernels.costs import release
from kinrank.stages.kernels.fastmath import power32
from kinrank.stages.kernels.fusion import LEAST, START, mixed, root_of
from kinrank.stages.kernels.heap import rise, take
from kinrank.stages.kernels.order import sift_down
from kinrank.stages.kernels.rows import Rows
from kinrank.stages.kernels.transport import price, scratch_for
from kinrank.stages.kernels.wide import BINS, apart_unit_of, bin_of, overlaps, sort_into_bins

SETTLED = -2  # in `place`: the item's cheapest chain is known; -1: not met yet


class Labels(NamedTuple):
    """What a search works in, one entry per item: label inf and place -1 before and after.

    label: float32, the cheapest chain so far. place, heap: int32, see kernels/heap.py. before: int32, the item before.
    """

    label: Any
    place: Any
    heap: Any
    before: Any


class Candidates(NamedTuple):
    """What a search found for each query, nearest first: items (q, c) int32, -1 behind them, distances (q, c)."""

    items: Any
    distances: Any


class Result(NamedTuple):
    """items (q, depth) int64, distances (q, depth) float32, certain (q,) bool, settled (q,) int64."""

    items: Any
    distances: Any
    certain: Any
    settled: Any


class Chain(NamedTuple):
    """One chain, backwards: items (n,) int32, and what it costs to get to each of them, totals (n,) float32."""

    items: Any
    totals: Any


@inner
def _gather_states(row: Any, found: Any, query: Any, states: Any, own: Any, columns: Any, slots: Any, most: Any) -> Any:
    """Fill `own` with the state of the query, then those of the items found; how many items, and distinct columns."""
    size = query.sizes[row]
    for position in range(size):
        own.indices[position] = query.items[row, position]
        own.data[position] = query.masses[row, position]
    own.indptr[1] = size
    filled = size
    used = 0
    count = 0
    while count < most and found[row, count] >= 0:
        for entry in range(states.indptr[found[row, count]], states.indptr[found[row, count] + 1]):
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


@inner
def _ground(rows: Any, size: Any, columns: Any, used: Any, vectors: Any, rho: Any) -> Any:
    """(size, used) d^rho, summed from differences: BLAS would start threads of its own inside ours."""
    half = np.float32(0.5 * rho)
    ground = np.empty((size, used), np.float32)
    for x in range(size):
        mine = vectors[rows[x]]
        for y in range(used):
            other = vectors[columns[y]]
            squared = np.float32(0.0)
            for column in range(len(mine)):
                difference = mine[column] - other[column]
                squared += difference * difference
            ground[x, y] = squared
        line = ground[x]
        for y in range(used):
            line[y] = power32(line[y], half)
    return ground


@compiled
def first_costs(
    start: Any, stop: Any, found: Any, query: Any, states: Any, vectors: Any, settings: Any, slots: Any, costs: Any
) -> None:
    """costs[q, c] = W(p_q, p_j; d^rho)^gamma of the step from query q to its c-th item j; queries start..stop.

    found (q, >= c) int32, -1 behind; query: states as `kernels.states.average` leaves them (items, masses, sizes);
    states csr.Rows; slots (n,) int32, all -1 before and after; costs (q, c) float32.
    """
    most = costs.shape[1]
    longest = query.items.shape[1]
    for row in range(start, stop):
        for column in range(most):
            if found[row, column] >= 0:
                longest = max(longest, states.indptr[found[row, column] + 1] - states.indptr[found[row, column]])
    total = (most + 1) * longest
    own = Rows(np.zeros(most + 2, np.int64), np.empty(total, np.int32), np.empty(total, np.float32))
    columns = np.empty(total, np.int32)
    nothing = np.empty((0, 0), np.float32)
    scratch = scratch_for(longest, nothing, nothing, slots)
    everyone = numbered(most + 1)
    for row in range(start, stop):
        count, used = _gather_states(row, found, query, states, own, columns, slots, most)
        ground = _ground(own.indices, query.sizes[row], columns, used, vectors, settings.rho)
        for other in range(count):
            costs[row, other] = price(count - count, np.int32(other + 1), own, ground, count < 0, scratch, settings)
        release(everyone[1 : count + 1], own, slots)


@inner
def begin(found: Any, first: Any, labels: Any) -> Any:
    """Put the first steps of a query into the queue; how many, and the most expensive of them."""
    size = 0 * len(first)  # numbers that are written out would be compiled once more
    largest = np.float32(0.0)
    for entry in range(len(first)):
        item = found[entry]
        if item < 0:
            break
        labels.label[item] = first[entry]
        labels.before[item] = -1
        largest = max(largest, first[entry])
        rise(labels.heap, labels.place, labels.label, item, size)
        size += 1
    return size, largest


@inner
def pass_on(item: Any, steps: Any, labels: Any, size: Any) -> Any:
    """Offer the steps from a settled item to the queue; its new size."""
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
            rise(labels.heap, place, label, other, at)
    return size


@inner
def _trace(goal: Any, labels: Any, chain: Any) -> Any:
    """Write the chain to an item, backwards, and the labels along it; its length, 0 where none leads there."""
    count = 0
    item = goal if labels.place[goal] == SETTLED else -1
    while item >= 0:
        chain.items[count] = item
        chain.totals[count] = labels.label[item]
        count += 1
        item = labels.before[item]
    return count


@inner
def _first_and_kth(found: Any, found_at: Any, k: Any, counted: Any) -> Any:
    """Distances of the first item found that counts, and of the k-th, or of the last where there are fewer."""
    known = 0 * len(found)
    first = np.float32(0.0)
    kth = np.float32(0.0)
    for position in range(len(found)):
        if found[position] < 0 or known == k:
            break
        if has(counted, found[position]):
            known += 1
            kth = found_at[position]
            if known == 1:
                first = kth
    return first, kth


@inner
def _results_first(count: Any, values: Any, numbers: Any, results: Any) -> Any:
    """Move the items that may be results to the front; how many there are, and the largest d* of all items."""
    kept = 0 * count
    last = np.float32(0.0)
    for entry in range(count):
        last = max(last, -values[entry])
        if has(results, numbers[entry]):
            values[kept], values[entry] = values[entry], values[kept]
            numbers[kept], numbers[entry] = numbers[entry], numbers[kept]
            kept += 1
    return kept, last


@inner
def _write(
    count: Any, last: Any, values: Any, numbers: Any, found: Any, found_at: Any, place: Any, results: Any, items: Any,
    distances: Any,
) -> None:  # fmt: skip
    """Settled items by d*, of which `values` has the negative; then others, in the order of the search, behind `last`.

    Only such as may be results: of the settled ones these are the first `count`.
    """
    for entry in range(count // 2 - 1, -1, -1):
        sift_down(values, numbers, entry, count)
    for end in range(count - 1, 0, -1):
        values[0], values[end] = values[end], values[0]
        numbers[0], numbers[end] = numbers[end], numbers[0]
        sift_down(values, numbers, 0, end)
    depth = len(items)
    written = min(count, depth)
    for position in range(written):
        items[position] = numbers[position]
        distances[position] = -values[position]
    for position in range(len(found)):
        item = found[position]
        if written == depth or item < 0:
            break
        if place[item] != SETTLED and has(results, item):
            items[written] = item
            distances[written] = last + np.float32(1.0) + found_at[position]
            written += 1


@compiled
def best_first(
    start: Any, stop: Any, queries: Any, vectors: Any, found: Any, first: Any, steps: Any, wide: Any, mixture: Any,
    k: Any, budget: Any, goal: Any, masks: Any, labels: Any, result: Any, chain: Any,
) -> None:  # fmt: skip
    """Cheapest chains from queries start..stop, nearest items first, until the k best d* are certain.

    queries (q, d) and vectors (n, d) float32; found Candidates; first (q, c) float32 the prices of the steps to the
    first c of them; steps csr.Rows; wide Wide; mixture Mixture; labels Labels; result Result. An item that is not
    settled yet has d* no less than the mixture of the least d, the least root and the least distance of wide states
    of such items; at most `budget` items are settled.
    goal >= 0: settle that item instead, and write its chain. masks: Masks; among the k best are only such as may be
    results, and units are read from items that count.
    """
    n = len(steps.indptr) - 1
    most = min(budget, n)
    label, place, heap = labels.label, labels.place, labels.heap
    numbers = np.empty(most, np.int32)
    roots = np.empty(most, np.float32)
    directs = np.empty(most, np.float32)
    values = np.empty(most, np.float32)  # -d*, so that the worst kept entry is the root of a heap
    best = np.empty(k, np.float32)
    best_numbers = np.empty(k, np.int32)
    direct = mixture.direct > 0.0
    nearest_wide, bins = np.empty(mixture.k, np.float32), np.zeros(BINS, np.int64)
    apart = np.float32(0.0)
    for row in range(start, stop):
        size, largest = begin(found.items[row], first[row], labels)
        listed = 0
        while listed < found.items.shape[1] and found.items[row, listed] >= 0:
            listed += 1
        for position in range(k):
            best[position] = -np.inf
            best_numbers[position] = n
        near_start, near_unit = np.float32(0.0), np.float32(1.0)
        if not mixture.plain and listed > 0:  # among duplicates the k-th is rounding only, as in stages/fusion.py
            nearest, kth = _first_and_kth(found.items[row], found.distances[row], mixture.k, masks.counted)
            near_start = np.float32(START) * nearest
            near_unit = max(kth, np.float32(LEAST)) - near_start
        touched = 0
        full = BINS - 1  # the last bin that may hold items
        apart_unit = np.float32(1.0)
        if direct:
            touched = overlaps(row, wide)
            apart_unit = apart_unit_of(touched, wide, masks.counted, nearest_wide)
            sort_into_bins(touched, wide, masks.results, bins)
        root_unit = np.float32(1.0)
        kth_root = np.float32(0.0)
        count = 0
        counted = 0
        mixed_count = 0
        waiting = 0  # the first item of the list that may be a result and is not settled
        result.certain[row] = True
        while size > 0:
            if count == most:
                result.certain[row] = False
                break
            item = take(heap, place, label, size)
            size -= 1
            place[item] = SETTLED
            squared = np.float32(0.0)
            for column in range(vectors.shape[1]):
                difference = queries[row, column] - vectors[item, column]
                squared += difference * difference
            numbers[count] = item
            roots[count] = root_of(label[item], mixture)
            directs[count] = np.sqrt(squared)
            if direct and wide.shared[item] > 0.0 and has(masks.results, item):
                bins[bin_of(wide.shared[item], BINS)] -= 1
            if counted < mixture.k and has(masks.counted, item):
                kth_root = roots[count]
                counted += 1
            count += 1
            if item == goal:
                break
            size = pass_on(item, steps, labels, size)
            if counted < mixture.k and count < most and size > 0:
                continue
            if mixed_count == 0 and not mixture.plain:
                root_unit = max(kth_root, np.float32(LEAST) * root_of(largest, mixture))
                root_unit = root_unit if root_unit > 0.0 else np.float32(1.0)
            while mixed_count < count:
                if direct:
                    apart = max(np.float32(1.0) - wide.shared[numbers[mixed_count]], np.float32(0.0))
                value = -mixed(
                    directs[mixed_count], roots[mixed_count], apart, mixture, near_start, near_unit, root_unit,
                    apart_unit,
                )  # fmt: skip
                values[mixed_count] = value
                better = value > best[0] or (value == best[0] and numbers[mixed_count] < best_numbers[0])
                if better and has(masks.results, numbers[mixed_count]):
                    best[0] = value
                    best_numbers[0] = numbers[mixed_count]
                    sift_down(best, best_numbers, 0, k)
                mixed_count += 1
            if goal < 0 and count >= k and size > 0:
                while waiting < listed and (
                    place[found.items[row, waiting]] == SETTLED or not has(masks.results, found.items[row, waiting])
                ):
                    waiting += 1
                nearest = found.distances[row, min(waiting, listed - 1)]  # of inner products, which round
                nearest = np.sqrt(max(nearest * nearest - np.float32(1e-6), np.float32(0.0)))
                if direct:
                    while full >= 0 and bins[full] == 0:
                        full -= 1
                    apart = np.float32(1.0) - np.float32(full + 1) / np.float32(BINS)
                least = mixed(
                    nearest, root_of(label[heap[0]], mixture), apart, mixture, near_start, near_unit, root_unit,
                    apart_unit,
                )  # fmt: skip
                least *= np.float32(0.99999)  # as exp and power do, by as little
                if least > -best[0] or (k == masks.possible and best[0] > -np.inf):  # nobody is left
                    break
        result.settled[row] = count
        if goal >= 0:
            result.settled[row] = _trace(goal, labels, chain)
        else:
            kept, last = _results_first(count, values, numbers, masks.results)
            _write(
                kept, last, values, numbers, found.items[row], found.distances[row], place, masks.results,
                result.items[row], result.distances[row],
            )  # fmt: skip
        for position in range(touched):
            wide.shared[wide.touched[position]] = 0.0
        for position in range(count):
            label[numbers[position]] = np.inf
            place[numbers[position]] = -1
        for position in range(size):
            label[heap[position]] = np.inf
            place[heap[position]] = -1
