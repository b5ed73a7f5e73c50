"""Data structures of kernels: arrays that they start from, heaps, and selection of the k largest numbers.

* A binary heap of (value, number) entries whose root is the worst entry: `comes_after`, `sift_down`. The larger value
  comes first and, among equal values, the lower number.
* An indexed heap with four children per node: `sift_up`, `pop_first`. The smallest label comes first; equal labels are
  ordered by node number, so that the order never depends on how the heap was built. Negate the labels to get the
  largest first. Arguments of both functions:

  heap (capacity,) int32: node numbers, the smallest at 0; entries beyond the heap's size are free;
  place (nodes,) int32: position of each node in `heap`, -1 if absent;
  label (nodes,) any ordered type: order of the nodes; it may only fall while a node is in the heap.

`select_largest` counts instead of comparing: the bits of non-negative float32 numbers sort like integers. Their leading
bits are counted; the counts show from which bits on all are kept, and only numbers that share the last kept bits are
compared. A heap takes twice as long, because its comparisons are unpredictable for the processor.

Hot loops index arrays by unsigned numbers, because Numba tests every signed index for being negative: that takes twice
the time. They compare the bits of non-negative numbers where they look for the least or largest, because the compiler
does not vectorise these for floating-point numbers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kinrank.stages.kernels.compiler import compile_inner
from kinrank.stages.kernels.fastmath import to_bits

UNTOUCHED = np.float32(-1.0)  # marks an item that a sum of masses has not reached; masses are never negative
BIN_SHIFT = np.int32(19)  # keeps 8 bits of the exponent and 4 of the fraction
BIN_COUNT = 4096


@compile_inner
def new_untouched_sums(count: Any) -> Any:
    """Return (count,) float32, all UNTOUCHED."""
    sums = np.empty(count, np.float32)
    for place in range(count):
        sums[place] = UNTOUCHED
    return sums


@compile_inner
def new_missing_numbers(count: Any) -> Any:
    """Return (count,) int32, all -1."""
    numbers = np.empty(count, np.int32)
    for place in range(count):
        numbers[place] = -1
    return numbers


@compile_inner
def new_range(count: Any) -> Any:
    """Return (count,) int32: 0, 1, 2 and so on."""
    numbers = np.empty(count, np.int32)
    for place in range(count):
        numbers[place] = place
    return numbers


@compile_inner
def allows_item(mask: Any, item: Any) -> Any:
    """Return True if the mask contains the item; an empty mask contains all items."""
    return len(mask) == 0 or mask[item]


@compile_inner
def comes_after(s1: Any, i1: Any, s2: Any, i2: Any) -> Any:
    """Return True if (s1, i1) comes after (s2, i2): smaller value, or an equal one with a higher number."""
    return s1 < s2 or (s1 == s2 and i1 > i2)


@compile_inner
def sift_down(products: Any, numbers: Any, start: Any, size: Any) -> None:
    """Restore a heap whose root is the worst entry."""
    root = start
    while True:
        child = 2 * root + 1
        if child >= size:
            return
        other = child + 1
        if other < size and comes_after(products[other], numbers[other], products[child], numbers[child]):
            child = other
        if not comes_after(products[child], numbers[child], products[root], numbers[root]):
            return
        products[root], products[child] = products[child], products[root]
        numbers[root], numbers[child] = numbers[child], numbers[root]
        root = child


@compile_inner
def sift_up(heap: Any, place: Any, label: Any, node: Any, at: Any) -> None:
    """Move a node up to the position of its label, from `at`: its current position or the free one at the end."""
    mine = label[np.uint32(node)]
    while at > 0:
        above = (at - 1) >> 2
        other = heap[np.uint64(above)]
        theirs = label[np.uint32(other)]
        if theirs < mine or (theirs == mine and other < node):
            break
        heap[np.uint64(at)] = other
        place[np.uint32(other)] = at
        at = above
    heap[np.uint64(at)] = node
    place[np.uint32(node)] = at


@compile_inner
def pop_first(heap: Any, place: Any, label: Any, size: Any) -> Any:
    """Remove the first node of a heap of `size` >= 1 nodes and return it; the heap then has one node less."""
    root = heap[0]
    place[root] = -1
    size -= 1
    if size == 0:
        return root
    node = heap[np.uint64(size)]
    mine = label[np.uint32(node)]
    at = 0 * size
    while True:
        first = 4 * at + 1
        if first >= size:
            break
        least = heap[np.uint64(first)]
        lowest = label[np.uint32(least)]
        best = first
        for child in range(first + 1, min(first + 4, size)):
            other = heap[np.uint64(child)]
            theirs = label[np.uint32(other)]
            if theirs < lowest or (theirs == lowest and other < least):
                least = other
                lowest = theirs
                best = child
        if mine < lowest or (mine == lowest and node < least):
            break
        heap[np.uint64(at)] = least
        place[np.uint32(least)] = at
        at = best
    heap[np.uint64(at)] = node
    place[np.uint32(node)] = at
    return root


@compile_inner
def sort_by_counting(values: Any, numbers: Any, sorted_values: Any, sorted_numbers: Any) -> None:
    """Sort entries, best first, see `comes_after`: the place of each is the number of those that come before it.

    All pairs are compared, which the compiler vectorises; up to thousands of entries a heap takes longer.
    """
    size = len(sorted_values)
    for entry in range(size):
        value, number = values[entry], numbers[entry]
        before = np.int32(0)
        for other in range(size):
            first = np.int32(values[other] > value)
            before += first | (np.int32(values[other] == value) & np.int32(numbers[other] < number))
        sorted_values[np.uint32(before)] = value
        sorted_numbers[np.uint32(before)] = number


class TopKScratch(NamedTuple):
    """Work arrays of `select_largest`: counts (BIN_COUNT,) int32, zeros before and after; ties (n + 1,) int32."""

    counts: Any
    ties: Any


@compile_inner
def new_top_k_scratch(n: Any) -> Any:
    """Allocate work arrays for up to n numbers."""
    return TopKScratch(np.zeros(BIN_COUNT, np.int32), np.empty(n + 1, np.int32))


@compile_inner
def select_largest(values: Any, numbers: Any, count: Any, k: Any, scratch: Any, chosen: Any) -> Any:
    """Write to chosen[:m] the positions of the m = min(k, count) largest of values[:count]; return m.

    values float32, none negative; numbers int32: among equal values the lower number wins; scratch from
    `new_top_k_scratch`; chosen (>= count + 1,) int32, ascending.
    """
    if count <= k:
        for place in range(count):
            chosen[place] = place
        return count
    counts, ties = scratch.counts, scratch.ties
    largest = np.int32(0)
    for place in range(np.uint64(count)):
        leading = to_bits(values[place]) >> BIN_SHIFT
        largest = max(largest, leading)
        counts[np.uint32(leading)] += 1
    last = np.int64(largest)
    above = 0
    while above + counts[last] < k:
        above += counts[last]
        last -= 1
    kept = 0  # everything in higher bins and some of the last one
    tied = 0
    for place in range(np.uint64(count)):
        leading = to_bits(values[place]) >> BIN_SHIFT
        counts[np.uint32(leading)] = 0
        chosen[np.uint64(kept)] = place
        kept += np.int64(leading > last)
        ties[np.uint64(tied)] = place
        tied += np.int64(leading == last)
    for _ in range(k - kept):
        best = -1
        for entry in range(tied):
            place = ties[entry]
            if place < 0:
                continue
            if best < 0 or comes_after(values[ties[best]], numbers[ties[best]], values[place], numbers[place]):
                best = entry
        ties[best] = -1 - ties[best]  # chosen
    free = k
    for entry in range(tied - 1, -1, -1):  # merge both, which ascend, from the end
        place = -1 - ties[entry]
        if place >= 0:
            while kept > 0 and chosen[kept - 1] > place:
                kept -= 1
                free -= 1
                chosen[free] = chosen[kept]
            free -= 1
            chosen[free] = place
    return k
