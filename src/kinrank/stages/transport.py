"""States and vectors -> the cost of one transition: W1 on the mass that has to move (TMT: Sec. 4.3, Appendix B).

W(p, q; C) = min over plans Q of <Q, C>, with C = d^rho between the items of the two supports. Mass that p and q share
stays where it is and only (p - q)+ is carried to (q - p)+: for rho = 1, a metric, that is W1 itself; for rho > 1 it is
an upper bound of it, and it is what is computed here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors


def wasserstein(
    p: NDArray[Any], q: NDArray[Any], cost: NDArray[Any], *, epsilon: float = 0.05, iterations: int = 0
) -> tuple[float, NDArray[np.float32]]:
    """(value, plan) of the transport between two dense distributions under a dense cost matrix.

    `iterations = 0` solves it exactly; otherwise that many Sinkhorn steps with regularisation `epsilon` times the
    mean cost. The value is <Q, C>, without the entropy term: it is never negative.

    Example:
        >>> wasserstein([1.0, 0.0], [0.0, 1.0], [[0.0, 2.0], [2.0, 0.0]])[0]
        2.0
    """
    from kinrank.stages.kernels import transport as kernels

    a, b = np.asarray(p, np.float32), np.asarray(q, np.float32)
    ground = np.ascontiguousarray(cost, np.float32)
    if ground.shape != (len(a), len(b)):
        raise ValueError(f"cost has shape {ground.shape} but the distributions have {len(a)} and {len(b)} entries")
    rows, columns = np.flatnonzero(a > 0), np.flatnonzero(b > 0)
    inner = np.ascontiguousarray(ground[np.ix_(rows, columns)])
    part = np.zeros(inner.shape, np.float32)
    if iterations:
        value = kernels.sinkhorn(a[rows], b[columns], inner, epsilon, iterations, part)
    else:
        value = kernels.exact(a[rows], b[columns], inner, part)
    plan = np.zeros(ground.shape, np.float32)
    plan[np.ix_(rows, columns)] = part
    return float(value), plan


def transition_costs(
    pairs: NDArray[np.int32], states: Any, vectors: Vectors, rho: float, epsilon: float, iterations: int
) -> NDArray[np.float32]:
    """(len(pairs),) W(p_i, p_j; d^rho) on the residual supports, over the threads; exact for iterations = 0."""
    from kinrank.stages.kernels import transport as kernels
    from kinrank.stages.kernels.compiled import in_chunks, one_blas_thread

    costs = np.zeros(len(pairs), np.float32)
    problem = (pairs, states.indptr.astype(np.int64), states.indices.astype(np.int32), states.data.astype(np.float32),
               vectors, float(rho))  # fmt: skip
    with one_blas_thread():
        if iterations:
            solver = (float(epsilon), int(iterations))
            in_chunks(kernels.entropic_transitions, len(pairs), *problem, *solver, costs, chunk=256)
        else:
            in_chunks(kernels.exact_transitions, len(pairs), *problem, costs, chunk=256)
    return costs


def residual_plan(i: int, j: int, states: Any, vectors: Vectors, rho: float) -> list[tuple[int, int, float, float]]:
    """The exact plan between p_i and p_j: (from, to, mass, cost of one unit), largest flows first."""
    from kinrank.stages.kernels import transport as kernels

    gap = (states[[i]] - states[[j]]).toarray().ravel()
    away, towards = np.flatnonzero(gap > 0), np.flatnonzero(gap < 0)
    if not len(away) or not len(towards):
        return []
    cost = kernels.ground(vectors[away], vectors[towards], float(rho))
    plan = np.zeros(cost.shape, np.float32)
    kernels.exact(gap[away].astype(np.float32), -gap[towards].astype(np.float32), cost, plan)
    x, y = np.nonzero(plan > 0)
    flows = [(int(away[u]), int(towards[v]), float(plan[u, v]), float(cost[u, v])) for u, v in zip(x, y, strict=True)]
    return sorted(flows, key=lambda flow: (-flow[2], flow[0], flow[1]))
