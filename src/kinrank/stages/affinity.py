"""Neighbour lists -> the mutual kNN affinity and its symmetric normalisation, as sparse matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinrank.features import Vectors
from kinrank.neighbors import Neighbors
from kinrank.stages.kernels.compiled import in_chunks
from kinrank.stages.kernels.products import mark_mutual


def similarity(distances: NDArray[Any]) -> NDArray[np.float64]:
    """Inner products of unit vectors from their Euclidean distances: s = 1 - d^2 / 2."""
    wide = np.asarray(distances, np.float64)
    return 1.0 - wide * wide / 2.0


def kernel(distances: NDArray[Any], gamma: float) -> NDArray[np.float64]:
    """max(s, 0)^gamma. Clipped before the power: the same for odd gamma, and defined for every other one."""
    return np.asarray(np.maximum(similarity(distances), 0.0) ** gamma)


def mutual(indices: NDArray[np.int32]) -> NDArray[np.bool_]:
    """(n, k) whether i stands in the list of indices[i, a] as well."""
    mask = np.zeros(indices.shape, np.bool_)
    in_chunks(mark_mutual, len(indices), indices, mask, chunk=256)
    return mask


def mutual_affinity(neighbors: Neighbors, gamma: float) -> sparse.csr_array:
    """(n, n) A_ij = max(s_ij, 0)^gamma where i and j stand in each other's lists; A_ii = 0.

    Example:
        >>> mutual_affinity(items.gallery_neighbors(50), gamma=3.0).shape
    """
    count = len(neighbors.indices)
    keep = mutual(neighbors.indices) & (neighbors.indices != np.arange(count, dtype=np.int32)[:, None])
    weights = kernel(neighbors.distances, gamma)
    keep &= weights > 0
    pointers = np.concatenate([[0], np.cumsum(keep.sum(axis=1))]).astype(np.int32)
    return sparse.csr_array((weights[keep], neighbors.indices[keep], pointers), shape=(count, count))


def normalised(affinity: sparse.csr_array) -> sparse.csr_array:
    """S = D^-1/2 A D^-1/2 with D the row sums of A; the row of an isolated item stays zero, never NaN."""
    degrees = np.asarray(affinity.sum(axis=1), np.float64).ravel()
    inverse = np.zeros_like(degrees)
    np.divide(1.0, np.sqrt(degrees), out=inverse, where=degrees > 0)
    rows = np.repeat(np.arange(len(degrees)), np.diff(affinity.indptr))
    values = affinity.data * inverse[rows] * inverse[affinity.indices]
    return sparse.csr_array((values, affinity.indices, affinity.indptr), shape=affinity.shape)


def seeds(nearest: Neighbors, queries: NDArray[np.int64], count: int, gamma: float) -> NDArray[np.float64]:
    """(count, len(queries)) right-hand sides: similarity^gamma at each query's nearest items, else zero."""
    sources = np.zeros((count, len(queries)))
    columns = np.arange(len(queries))[:, None]
    sources[nearest.indices[queries], columns] = kernel(nearest.distances[queries], gamma)
    return sources


def gaussian_affinity(vectors: Vectors, neighbors: Neighbors, sigma: float, power: int) -> sparse.csr_array:
    """(n, n) the average of W and W', W_ij = exp(-(d_ij^2 / max d^2)^power / sigma^2) on the lists."""
    count = len(neighbors.indices)
    most = largest_squared(vectors) or 1.0  # 0: all items are the same
    scaled = np.asarray(neighbors.distances, np.float64) ** 2 / most
    weights = np.exp(-(scaled**power) / sigma**2)
    pointers = np.arange(count + 1, dtype=np.int32) * neighbors.k
    lists = sparse.csr_array((weights.ravel(), neighbors.indices.ravel(), pointers), shape=(count, count))
    return sparse.csr_array((lists + lists.T.tocsr()) / 2.0)


def largest_squared(vectors: Vectors, block: int = 2048) -> float:
    """The largest squared distance between any two unit rows, block by block: O(n^2 d) time, no storage."""
    least = 1.0
    for start in range(0, len(vectors), block):
        for other in range(start, len(vectors), block):
            products = vectors[start : start + block] @ vectors[other : other + block].T
            least = min(least, float(products.min()))
    return max(0.0, 2.0 - 2.0 * least)
