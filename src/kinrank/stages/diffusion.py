"""Graphs -> F, the smoothed similarity, and beta, the weights of the graphs (BCD: Sec. 4.1, Appendix A).

The objective is min over F and beta of sum_v beta_v H_v(F) + lambda/2 |beta|^2 with beta on the simplex. With a =
1/(1 + mu) and S = sum_v beta_v S_v, the minimum over F solves the Lyapunov equation

    (I - a S) F + F (I - a S) = 2 (1 - a) E.

For E = I the solution commutes with S and is the resolvent F = (1 - a)(I - a S)^-1, so each row stands alone: it is
pushed over the sparse graph and read off where it is needed, and no n x n matrix exists (`resolvent`, the default).
`fixed_point`, `conjugate_gradient` and `dense_solution` work on dense matrices, for any E and a limited n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.memory import NotEnoughMemory
from kinrank.neighbors import Neighbors
from kinrank.stages.graph import Layers

Dense = NDArray[np.float64]
DENSE_LIMIT = 6000  # rows: three dense float64 matrices of that size take about 0.9 GB


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of F where they were asked for.

    Attributes:
        similarity: csr, F on the pattern of the region.
        bounds: (n,) for each row, a bound of the Euclidean norm of its error, over all n entries.
        energies: (m,) H_v = <F, F> - <F, S_v F>.
    """

    similarity: Any
    bounds: NDArray[np.float32]
    energies: Dense


def resolvent(layers: Layers, beta: Dense, mu: float, region: Any, tolerance: float) -> Rows:
    """F = (1 - a)(I - a S_beta)^-1 row by row, on the entries of `region` (csr), with H_v of every graph.

    Mass of 1 starts at item i; wherever more than `tolerance` waits, it is settled ((1 - a) of it) and passed on
    (a S of it), all such places at once. What still waits at the end, r, is the error: F_i - f = (1-a)(I-aS)^-1 r,
    whose norm is at most |r| because the norm of the resolvent is at most 1. That |r| is returned as the bound.

    Example:
        >>> resolvent(layers, np.full(3, 1 / 3), 0.23, region, 1e-4).similarity
    """
    from scipy import sparse

    from kinrank.stages.kernels.compiled import in_chunks
    from kinrank.stages.kernels.diffusion import resolvent_rows

    a = 1.0 / (1.0 + mu)
    n = len(layers.indptr) - 1
    step = layers.blended(a * beta)
    values = np.zeros(region.nnz, np.float32)
    bounds = np.zeros(n, np.float32)
    energies = np.zeros((n, layers.count), np.float32)
    in_chunks(
        resolvent_rows, n, np.arange(n), layers.indptr, layers.indices, step, np.float32(1.0 - a),
        np.float32(tolerance), region.indptr.astype(np.int64), region.indices.astype(np.int32), values, bounds,
        layers.values, energies,
    )  # fmt: skip
    similarity = sparse.csr_array((values, region.indices, region.indptr), shape=(n, n))
    return Rows(similarity, bounds, energies.sum(axis=0, dtype=np.float64))


def resolvent_block(
    layers: Layers,
    beta: Dense,
    mu: float,
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
    tolerance: float,
) -> NDArray[np.float32]:
    """(rows, columns) a dense block of F, for rankings by F itself; 0 where nothing above the tolerance arrived."""
    from kinrank.stages.kernels.compiled import in_chunks
    from kinrank.stages.kernels.diffusion import resolvent_rows

    a = 1.0 / (1.0 + mu)
    step = layers.blended(a * beta)
    values = np.zeros((len(rows), len(columns)), np.float32)
    starts = np.arange(len(rows) + 1, dtype=np.int64) * len(columns)
    everywhere = np.tile(columns.astype(np.int32), len(rows))
    bounds, nothing = np.zeros(len(rows), np.float32), np.zeros((len(rows), 0), np.float32)
    in_chunks(
        resolvent_rows, len(rows), rows, layers.indptr, layers.indices, step, np.float32(1.0 - a),
        np.float32(tolerance), starts, everywhere, values.reshape(-1), bounds, layers.values, nothing, chunk=16,
    )  # fmt: skip
    return values


def collaborative(layers: Layers, mu: float, lam: float, cycles: int, tolerance: float) -> Dense:
    """beta after `cycles` rounds of Algorithm 1 with E = I: F for fixed beta, then beta for fixed F.

    beta only needs H_v / n to a few digits, so the rows are pushed to a looser tolerance than F itself. `lam` is
    lambda / n, because H grows like n.
    """
    from scipy import sparse

    n = len(layers.indptr) - 1
    nowhere = sparse.csr_array((n, n), dtype=np.float32)
    beta = np.full(layers.count, 1.0 / layers.count)
    if layers.count > 1:
        for _ in range(cycles):
            energies = resolvent(layers, beta, mu, nowhere, tolerance).energies
            beta = weights_of_graphs(energies, lam * n)
    return beta


def diffused_neighbors(
    layers: Layers, beta: Dense, mu: float, tolerance: float, lists: Neighbors
) -> tuple[Neighbors, NDArray[np.float32]]:
    """Neighbour lists of the same width by F instead of distance, itself first, and F along them.

    Where F reaches too few items, `lists` fills up, at F = 0. The lists' distances are 1 - F.
    """
    from kinrank.stages.kernels.compiled import in_chunks
    from kinrank.stages.kernels.diffusion import resolvent_nearest

    a = 1.0 / (1.0 + mu)
    step = layers.blended(a * beta)
    found = np.empty_like(lists.indices)
    similar = np.empty(found.shape, np.float32)
    in_chunks(
        resolvent_nearest, len(found), np.arange(len(found)), layers.indptr, layers.indices, step, np.float32(1.0 - a),
        np.float32(tolerance), lists.indices, found, similar,
    )  # fmt: skip
    return Neighbors(found, np.float32(1.0) - similar), similar


def neighbors_in(smoothed: Dense, lists: Neighbors) -> Neighbors:
    """Neighbour lists by a dense F, of the same width, itself first, ties to the lower number; distances 1 - F.

    Where F reaches too few items, `lists` fills up, as in `diffused_neighbors`.
    """
    values = np.where(smoothed > 1e-12, smoothed, 0.0)  # less is rounding
    np.fill_diagonal(values, np.inf)
    place = np.full(values.shape, lists.k, np.int32)
    np.put_along_axis(place, lists.indices.astype(np.int64), np.arange(lists.k, dtype=np.int32)[None, :], axis=1)
    order = np.lexsort((np.where(values > 0, 0, place), -values), axis=1)[:, : lists.k]
    return Neighbors(order.astype(np.int32), (1.0 - np.take_along_axis(smoothed, order, axis=1)).astype(np.float32))


def on_region(smoothed: Dense, region: Any) -> Any:
    """A dense F on the pattern of the region, as csr."""
    from scipy import sparse

    rows = np.repeat(np.arange(len(smoothed)), np.diff(region.indptr))
    values = np.maximum(smoothed[rows, region.indices], 0.0).astype(np.float32)
    return sparse.csr_array((values, region.indices, region.indptr), shape=region.shape)


def weights_of_graphs(energies: NDArray[Any], lam: float) -> Dense:
    """The beta that minimises sum beta_v H_v + lam/2 |beta|^2 on the simplex: the projection of -H/lam onto it.

    Equal to the paper's valid set and Eq. 12. A constant added to every H changes nothing.
    """
    if lam == 0:
        return np.asarray(energies == np.min(energies), np.float64) / np.count_nonzero(energies == np.min(energies))
    return simplex(-np.asarray(energies, np.float64) / lam)


def simplex(point: Dense) -> Dense:
    """The nearest point of the simplex {x >= 0, sum x = 1}."""
    ordered = np.sort(point)[::-1]
    excess = (np.cumsum(ordered) - 1.0) / np.arange(1, len(point) + 1)
    last = np.flatnonzero(ordered > excess)[-1]
    return np.asarray(np.maximum(point - excess[last], 0.0))


def energies_of(matrices: Sequence[Any], smoothed: Dense) -> Dense:
    """H_v = <F, F> - <F, (F S_v + S_v F)/2> for a dense F, Eq. 4 without the term that all graphs share."""
    square = float(np.vdot(smoothed, smoothed))
    return np.array([square - float(np.vdot(smoothed, 0.5 * (S @ smoothed + (S @ smoothed.T).T))) for S in matrices])


def fixed_point(S: Any, mu: float, E: Dense, steps: int, F: Dense | None = None) -> Dense:
    """`steps` rounds of F <- a/2 (F S + S F) + (1 - a) E, Eq. 9. Error shrinks by a = 1/(1+mu) per step."""
    _small_enough(len(E))
    a = 1.0 / (1.0 + mu)
    F = E if F is None else F
    for _ in range(steps):
        F = 0.5 * a * ((S @ F.T).T + S @ F) + (1.0 - a) * E
    return F


def conjugate_gradient(
    S: Any, mu: float, E: Dense, tolerance: float = 1e-8, steps: int = 200, F: Dense | None = None
) -> Dense:
    """Algorithm 2, corrected: conjugate gradients on A(X) = (I - a S) X + X (I - a S), A(F) = 2 (1 - a) E.

    As printed, the algorithm applies a twice, because its S already holds it. Stops when the residual is below
    `tolerance` times the right-hand side.
    """
    _small_enough(len(E))
    a = 1.0 / (1.0 + mu)

    def operator(X: Dense) -> Dense:
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


def dense_solution(S: Any, mu: float, E: Dense) -> Dense:
    """The exact F for any E: with S = U diag(w) U', F = U [(U'EU)_ij 2(1-a) / (2 - a w_i - a w_j)] U'."""
    _small_enough(len(E))
    a = 1.0 / (1.0 + mu)
    w, U = np.linalg.eigh(S.toarray() if hasattr(S, "toarray") else np.asarray(S))
    middle = (U.T @ E @ U) * (2.0 * (1.0 - a)) / (2.0 - a * (w[:, None] + w[None, :]))
    return np.asarray(U @ middle @ U.T)


def collaborative_dense(
    layers: Layers, mu: float, lam: float, cycles: int, solver: str, E: Dense | None = None, steps: int = 3
) -> tuple[Dense, Dense]:
    """Algorithm 1 on dense matrices, for any positive semi-definite E: (F, beta).

    solver `fixed_point` makes `steps` updates per cycle and keeps F between cycles, as the paper does (three, not
    converged); `conjugate_gradient` and `dense` solve each cycle's equation.
    """
    n = len(layers.indptr) - 1
    _small_enough(n)
    E = np.eye(n) if E is None else np.asarray(E, np.float64)
    if E.shape != (n, n):
        raise ValueError(f"E has shape {E.shape} but the graph has {n} items; give a ({n}, {n}) matrix")
    matrices = [layers.layer(v).astype(np.float64) for v in range(layers.count)]
    beta, F = np.full(layers.count, 1.0 / layers.count), E
    for cycle in range(cycles + 1):
        S = sum(weight * matrix for weight, matrix in zip(beta, matrices, strict=True))
        if solver == "fixed_point":
            F = fixed_point(S, mu, E, steps, F)
        elif solver == "conjugate_gradient":
            F = conjugate_gradient(S, mu, E, F=F)
        else:
            F = dense_solution(S, mu, E)
        if cycle < cycles:
            beta = weights_of_graphs(energies_of(matrices, F), lam * n)
    return F, beta


def _small_enough(n: int) -> None:
    if n > DENSE_LIMIT:
        raise NotEnoughMemory(
            f"this solver needs dense {n} x {n} matrices and stops at {DENSE_LIMIT} items; "
            "use solver='resolvent', or candidates= for a small graph per query"
        )
