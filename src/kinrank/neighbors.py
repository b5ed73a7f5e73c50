"""Exact nearest neighbours, and the distances between rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.stages import kernels
from kinrank.vector_input import Vectors

Integers = NDArray[np.int64]
PAIRS_PER_BLOCK = 2048  # pairs whose distances are computed again at once
ITEMS_PER_BLOCK = 65_536  # items of a mask that are copied and searched at once


@dataclass(frozen=True, eq=False)
class Neighbors:
    """Neighbour lists: (n, k) item numbers, nearest first, and Euclidean distances. Ties go to the lower number."""

    indices: NDArray[np.int32]
    distances: NDArray[np.float32]

    @property
    def k(self) -> int:
        return int(self.indices.shape[1])

    def first(self, k: int) -> Neighbors:
        """Return the k nearest only."""
        if k >= self.k:
            return self
        return Neighbors(np.ascontiguousarray(self.indices[:, :k]), np.ascontiguousarray(self.distances[:, :k]))


def find_nearest(
    queries: Vectors,
    items: Vectors,
    k: int,
    *,
    own: Integers | None = None,
    self_first: bool = True,
    unit: bool = True,
    products: NDArray[np.float32] | None = None,
) -> Neighbors:
    """Find the exact k nearest items of every query by blocked matrix products, without an n x n matrix.

    `own[i]` is the item that query i itself is (-1: none). With `self_first` it is the first in its list, at distance
    0, even among duplicates; otherwise it is left out. `unit`: all rows have length one. `products`: (n, n) the inner
    products, if all items are queries and the caller has them. Shapes: (q, d), (n, d) -> (q, min(k, n)).
    """
    k = max(0, min(k, len(items) if own is None or self_first else len(items) - 1))
    identity = np.full(len(queries), -1, np.int64) if own is None else np.asarray(own, np.int64)
    has_own = identity >= 0
    if has_own.all() or not has_own.any():
        search = kernels.nearest_search.search_nearest
        return Neighbors(*search(queries, items, k, identity, self_first, unit, products))
    indices = np.empty((len(queries), k), np.int32)
    distances = np.empty((len(queries), k), np.float32)
    for rows in (has_own, ~has_own):  # rows with an own item search one entry less
        indices[rows], distances[rows] = kernels.nearest_search.search_nearest(
            queries[rows], items, k, identity[rows], self_first, unit
        )
    return Neighbors(indices, distances)


def find_nearest_among(
    queries: Vectors,
    k: int,
    allowed: NDArray[np.bool_],
    vectors: Callable[[Integers], Vectors],
    search: Callable[[Vectors, int], Neighbors] | None = None,
    unit: bool = True,
) -> Neighbors:
    """Find the (q, k) nearest items of a mask (n,), padded with -1 and inf if it has fewer than k.

    `vectors(numbers)` returns the rows of items. If there is an index `search(queries, k)`, it is searched first, deep
    enough that enough of its results should be allowed; rows with too few are then searched exactly. `unit`: all rows
    have length one.
    """
    numbers = np.flatnonzero(allowed)
    indices, distances = np.full((len(queries), k), -1, np.int32), np.full((len(queries), k), np.inf, np.float32)
    width, rows = min(k, len(numbers)), np.arange(len(queries))
    depth = 2 * width * len(allowed) // max(1, len(numbers))
    if search is not None and depth <= len(allowed) // 4:
        hits = search(queries, depth)
        inside = (hits.indices >= 0) & allowed[np.maximum(hits.indices, 0)]
        enough = inside.sum(axis=1) >= width
        order = np.argsort(~inside[enough], axis=1, kind="stable")[:, :width]  # excluded items go last
        indices[enough, :width] = np.take_along_axis(hits.indices[enough], order, axis=1)
        distances[enough, :width] = np.take_along_axis(hits.distances[enough], order, axis=1)
        rows = np.flatnonzero(~enough)
    if len(rows):
        indices[rows, :width], distances[rows, :width] = _search_exactly(queries[rows], width, numbers, vectors, unit)
    return Neighbors(indices, distances)


def _search_exactly(
    queries: Vectors, k: int, numbers: Integers, vectors: Callable[[Integers], Vectors], unit: bool
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Find the (q, k) nearest of the items with these ascending numbers, one block of items at a time."""
    indices, distances = np.empty((len(queries), 0), np.int32), np.empty((len(queries), 0), np.float32)
    for start in range(0, len(numbers), ITEMS_PER_BLOCK):
        block = numbers[start : start + ITEMS_PER_BLOCK]
        near = find_nearest(queries, vectors(block), k, unit=unit)
        indices = np.concatenate([indices, block[near.indices].astype(np.int32)], axis=1)
        distances = np.concatenate([distances, near.distances], axis=1)
        order = np.argsort(distances, axis=1, kind="stable")[:, :k]  # numbers ascend: ties go to the lower one
        indices, distances = np.take_along_axis(indices, order, axis=1), np.take_along_axis(distances, order, axis=1)
    return indices, distances


def share_equal_columns(values: NDArray[Any], first: Integers) -> NDArray[Any]:
    """Give equal items the value of the first of them, because matrix products can round equal columns differently.

    values (rows, items), changed in place and returned; first (items,), see first_equal.
    """
    later = np.flatnonzero(first != np.arange(len(first)))
    if len(later):
        values[:, later] = values[:, first[later]]
    return values


def pairwise_distances(left: Vectors, right: Vectors, unit: bool = True) -> NDArray[np.float32]:
    """Return the Euclidean distances of rows, (a, d), (b, d) -> (a, b); `unit`: all rows have length one.

    They come from inner products. Pairs nearer than about 0.03 of their length, for which these lose the digits, are
    computed again from differences, so that duplicates are at distance 0.
    """
    squared: NDArray[np.float32] = left @ right.T
    squared *= -2.0
    if unit:
        squared += 2.0
        a, b = np.nonzero(squared < 1e-3)
    else:
        lengths = 2.0 * half_squares(left)[:, None] + 2.0 * half_squares(right)
        squared += lengths
        a, b = np.nonzero(squared <= 5e-4 * lengths)
    for start in range(0, len(a), PAIRS_PER_BLOCK):
        block = slice(start, start + PAIRS_PER_BLOCK)
        differences = left[a[block]] - right[b[block]]
        squared[a[block], b[block]] = np.einsum("ij,ij->i", differences, differences)
    np.sqrt(squared, out=squared)
    return squared


def half_squares(rows: Vectors) -> NDArray[np.float32]:
    """Return (n,) |x|^2 / 2, which inner products lack to determine distances between rows of any length."""
    return kernels.nearest_search.half_squares(rows)


def pairwise_similarities(left: Vectors, right: Vectors, unit: bool = True) -> NDArray[np.float32]:
    """Return 1 - d^2 / 2, (a, d), (b, d) -> (a, b): the cosine if all rows have length one (`unit`)."""
    products: NDArray[np.float32] = left @ right.T
    if not unit:
        products += 1.0 - half_squares(left)[:, None]
        products -= half_squares(right)
    return products


def find_first_equal(rows: Vectors) -> Integers:
    """Return (n,) for every row the position of the first row equal to it, which is its own if no earlier row is equal.

    Matrix products can round equal columns differently; methods copy the result of the first one to the others.
    """
    numbers = np.arange(len(rows))
    factors = np.random.default_rng(0).integers(1, 2**63, rows.shape[1], dtype=np.uint64) | np.uint64(1)
    keys = np.empty(len(rows), np.uint64)
    for start in range(0, len(rows), 1024):
        bits = (rows[start : start + 1024] + np.float32(0)).view(np.uint32)  # + 0 turns -0 into 0
        keys[start : start + 1024] = (bits * factors).sum(axis=1)
    _, places, groups = np.unique(keys, return_index=True, return_inverse=True)
    first = places[groups.reshape(-1)]
    for row in np.flatnonzero(first != numbers):
        if not np.array_equal(rows[row], rows[first[row]]):
            first[row] = row
    return first.astype(np.int64)
