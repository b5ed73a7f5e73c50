"""Neighbour lists -> affinities of neighbours and their symmetric normalisation, as sparse matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kinrank.features import Vectors
from kinrank.neighbors import Neighbors
from kinrank.stages.context import farthest
from kinrank.stages.csr import from_lists, plus_transpose
from kinrank.stages.mutual import mutual


def similarity(distances: NDArray[Any]) -> NDArray[np.float64]:
    """Inner products of unit vectors from their Euclidean distances: s = 1 - d^2 / 2."""
    wide = np.asarray(distances, np.float64)
    return 1.0 - wide * wide / 2.0


def similarity_power(distances: NDArray[Any], gamma: float) -> NDArray[np.float64]:
    """max(s, 0)^gamma. Clipped before the power: the same for odd gamma, and defined for every other one."""
    return np.asarray(np.maximum(similarity(distances), 0.0) ** gamma)


def mutual_affinity(neighbors: Neighbors, gamma: float) -> csr_array:
    """(n, n) A_ij = max(s_ij, 0)^gamma where i and j stand in each other's lists; A_ii = 0.

    Example:
        >>> mutual_affinity(items.gallery_neighbors(50), gamma=3.0).shape
    """
    lists = neighbors.indices
    weights = similarity_power(neighbors.distances, gamma)
    others = lists != np.arange(len(lists), dtype=np.int32)[:, None]
    return from_lists(lists, weights, len(lists), mutual(lists) & others & (weights > 0))


def gaussian_affinity(vectors: Vectors, neighbors: Neighbors, sigma: float, power: int, unit: bool = True) -> csr_array:
    """(n, n) the average of W and W', W_ij = exp(-(d_ij^2 / max d^2)^power / sigma^2) on the lists."""
    largest = farthest(vectors, unit).max(initial=np.finfo(np.float32).tiny)
    scaled = np.asarray(neighbors.distances, np.float64) ** 2 / np.float64(largest)
    weights = np.exp(-(scaled**power) / sigma**2)
    return csr_array(plus_transpose(from_lists(neighbors.indices, weights, len(vectors))) / 2.0)


def normalised(affinity: csr_array) -> csr_array:
    """S = D^-1/2 A D^-1/2 with D the row sums of A, in float64; the row of an isolated item stays zero, never NaN."""
    degrees = np.asarray(affinity.sum(axis=1), np.float64).ravel()
    inverse = np.zeros_like(degrees)
    np.divide(1.0, np.sqrt(degrees), out=inverse, where=degrees > 0)
    rows = np.repeat(np.arange(len(degrees)), np.diff(affinity.indptr))
    values = affinity.data * inverse[rows] * inverse[affinity.indices]
    return csr_array((values, affinity.indices, affinity.indptr), shape=affinity.shape)


def seeds(nearest: Neighbors, queries: NDArray[np.int64], count: int, gamma: float) -> NDArray[np.float64]:
    """(count, len(queries)) right-hand sides: similarity^gamma at each query's nearest items, else zero."""
    sources = np.zeros((count, len(queries)))
    columns = np.arange(len(queries))[:, None]
    sources[nearest.indices[queries], columns] = similarity_power(nearest.distances[queries], gamma)
    return sources
