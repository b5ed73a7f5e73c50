"""Vectors -> the k nearest of every item, itself first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.stages import kernels

Integers = NDArray[np.int64]
Block = 2048  # pairs that are summed again at once
ROWS = 65_536  # items of a mask that are copied and searched at once


@dataclass(frozen=True, eq=False)
class Neighbors:
    """indices (n, k) item numbers, nearest first; distances (n, k) Euclidean. Ties go to the lower number."""

    indices: NDArray[np.int32]
    distances: NDArray[np.float32]

    @property
    def k(self) -> int:
        return int(self.indices.shape[1])

    def first(self, k: int) -> Neighbors:
        """The k nearest only."""
        if k >= self.k:
            return self
        return Neighbors(np.ascontiguousarray(self.indices[:, :k]), np.ascontiguousarray(self.distances[:, :k]))


def nearest(
    queries: Vectors,
    items: Vectors,
    k: int,
    *,
    own: Integers | None = None,
    self_first: bool = True,
    unit: bool = True,
) -> Neighbors:
    """The exact k nearest items of every query, by blocked matrix products; no n x n matrix.

    `own[i]` is the item that query i itself is (-1: none). With `self_first` it stands first, at distance 0,
    even among duplicates; otherwise it is left out. `unit`: all rows have length one.
    Shapes: (q, d), (n, d) -> (q, min(k, n)).
    """
    k = max(0, min(k, len(items) if own is None or self_first else len(items) - 1))
    identity = np.full(len(queries), -1, np.int64) if own is None else np.asarray(own, np.int64)
    known = identity >= 0
    if known.all() or not known.any():
        return Neighbors(*kernels.search.nearest_blocks(queries, items, k, identity, self_first, unit))
    indices = np.empty((len(queries), k), np.int32)
    distances = np.empty((len(queries), k), np.float32)
    for rows in (known, ~known):  # rows with an item of their own search one entry less
        indices[rows], distances[rows] = kernels.search.nearest_blocks(
            queries[rows], items, k, identity[rows], self_first, unit
        )
    return Neighbors(indices, distances)


def nearest_among(
    queries: Vectors,
    k: int,
    allowed: NDArray[np.bool_],
    vectors: Callable[[Integers], Vectors],
    search: Callable[[Vectors, int], Neighbors] | None = None,
    unit: bool = True,
) -> Neighbors:
    """(q, k) nearest of the items in a mask (n,), -1 and inf behind them where it has fewer than k.

    `vectors(numbers)` are the rows of items. With `search(queries, k)`, some index, it is asked first, so deep that
    enough of what it finds should be allowed; rows that still lack some are searched exactly. `unit`: all rows have
    length one.
    """
    numbers = np.flatnonzero(allowed)
    indices, distances = np.full((len(queries), k), -1, np.int32), np.full((len(queries), k), np.inf, np.float32)
    wanted, left = min(k, len(numbers)), np.arange(len(queries))
    depth = 2 * wanted * len(allowed) // max(1, len(numbers))
    if search is not None and depth <= len(allowed) // 4:
        found = search(queries, depth)
        inside = (found.indices >= 0) & allowed[np.maximum(found.indices, 0)]
        enough = inside.sum(axis=1) >= wanted
        order = np.argsort(~inside[enough], axis=1, kind="stable")[:, :wanted]  # those outside go behind
        indices[enough, :wanted] = np.take_along_axis(found.indices[enough], order, axis=1)
        distances[enough, :wanted] = np.take_along_axis(found.distances[enough], order, axis=1)
        left = np.flatnonzero(~enough)
    if len(left):
        indices[left, :wanted], distances[left, :wanted] = _exactly(queries[left], wanted, numbers, vectors, unit)
    return Neighbors(indices, distances)


def _exactly(
    queries: Vectors, k: int, numbers: Integers, vectors: Callable[[Integers], Vectors], unit: bool
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """(q, k) nearest of the items with these numbers, ascending; some of them at a time."""
    indices, distances = np.empty((len(queries), 0), np.int32), np.empty((len(queries), 0), np.float32)
    for start in range(0, len(numbers), ROWS):
        some = numbers[start : start + ROWS]
        found = nearest(queries, vectors(some), k, unit=unit)
        indices = np.concatenate([indices, some[found.indices].astype(np.int32)], axis=1)
        distances = np.concatenate([distances, found.distances], axis=1)
        order = np.argsort(distances, axis=1, kind="stable")[:, :k]  # numbers ascend: ties to the lower one
        indices, distances = np.take_along_axis(indices, order, axis=1), np.take_along_axis(distances, order, axis=1)
    return indices, distances


def share_equal(values: NDArray[Any], first: Integers) -> NDArray[Any]:
    """Give equal items the value of the first of them: matrix products round equal columns differently.

    values (rows, items), changed in place and returned; first (items,), see first_equal.
    """
    later = np.flatnonzero(first != np.arange(len(first)))
    if len(later):
        values[:, later] = values[:, first[later]]
    return values


def pairwise(left: Vectors, right: Vectors, unit: bool = True) -> NDArray[np.float32]:
    """Euclidean distances of rows, (a, d), (b, d) -> (a, b); `unit`: all of them have length one.

    From inner products, except where these lose the digits: pairs nearer than about 0.03 of their length are summed
    again from differences, so that duplicates are at distance 0.
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
    for start in range(0, len(a), Block):
        block = slice(start, start + Block)
        differences = left[a[block]] - right[b[block]]
        squared[a[block], b[block]] = np.einsum("ij,ij->i", differences, differences)
    np.sqrt(squared, out=squared)
    return squared


def half_squares(rows: Vectors) -> NDArray[np.float32]:
    """(n,) |x|^2 / 2: what inner products lack to tell distances, where rows are of any length."""
    return kernels.search.half_squares(rows)


def similarities(left: Vectors, right: Vectors, unit: bool = True) -> NDArray[np.float32]:
    """1 - d^2 / 2, (a, d), (b, d) -> (a, b): the cosine where all rows have length one (`unit`)."""
    products: NDArray[np.float32] = left @ right.T
    if not unit:
        products += 1.0 - half_squares(left)[:, None]
        products -= half_squares(right)
    return products


def first_equal(rows: Vectors) -> Integers:
    """For every row the position of the first row equal to it (its own where none comes before): (n,).

    Matrix products may round equal columns differently; methods copy the first one's answer to the others.
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
