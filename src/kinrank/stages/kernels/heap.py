"""An indexed heap: the item of the least label comes off first, and labels of waiting items may fall.

Four children per entry; equal labels go to the lower item number. `heap` (n,) int32 the waiting items, `place` (n,)
int32 where each of them stands in it (-1: nowhere), `label` (n,) float32.
"""

from __future__ import annotations

from typing import Any

from kinrank.stages.kernels.compiled import compiled


@compiled
def rise(heap: Any, place: Any, label: Any, node: Any, at: Any) -> None:
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
def take(heap: Any, place: Any, label: Any, size: Any) -> Any:
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
