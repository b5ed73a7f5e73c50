"""A normalised affinity and vectors -> one sparse row per item: its diffusion among its nearest items."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kinrank.features import Vectors
from kinrank.neighbors import Neighbors, nearest
from kinrank.progress import SILENT, Progress
from kinrank.stages.affinity import similarity_power
from kinrank.stages.csr import from_lists, rows_of
from kinrank.stages.kernels.compiled import in_chunks
from kinrank.stages.kernels.truncated import Solver, local_solutions

ROWS = 2048  # items whose lists are searched together


def truncated_rows(
    affinity: csr_array,
    vectors: Vectors,
    wanted: NDArray[np.int64],
    truncation: int,
    alpha: float,
    tol: float,
    maxiter: int,
    progress: Progress = SILENT,
    unit: bool = True,
) -> csr_array:
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
    for rows in progress.each("truncated diffusion", spans, len(spans)):
        own = wanted[rows]
        indices[rows] = nearest(vectors[own], vectors, length, own=own, unit=unit).indices
        _solve(affinity, indices[rows], Solver(alpha, tol, maxiter), values[rows])
    return from_lists(indices, values, len(vectors))


def local_rows(
    affinity: csr_array,
    lists: NDArray[np.int32],
    alpha: float,
    tol: float,
    maxiter: int,
    progress: Progress = SILENT,
) -> NDArray[np.float32]:
    """(m, t) the values of `truncated_rows` over lists (m, t) that are known, each with its own item first."""
    values = np.empty(lists.shape, np.float32)
    spans = [slice(start, start + ROWS) for start in range(0, len(lists), ROWS)]
    for rows in progress.each("truncated diffusion", spans, len(spans)):
        _solve(affinity, np.ascontiguousarray(lists[rows]), Solver(alpha, tol, maxiter), values[rows])
    return values


def entry_weights(found: Neighbors, gamma: float) -> tuple[NDArray[np.int64], csr_array]:
    """Which items the queries enter through, (r,), and similarity^gamma of each query to them, sparse (q, r)."""
    used, columns = np.unique(found.indices, return_inverse=True)
    places = columns.reshape(found.indices.shape).astype(np.int32)
    return used.astype(np.int64), from_lists(places, similarity_power(found.distances, gamma), len(used))


def _solve(affinity: csr_array, lists: NDArray[np.int32], solver: Solver, values: NDArray[np.float32]) -> None:
    """Write the values of these lists, (m, t)."""
    in_chunks(local_solutions, len(lists), lists, rows_of(affinity, np.float64), solver, values, chunk=64)


def unit_rows(rows: csr_array) -> csr_array:
    """Each row divided by its Euclidean norm; rows of equal length, none of them zero.

    `context.unit_rows` takes rows of any length, but needs several times the memory, and these may be n rows of a
    thousand.
    """
    blocks = rows.data.reshape(rows.shape[0], -1)
    norms = np.sqrt(np.einsum("ij,ij->i", blocks, blocks, dtype=np.float64)).astype(np.float32)
    return csr_array(((blocks / norms[:, None]).ravel(), rows.indices, rows.indptr), shape=rows.shape)


def between(rows: csr_array, start: int, stop: int) -> csr_array:
    """The rows start..stop as a view: slicing a sparse array would copy what may be most of the memory."""
    first, last = rows.indptr[start], rows.indptr[stop]
    parts = (rows.data[first:last], rows.indices[first:last], rows.indptr[start : stop + 1] - first)
    return csr_array(parts, shape=(stop - start, rows.shape[1]))
