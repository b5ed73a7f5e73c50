"""A graph cut to a list of items, per row -> the diffusion of the first of them inside it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.stages.kernels.arrays import nobody
from kinrank.stages.kernels.compiled import compiled, inner
from kinrank.stages.kernels.rows import Rows


class Solver(NamedTuple):
    """Conjugate gradients of (I - alpha S) x = y: until |residual| <= tol, at most maxiter steps."""

    alpha: float
    tol: float
    maxiter: int


class Iterates(NamedTuple):
    """The four vectors of conjugate gradients, (t,) float64 each."""

    solution: NDArray[np.float64]
    residual: NDArray[np.float64]
    direction: NDArray[np.float64]
    image: NDArray[np.float64]


@inner
def _cut(ids: Any, place: Any, matrix: Any, small: Any) -> Any:
    """The rows and columns `ids` of a matrix as a small one; only counted where `small` is too short for the entries.

    ids (t,) int32; place (n,) int32: where each item stands in ids, -1 where it does not; matrix: Rows (n, n), data
    float64; small: Rows (t, t), written. Gives the number of entries.
    """
    size = 0
    capacity = len(small.indices)
    for a in range(len(ids)):
        small.indptr[a] = size
        for entry in range(matrix.indptr[ids[a]], matrix.indptr[ids[a] + 1]):
            other = place[matrix.indices[entry]]
            if other >= 0:
                if size < capacity:
                    small.indices[size] = other
                    small.data[size] = matrix.data[entry]
                size += 1
    small.indptr[len(ids)] = size
    return size


@inner
def _solve_first(small: Any, solver: Any, iterates: Any) -> None:
    """The solution of (I - alpha S) x = e_0 by conjugate gradients from zero; Rows (t, t), Solver, Iterates.

    Compiled, as every right-hand side has a small matrix of its own; `stages.linear` solves for many with one large
    matrix.
    """
    x, r, p, q = iterates
    count = len(x)
    for a in range(count):
        x[a] = 0.0
        r[a] = 0.0
        p[a] = 0.0
    r[0] = 1.0
    p[0] = 1.0
    energy = 1.0
    for _ in range(solver.maxiter):
        if energy <= solver.tol * solver.tol:
            return
        curvature = 0.0
        for a in range(count):
            total = 0.0
            for entry in range(small.indptr[a], small.indptr[a + 1]):
                total += small.data[entry] * p[small.indices[entry]]
            q[a] = p[a] - solver.alpha * total
            curvature += p[a] * q[a]
        if curvature <= 0.0:
            return
        step = energy / curvature
        fresh = 0.0
        for a in range(count):
            x[a] += step * p[a]
            r[a] -= step * q[a]
            fresh += r[a] * r[a]
        turn = fresh / energy
        for a in range(count):
            p[a] = r[a] + turn * p[a]
        energy = fresh


@compiled
def local_solutions(start: Any, stop: Any, lists: Any, matrix: Any, solver: Any, result: Any) -> None:
    """result[row] = the solution for the item lists[row, 0] on the items lists[row], for rows start..stop.

    lists (m, t) int32; matrix: Rows (n, n), data float64, normalised as a whole; solver: Solver; result (m, t) float32,
    written.
    """
    length = lists.shape[1]
    place = nobody(len(matrix.indptr) - 1)
    small = Rows(np.empty(length + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float64))
    iterates = Iterates(np.empty(length), np.empty(length), np.empty(length), np.empty(length))
    for row in range(start, stop):
        ids = lists[row]
        for a in range(length):
            place[ids[a]] = a
        size = _cut(ids, place, matrix, small)
        if size > len(small.indices):
            small = Rows(small.indptr, np.empty(2 * size, np.int32), np.empty(2 * size, np.float64))
            _cut(ids, place, matrix, small)
        _solve_first(small, solver, iterates)
        for a in range(length):
            result[row, a] = iterates.solution[a]
            place[ids[a]] = -1
