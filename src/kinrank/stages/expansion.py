"""Rows and their neighbours -> rows enriched by them: weighted sums, or the normal of a separating plane."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.neighbors import Integers, Neighbors, nearest
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


def weighted_sum(rows: Vectors, gallery: Vectors, others: Neighbors, weights: Vectors) -> Vectors:
    """l2(row + sum_i weight_i neighbour_i), (n, d): one sparse product, no (n, k, d) array.

    Example:
        >>> weighted_sum(rows, gallery, others, average_weights(others))
    """
    sums = from_lists(others.indices, weights, len(gallery)) @ gallery
    sums += rows
    return _directions(sums, rows)


def farthest_items(rows: Vectors, gallery: Vectors, count: int, own: Integers | None) -> NDArray[np.int32]:
    """The last `count` positions of every row's ranking, the very last one first; `own` is left out.

    The farthest from x are the nearest to -x. The gallery is read backwards because a ranking puts the lower
    of two equal items first, so its end holds the higher.
    """
    last = len(gallery) - 1
    backwards = np.ascontiguousarray(gallery[::-1])
    mirrored = None if own is None else last - own
    return (last - nearest(-rows, backwards, count, own=mirrored, self_first=False).indices).astype(np.int32)


def separating_normal(
    rows: Vectors, gallery: Vectors, others: Neighbors, far: NDArray[np.int32], progress: Progress
) -> Vectors:
    """Unit normal of the widest margin between {row, neighbours} and {far items}: (n, d).

    Hard-margin linear SVM, max 1'a - 1/2 a'Ha with a >= 0, y'a = 0, H_ij = y_i y_j <x_i, x_j>, solved in the
    equivalent form of the two nearest points of the convex hulls. Sets that no plane separates make the hard
    dual unbounded, so violations cost C = 1e8 times their square. Without far items: the plain average.
    """
    if not far.shape[1]:
        return weighted_sum(rows, gallery, others, average_weights(others))
    result = np.empty(rows.shape, np.float32)
    starts = range(0, len(rows), ROWS)
    for start in progress.each("separating planes", starts, len(starts)):
        block = slice(start, start + ROWS)
        near = others.indices[block]
        normals = np.empty(rows[block].shape, np.float64)
        weights = np.empty((len(near), 1 + near.shape[1] + far.shape[1]), np.float64)
        in_chunks(margin_normals, len(near), rows[block], gallery, near, far[block], normals, weights, chunk=32)
        result[block] = _directions(normals, rows[block], vanished=1e-12)
    return result


def nearest_within(items: Vectors, k: int) -> tuple[Integers, NDArray[np.float32]]:
    """Every item and its k nearest among the items given, (m, d): positions and inner products, both (m, 1 + k).

    Itself first, even among its duplicates; at most m - 1 others. On the calling thread: callers spread queries.
    """
    shape = (len(items), 1 + min(k, len(items) - 1))
    positions, products = np.empty(shape, np.int64), np.empty(shape, np.float32)
    in_chunks(keep_nearest, len(items), items @ items.T, positions, products, chunk=len(items))
    return positions, products


def _directions(sums: NDArray[np.floating], rows: Vectors, vanished: float = VANISHED) -> Vectors:
    """The sums at length one; where a sum has cancelled out, the row it came from."""
    lengths = np.sqrt(np.einsum("ij,ij->i", sums, sums, dtype=np.float64))
    gone = lengths < vanished
    lengths[gone] = 1.0
    unit: Vectors = (sums / lengths[:, None]).astype(np.float32)
    unit[gone] = rows[gone]
    return unit
