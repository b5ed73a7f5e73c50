"""Local steps whose cost is only known after solving a transport problem -> cheapest chains from each query."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.stages._kernels.compiled import compiled
from kinrank.stages._kernels.transport import transition, workspace

UNSOLVED = np.float32(-1.0)


@compiled
def _push(keys: Any, nodes: Any, entries: Any, size: Any, key: Any, node: Any, entry: Any) -> Any:
    """Add to the heap (least key first, then least node); returns its new size."""
    at = size
    while at > 0:
        above = (at - 1) // 2
        if keys[above] < key or (keys[above] == key and nodes[above] <= node):
            break
        keys[at] = keys[above]
        nodes[at] = nodes[above]
        entries[at] = entries[above]
        at = above
    keys[at] = key
    nodes[at] = node
    entries[at] = entry
    return size + 1


@compiled
def _pop(keys: Any, nodes: Any, entries: Any, size: Any) -> Any:
    """Remove the root; returns the heap's new size. The caller has read the root before."""
    size -= 1
    key, node, entry = keys[size], nodes[size], entries[size]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        right = child + 1
        if right < size and (
            keys[right] < keys[child] or (keys[right] == keys[child] and nodes[right] < nodes[child])
        ):
            child = right
        if keys[child] > key or (keys[child] == key and nodes[child] >= node):
            break
        keys[at] = keys[child]
        nodes[at] = nodes[child]
        entries[at] = entries[child]
        at = child
    keys[at] = key
    nodes[at] = node
    entries[at] = entry
    return size


@compiled
def _bound(i: Any, j: Any, centres: Any, rho: Any, gamma: Any) -> Any:
    """A lower bound of the cost of a step: the mean of d^rho over any plan is at least |centre_i - centre_j|^rho.

    (Jensen, rho >= 1.) A little is taken off, because an entropic plan meets its margins only almost.
    """
    total = np.float32(0.0)
    for column in range(centres.shape[1]):
        gap = centres[i, column] - centres[j, column]
        total += gap * gap
    return np.float32(0.95) * (total ** np.float32(0.5 * rho)) ** gamma


@compiled
def chains(
    start: Any, stop: Any, sources: Any, links: Any, ends: Any, edges: Any, costs: Any, bounds: Any, indptr: Any,
    indices: Any, values: Any, vectors: Any, centres: Any, rho: Any, gamma: Any, epsilon: Any, iterations: Any,
    reach: Any, parents: Any,
) -> None:
    """Cheapest chains from sources start..stop: `reach` (sources, n), inf where no chain leads; `parents` likewise.

    Dijkstra's search, but a step is solved only when its lower bound comes up as the least key of the heap: until
    then a cheaper way to its end may settle it. `costs` and `bounds` are shared by all sources and threads; whoever
    solves a step writes the same number.
    """
    n = len(links) - 1
    keys = np.empty(2 * len(ends) + 1, np.float32)
    nodes = np.empty(2 * len(ends) + 1, np.int32)
    entries = np.empty(2 * len(ends) + 1, np.int64)
    origin = np.empty(len(ends), np.int32)
    for node in range(n):
        for entry in range(links[node], links[node + 1]):
            origin[entry] = node
    settled = np.empty(n, np.bool_)
    room = workspace(indptr, vectors.shape[1])
    for row in range(start, stop):
        known = reach[row]
        known[:] = np.inf
        settled[:] = False
        known[sources[row]] = 0.0
        size = _push(keys, nodes, entries, 0, np.float32(0.0), sources[row], np.int64(-1))
        while size > 0:
            key, node, entry = keys[0], nodes[0], entries[0]
            size = _pop(keys, nodes, entries, size)
            if settled[node]:
                continue
            if entry < -1:  # only a lower bound so far: solve the step, then let it compete again
                entry = -2 - entry
                edge, before = edges[entry], origin[entry]
                cost = costs[edge]
                if cost == UNSOLVED:
                    cost = transition(
                        min(before, node), max(before, node), indptr, indices, values, vectors, rho, epsilon,
                        iterations, room,
                    ) ** gamma
                    costs[edge] = cost
                if known[before] + cost < known[node]:
                    known[node] = known[before] + cost
                    size = _push(keys, nodes, entries, size, known[node], node, entry)
                continue
            settled[node] = True
            if len(parents) > 0:
                parents[row, node] = -1 if entry < 0 else origin[entry]
            for entry in range(links[node], links[node + 1]):
                other = ends[entry]
                if settled[other]:
                    continue
                edge = edges[entry]
                cost = costs[edge]
                if cost != UNSOLVED:
                    if key + cost < known[other]:
                        known[other] = key + cost
                        size = _push(keys, nodes, entries, size, known[other], other, entry)
                    continue
                least = bounds[edge]
                if least == UNSOLVED:
                    least = _bound(node, other, centres, rho, gamma)
                    bounds[edge] = least
                if key + least < known[other]:
                    size = _push(keys, nodes, entries, size, key + least, other, -2 - entry)
