"""A query outside the graph -> its state, the costs of its first steps, and the items its cheapest chains reach."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.stages.kernels.compiled import compiled
from kinrank.stages.kernels.paths import TOGETHER, _rise, _take
from kinrank.stages.kernels.search import sift_down
from kinrank.stages.kernels.states import keep_strongest
from kinrank.stages.kernels.transport import ground_block, problem, release, sinkhorn, workspace

SETTLED = -2  # in `place`: the item's cheapest chain is known; -1: not met yet


@compiled
def first_higher(start: Any, stop: Any, links: Any, ends: Any, firsts: Any) -> None:
    """firsts[i] = the first entry of row i, which ascends, that leads to a higher item; rows start..stop."""
    for low in range(start, stop):
        begin = links[low + 1]
        while begin > links[low] and ends[begin - 1] > low:
            begin -= 1
        firsts[low] = begin


@compiled
def step_costs(
    start: Any,
    stop: Any,
    firsts: Any,
    links: Any,
    ends: Any,
    mirror: Any,
    indptr: Any,
    indices: Any,
    values: Any,
    vectors: Any,
    rho: Any,
    gamma: Any,
    epsilon: Any,
    iterations: Any,
    costs: Any,
) -> None:
    """W(p_i, p_j; d^rho)^gamma of the steps firsts[i]..links[i + 1] of items start..stop, and of their mirrors."""
    room = workspace(indptr, vectors.shape[1], TOGETHER)
    for low in range(start, stop):
        begin = firsts[low]
        while begin < links[low + 1]:
            group = ends[begin : min(begin + TOGETHER, links[low + 1])]
            block = ground_block(low, group, indptr, indices, vectors, rho, room)
            for position in range(len(group)):
                a, b, cost = problem(low, group[position], indptr, indices, values, block, room)
                price = np.float32(0.0)
                if len(a) > 0:
                    price = sinkhorn(a, b, cost, epsilon, iterations, np.empty_like(cost)) ** gamma
                costs[begin + position] = price
                costs[mirror[begin + position]] = price
            release(group, indptr, indices, room)
            begin += len(group)


@compiled
def mean_states(
    start: Any,
    stop: Any,
    found: Any,
    weights: Any,
    indptr: Any,
    indices: Any,
    values: Any,
    support: Any,
    mass: Any,
    places: Any,
    masses: Any,
    sizes: Any,
) -> None:
    """p_q = sum_j weights_qj p_j, its `support` largest entries summing to 1, sorted by item.

    `mass` is all zero, one entry per item, before and after. Row q of the result is `places[q, : sizes[q]]`.
    """
    longest = 1
    for row in range(start, stop):
        total = 0
        for column in range(weights.shape[1]):
            if weights[row, column] > 0.0:
                total += indptr[found[row, column] + 1] - indptr[found[row, column]]
        longest = max(longest, total)
    touched = np.empty(longest, np.int32)
    gathered = np.empty(longest, np.float32)
    keep = np.empty(longest, np.bool_)
    span = np.zeros(2, np.int64)
    for row in range(start, stop):
        count = 0
        for column in range(weights.shape[1]):
            weight = weights[row, column]
            if weight <= 0.0:
                continue
            for entry in range(indptr[found[row, column]], indptr[found[row, column] + 1]):
                node = indices[entry]
                if values[entry] <= 0.0:
                    continue
                if mass[node] == 0.0:
                    touched[count] = node
                    count += 1
                mass[node] += weight * values[entry]
        ordered = np.sort(touched[:count])
        for position in range(count):
            gathered[position] = mass[ordered[position]]
            mass[ordered[position]] = 0.0
            keep[position] = False
        span[1] = count
        keep_strongest(0, 1, span, gathered, support, keep)
        size = 0
        total_mass = np.float32(0.0)
        for position in range(count):
            if keep[position]:
                places[row, size] = ordered[position]
                masses[row, size] = gathered[position]
                total_mass += gathered[position]
                size += 1
        for position in range(size):
            masses[row, position] /= total_mass
        sizes[row] = size


@compiled
def first_costs(
    start: Any,
    stop: Any,
    found: Any,
    places: Any,
    masses: Any,
    sizes: Any,
    indptr: Any,
    indices: Any,
    values: Any,
    vectors: Any,
    rho: Any,
    gamma: Any,
    epsilon: Any,
    iterations: Any,
    slots: Any,
    costs: Any,
) -> None:
    """W(p_q, p_j; d^rho)^gamma of the steps from query q to the items `found` first, one per column of `costs`.

    `slots` is all -1, one entry per item, before and after. Ground costs are summed from differences, without BLAS,
    which would start threads of its own inside ours.
    """
    entries = costs.shape[1]
    longest = places.shape[1]
    for row in range(start, stop):
        for column in range(entries):
            if found[row, column] >= 0:
                longest = max(longest, indptr[found[row, column] + 1] - indptr[found[row, column]])
    own_indptr = np.zeros(entries + 2, np.int64)  # the query's state, then those of the items: a csr of their own
    own_indices = np.empty((entries + 1) * longest, np.int32)
    own_values = np.empty((entries + 1) * longest, np.float32)
    columns = np.empty((entries + 1) * longest, np.int32)
    nothing = np.empty((0, 0), np.float32)
    room = (np.empty((2, longest), np.float32), np.empty((2, longest), np.int64), nothing, nothing, slots)
    everyone = np.arange(1, entries + 1).astype(np.int32)
    half = np.float32(0.5 * rho)
    for row in range(start, stop):
        size = sizes[row]
        for position in range(size):
            own_indices[position] = places[row, position]
            own_values[position] = masses[row, position]
        own_indptr[1] = size
        filled = size
        used = 0
        others = 0
        while others < entries and found[row, others] >= 0:
            for entry in range(indptr[found[row, others]], indptr[found[row, others] + 1]):
                node = indices[entry]
                own_indices[filled] = node
                own_values[filled] = values[entry]
                filled += 1
                if slots[node] < 0:
                    slots[node] = used
                    columns[used] = node
                    used += 1
            others += 1
            own_indptr[others + 1] = filled
        block = np.empty((size, used), np.float32)
        for x in range(size):
            for y in range(used):
                squared = np.float32(0.0)
                for column in range(vectors.shape[1]):
                    gap = vectors[own_indices[x], column] - vectors[columns[y], column]
                    squared += gap * gap
                block[x, y] = squared**half
        for other in range(others):
            a, b, cost = problem(0, other + 1, own_indptr, own_indices, own_values, block, room)
            costs[row, other] = 0.0
            if len(a) > 0:
                costs[row, other] = sinkhorn(a, b, cost, epsilon, iterations, np.empty_like(cost)) ** gamma
        release(everyone[:others], own_indptr, own_indices, room)


@compiled
def _begin(found: Any, first: Any, label: Any, place: Any, heap: Any, before: Any) -> Any:
    """Put the first steps of a query into the queue; how many, and the most expensive of them."""
    size = 0
    largest = np.float32(0.0)
    for entry in range(len(first)):
        node = found[entry]
        if node < 0:
            break
        label[node] = first[entry]
        before[node] = -1
        largest = max(largest, label[node])
        _rise(heap, place, label, node, size)
        size += 1
    return size, largest


@compiled
def _pass_on(
    node: Any, links: Any, ends: Any, costs: Any, label: Any, place: Any, heap: Any, before: Any, size: Any
) -> Any:
    """Offer the steps from a settled item to the queue; its new size."""
    for entry in range(links[node], links[node + 1]):
        other = ends[entry]
        through = label[node] + costs[entry]
        if place[other] != SETTLED and through < label[other]:
            label[other] = through
            before[other] = node
            at = place[other]
            if at < 0:
                at = size
                size += 1
            _rise(heap, place, label, other, at)
    return size


@compiled
def _mix(direct: Any, root: Any, theta: Any, plain: Any, near_unit: Any, root_unit: Any) -> Any:
    """d* = theta near(d) + (1 - theta) d' / unit."""
    near = direct if plain else np.float32(1.0) - np.exp(-((direct / near_unit) ** 2))
    return theta * near + (np.float32(1.0) - theta) * root / root_unit


@compiled
def _trace(goal: Any, label: Any, place: Any, before: Any, chain: Any, reach: Any) -> Any:
    """Write the chain to an item, backwards, and the labels along it; its length, 0 where none leads there."""
    steps = 0
    node = goal if place[goal] == SETTLED else -1
    while node >= 0:
        chain[steps] = node
        reach[steps] = label[node]
        steps += 1
        node = before[node]
    return steps


@compiled
def _write(count: Any, mixed: Any, numbers: Any, found: Any, gaps: Any, place: Any, order: Any, distances: Any) -> None:
    """The settled items by d*, of which `mixed` has the negative; then the others, in the order of the search."""
    for entry in range(count // 2 - 1, -1, -1):
        sift_down(mixed, numbers, entry, count)
    for end in range(count - 1, 0, -1):
        mixed[0], mixed[end] = mixed[end], mixed[0]
        numbers[0], numbers[end] = numbers[end], numbers[0]
        sift_down(mixed, numbers, 0, end)
    last = max(np.float32(0.0), -mixed[count - 1]) if count > 0 else np.float32(0.0)
    depth = len(order)
    written = min(count, depth)
    for position in range(written):
        order[position] = numbers[position]
        distances[position] = -mixed[position]
    for position in range(len(found)):
        node = found[position]
        if written == depth or node < 0:
            break
        if place[node] != SETTLED:
            order[written] = node
            distances[written] = last + np.float32(1.0) + gaps[position]
            written += 1


@compiled
def best_first(
    start: Any,
    stop: Any,
    queries: Any,
    vectors: Any,
    found: Any,
    gaps: Any,
    first: Any,
    links: Any,
    ends: Any,
    costs: Any,
    theta: Any,
    power: Any,
    plain: Any,
    unit_at: Any,
    k: Any,
    budget: Any,
    goal: Any,
    label: Any,
    place: Any,
    heap: Any,
    before: Any,
    order: Any,
    distances: Any,
    certain: Any,
    settled: Any,
    chain: Any,
    reach: Any,
) -> None:
    """Cheapest chains from queries start..stop, nearest items first, until the k best d* are certain.

    found, gaps: the items a search found, nearest first, -1 behind them; `first` the costs of the steps to the first
    of them. An item not settled yet has d* >= theta near(least d of such) + (1 - theta) (least label)^power / unit.
    `label`, `place`, `heap`, `before`: scratch, one entry per item; labels inf and places -1 before and after.
    goal >= 0: settle that item instead, and write its chain, backwards, and the labels along it.
    """
    n = len(links) - 1
    most = min(budget, n)
    numbers = np.empty(most, np.int32)
    roots = np.empty(most, np.float32)
    directs = np.empty(most, np.float32)
    mixed = np.empty(most, np.float32)  # -d*, so that the worst kept entry is the root of a heap
    best = np.empty(k, np.float32)
    best_numbers = np.empty(k, np.int32)
    for row in range(start, stop):
        size, largest = _begin(found[row], first[row], label, place, heap, before)
        listed = 0
        while listed < found.shape[1] and found[row, listed] >= 0:
            listed += 1
        best[:] = -np.inf
        best_numbers[:] = n
        near_unit = np.float32(1.0)
        if not plain and listed > 0:  # among duplicates the k-th is rounding only, as in stages/fusion.py
            near_unit = max(gaps[row, min(unit_at, listed) - 1], np.float32(1e-3) * gaps[row, listed - 1])
            near_unit = near_unit if near_unit > 0.0 else np.float32(1.0)
        root_unit = np.float32(1.0)
        count = 0
        mixed_count = 0
        waiting = 0  # the first item of the list that is not settled
        certain[row] = True
        while size > 0:
            if count == most:
                certain[row] = False
                break
            node = _take(heap, place, label, size)
            size -= 1
            place[node] = SETTLED
            gap_squared = np.float32(0.0)
            for column in range(vectors.shape[1]):
                gap = queries[row, column] - vectors[node, column]
                gap_squared += gap * gap
            numbers[count] = node
            roots[count] = label[node] if plain else label[node] ** power
            directs[count] = np.sqrt(gap_squared)
            count += 1
            if node == goal:
                break
            size = _pass_on(node, links, ends, costs, label, place, heap, before, size)
            if count < min(unit_at, most) and size > 0:
                continue
            if mixed_count == 0 and not plain:
                root_unit = max(roots[count - 1], np.float32(1e-3) * largest**power)
                root_unit = root_unit if root_unit > 0.0 else np.float32(1.0)
            while mixed_count < count:
                value = -_mix(directs[mixed_count], roots[mixed_count], theta, plain, near_unit, root_unit)
                mixed[mixed_count] = value
                if value > best[0] or (value == best[0] and numbers[mixed_count] < best_numbers[0]):
                    best[0] = value
                    best_numbers[0] = numbers[mixed_count]
                    sift_down(best, best_numbers, 0, k)
                mixed_count += 1
            if goal < 0 and count >= k and size > 0:
                while waiting < listed and place[found[row, waiting]] == SETTLED:
                    waiting += 1
                root = label[heap[0]] if plain else label[heap[0]] ** power
                nearest = gaps[row, min(waiting, listed - 1)]
                if _mix(nearest, root, theta, plain, near_unit, root_unit) > -best[0]:
                    break
        settled[row] = count
        if goal >= 0:
            settled[row] = _trace(goal, label, place, before, chain, reach)
        else:
            _write(count, mixed, numbers, found[row], gaps[row], place, order[row], distances[row])
        for position in range(count):
            label[numbers[position]] = np.inf
            place[numbers[position]] = -1
        for position in range(size):
            label[heap[position]] = np.inf
            place[heap[position]] = -1
