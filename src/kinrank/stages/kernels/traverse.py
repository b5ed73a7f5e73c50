"""Per query: a weighted graph -> the order in which an explore-exploit walk takes the items."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.stages.kernels.compiled import compiled, inner
from kinrank.stages.kernels.heap import rise, take

NEVER = np.iinfo(np.int64).max  # the label of an item to which no edge has been seen


class Entries(NamedTuple):
    """Where queries enter the graph: items (q, k) int32, and keys (q, k) int32 of the similarities to them."""

    items: NDArray[np.int32]
    keys: NDArray[np.int32]


@inner
def _offer(item: Any, key: Any, clock: Any, size: Any, heap: Any, place: Any, label: Any) -> Any:
    """Push an item, or raise one that has a stronger edge now; the new size of the heap.

    Labels put the stronger edge first, and of equal ones that which was pushed earlier. One entry per item stands for
    its newest push: a heap that keeps outdated entries pops them later and skips them, with the same order of items.
    """
    label[item] = (np.int64(key) << 32) | clock
    at = place[item]
    if at < 0:
        at = size
        size += 1
    rise(heap, place, label, item, at)
    return size


@compiled
def traverse(start: Any, stop: Any, entries: Any, own: Any, graph: Any, tau: Any, limit: Any, position: Any) -> None:
    """position[row, item] = when the walk of query `row` took the item, -1 where it did not; queries start..stop.

    * entries: Entries; own (q,) int64: the item that a query itself is, never taken, or -1;
    * graph: Rows (n, n) of the gallery, its data the int32 keys of the similarities;
    * tau: the key of the similarity above which items are taken without exploring first;
    * limit: how many items a walk takes at most; position (q, n) int32, -1 on entry.

    A key is a whole number that falls as the similarity rises, see `stages.traversal.falling`.
    """
    count = len(graph.indptr) - 1
    heap = np.empty(count, np.int32)
    fresh = np.empty(count, np.int32)  # taken since the last exploration
    place = np.empty(count, np.int32)
    label = np.empty(count, np.int64)
    closed = np.empty(count, np.bool_)
    for row in range(start, stop):
        place[:] = -1
        label[:] = NEVER
        closed[:] = False
        size, clock, taken = 0, 0, 0
        if own[row] >= 0:
            closed[own[row]] = True
        for entry in range(entries.items.shape[1]):
            item, key = entries.items[row, entry], entries.keys[row, entry]
            if not closed[item] and key < label[item] >> 32:
                size = _offer(item, key, clock, size, heap, place, label)
                clock += 1
        while size > 0 and taken < limit:
            found = 0
            while True:  # exploit: the best, and all others above tau
                item = take(heap, place, label, size)
                size -= 1
                closed[item] = True
                position[row, item] = taken
                taken += 1
                fresh[found] = item
                found += 1
                if not (taken < limit and size > 0 and label[heap[0]] >> 32 < tau):
                    break
            if taken >= limit:
                break
            for newest in range(found):  # explore
                for edge in range(graph.indptr[fresh[newest]], graph.indptr[fresh[newest] + 1]):
                    item, key = graph.indices[edge], graph.data[edge]
                    if not closed[item] and key < label[item] >> 32:
                        size = _offer(item, key, clock, size, heap, place, label)
                        clock += 1
