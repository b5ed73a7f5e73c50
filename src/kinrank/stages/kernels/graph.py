"""Neighbour lists -> graphs in which either item lists the other: their patterns, Gaussian weights, normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.stages.kernels.compiled import compiled, inner


@inner
def position(row: Any, item: Any) -> Any:
    """Where an item first stands in a row, or the row's length; reads to the end always, many columns at once."""
    at = np.int32(len(row))
    for column in range(len(row)):
        at = min(at, np.int32(column) if row[column] == item else np.int32(len(row)))
    return at


@compiled
def union_indptr(lists: Any, mutual: Any, indptr: Any) -> None:
    """The row pointers of the graph in which either item lists the other.

    lists (n, k) int32 and mutual (n, k) bool -> indptr (n + 1,) int64, zeros before.
    """
    n, k = lists.shape
    for i in range(n):
        indptr[i + 1] += k
        for column in range(k):
            if not mutual[i, column]:
                indptr[lists[i, column] + 1] += 1
    for i in range(n):
        indptr[i + 1] += indptr[i]


@compiled
def union_indices(lists: Any, mutual: Any, indptr: Any, indices: Any) -> None:
    """The items of that graph, (indptr[n],) int32, in no order within a row."""
    n, k = lists.shape
    filled = indptr[:-1].copy()
    for i in range(n):
        for column in range(k):
            other = lists[i, column]
            indices[filled[i]] = other
            filled[i] += 1
            if not mutual[i, column]:
                indices[filled[other]] = i
                filled[other] += 1


@compiled
def sort_rows(start: Any, stop: Any, indptr: Any, indices: Any) -> None:
    """Items ascending in rows start..stop."""
    for i in range(start, stop):
        for entry in range(indptr[i] + 1, indptr[i + 1]):  # insertion: rows are short
            item = indices[entry]
            at = entry
            while at > indptr[i] and indices[at - 1] > item:
                indices[at] = indices[at - 1]
                at -= 1
            indices[at] = item


@compiled
def layer_weights(
    start: Any, stop: Any, lists: Any, distances: Any, lengths: Any, own_scale: Any, sigma: Any, sizes: Any,
    indptr: Any, indices: Any, weights: Any, degrees: Any,
) -> None:  # fmt: skip
    """W = (W + W')/2 of every layer on the entries of rows start..stop, and their sums.

    lists (n, k) int32, distances (n, k) float32, lengths (n,) float64, sizes (layers,) int64: how many of the k belong
    to each layer -> weights (entries, layers) float32, degrees (n, layers) float64. W_ij is exp(-d^2 / (sigma^2 l_i
    l_j)) where i lists j, or with l_i^2 for `own_scale`; 0 elsewhere. In three passes over each row, because lookups,
    exponentials and sums are each faster on their own.
    """
    k = lists.shape[1]
    longest = 1
    for i in range(start, stop):
        longest = max(longest, indptr[i + 1] - indptr[i])
    mine, theirs = np.empty(longest, np.int32), np.empty(longest, np.int32)
    forth, back = np.empty(longest, np.float64), np.empty(longest, np.float64)
    for i in range(start, stop):
        begin = indptr[i]
        size = indptr[i + 1] - begin
        for entry in range(size):
            mine[entry] = position(lists[i], indices[begin + entry])
            theirs[entry] = position(lists[indices[begin + entry]], i)
        for entry in range(size):
            j = indices[begin + entry]
            distance = distances[i, mine[entry]] if mine[entry] < k else distances[j, theirs[entry]]
            squared = np.float64(distance) * np.float64(distance) / (sigma * sigma)
            # an edge stays an edge, however far
            if own_scale:
                forth[entry] = 0.5 * max(np.exp(-squared / (lengths[i] * lengths[i])), 1e-30)
                back[entry] = 0.5 * max(np.exp(-squared / (lengths[j] * lengths[j])), 1e-30)
            else:
                forth[entry] = 0.5 * max(np.exp(-squared / (lengths[i] * lengths[j])), 1e-30)
                back[entry] = forth[entry]
        for layer in range(len(sizes)):
            degrees[i, layer] = 0.0
            for entry in range(size):
                weight = 0.0
                if mine[entry] < sizes[layer]:
                    weight += forth[entry]
                if theirs[entry] < sizes[layer]:
                    weight += back[entry]
                weights[begin + entry, layer] = np.float32(weight)
                degrees[i, layer] += weight


@compiled
def normalise_layers(start: Any, stop: Any, indptr: Any, indices: Any, degrees: Any, weights: Any, values: Any) -> None:
    """S = D^-1/2 W D^-1/2 of every layer on rows start..stop: weights -> values, both (entries, layers) float32."""
    for i in range(start, stop):
        for entry in range(indptr[i], indptr[i + 1]):
            for layer in range(values.shape[1]):
                product = degrees[i, layer] * degrees[indices[entry], layer]
                scale = np.sqrt(product) if product > 0.0 else 1.0
                values[entry, layer] = np.float32(weights[entry, layer] / scale)


@compiled
def blend(start: Any, stop: Any, values: Any, weights: Any, blended: Any) -> None:
    """blended[e] = sum_v weights[v] values[e, v]; values (entries, layers) float32, weights (layers,) float64."""
    for entry in range(start, stop):
        total = 0.0
        for layer in range(len(weights)):
            total += weights[layer] * values[entry, layer]
        blended[entry] = np.float32(total)
