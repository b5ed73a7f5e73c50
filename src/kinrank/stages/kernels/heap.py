"""An indexed heap, four children each: nodes by their label, and the place of each node in the heap.

The least label is first; equal labels go by node number, so that the order never depends on how the heap was built.
Whoever wants the largest first negates the labels. Arguments, shared by both functions:

* heap (capacity,) int32: node numbers, the least at 0; entries beyond the heap's size are free;
* place (nodes,) int32: where each node stands in `heap`, -1 where it does not;
* label (nodes,) any ordered type: what nodes are ordered by; it may only fall while a node is in the heap.
"""

from __future__ import annotations

from typing import Any

from kinrank.stages.kernels.compiled import inner


@inner
def rise(heap: Any, place: Any, label: Any, node: Any, at: Any) -> None:
    """Put a node where its label belongs: from `at`, its present place or the free one behind the last, upwards."""
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


@inner
def take(heap: Any, place: Any, label: Any, size: Any) -> Any:
    """Remove the first node of a heap of `size` >= 1 nodes, and return it; the heap then has one less."""
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
        best = first
        for child in range(first + 1, min(first + 4, size)):
            other = heap[child]
            if label[other] < label[least] or (label[other] == label[least] and other < least):
                least = other
                best = child
        if mine < label[least] or (mine == label[least] and node < least):
            break
        heap[at] = least
        place[least] = at
        at = best
    heap[at] = node
    place[node] = at
    return root
