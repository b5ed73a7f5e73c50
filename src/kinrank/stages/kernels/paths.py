"""Local steps whose cost is only known after solving a transport problem -> cheapest chains from each query."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.stages.kernels.compiled import compiled
from kinrank.stages.kernels.transport import ground_block, problem, release, sinkhorn, workspace

UNSOLVED = np.float32(-1.0)
TOGETHER = 16  # steps of one item that are solved at once


@compiled
def _rise(heap: Any, place: Any, label: Any, node: Any, at: Any) -> None:
    """Move a node towards the root until its label fits; `at` is a free position of the heap."""
    mine = label[node]
    while at > 0:
        above = (at - 1) >> 2
        other = heap[above]
        if label[other] < mine or (label[other] == mine and other < node):
            break
        heap[at] = other
        place[other] = at
        at = above
    heap[at] = node
    place[node] = at


@compiled
def _take(heap: Any, place: Any, label: Any, size: Any) -> Any:
    """Remove the root of a heap of `size` (four children each, least label first, then least node)."""
    root = heap[0]
    place[root] = -1
    size -= 1
    if size == 0:
        return root
    node = heap[size]
    mine = label[node]
    at = 0
    while True:
        first = 4 * at + 1
        if first >= size:
            break
        least = heap[first]
        where = first
        for child in range(first + 1, min(first + 4, size)):
            other = heap[child]
            if label[other] < label[least] or (label[other] == label[least] and other < least):
                least = other
                where = child
        if mine < label[least] or (mine == label[least] and node < least):
            break
        heap[at] = least
        place[least] = at
        at = where
    heap[at] = node
    place[node] = at
    return root


@compiled
def _bound(i: Any, j: Any, centres: Any, rho: Any, gamma: Any) -> Any:
    """A lower bound of the cost of a step, from the distance c of the centres of its two states.

    For rho >= 1 the mean of d^rho over any plan is at least c^rho (Jensen); for rho < 1 unit vectors have d <= 2, so
    d^rho >= 2^(rho - 1) d and the mean is at least 2^(rho - 1) c. A little is taken off for rounding.
    """
    total = np.float32(0.0)
    for column in range(centres.shape[1]):
        gap = centres[i, column] - centres[j, column]
        total += gap * gap
    power = np.float32(rho)
    root = max(np.sqrt(total) - np.float32(1e-6), np.float32(0.0))  # centres of equal states differ by rounding
    least = root**power if power >= 1.0 else root * np.float32(2.0) ** (power - np.float32(1.0))
    return np.float32(0.95) * least**gamma


@compiled
def _cheapest_way(node: Any, links: Any, ends: Any, costs: Any, bounds: Any, settled: Any, label: Any) -> Any:
    """(label, entry) of the cheapest step to a node from its settled neighbours; entry -2 - e if only bounded."""
    best = np.float32(np.inf)
    way = -1
    for entry in range(links[node], links[node + 1]):
        if settled[ends[entry]]:
            solved = costs[entry] != UNSOLVED
            through = label[ends[entry]] + (costs[entry] if solved else bounds[entry])
            if through < best:
                best = through
                way = entry if solved else -2 - entry
    return best, way


@compiled
def chains(
    start: Any,
    stop: Any,
    sources: Any,
    links: Any,
    ends: Any,
    mirror: Any,
    costs: Any,
    bounds: Any,
    indptr: Any,
    indices: Any,
    values: Any,
    vectors: Any,
    centres: Any,
    rho: Any,
    gamma: Any,
    epsilon: Any,
    iterations: Any,
    reach: Any,
    parents: Any,
) -> None:
    """Cheapest chains from sources start..stop: `reach` (sources, n), inf where no chain leads; `parents` likewise.

    Dijkstra's search, but a step is solved only when its lower bound comes up as the least label: until then a
    cheaper way to its end may settle it. `costs` and `bounds`, one per direction of a step, are shared by all sources
    and threads; whoever solves a step writes the same number.
    """
    n = len(links) - 1
    heap = np.empty(n, np.int32)
    place = np.empty(n, np.int32)
    settled = np.empty(n, np.bool_)
    way = np.empty(n, np.int64)  # the step that leads to a node, seen from the node itself
    room = workspace(indptr, vectors.shape[1], TOGETHER)
    for row in range(start, stop):
        label = reach[row]
        for node in range(n):
            label[node] = np.inf
            place[node] = -1
            settled[node] = False
        label[sources[row]] = 0.0
        way[sources[row]] = -1
        size = 1
        _rise(heap, place, label, sources[row], 0)
        while size > 0:
            node = _take(heap, place, label, size)
            size -= 1
            if way[node] < -1:  # only a lower bound so far: solve the step, then let the node compete again
                entry = -2 - way[node]
                if costs[entry] == UNSOLVED:
                    # With it its whole group, up to TOGETHER steps from the lower item to higher ones. Groups do not
                    # depend on who asks first, so a step has the same bits whatever the order of queries and threads.
                    low = min(node, ends[entry])
                    if low != node:
                        entry = mirror[entry]
                    first = links[low + 1]
                    while first > links[low] and ends[first - 1] > low:
                        first -= 1
                    begin = first + (entry - first) // TOGETHER * TOGETHER
                    group = ends[begin : min(begin + TOGETHER, links[low + 1])]
                    block = ground_block(low, group, indptr, indices, vectors, rho, room)
                    for position in range(len(group)):
                        a, b, cost = problem(low, group[position], indptr, indices, values, block, room)
                        # among near duplicates rounding can put a cost below its bound; the search needs them in order
                        price = _bound(low, group[position], centres, rho, gamma)
                        if len(a) > 0:
                            moved = sinkhorn(a, b, cost, epsilon, iterations, np.empty_like(cost))
                            price = max(price, moved**gamma)
                        costs[begin + position] = price
                        costs[mirror[begin + position]] = price
                    release(group, indptr, indices, room)
                label[node], way[node] = _cheapest_way(node, links, ends, costs, bounds, settled, label)
                _rise(heap, place, label, node, size)
                size += 1
                continue
            settled[node] = True
            if len(parents) > 0:
                parents[row, node] = -1 if way[node] < 0 else ends[way[node]]
            here = label[node]
            for entry in range(links[node], links[node + 1]):
                other = ends[entry]
                cost = costs[entry]
                solved = cost != UNSOLVED  # read once: another thread may solve the step in the meantime
                if not solved:
                    cost = bounds[entry]
                    if cost == UNSOLVED:
                        cost = _bound(node, other, centres, rho, gamma)
                        bounds[entry] = cost
                        bounds[mirror[entry]] = cost
                if here + cost < label[other] and not settled[other]:
                    label[other] = here + cost
                    back = mirror[entry]
                    way[other] = back if solved else -2 - back
                    at = place[other]
                    if at < 0:
                        at = size
                        size += 1
                    _rise(heap, place, label, other, at)
