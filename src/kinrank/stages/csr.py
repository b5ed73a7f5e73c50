"""Sparse rows: conversions between neighbour lists, scipy's matrices and `Rows`, and comparisons of distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, reverse_cuthill_mckee

from kinrank.stages.kernels.compiler import compile_kernel, run_in_chunks
from kinrank.stages.sparse_rows import Rows as Rows


def rows_from_matrix(matrix: csr_array, kind: DTypeLike = np.float32) -> Rows:
    """Return the rows of a matrix, values as `kind`. Arrays of the right type are shared, not copied."""
    return Rows(
        matrix.indptr.astype(np.int64, copy=False),
        matrix.indices.astype(np.int32, copy=False),
        matrix.data.astype(kind, copy=False),
    )


def matrix_from_rows(rows: Rows, width: int) -> csr_array:
    """Return the (n, width) matrix with these rows, sharing their indices and data."""
    indptr: NDArray[Any] = rows.indptr
    if indptr[-1] < np.iinfo(np.int32).max:
        indptr = indptr.astype(np.int32)  # the type of the indices; otherwise scipy would copy both to one type
    return csr_array((rows.data, rows.indices, indptr), shape=(len(indptr) - 1, width))


def matrix_from_lists(
    lists: NDArray[np.int32], weights: NDArray[Any], width: int, keep: NDArray[np.bool_] | None = None
) -> csr_array:
    """Build an (n, width) matrix with weights[i, t] at lists[i, t], in the order of the list, where keep[i, t].

    lists, weights, keep (n, k). Without `keep` all entries are taken.

    Example:
        >>> matrix_from_lists(np.array([[0, 1], [1, 0]], np.int32), np.array([[1, 2], [3, 4]]), 2).toarray()
        array([[1, 2],
               [4, 3]])
    """
    count, k = lists.shape
    if keep is None:
        return matrix_from_rows(Rows(np.arange(count + 1) * k, lists.ravel(), weights.ravel()), width)
    indptr = np.concatenate([[0], np.cumsum(keep.sum(axis=1))])
    return matrix_from_rows(Rows(indptr, lists[keep], weights[keep]), width)


def add_transpose(matrix: csr_array) -> csr_array:
    """Return A + A' of a square matrix."""
    return csr_array(matrix + matrix.T)


def find_components(lists: NDArray[np.int32], keep: NDArray[np.bool_]) -> NDArray[np.int32]:
    """Return (n,) the component number of every item; list entries with `keep` are edges; both (n, k)."""
    joined = matrix_from_lists(lists, keep, len(lists), keep)
    return np.asarray(connected_components(joined, directed=False)[1], np.int32)


def invert_rows(matrix: csr_array, rows: NDArray[np.int64]) -> csr_array:
    """Return (columns, len(rows)): for every column of the matrix, the rows that hold it, with their values."""
    chosen = matrix if len(rows) == matrix.shape[0] else matrix[int(rows[0]) :]  # the gallery comes last
    return csr_array(chosen.T.tocsr())


def jaccard_distances(rows: csr_array, postings: csr_array, queries: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return (len(queries), g) generalised Jaccard distances 1 - m / (2 - m), m = sum_c min(V_qc, V_gc).

    Each of `rows` sums to one; `postings` are the inverted rows of the gallery. Only shared columns are visited.
    """
    shared = np.zeros((len(queries), postings.shape[1]), np.float32)
    run_in_chunks(
        sum_shared_mass, len(queries), queries, rows_from_matrix(rows), rows_from_matrix(postings), shared, chunk=1
    )
    distances: NDArray[np.float32] = 1 - shared / (2 - shared)
    return np.maximum(distances, 0)


@compile_kernel
def sum_shared_mass(start: Any, stop: Any, queries: Any, rows: Any, postings: Any, out: Any) -> None:
    """Add to out[a, g] sum_c min(rows[queries[a], c], value of g at c), (q, g) float32, 0 on entry.

    queries (q,) int64; rows: Rows (n, columns); postings: Rows (columns, g), the gallery rows that hold each column.
    """
    for a in range(start, stop):
        query = queries[a]
        mine = out[a]
        for entry in range(rows.indptr[query], rows.indptr[query + 1]):
            column = rows.indices[entry]
            value = rows.data[entry]
            for posting in range(postings.indptr[column], postings.indptr[column + 1]):
                mine[postings.indices[posting]] += min(value, postings.data[posting])


def order_by_locality(graph: Rows) -> NDArray[np.int64]:
    """Return the items of a symmetric graph in an order in which neighbours are close, for the sake of caches."""
    order = reverse_cuthill_mckee(matrix_from_rows(graph, len(graph.indptr) - 1), symmetric_mode=True)
    return np.asarray(order, np.int64)
