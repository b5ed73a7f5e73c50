"""Sparse distributions -> Jensen-Shannon divergences of listed pairs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kinrank.stages.kernels.compiled import compiled, inner
from kinrank.stages.kernels.fastmath import log2_32


@inner
def _sum_of_logs(values: Any) -> Any:
    """sum_k v_k log2(v_k) of positive float32 numbers, eight at a time: four times faster than a logarithm each."""
    total = np.float32(0.0)
    for k in range(len(values)):
        total += values[k] * log2_32(values[k])
    return total


@inner
def _bits(value: Any) -> Any:
    """v log2(v), 0 at 0."""
    return value * math.log(value) / math.log(2.0) if value > 0 else 0.0


@compiled
def sums_of_logs(start: Any, stop: Any, rows: Any, sums: Any) -> None:
    """sums[i] = sum_c v_ic log2(v_ic) of the rows start..stop; rows: Rows (n, n); sums (n,) float64, written."""
    for row in range(start, stop):
        total = 0.0
        for entry in range(rows.indptr[row], rows.indptr[row + 1]):
            total += _bits(np.float64(rows.data[entry]))
        sums[row] = total


@inner
def _gathered(columns: Any, values: Any, dense: Any, both: Any) -> Any:
    """both = p + q on the columns of q, p from the first of each dense pair; gives the sum of the second."""
    total = 0.0  # in float64: one running sum of a thousand terms, where float32 would lose five digits
    for k in range(len(columns)):
        column = columns[k]
        both[k] = dense[column, 0] + values[k]
        total += np.float64(dense[column, 1])
    return total


@inner
def _listed(item: Any, other: Any, lists: Any) -> Any:
    """Place of the item in the other's list, -1 where it is not there."""
    for place in range(lists.shape[1]):
        if lists[other, place] == item:
            return place
    return -1


@compiled
def divergences(start: Any, stop: Any, lists: Any, rows: Any, sums: Any, out: Any) -> None:
    """out[i, t] = Jensen-Shannon divergence, in bits, of rows i and j = lists[i, t]; -1 where j has it.

    1 + 1/2 sum_c (p log2 p + q log2 q - (p + q) log2(p + q)), where columns that only one row holds add
    nothing, so the sum runs over the columns of j. A pair that lists each other is computed once, by the
    lower number. lists (n, k) int32; rows: Rows (n, n), each summing to one; sums (n,) float64, of `sums_of_logs`;
    out (n, k) float32, written for rows start..stop.
    """
    indptr, indices, data = rows
    items, k = lists.shape
    dense = np.zeros((items, 2), np.float32)  # p and p log2 p of the row, side by side in memory
    both = np.empty(items, np.float32)
    for row in range(start, stop):
        for entry in range(indptr[row], indptr[row + 1]):
            dense[indices[entry], 0] = data[entry]
            dense[indices[entry], 1] = _bits(np.float64(data[entry]))
        for place in range(k):
            other = lists[row, place]
            if other == row:
                out[row, place] = 0.0
            elif other < row and _listed(row, other, lists) >= 0:
                out[row, place] = -1.0
            else:
                first, last = indptr[other], indptr[other + 1]
                alone = _gathered(indices[first:last], data[first:last], dense, both)
                mixed = _sum_of_logs(both[: last - first])
                out[row, place] = min(max(1.0 + 0.5 * (alone + sums[other] - mixed), 0.0), 1.0)
        for entry in range(indptr[row], indptr[row + 1]):
            dense[indices[entry]] = 0.0


@compiled
def fill_mutual(start: Any, stop: Any, lists: Any, out: Any) -> None:
    """Take the divergences marked -1 from the list of the other item; lists, out (n, k) as in `divergences`."""
    for row in range(start, stop):
        for place in range(lists.shape[1]):
            if out[row, place] < 0:
                other = lists[row, place]
                out[row, place] = out[other, _listed(row, other, lists)]
