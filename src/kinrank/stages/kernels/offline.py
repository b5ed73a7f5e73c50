"""Neighbour lists -> graphs and regions of a whole gallery, in place of sparse matrix products that take more room."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.stages.kernels.compiled import compiled


@compiled
def _position(row: Any, item: Any) -> Any:
    """Where an item first stands in a row, or the row's length; to the end always, many columns at once."""
    at = np.int32(len(row))
    for column in range(len(row)):
        at = min(at, np.int32(column) if row[column] == item else np.int32(len(row)))
    return at


@compiled
def union_starts(near: Any, mutual: Any, starts: Any) -> None:
    """`starts` (n + 1), zeros, becomes the row starts of the graph in which either item lists the other."""
    n, k = near.shape
    for i in range(n):
        starts[i + 1] += k
        for column in range(k):
            if not mutual[i, column]:
                starts[near[i, column] + 1] += 1
    for i in range(n):
        starts[i + 1] += starts[i]


@compiled
def union_entries(near: Any, mutual: Any, starts: Any, ends: Any) -> None:
    """The items of that graph, in no order."""
    n, k = near.shape
    filled = starts[:-1].copy()
    for i in range(n):
        for column in range(k):
            other = near[i, column]
            ends[filled[i]] = other
            filled[i] += 1
            if not mutual[i, column]:
                ends[filled[other]] = i
                filled[other] += 1


@compiled
def sort_rows(start: Any, stop: Any, starts: Any, ends: Any) -> None:
    """Items ascending in rows start..stop."""
    for i in range(start, stop):
        for entry in range(starts[i] + 1, starts[i + 1]):  # insertion: rows are short
            item = ends[entry]
            at = entry
            while at > starts[i] and ends[at - 1] > item:
                ends[at] = ends[at - 1]
                at -= 1
            ends[at] = item


@compiled
def layer_weights(
    start: Any,
    stop: Any,
    near: Any,
    gaps: Any,
    lengths: Any,
    sigma: Any,
    sizes: Any,
    starts: Any,
    ends: Any,
    values: Any,
    degrees: Any,
) -> None:
    """W = (W + W')/2 of every layer on the entries of rows start..stop, and their sums (n, layers).

    In three passes over each row, because lookups, exponentials and sums are each faster on their own.
    """
    k = near.shape[1]
    longest = 1
    for i in range(start, stop):
        longest = max(longest, starts[i + 1] - starts[i])
    mine, theirs = np.empty(longest, np.int32), np.empty(longest, np.int32)
    half = np.empty(longest, np.float64)
    for i in range(start, stop):
        begin = starts[i]
        size = starts[i + 1] - begin
        for entry in range(size):
            mine[entry] = _position(near[i], ends[begin + entry])
            theirs[entry] = _position(near[ends[begin + entry]], i)
        for entry in range(size):
            j = ends[begin + entry]
            gap = np.float64(gaps[i, mine[entry]]) if mine[entry] < k else np.float64(gaps[j, theirs[entry]])
            half[entry] = 0.5 * max(np.exp(-gap * gap / (sigma * sigma * lengths[i] * lengths[j])), 1e-30)
        for layer in range(len(sizes)):
            for entry in range(size):
                weight = half[entry] * ((mine[entry] < sizes[layer]) + (theirs[entry] < sizes[layer]))
                values[begin + entry, layer] = np.float32(weight)
                degrees[i, layer] += weight


@compiled
def normalise_layers(start: Any, stop: Any, starts: Any, ends: Any, degrees: Any, values: Any) -> None:
    """S = D^-1/2 W D^-1/2 in place, on rows start..stop."""
    for i in range(start, stop):
        for entry in range(starts[i], starts[i + 1]):
            for layer in range(values.shape[1]):
                product = degrees[i, layer] * degrees[ends[entry], layer]
                if product > 0.0:
                    values[entry, layer] = np.float32(values[entry, layer] / np.sqrt(product))


@compiled
def mark_regions(
    start: Any, stop: Any, rows: Any, kin: Any, k1: Any, reciprocal: Any, similar: Any, totals: Any
) -> None:
    """For i in rows[start..stop]: F_i negative outside the region of i, and its sum inside.

    p^_i is what is positive, over `totals[i]`. The absolute value is F again: nothing has to be copied. Items that list
    each other are in each other's regions if F reaches both ways; lists may have been filled up by others.
    """
    for position in range(start, stop):
        i = rows[position]
        total = 0.0
        for column in range(similar.shape[1]):
            inside = column < k1
            if inside and reciprocal:
                other = kin[i, column]
                at = _position(kin[other, :k1], i)
                inside = at < k1 and similar[other, at] != 0.0
            if inside:
                total += similar[i, column]
            else:
                similar[i, column] = -similar[i, column]
        totals[i] = np.float32(total)


@compiled
def mirror_entries(starts: Any, ends: Any, mirror: Any) -> None:
    """For every entry of a symmetric graph the one that is the same edge seen from its other end.

    Rows are met in ascending order and are sorted: the entries of row j are passed one after the other.
    """
    passed = starts[:-1].copy()
    for i in range(len(starts) - 1):
        for entry in range(starts[i], starts[i + 1]):
            mirror[entry] = passed[ends[entry]]
            passed[ends[entry]] += 1


@compiled
def confidence_rows(start: Any, stop: Any, near: Any, kappa: Any, weights: Any) -> None:
    """Weights of Eq. 15 along the lists: 1 + kappa where the other lists i, too, summing to one; rows start..stop."""
    k = near.shape[1]
    for i in range(start, stop):
        total = 0.0
        for column in range(k):
            if _position(near[near[i, column]], i) < k:
                total += 1.0 + kappa
            else:
                total += 1.0
        for column in range(k):
            mutual = _position(near[near[i, column]], i) < k
            weights[i, column] = np.float32((1.0 + kappa if mutual else 1.0) / total)
