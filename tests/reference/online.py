"""A gallery and one query outside it -> d* of every item, by dense transcription of stages/attach.py.

The gallery's states and step costs are those of `reference/lpmt.py`; the transport is the linear program.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reference import lpmt as twin

Matrix = NDArray[np.float64]


def answered(
    rows: NDArray[np.float32], query: NDArray[np.float32], *, k2: int, kappa: float, k1: int, rho: float, gamma: float,
    k: int, sigma: float, mu: float, lam: float, path_k: int, support: int, theta: float, share: float,
    counted: NDArray[np.bool_] | None = None,
) -> Matrix:  # fmt: skip
    """(n,) d* of all items: those no chain reaches behind the others.

    With `counted` (n,) the others are stepping stones: d* is inf there, and no scale is read from them.
    """
    n = len(rows)
    counts = np.ones(n, bool) if counted is None else counted
    d = twin.euclidean(rows)
    rank = twin.nearest_first(d)
    weights = twin.gaussian(d, rank, sigma, "local", k)
    W = [twin.adjacency(weights, rank, size) for size in twin.graph_sizes(k)]
    F, _ = twin.algorithm_1([twin.normalised(graph) for graph in W], W, mu, lam * n, 1)
    kin = twin.by_similarity(F, rank)
    confident = (1 - share) * twin.confidence(rank, k2, kappa) + share * twin.confidence(kin, k2, kappa)
    p = twin.states(F, twin.reciprocal(kin, k1), confident, support)
    costs = twin.step_costs(p, d, twin.allowed_steps(kin, path_k, "union"), rho, gamma)
    chained = twin.floyd_warshall(costs)
    gaps = np.sqrt(((rows.astype(np.float64) - query) ** 2).sum(axis=1))
    near = np.argsort(gaps, kind="stable")
    own = state(p, d, rank, gaps, near, counts, k2, k, sigma, support)
    reach = np.full(n, np.inf)
    for j in near[: 2 * path_k]:
        reach = np.minimum(reach, twin.residual_wasserstein(own, p[j], d**rho) ** gamma + chained[j])
    result = np.full(n, np.inf)
    result[counts] = twin.fused(gaps[None, counts], reach[None, counts], theta, gamma, "local", k, False)[0]
    return result


def state(
    p: Matrix, d: Matrix, rank: twin.Order, gaps: Matrix, near: NDArray[np.int64], counts: NDArray[np.bool_], k2: int,
    k: int, sigma: float, support: int,
) -> Matrix:  # fmt: skip
    """p_q: the states of the k2 nearest, weighted by the Gaussian of the graphs."""
    own = np.zeros(len(p))
    length = gaps[near[counts[near]][k - 1]]
    for j in near[:k2]:
        own += np.exp(-(gaps[j] ** 2) / (sigma**2 * length * d[j, rank[j, k]])) * p[j]
    own[np.argsort(-own, kind="stable")[support:]] = 0.0
    return own / own.sum()
