"""Steps and their prices -> the cheapest chains from items of the graph to all others."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.stages.kernels.compiled import compiled
from kinrank.stages.kernels.heap import rise, take


@compiled
def cheapest_chains(start: Any, stop: Any, sources: Any, steps: Any, totals: Any, parents: Any) -> None:
    """Dijkstra's search from sources start..stop.

    sources (m,) int64; steps csr.Rows with prices as data -> totals (m, n) float32, inf where no chain leads; parents
    (m, n) int32 the item before each on its chain, -1 for none; (0, n) where nobody wants to know.
    """
    n = len(steps.indptr) - 1
    heap, place, before = np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    for row in range(start, stop):
        label = totals[row]
        for item in range(n):
            label[item] = np.inf
            place[item] = -1
            before[item] = -1
        label[sources[row]] = 0.0
        size = 0 * n  # numbers that are written out would be compiled once more
        rise(heap, place, label, np.int32(sources[row]), size)
        size += 1
        while size > 0:
            item = take(heap, place, label, size)
            size -= 1
            for entry in range(steps.indptr[item], steps.indptr[item + 1]):
                other = steps.indices[entry]
                total = label[item] + steps.data[entry]
                if total < label[other]:
                    label[other] = total
                    before[other] = item
                    at = place[other]
                    if at < 0:
                        at = size
                        size += 1
                    rise(heap, place, label, other, at)
        if len(parents) > 0:
            for item in range(n):
                parents[row, item] = before[item]
