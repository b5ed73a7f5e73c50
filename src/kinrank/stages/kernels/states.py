"""Similarities along neighbour lists -> regions, confident neighbours, and states: one sparse distribution per item."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.stages.kernels.arrays import UNTOUCHED, untouched
from kinrank.stages.kernels.compiled import compiled
from kinrank.stages.kernels.graph import position
from kinrank.stages.kernels.largest import counting, largest


@compiled
def mark_regions(
    start: Any, stop: Any, rows: Any, nearest: Any, k1: Any, reciprocal: Any, similar: Any, marked: Any, totals: Any
) -> None:
    """For i in rows[start..stop]: marked[i] = F_i, negative outside the region of i; totals[i] = its sum inside.

    rows (m,) int64, nearest (n, k) int32, similar and marked (n, k) float32, which may be the same array, totals (n,)
    float32. Items that list each other among their first k1 are in each other's regions if F reaches both ways: lists
    may have been filled up by others. Not `reciprocal`: all first k1 are.
    """
    for place in range(start, stop):
        i = rows[place]
        total = 0.0
        for column in range(similar.shape[1]):
            inside = column < k1
            if inside and reciprocal:
                other = nearest[i, column]
                at = position(nearest[other, :k1], i)
                inside = at < k1 and similar[other, at] != 0.0
            value = abs(similar[i, column])
            if inside:
                total += value
            marked[i, column] = value if inside else -value
        totals[i] = np.float32(total)


@compiled
def average(
    start: Any, stop: Any, lists: Any, weights: Any, regions: Any, mass: Any, items: Any, masses: Any, sizes: Any
) -> None:
    """Row r of the result: sum_c weights[r, c] * row lists[r, c] of `regions`, its largest entries summing to 1;
    of equal ones those of the lower items.

    lists (m, c) int32; weights (m, c) float32, 0 where nothing is added; regions csr.Rows, of which positive entries
    count; mass (n,) float32, all UNTOUCHED before and after, or empty to have one made -> items (m, support) int32 and
    masses (m, support) float32, of which the first sizes[r] (int64) count, sorted by item; rows start..stop. A product
    that underflows to 0 adds no entry, so every mass is positive and no item occurs twice in a row.
    """
    indptr, indices, data = regions.indptr, regions.indices, regions.data
    if len(mass) == 0:
        mass = untouched(len(indptr) - 1)
    longest = 1 + 0 * start  # a number that is written out would be compiled once more
    for row in range(start, stop):
        total = 0
        for column in range(weights.shape[1]):
            if weights[row, column] > 0.0:
                total += indptr[lists[row, column] + 1] - indptr[lists[row, column]]
        longest = max(longest, total)
    touched = np.empty(longest, np.int32)
    gathered = np.empty(longest, np.float32)
    scratch, chosen = counting(longest), np.empty(longest + 1, np.int32)
    for row in range(start, stop):
        count = 0 * row
        for column in range(weights.shape[1]):
            weight = weights[row, column]
            if not weight > 0.0:  # the same question as above, also for NaN: more would not fit
                continue
            for entry in range(indptr[lists[row, column]], indptr[lists[row, column] + 1]):
                item = indices[entry]
                if not weight * data[entry] > 0.0:  # outside the region, or an underflow
                    continue
                if mass[item] < 0.0:
                    touched[count] = item
                    count += 1
                    mass[item] = 0.0
                mass[item] += weight * data[entry]
        for place in range(count):
            gathered[place] = mass[touched[place]]
            mass[touched[place]] = UNTOUCHED
        size = largest(gathered, touched, count, items.shape[1], scratch, chosen)
        total_mass = np.float32(0.0)
        for entry in range(size):  # sorted by item as they come: there are few
            item, value = touched[chosen[entry]], gathered[chosen[entry]]
            at = entry
            while at > 0 and items[row, at - 1] > item:
                items[row, at] = items[row, at - 1]
                masses[row, at] = masses[row, at - 1]
                at -= 1
            items[row, at] = item
            masses[row, at] = value
        for place in range(size):
            total_mass += masses[row, place]
        for place in range(size):
            masses[row, place] /= total_mass
        sizes[row] = size
