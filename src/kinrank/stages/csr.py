"""Neighbour lists and scipy's sparse matrices <-> `Rows`, what the compiled loops take."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from kinrank.stages.kernels.rows import Rows as Rows


def rows_of(matrix: csr_array, kind: DTypeLike = np.float32) -> Rows:
    """The rows of a matrix, values as `kind`; arrays that have the right type already are shared, not copied."""
    return Rows(
        matrix.indptr.astype(np.int64, copy=False),
        matrix.indices.astype(np.int32, copy=False),
        matrix.data.astype(kind, copy=False),
    )


def matrix_of(rows: Rows, width: int) -> csr_array:
    """(n, width) the matrix with these rows, which shares their indices and data."""
    indptr: NDArray[Any] = rows.indptr
    if indptr[-1] < np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)  # like the indices: scipy would copy both to one type otherwise
    return csr_array((rows.data, rows.indices, indptr), shape=(len(indptr) - 1, width))


def from_lists(
    lists: NDArray[np.int32], weights: NDArray[Any], width: int, keep: NDArray[np.bool_] | None = None
) -> csr_array:
    """(n, width) row i has weights[i, t] at lists[i, t], in the order of the list; only where keep[i, t], if given.

    lists, weights, keep (n, k).

    Example:
        >>> from_lists(np.array([[0, 1], [1, 0]], np.int32), np.array([[1, 2], [3, 4]]), 2).toarray()
        array([[1, 2],
               [4, 3]])
    """
    count, k = lists.shape
    if keep is None:
        return matrix_of(Rows(np.arange(count + 1) * k, lists.ravel(), weights.ravel()), width)
    indptr = np.concatenate([[0], np.cumsum(keep.sum(axis=1))])
    return matrix_of(Rows(indptr, lists[keep], weights[keep]), width)


def plus_transpose(matrix: csr_array) -> csr_array:
    """A + A' of a square matrix."""
    return csr_array(matrix + matrix.T)


def components(lists: NDArray[np.int32], keep: NDArray[np.bool_]) -> NDArray[np.int32]:
    """(n,) the number of the component every item belongs to, joined along list entries where `keep`; both (n, k)."""
    joined = from_lists(lists, keep, len(lists), keep)
    return np.asarray(connected_components(joined, directed=False)[1], np.int32)
