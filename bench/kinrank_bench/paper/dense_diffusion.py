"""The paper's solvers of the diffusion equation on dense matrices, for any E and limited n (Algorithms 1 and 2).

    (I - a S) F + F (I - a S) = 2 (1 - a) E,    a = 1/(1 + mu),    S = sum_v beta_v S_v

They test each other and serve `LPMTAblation(solver=...)`; kinrank itself uses stages/diffusion.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import InputError, MemoryLimitError
from kinrank.neighbors import Neighbors
from kinrank.stages.diffusion import DiffusedLists, weigh_graphs
from kinrank.stages.gaussian_graph import GraphLayers

DenseMatrix = NDArray[np.float64]
MAX_ITEMS = 6000  # three dense float64 matrices of this size take about 0.9 GB


def list_nearest(smoothed: DenseMatrix, lists: Neighbors) -> DiffusedLists:
    """List items by a dense F, as many as in `lists`, itself first, ties to the lower number; also return F along them.

    If F reaches too few items, `lists` fills up, as in `diffusion.list_nearest_by_diffusion`.
    """
    values = np.where(smoothed > 1e-12, smoothed, 0.0)  # smaller values are rounding
    np.fill_diagonal(values, np.inf)
    place = np.full(values.shape, lists.k, np.int32)
    np.put_along_axis(place, lists.indices.astype(np.int64), np.arange(lists.k, dtype=np.int32)[None, :], axis=1)
    order = np.lexsort((np.where(values > 0, 0, place), -values), axis=1)[:, : lists.k]
    similar = np.maximum(np.take_along_axis(smoothed, order, axis=1), 0.0)
    return DiffusedLists(np.ascontiguousarray(order, np.int32), np.ascontiguousarray(similar, np.float32))


def measure_energies(matrices: Sequence[Any], smoothed: DenseMatrix) -> DenseMatrix:
    """Return H_v = <F, F> - <F, (F S_v + S_v F)/2> for a dense F, Eq. 4 without the term that all graphs share."""
    square = float(np.vdot(smoothed, smoothed))
    return np.array([square - float(np.vdot(smoothed, 0.5 * (S @ smoothed + (S @ smoothed.T).T))) for S in matrices])


def solve_by_fixed_point(S: Any, mu: float, E: DenseMatrix, steps: int, F: DenseMatrix | None = None) -> DenseMatrix:
    """Run `steps` rounds of F <- a/2 (F S + S F) + (1 - a) E, Eq. 9. The error shrinks by a = 1/(1+mu) per step."""
    _check_size(len(E))
    a = 1.0 / (1.0 + mu)
    F = E if F is None else F
    for _ in range(steps):
        F = 0.5 * a * ((S @ F.T).T + S @ F) + (1.0 - a) * E
    return F


def solve_by_conjugate_gradient(
    S: Any, mu: float, E: DenseMatrix, tolerance: float = 1e-8, steps: int = 200, F: DenseMatrix | None = None
) -> DenseMatrix:
    """Run Algorithm 2, corrected: conjugate gradients on A(X) = (I - a S) X + X (I - a S), A(F) = 2 (1 - a) E.

    As printed, the algorithm applies a twice, because its S already contains it. Stops when the residual is below
    `tolerance` times the right-hand side.
    """
    _check_size(len(E))
    a = 1.0 / (1.0 + mu)

    def operator(X: DenseMatrix) -> DenseMatrix:
        return np.asarray(2.0 * X - a * (S @ X + (S @ X.T).T))

    F = np.array(E if F is None else F)
    R = 2.0 * (1.0 - a) * E - operator(F)
    P, square = R, float(np.vdot(R, R))
    enough = (tolerance * 2.0 * (1.0 - a)) ** 2 * float(np.vdot(E, E))
    for _ in range(steps):
        if square <= enough:
            break
        image = operator(P)
        length = square / float(np.vdot(P, image))
        F = F + length * P
        R = R - length * image
        square, before = float(np.vdot(R, R)), square
        P = R + (square / before) * P
    return F


def solve_by_eigenvectors(S: Any, mu: float, E: DenseMatrix) -> DenseMatrix:
    """Return the exact F for any E: with S = U diag(w) U', F = U [(U'EU)_ij 2(1-a) / (2 - a w_i - a w_j)] U'."""
    _check_size(len(E))
    a = 1.0 / (1.0 + mu)
    w, U = np.linalg.eigh(S.toarray() if hasattr(S, "toarray") else np.asarray(S))
    middle = (U.T @ E @ U) * (2.0 * (1.0 - a)) / (2.0 - a * (w[:, None] + w[None, :]))
    return np.asarray(U @ middle @ U.T)


def diffuse_collaboratively(
    layers: GraphLayers, mu: float, lam: float, cycles: int, solver: str, E: DenseMatrix | None = None, steps: int = 3
) -> tuple[DenseMatrix, DenseMatrix]:
    """Run Algorithm 1 on dense matrices for any positive semi-definite E; return (F, beta).

    The solver `fixed_point` makes `steps` updates per cycle and keeps F between cycles, like the paper (three updates,
    not converged); `conjugate_gradient` and `dense` solve the equation of each cycle.
    """
    n = len(layers.indptr) - 1
    _check_size(n)
    E = np.eye(n) if E is None else np.asarray(E, np.float64)
    if E.shape != (n, n):
        raise InputError(
            f"has shape {E.shape}, but the graph has {n} items", parameter="E", remedy=f"give a ({n}, {n}) matrix"
        )
    matrices = [layers.layer(v).astype(np.float64) for v in range(layers.count)]
    beta, F = np.full(layers.count, 1.0 / layers.count), E
    for cycle in range(cycles + 1):
        S = sum(weight * matrix for weight, matrix in zip(beta, matrices, strict=True))
        if solver == "fixed_point":
            F = solve_by_fixed_point(S, mu, E, steps, F)
        elif solver == "conjugate_gradient":
            F = solve_by_conjugate_gradient(S, mu, E, F=F)
        else:
            F = solve_by_eigenvectors(S, mu, E)
        if cycle < cycles:
            beta = weigh_graphs(measure_energies(matrices, F), lam * n)
    return F, beta


def _check_size(n: int) -> None:
    if n > MAX_ITEMS:
        raise MemoryLimitError(
            f"this solver needs dense {n} x {n} matrices and allows at most {MAX_ITEMS} items; "
            "use `solver='resolvent'`, or `candidates` for a small graph per query"
        )
