"""Two states -> what the step between them costs, and what moves where (TMT: Sec. 4.3, Appendix B).

W(p, q; C) = min over plans Q of <Q, C>, with C = d^rho between the items of the two supports. Mass that p and q share
stays where it is and only (p - q)+ is carried to (q - p)+: for rho = 1, a metric, that is W1 itself; for rho > 1 it is
an upper bound of it, and it is what is computed here. Prices of many steps at once: stages/costs.py.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.stages.csr import Rows
from kinrank.stages.kernels import transport as kernels
from kinrank.stages.kernels.ground import ground_costs

State = tuple[NDArray[np.int32], NDArray[np.float32]]  # the items of one state and their mass
Flow = tuple[int, int, float, float]  # from, to, mass, cost of one unit


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
    a, b = np.asarray(p, np.float32), np.asarray(q, np.float32)
    ground = np.ascontiguousarray(cost, np.float32)
    if ground.shape != (len(a), len(b)):
        raise ValueError(f"cost has shape {ground.shape} but the distributions have {len(a)} and {len(b)} entries")
    rows, columns = np.flatnonzero(a > 0), np.flatnonzero(b > 0)
    m, k = len(rows), len(columns)
    inner = np.ascontiguousarray(ground[np.ix_(rows, columns)])
    part = np.zeros(inner.shape, np.float32)
    if iterations:
        u, v, sums = np.empty(m, np.float32), np.empty(k, np.float32), np.empty(k, np.float32)
        value = kernels.sinkhorn(a[rows], b[columns], m, k, inner, float(epsilon), iterations, part, u, v, sums)
        part *= u[:, None] * v
    else:
        value = kernels.exact(a[rows], b[columns], m, k, inner, part)
    plan = np.zeros(ground.shape, np.float32)
    plan[np.ix_(rows, columns)] = part
    return float(value), plan


def state_of(states: Rows, item: int) -> State:
    """p_i: its items and their mass."""
    entries = slice(int(states.indptr[item]), int(states.indptr[item + 1]))
    return states.indices[entries], states.data[entries]


def exact_flows(left: State, right: State, vectors: Vectors, rho: float, unit: bool = True) -> list[Flow]:
    """The exact plan between two states: (from, to, mass, cost of one unit), largest flows first.

    `unit`: the vectors have length one.
    """
    items, inverse = np.unique(np.concatenate([left[0], right[0]]), return_inverse=True)
    difference = np.zeros(len(items))
    np.add.at(difference, inverse, np.concatenate([left[1], -right[1]]))
    away, towards = np.flatnonzero(difference > 0), np.flatnonzero(difference < 0)
    if not len(away) or not len(towards):
        return []
    rows, columns = vectors[items[away]], vectors[items[towards]]
    cost = np.ascontiguousarray(rows @ columns.T)
    ground_costs(cost, rows, columns, float(rho), unit)
    a, b = difference[away].astype(np.float32), -difference[towards].astype(np.float32)
    plan = np.zeros(cost.shape, np.float32)
    kernels.exact(a, b, len(a), len(b), cost, plan)
    flows = [
        (int(items[away[x]]), int(items[towards[y]]), float(plan[x, y]), float(cost[x, y]))
        for x, y in zip(*np.nonzero(plan > 0), strict=True)
    ]
    return sorted(flows, key=lambda flow: (-flow[2], flow[0], flow[1]))


def entropy(mass: NDArray[Any]) -> float:
    """S = - sum p log p of a state, in nats."""
    p = np.asarray(mass, np.float64)
    p = p[p > 0]
    return float(-(p * np.log(p)).sum())
