"""A graph cut to a list of items, per row -> the diffusion of the first of them inside it."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.stages.kernels.compiled import compiled


@compiled
def _cut(ids: Any, place: Any, pointers: Any, columns: Any, values: Any, starts: Any, inner: Any, weights: Any) -> Any:
    """The rows and columns `ids` of a CSR matrix as a small CSR; only counted where `inner` is too short."""
    size = 0
    room = len(inner)
    for a in range(len(ids)):
        starts[a] = size
        for entry in range(pointers[ids[a]], pointers[ids[a] + 1]):
            other = place[columns[entry]]
            if other >= 0:
                if size < room:
                    inner[size] = other
                    weights[size] = values[entry]
                size += 1
    starts[len(ids)] = size
    return size


@compiled
def _solve_first(
    starts: Any, inner: Any, weights: Any, alpha: Any, tol: Any, maxiter: Any, x: Any, r: Any, p: Any, q: Any
) -> None:
    """x with (I - alpha S) x = e_0 by conjugate gradients from zero: |residual| <= tol, or maxiter steps."""
    count = len(x)
    for a in range(count):
        x[a] = 0.0
        r[a] = 0.0
        p[a] = 0.0
    r[0] = 1.0
    p[0] = 1.0
    energy = 1.0
    for _ in range(maxiter):
        if energy <= tol * tol:
            return
        curvature = 0.0
        for a in range(count):
            total = 0.0
            for entry in range(starts[a], starts[a + 1]):
                total += weights[entry] * p[inner[entry]]
            q[a] = p[a] - alpha * total
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
def local_solutions(
    start: Any,
    stop: Any,
    lists: Any,
    pointers: Any,
    columns: Any,
    values: Any,
    alpha: Any,
    tol: Any,
    maxiter: Any,
    result: Any,
) -> None:
    """result[row] (T,): the solution for lists[row, 0] on lists[row], of a matrix normalised as a whole."""
    length = lists.shape[1]
    place = np.full(len(pointers) - 1, -1, np.int32)
    starts = np.empty(length + 1, np.int64)
    inner = np.empty(0, np.int32)
    weights = np.empty(0, np.float64)
    x, r, p, q = np.empty(length), np.empty(length), np.empty(length), np.empty(length)
    for row in range(start, stop):
        ids = lists[row]
        for a in range(length):
            place[ids[a]] = a
        size = _cut(ids, place, pointers, columns, values, starts, inner, weights)
        if size > len(inner):
            inner = np.empty(2 * size, np.int32)
            weights = np.empty(2 * size, np.float64)
            _cut(ids, place, pointers, columns, values, starts, inner, weights)
        _solve_first(starts, inner, weights, alpha, tol, maxiter, x, r, p, q)
        for a in range(length):
            result[row, a] = x[a]
            place[ids[a]] = -1
