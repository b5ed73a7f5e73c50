"""Neighbour lists -> graphs and regions of a whole gallery, in place of sparse matrix products that take more room."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.stages._kernels.compiled import compiled


@compiled
def _position(row: Any, item: Any) -> Any:
    """Where an item stands in a row, or the row's length."""
    for column in range(len(row)):
        if row[column] == item:
            return column
    return len(row)


@compiled
def union_starts(near: Any, starts: Any) -> None:
    """`starts` (n + 1), zeros, becomes the row starts of the graph in which either item lists the other."""
    n, k = near.shape
    for i in range(n):
        starts[i + 1] += k
        for column in range(k):
            other = near[i, column]
            if _position(near[other], i) == k:
                starts[other + 1] += 1
    for i in range(n):
        starts[i + 1] += starts[i]


@compiled
def union_entries(near: Any, starts: Any, ends: Any) -> None:
    """The items of that graph, ascending in every row."""
    n, k = near.shape
    filled = starts[:-1].copy()
    for i in range(n):  # rows are met in ascending order, so that the items they add to others are, too
        for column in range(k):
            ends[filled[i]] = near[i, column]
            filled[i] += 1
            other = near[i, column]
            if _position(near[other], i) == k:
                ends[filled[other]] = i
                filled[other] += 1
    for i in range(n):
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
    """W = (W + W')/2 of every layer on the entries of rows start..stop, and their sums (n, layers)."""
    k = near.shape[1]
    for i in range(start, stop):
        for entry in range(starts[i], starts[i + 1]):
            j = ends[entry]
            mine = _position(near[i], j)
            theirs = _position(near[j], i)
            gap = np.float64(gaps[i, mine]) if mine < k else np.float64(gaps[j, theirs])
            weight = max(np.exp(-gap * gap / (sigma * sigma * lengths[i] * lengths[j])), 1e-30)
            for layer in range(len(sizes)):
                times = (mine < sizes[layer]) + (theirs < sizes[layer])
                values[entry, layer] = np.float32(0.5 * times * weight)
                degrees[i, layer] += 0.5 * times * weight


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
def region_weights(start: Any, stop: Any, kin: Any, k1: Any, reciprocal: Any, similar: Any) -> None:
    """p^_i in place of F_i, rows start..stop: 0 outside the region of i, summing to 1 on it."""
    for i in range(start, stop):
        total = 0.0
        for column in range(similar.shape[1]):
            if column >= k1 or (reciprocal and _position(kin[kin[i, column], :k1], i) == k1):
                similar[i, column] = 0.0
            total += similar[i, column]
        if total > 0.0:
            for column in range(similar.shape[1]):
                similar[i, column] = np.float32(similar[i, column] / total)


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
