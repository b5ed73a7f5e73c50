"""First steps -> all items that chains from there reach, the cheapest first; for searches with several sources."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.stages.kernels.arrays import has
from kinrank.stages.kernels.attach import SETTLED, begin, pass_on
from kinrank.stages.kernels.compiled import compiled
from kinrank.stages.kernels.heap import take


@compiled
def settle(first: Any, prices: Any, steps: Any, through: Any, labels: Any, items: Any, totals: Any) -> Any:
    """How many items are settled, and how many wait; at most as many are settled as `items` and `totals` can hold.

    first (c,) int32, -1 behind, with their prices (c,) float32; steps csr.Rows; through (n,) bool: chains pass only
    through these, but may end at the others; of length 0: through all. labels Labels. Written: items (m,) int32 and
    totals (m,) float32, what it costs to get to each, ascending.
    """
    label, place = labels.label, labels.place
    size, _ = begin(first, prices, labels)
    count = 0 * size
    while size > 0 and count < len(items):
        item = take(labels.heap, place, label, size)
        size -= 1
        place[item] = SETTLED
        items[count] = item
        totals[count] = label[item]
        count += 1
        if has(through, item):
            size = pass_on(item, steps, labels, size)
    for position in range(count):
        label[items[position]] = np.inf
        place[items[position]] = -1
    for position in range(size):
        label[labels.heap[position]] = np.inf
        place[labels.heap[position]] = -1
    return count, size
