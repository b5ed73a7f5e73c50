"""Per query: a weighted graph -> the order in which an explore-exploit walk takes the items."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.stages.kernels.compiled import compiled


@compiled
def _before(a: Any, b: Any, best: Any, stamp: Any) -> Any:
    """Whether item a leaves the heap before b: larger weight, or the same and pushed earlier."""
    return best[a] > best[b] or (best[a] == best[b] and stamp[a] < stamp[b])


@compiled
def _rise(entry: Any, heap: Any, place: Any, best: Any, stamp: Any) -> None:
    item = heap[entry]
    while entry > 0:
        parent = (entry - 1) // 2
        if not _before(item, heap[parent], best, stamp):
            break
        heap[entry] = heap[parent]
        place[heap[entry]] = entry
        entry = parent
    heap[entry] = item
    place[item] = entry


@compiled
def _sink(size: Any, heap: Any, place: Any, best: Any, stamp: Any) -> None:
    """Restore the heap below its first entry."""
    item = heap[0]
    entry = 0
    while True:
        child = 2 * entry + 1
        if child >= size:
            break
        if child + 1 < size and _before(heap[child + 1], heap[child], best, stamp):
            child += 1
        if not _before(heap[child], item, best, stamp):
            break
        heap[entry] = heap[child]
        place[heap[entry]] = entry
        entry = child
    heap[entry] = item
    place[item] = entry


@compiled
def _offer(item: Any, weight: Any, size: Any, clock: Any, heap: Any, place: Any, best: Any, stamp: Any) -> Any:
    """Push an item or raise its weight; the new size. One entry per item stands for its newest push.

    A heap that keeps the outdated entries as well pops them later and skips them, with the same order of
    items.
    """
    best[item] = weight
    stamp[item] = clock
    if place[item] < 0:
        heap[size] = item
        place[item] = size
        size += 1
    _rise(place[item], heap, place, best, stamp)
    return size


@compiled
def traverse(
    start: Any,
    stop: Any,
    entries: Any,
    weights: Any,
    own: Any,
    pointers: Any,
    columns: Any,
    values: Any,
    tau: Any,
    most: Any,
    position: Any,
) -> None:
    """position[row, item] = when the walk of query `row` took the item, -1 where it did not.

    entries, weights (q, k): where queries enter; own (q,): the item a query itself is, never taken, or -1;
    pointers, columns, values: the gallery's graph as CSR.
    """
    count = len(pointers) - 1
    heap = np.empty(count, np.int32)
    fresh = np.empty(count, np.int32)  # taken since the last exploration
    place = np.empty(count, np.int32)
    stamp = np.empty(count, np.int64)
    best = np.empty(count, np.float32)
    closed = np.empty(count, np.bool_)
    for row in range(start, stop):
        place[:] = -1
        best[:] = -np.inf
        closed[:] = False
        size, clock, taken = 0, 0, 0
        if own[row] >= 0:
            closed[own[row]] = True
        for entry in range(entries.shape[1]):
            item, weight = entries[row, entry], weights[row, entry]
            if not closed[item] and best[item] < weight:
                size = _offer(item, weight, size, clock, heap, place, best, stamp)
                clock += 1
        while size > 0 and taken < most:
            found = 0
            while True:  # exploit: the best, and all others above tau
                item = heap[0]
                size -= 1
                place[item] = -1
                if size > 0:
                    heap[0] = heap[size]
                    _sink(size, heap, place, best, stamp)
                closed[item] = True
                position[row, item] = taken
                taken += 1
                fresh[found] = item
                found += 1
                if not (taken < most and size > 0 and best[heap[0]] > tau):
                    break
            if taken >= most:
                break
            for newest in range(found):  # explore
                for edge in range(pointers[fresh[newest]], pointers[fresh[newest] + 1]):
                    item, weight = columns[edge], values[edge]
                    if not closed[item] and best[item] < weight:
                        size = _offer(item, weight, size, clock, heap, place, best, stamp)
                        clock += 1
