"""Graphs -> F, the smoothed similarity, and beta, the weights of the graphs (BCD: Sec. 4.1, Appendix A).

The objective is min over F and beta of sum_v beta_v H_v(F) + lambda/2 |beta|^2 with beta on the simplex. With a =
1/(1 + mu) and S = sum_v beta_v S_v, the minimum over F solves the Lyapunov equation

    (I - a S) F + F (I - a S) = 2 (1 - a) E.

For E = I the solution commutes with S and is the resolvent F = (1 - a)(I - a S)^-1, so each row stands alone: it is
spread over the sparse graph and read off where it is needed, and no n x n matrix exists. Up to SMALL items, where F
fits into the processor's cache, it is inverted whole instead, which is faster there and exact. stages/dense.py has
the paper's own solvers, for any E.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import spotrf, spotri

from kinrank.stages.csr import Rows
from kinrank.stages.graph import Layers
from kinrank.stages.kernels import diffusion as kernels
from kinrank.stages.kernels.compiled import one_blas_thread
from kinrank.stages.run import THREADS, Output, Run

Weights = NDArray[np.float64]
SMALL = 1024  # items up to which F, and the ground costs, are computed for all pairs at once: 4 MB each
SAMPLE = 2048  # rows of F that the weights of the graphs are estimated from, where there are more


def spreading_graph(layers: Layers, beta: Weights, mu: float) -> Rows:
    """a S_beta, which passes mass on."""
    return layers.mixed(1.0 / (1.0 + mu) * beta)


def restart_of(mu: float) -> Any:
    """1 - a, the share of mass that stays."""
    return np.float32(1.0 - 1.0 / (1.0 + mu))


def whole_resolvent(graph: Rows, mu: float) -> NDArray[np.float32]:
    """(n, n) F = (1 - a)(I - graph)^-1 by Cholesky's decomposition; never negative."""
    n = len(graph.indptr) - 1
    matrix = np.zeros((n, n), np.float32)
    matrix[np.repeat(np.arange(n), np.diff(graph.indptr)), graph.indices] = -graph.data
    matrix[np.arange(n), np.arange(n)] += 1.0
    with one_blas_thread():  # other numbers of threads round differently
        factor, failed = spotrf(matrix.T, lower=1, overwrite_a=1)
        inverse, failed_too = spotri(factor, lower=1, overwrite_c=1)
    if failed or failed_too:  # I - a S is positive definite for a < 1: only numbers that are none get here
        raise ArithmeticError("the graph has weights that are not finite; please report this with your vectors")
    lower = np.tril(inverse)
    lower += np.tril(inverse, -1).T
    lower *= restart_of(mu)
    lower[lower < 1e-12] = 0.0  # rounding, where no path leads
    return np.ascontiguousarray(lower)


def resolvent_on(
    graph: Rows, mu: float, tolerance: float, rows: NDArray[np.int64], indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:  # fmt: skip
    """(values, bounds): rows of F on the items of a sparse pattern, one pattern row per row asked for.

    Mass of 1 starts at item i; wherever more than `tolerance` waits, it is settled ((1 - a) of it) and passed on
    (a S of it), all such places at once. What still waits at the end, r, is the error: F_i - f = (1-a)(I-aS)^-1 r,
    whose norm is at most |r| because the norm of the resolvent is at most 1. That |r| is returned as the bound.
    """
    values, bounds = np.zeros(len(indices), np.float32), np.zeros(len(rows), np.float32)
    inputs = rows, graph, restart_of(mu), np.float32(tolerance), indptr, indices
    THREADS(kernels.resolvent_values, len(rows), inputs, (Output(values, indptr), Output(bounds)))
    return values, bounds


def resolvent_block(
    graph: Rows, mu: float, rows: NDArray[np.int64], columns: NDArray[np.int64], tolerance: float
) -> NDArray[np.float32]:
    """(rows, columns) a dense block of F, for rankings by F itself; 0 where nothing above the tolerance arrived."""
    indptr = np.arange(len(rows) + 1, dtype=np.int64) * len(columns)
    everywhere = np.tile(columns.astype(np.int32), len(rows))
    return resolvent_on(graph, mu, tolerance, rows, indptr, everywhere)[0].reshape(len(rows), len(columns))


def graph_weights(layers: Layers, mu: float, lam: float, cycles: int, tolerance: float, run: Run = THREADS) -> Weights:
    """beta after `cycles` rounds of Algorithm 1 with E = I: F for fixed beta, then beta for fixed F.

    `lam` is lambda / n, because H grows like n. H_v is a sum over rows of F, so that every (n / SAMPLE)-th row is
    enough for the few digits of it that beta needs.
    """
    n = len(layers.indptr) - 1
    beta = np.full(layers.count, 1.0 / layers.count)
    for _ in range(cycles if layers.count > 1 else 0):
        total = _energies(layers, spreading_graph(layers, beta, mu), mu, tolerance, run)
        beta = weights_of_graphs(total, lam * n)
    return beta


def _energies(layers: Layers, graph: Rows, mu: float, tolerance: float, run: Run) -> Weights:
    """(m,) H_v = <F, F> - <F, S_v F>, all rows or estimated from SAMPLE of them."""
    n = len(layers.indptr) - 1
    if n <= SMALL:
        found = np.empty((n, layers.count), np.float32)
        inputs: tuple[Any, ...] = whole_resolvent(graph, mu), graph, layers.values
        THREADS(kernels.dense_energies, n, inputs, (Output(found),))
        return np.asarray(found.sum(axis=0, dtype=np.float64))
    rows = np.unique(np.linspace(0, n - 1, min(n, SAMPLE)).astype(np.int64))
    found = run.empty((len(rows), layers.count), np.float32)
    inputs = rows, graph, restart_of(mu), np.float32(tolerance), layers.values
    run(kernels.row_energies, len(rows), inputs, (Output(found),), "graphs")
    return np.asarray(found.sum(axis=0, dtype=np.float64) * (n / len(rows)))


def weights_of_graphs(energies: NDArray[Any], lam: float) -> Weights:
    """The beta that minimises sum beta_v H_v + lam/2 |beta|^2 on the simplex: the projection of -H/lam onto it.

    Equal to the paper's valid set and Eq. 12. A constant added to every H changes nothing.
    """
    if lam == 0:
        least = energies == np.min(energies)
        return np.asarray(least, np.float64) / np.count_nonzero(least)
    return simplex(-np.asarray(energies, np.float64) / lam)


def simplex(point: Weights) -> Weights:
    """The nearest point of the simplex {x >= 0, sum x = 1}."""
    ordered = np.sort(point)[::-1]
    excess = (np.cumsum(ordered) - 1.0) / np.arange(1, len(point) + 1)
    last = np.flatnonzero(ordered > excess)[-1]
    return np.asarray(np.maximum(point - excess[last], 0.0))


def nearest_by_diffusion(
    graph: Rows,
    mu: float,
    tolerance: float,
    lists: NDArray[np.int32],
    width: int,
    run: Run = THREADS,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """(n, width) the items of the largest F, each item first in its own list, and F along them.

    Where F reaches too few items, the neighbour lists (n, >= 1) fill up, at F = 0; where those end, the item itself.
    """
    n = len(lists)
    nearest, similar = run.empty((n, width), np.int32), run.empty((n, width), np.float32)
    renew_rows(np.arange(n), graph, mu, tolerance, lists, nearest, similar, run)
    return nearest, similar


def renew_rows(
    rows: NDArray[np.int64],
    graph: Rows,
    mu: float,
    tolerance: float,
    lists: NDArray[np.int32],
    nearest: NDArray[np.int32],
    similar: NDArray[np.float32],
    run: Run = THREADS,
) -> None:
    """The rows of `nearest_by_diffusion` that belong to some items, in place."""
    n = len(lists)
    outputs = Output(nearest), Output(similar)
    if n <= SMALL:
        smoothed, everyone = whole_resolvent(graph, mu), np.arange(n, dtype=np.int32)
        THREADS(kernels.dense_nearest_rows, len(rows), (rows, smoothed, everyone, lists), outputs)
        return
    inputs = rows, graph, restart_of(mu), np.float32(tolerance), lists
    run(kernels.nearest_rows, len(rows), inputs, outputs, "diffusion")
