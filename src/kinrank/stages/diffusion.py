"""Graphs -> F, the smoothed similarity, and beta, the weights of the graphs (BCD: Sec. 4.1, Appendix A).

The objective is min over F and beta of sum_v beta_v H_v(F) + lambda/2 |beta|^2 with beta on the simplex. With a =
1/(1 + mu) and S = sum_v beta_v S_v, the minimum over F solves the Lyapunov equation

    (I - a S) F + F (I - a S) = 2 (1 - a) E.

For E = I the solution commutes with S and is the resolvent F = (1 - a)(I - a S)^-1, so each row stands alone: it is
spread over the sparse graph and read off where it is needed, and no n x n matrix exists. Up to SMALL items, where a
row reaches most of them anyway, a few rows are computed together from all items instead, by Chebyshev's iteration:
several times faster there. stages/dense.py has the paper's own solvers, for any E.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.features import evenly
from kinrank.stages.csr import Rows
from kinrank.stages.graph import Layers
from kinrank.stages.kernels import diffusion as kernels
from kinrank.stages.run import THREADS, Output, Run

Weights = NDArray[np.float64]
SMALL = 1024  # items up to which rows of F are computed from all items
ROUNDING = 1e-9  # of H, whose rows are float32
SWEEP_SECONDS, PUSH_SECONDS = 2e-10, 3e-9  # per edge that mass passes, measured as told in `kinrank.methods.base`
SAMPLE = 128, 2048  # rows of F that the weights of the graphs are estimated from: every fourth, from so many to so many


def spreading_seconds(rows: int, items: int, degree: float, mu: float, tolerance: float) -> float:
    """About how long one core needs for some rows of F, in a graph of `items` with `degree` edges each, at worst.

    Mass is passed on wherever more than `tolerance` waits. The worst case are clusters of s items, in which it stays:
    it takes ln(1 / (s tolerance)) / ln(1 + mu) rounds over all s until less waits everywhere, which is most for
    s = 1 / (e tolerance).
    """
    if items <= SMALL:
        return SWEEP_SECONDS * rows * items * degree * len(chebyshev_weights(mu, tolerance))
    cluster = min(items, 1.0 / (math.e * tolerance))
    return PUSH_SECONDS * rows * degree * cluster * math.log(1.0 / (cluster * tolerance)) / math.log1p(mu)


def weighing_seconds(items: int, degree: float, mu: float, cycles: int, tolerance: float) -> float:
    """About how long one core needs for `graph_weights`, at worst."""
    return cycles * spreading_seconds(_sample_size(items), items, degree, mu, tolerance)


def _sample_size(items: int) -> int:
    return max(SAMPLE[0], min(items // 4, SAMPLE[1]))


def spreading_graph(layers: Layers, beta: Weights, mu: float) -> Rows:
    """a S_beta, which passes mass on."""
    return layers.mixed(1.0 / (1.0 + mu) * beta)


def restart_of(mu: float) -> Any:
    """1 - a, the share of mass that stays."""
    return np.float32(1.0 - 1.0 / (1.0 + mu))


def chebyshev_weights(mu: float, tolerance: float) -> NDArray[np.float32]:
    """(sweeps,) w_2, w_3, ... of Chebyshev's iteration for x = G x + b, so many that the error is below the tolerance.

    The eigenvalues of G = a S lie between -a and a, so that w_2 = 2 / (2 - a^2), w_k+1 = 1 / (1 - a^2 w_k / 4), and
    the error falls by r = a / (1 + sqrt(1 - a^2)) a sweep.
    """
    a = 1.0 / (1.0 + mu)
    rate = a / (1.0 + np.sqrt(1.0 - a * a))
    weights = [2.0 / (2.0 - a * a)]
    while 2.0 * rate ** len(weights) > tolerance:
        weights.append(1.0 / (1.0 - a * a * weights[-1] / 4.0))
    return np.array(weights, np.float32)


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
    THREADS(kernels.resolvent_values, len(rows), inputs, (Output(values, indptr), Output(bounds)), "diffusion")
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

    `lam` is lambda / n, because H grows like n. H_v is a sum over rows of F, of which a SAMPLE is
    enough for the few digits that beta needs.
    """
    n = len(layers.indptr) - 1
    beta = np.full(layers.count, 1.0 / layers.count)
    for _ in range(cycles if layers.count > 1 else 0):
        total = _energies(layers, spreading_graph(layers, beta, mu), mu, tolerance, run)
        beta = weights_of_graphs(total, lam * n)
    return beta


def _energies(layers: Layers, graph: Rows, mu: float, tolerance: float, run: Run) -> Weights:
    """(m,) H_v = <F, F> - <F, S_v F>, estimated from SAMPLE of its rows."""
    n = len(layers.indptr) - 1
    rows = evenly(n, _sample_size(n))
    found = run.empty((len(rows), layers.count), np.float32)
    if n <= SMALL:
        inputs = rows, graph, restart_of(mu), chebyshev_weights(mu, tolerance), layers.values
        THREADS(kernels.block_energies, -(-len(rows) // kernels.COLUMNS), inputs, (Output(found),), "graphs")
    else:
        inputs = rows, graph, restart_of(mu), np.float32(tolerance), layers.values
        run(kernels.row_energies, len(rows), inputs, (Output(found),), "graphs")
    return np.asarray(found.sum(axis=0, dtype=np.float64) * (n / len(rows)))


def weights_of_graphs(energies: NDArray[Any], lam: float) -> Weights:
    """The beta that minimises sum beta_v H_v + lam/2 |beta|^2 on the simplex: the projection of -H/lam onto it.

    Equal to the paper's valid set and Eq. 12. A constant added to every H changes nothing. A lam beneath the rounding
    of H is as good as 0.
    """
    if lam <= ROUNDING * float(np.abs(energies).max()):
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
        inputs = rows, graph, restart_of(mu), chebyshev_weights(mu, tolerance), lists
        THREADS(kernels.block_nearest_rows, -(-len(rows) // kernels.COLUMNS), inputs, outputs, "diffusion")
        return
    inputs = rows, graph, restart_of(mu), np.float32(tolerance), lists
    run(kernels.nearest_rows, len(rows), inputs, outputs, "diffusion")
