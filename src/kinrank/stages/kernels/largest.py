"""Numbers that are not negative -> the k largest of them, by counting instead of comparing.

The bits of such float32 numbers sort as whole numbers do. Their leading bits are counted; the count tells from which
bits on all are kept, and only those that share the last kept bits are compared. A heap takes twice as long, because no
processor can foresee what it compares.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kinrank.stages.kernels.compiled import inner
from kinrank.stages.kernels.fastmath import to_bits
from kinrank.stages.kernels.order import comes_after

SHIFT = np.int32(19)  # leaves 8 bits of the exponent and 4 of the fraction
BINS = 4096


class Counting(NamedTuple):
    """What `largest` works in: counts (BINS,) int32, zeros before and after; ties (n + 1,) int32."""

    counts: Any
    ties: Any


@inner
def counting(n: Any) -> Any:
    """Scratch for up to n numbers."""
    return Counting(np.zeros(BINS, np.int32), np.empty(n + 1, np.int32))


@inner
def largest(values: Any, numbers: Any, count: Any, k: Any, scratch: Any, chosen: Any) -> Any:
    """chosen[:m] = the positions of the m = min(k, count) largest of values[:count]; returns m.

    values float32, none negative; numbers int32: of equal values that of the lower number; scratch from `counting`;
    chosen (>= count + 1,) int32, in no particular order.
    """
    if count <= k:
        for place in range(count):
            chosen[place] = place
        return count
    counts, ties = scratch.counts, scratch.ties
    for place in range(count):
        counts[to_bits(values[place]) >> SHIFT] += 1
    last = BINS - 1
    above = 0
    while above + counts[last] < k:
        above += counts[last]
        last -= 1
    kept = 0  # everything in higher bins, and some of the last one
    tied = 0
    for place in range(count):
        leading = to_bits(values[place]) >> SHIFT
        counts[leading] = 0
        chosen[kept] = place
        kept += np.int64(leading > last)
        ties[tied] = place
        tied += np.int64(leading == last)
    while kept < k:
        best = -1
        for entry in range(tied):
            place = ties[entry]
            if place < 0:
                continue
            if best < 0 or comes_after(values[ties[best]], numbers[ties[best]], values[place], numbers[place]):
                best = entry
        chosen[kept] = ties[best]
        ties[best] = -1
        kept += 1
    return k
