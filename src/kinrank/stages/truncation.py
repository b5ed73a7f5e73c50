"""A normalised affinity and vectors -> one sparse row per item: its diffusion among its nearest items."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kinrank.features import Vectors
from kinrank.neighbors import nearest
from kinrank.progress import SILENT, Progress
from kinrank.stages.kernels.compiled import in_chunks
from kinrank.stages.kernels.truncated import local_solutions

ROWS = 2048  # items whose lists are searched together


def truncated_rows(
    affinity: sparse.csr_array,
    vectors: Vectors,
    wanted: NDArray[np.int64],
    truncation: int,
    alpha: float,
    tol: float,
    maxiter: int,
    progress: Progress = SILENT,
) -> sparse.csr_array:
    """(len(wanted), n) row i: x with (I - alpha S)[T, T] x = e_i, T the items nearest to wanted[i].

    Late truncation: S is normalised on the whole graph, then cut to the `truncation` items of T. Values are
    float32, as there may be n rows of a thousand.

    Example:
        >>> truncated_rows(affinity, gallery, np.arange(10), 1000, alpha=0.99, tol=1e-6, maxiter=20)
    """
    length = min(truncation, len(vectors))
    indices = np.empty((len(wanted), length), np.int32)
    values = np.empty((len(wanted), length), np.float32)
    spans = [slice(start, start + ROWS) for start in range(0, len(wanted), ROWS)]
    for some in progress.each("truncated diffusion", spans, len(spans)):
        own = wanted[some]
        indices[some] = nearest(vectors[own], vectors, length, own=own).indices
        _solve(affinity, indices[some], alpha, tol, maxiter, values[some])
    return as_matrix(indices, values, len(vectors))


def local_rows(
    affinity: sparse.csr_array,
    lists: NDArray[np.int32],
    alpha: float,
    tol: float,
    maxiter: int,
    progress: Progress = SILENT,
) -> NDArray[np.float32]:
    """(m, t) the values of `truncated_rows` over lists (m, t) that are known, each with its own item first."""
    values = np.empty(lists.shape, np.float32)
    spans = [slice(start, start + ROWS) for start in range(0, len(lists), ROWS)]
    for some in progress.each("truncated diffusion", spans, len(spans)):
        _solve(affinity, np.ascontiguousarray(lists[some]), alpha, tol, maxiter, values[some])
    return values


def as_matrix(indices: NDArray[np.int32], values: NDArray[np.float32], count: int) -> sparse.csr_array:
    """(m, count) from the items and the values of every row, both (m, t)."""
    pointers = np.arange(len(indices) + 1, dtype=np.int64) * indices.shape[1]
    return sparse.csr_array((values.ravel(), indices.ravel(), pointers), shape=(len(indices), count))


def _solve(
    affinity: sparse.csr_array,
    lists: NDArray[np.int32],
    alpha: float,
    tol: float,
    maxiter: int,
    values: NDArray[np.float32],
) -> None:
    graph = (affinity.indptr, affinity.indices, affinity.data)
    in_chunks(local_solutions, len(lists), lists, *graph, alpha, tol, maxiter, values, chunk=64)


def unit_rows(rows: sparse.csr_array) -> sparse.csr_array:
    """Each row divided by its Euclidean norm; rows of equal length, none of them zero."""
    blocks = rows.data.reshape(rows.shape[0], -1)
    norms = np.sqrt(np.einsum("ij,ij->i", blocks, blocks, dtype=np.float64)).astype(np.float32)
    return sparse.csr_array(((blocks / norms[:, None]).ravel(), rows.indices, rows.indptr), shape=rows.shape)


def between(rows: sparse.csr_array, start: int, stop: int) -> sparse.csr_array:
    """The rows start..stop as a view: slicing a sparse array would copy what may be most of the memory."""
    first, last = rows.indptr[start], rows.indptr[stop]
    parts = (rows.data[first:last], rows.indices[first:last], rows.indptr[start : stop + 1] - first)
    return sparse.csr_array(parts, shape=(stop - start, rows.shape[1]))
