"""Rows and their neighbours -> rows enriched by them: weighted sums, or the normal of a separating plane."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.neighbors import Integers, Neighbors, half_squares, nearest, pairwise, similarities
from kinrank.progress import Progress
from kinrank.stages.affinity import similarity_power
from kinrank.stages.csr import from_lists
from kinrank.stages.kernels.compiled import in_chunks
from kinrank.stages.kernels.margin import margin_normals
from kinrank.stages.kernels.within import nearest_within as keep_nearest

VANISHED = 1e-6  # a sum of unit vectors shorter than this has no direction left: its row stays what it was
ROWS = 512  # separating planes computed between two reports of progress


def average_weights(others: Neighbors) -> Vectors:
    """One for every neighbour: (n, k)."""
    return np.ones(others.indices.shape, np.float32)


def decay_weights(others: Neighbors, k: int) -> Vectors:
    """(K - i) / K for neighbour i = 1..k of K = k + 1 items, the row itself being item 0: (n, k).

    The weight of a rank follows from the declared k alone, also where there are fewer neighbours than that.
    """
    ranks = np.arange(1, others.k + 1, dtype=np.float64)
    weights = ((k + 1 - ranks) / (k + 1)).astype(np.float32)
    return np.broadcast_to(weights, others.indices.shape)


def power_weights(others: Neighbors, alpha: float) -> Vectors:
    """max(cosine, 0)^alpha: (n, k)."""
    return similarity_power(others.distances, alpha).astype(np.float32)


def weighted_sum(rows: Vectors, gallery: Vectors, others: Neighbors, weights: Vectors, unit: bool = True) -> Vectors:
    """l2(row + sum_i weight_i neighbour_i), (n, d): one sparse product, no (n, k, d) array.

    Where rows are not of length one (`unit`), the sum gets the mean length of what was summed.

    Example:
        >>> weighted_sum(rows, gallery, others, average_weights(others))
    """
    sums = from_lists(others.indices, weights, len(gallery)) @ gallery
    sums += rows
    return _directions(sums, rows, None if unit else _mean_lengths(rows, gallery, others, weights))


def farthest_items(
    rows: Vectors, gallery: Vectors, count: int, own: Integers | None, unit: bool = True
) -> NDArray[np.int32]:
    """The last `count` positions of every row's ranking, the very last one first; `own` is left out.

    The farthest from x are the nearest to -x. The gallery is read backwards because a ranking puts the lower
    of two equal items first, so its end holds the higher. Where rows are not of length one (`unit`), all are compared.
    """
    last = len(gallery) - 1
    backwards = np.ascontiguousarray(gallery[::-1])
    if not unit:
        return _farthest_of_any_length(rows, backwards, count, own)
    mirrored = None if own is None else last - own
    return (last - nearest(-rows, backwards, count, own=mirrored, self_first=False).indices).astype(np.int32)


def _farthest_of_any_length(rows: Vectors, backwards: Vectors, count: int, own: Integers | None) -> NDArray[np.int32]:
    last = len(backwards) - 1
    far = np.empty((len(rows), count), np.int32)
    for start in range(0, len(rows), ROWS):
        block = slice(start, start + ROWS)
        distances = pairwise(rows[block], backwards, unit=False)
        if own is not None:
            distances[np.arange(len(distances)), last - own[block]] = -1.0
        far[block] = last - np.argsort(-distances, axis=1, kind="stable")[:, :count]
    return far


def separating_normal(
    rows: Vectors, gallery: Vectors, others: Neighbors, far: NDArray[np.int32], progress: Progress, unit: bool = True
) -> Vectors:
    """Unit normal of the widest margin between {row, neighbours} and {far items}: (n, d).

    Where rows are not of length one (`unit`), it gets the mean length of the row and its neighbours.

    Hard-margin linear SVM, max 1'a - 1/2 a'Ha with a >= 0, y'a = 0, H_ij = y_i y_j <x_i, x_j>, solved in the
    equivalent form of the two nearest points of the convex hulls. Sets that no plane separates make the hard
    dual unbounded, so violations cost C = 1e8 times their square. Without far items: the plain average.
    """
    if not far.shape[1]:
        return weighted_sum(rows, gallery, others, average_weights(others), unit)
    wanted = None if unit else _mean_lengths(rows, gallery, others, average_weights(others))
    result = np.empty(rows.shape, np.float32)
    starts = range(0, len(rows), ROWS)
    for start in progress.each("separating planes", starts, len(starts)):
        block = slice(start, start + ROWS)
        near = others.indices[block]
        normals = np.empty(rows[block].shape, np.float64)
        weights = np.empty((len(near), 1 + near.shape[1] + far.shape[1]), np.float64)
        in_chunks(margin_normals, len(near), rows[block], gallery, near, far[block], normals, weights, chunk=32)
        result[block] = _directions(normals, rows[block], None if wanted is None else wanted[block], vanished=1e-12)
    return result


def nearest_within(items: Vectors, k: int, unit: bool = True) -> tuple[Integers, NDArray[np.float32]]:
    """Every item and its k nearest among the items given, (m, d): positions and similarities, both (m, 1 + k).

    Itself first, even among its duplicates; at most m - 1 others. On the calling thread: callers spread queries.
    """
    shape = (len(items), 1 + min(k, len(items) - 1))
    positions, products = np.empty(shape, np.int64), np.empty(shape, np.float32)
    in_chunks(keep_nearest, len(items), similarities(items, items, unit), positions, products, chunk=len(items))
    return positions, products


def _directions(
    sums: NDArray[np.floating], rows: Vectors, wanted: Vectors | None = None, vanished: float = VANISHED
) -> Vectors:
    """The sums at length one, or at the lengths `wanted` (n, 1); where a sum cancelled out, the row it came from."""
    lengths = np.sqrt(np.einsum("ij,ij->i", sums, sums, dtype=np.float64))
    gone = lengths < vanished
    lengths[gone] = 1.0
    unit: Vectors = (sums / lengths[:, None]).astype(np.float32)
    if wanted is not None:
        unit *= wanted
    unit[gone] = rows[gone]
    return unit


def _mean_lengths(rows: Vectors, gallery: Vectors, others: Neighbors, weights: Vectors) -> Vectors:
    """(n, 1) the weighted mean length of each row and its neighbours; what counts against a row weighs as much."""
    weights = np.abs(weights)
    own, lengths = (np.sqrt(2.0 * half_squares(part)) for part in (rows, gallery))
    total = own + (weights * lengths[others.indices]).sum(axis=1)
    return np.asarray(total / (1.0 + weights.sum(axis=1)), np.float32)[:, None]
