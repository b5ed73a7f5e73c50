"""The wide state of a query outside the graph -> how much it shares with the wide state of every item."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kinrank.stages.kernels.arrays import has
from kinrank.stages.kernels.compiled import inner
from kinrank.stages.kernels.fusion import LEAST

BINS = 64  # of how much wide states share: finer bins end searches sooner, by little


class Wide(NamedTuple):
    """The wide states of queries, items (q, w) int32, masses (q, w) float32, sizes (q,) int64; who has mass on an item,
    columns csr.Rows; and room: shared (n,) float32, all zero before and after, touched (n,) int32.

    Of length 0 where wide states have no share in d*.
    """

    items: Any
    masses: Any
    sizes: Any
    columns: Any
    shared: Any
    touched: Any


@inner
def overlaps(row: Any, wide: Any) -> Any:
    """shared[x] = sum_c min(r_q(c), r_x(c)) of one query; how many items share anything, which are `touched`."""
    count = 0 * row
    for place in range(wide.sizes[row]):
        item, mine = wide.items[row, place], wide.masses[row, place]
        for entry in range(wide.columns.indptr[item], wide.columns.indptr[item + 1]):
            other, both = wide.columns.indices[entry], min(mine, wide.columns.data[entry])
            if not both > 0.0:
                continue
            if wide.shared[other] == 0.0:
                wide.touched[count] = other
                count += 1
            wide.shared[other] += both
    return count


@inner
def apart_unit_of(count: Any, wide: Any, counted: Any, nearest: Any) -> Any:
    """How far apart the k-th nearest wide state of those that count is, or the last; `nearest` (k,) float32 is room."""
    k = len(nearest)
    if len(counted) > 0:
        k = 0 * k
        for item in range(len(counted)):
            k += counted[item]
            if k == len(nearest):
                break
        k = max(k, 1)
    for place in range(k):
        nearest[place] = 0.0
    for entry in range(count):
        item = wide.touched[entry]
        value = wide.shared[item]
        if value <= nearest[k - 1] or not has(counted, item):
            continue
        at = k - 1
        while at > 0 and nearest[at - 1] < value:
            nearest[at] = nearest[at - 1]
            at -= 1
        nearest[at] = value
    return max(np.float32(1.0) - nearest[k - 1], np.float32(LEAST))


@inner
def bin_of(shared: Any, count: Any) -> Any:
    """The bin of an item that shares so much."""
    return min(int(shared * count), count - 1)


@inner
def sort_into_bins(count: Any, wide: Any, results: Any, bins: Any) -> None:
    """How many items that may be results share how much; as they are settled, they are taken out of their bin."""
    for place in range(len(bins)):
        bins[place] = 0
    for entry in range(count):
        item = wide.touched[entry]
        if has(results, item):
            bins[bin_of(wide.shared[item], len(bins))] += 1
