"""Appendix B by the printed integrals: currents, cost and entropy from rates and states over time.

Times are midpoints of equal intervals, so that sums over them approach the integrals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

Floats = NDArray[np.float64]
Flow = Callable[[float], tuple[Floats, Floats]]  # t -> (T_t, q_t)


def w1(p: Floats, q: Floats, cost: Floats) -> float:
    """Solve the transport problem as a linear program over whole plans, shared mass included."""
    n = len(p)
    rows = np.kron(np.eye(n), np.ones(n))
    columns = np.kron(np.ones(n), np.eye(n))
    found = linprog(cost.ravel(), A_eq=np.vstack([rows, columns])[:-1], b_eq=np.concatenate([p, q])[:-1])
    assert found.status == 0, found.message
    return float(found.fun)


def midpoints(duration: float, pieces: int) -> Floats:
    return (np.arange(pieces) + 0.5) * duration / pieces


def current(rates: Floats, state: Floats) -> Floats:
    """Eq. 19: J[r, s] = T[r, s] q[s] - T[s, r] q[r]."""
    moved = rates * state
    return np.asarray(moved - moved.T)


def pairs(rates: Floats, state: Floats) -> Iterator[tuple[int, int, float, float]]:
    """Return (r, s, T[r, s] q[s], T[s, r] q[r]) for r < s if anything moves."""
    n = len(state)
    for r in range(n):
        for s in range(r + 1, n):
            there, back = rates[r, s] * state[s], rates[s, r] * state[r]
            if there or back:
                yield r, s, there, back


def integrals(flow: Flow, cost: Floats, duration: float, pieces: int) -> dict[str, float]:
    """Return cost, entropy (by Eq. B.15, and its two parts as printed before it), activity, mobility, flow.

    The flow is all mass moved.
    """
    found = dict.fromkeys(("cost", "entropy", "states", "environment", "activity", "mobility", "moved"), 0.0)
    step = duration / pieces
    for t in midpoints(duration, pieces):
        rates, state = flow(float(t))
        for r, s, there, back in pairs(rates, state):
            net = there - back
            found["cost"] += abs(net) * cost[r, s] * step
            found["moved"] += abs(net) * step
            found["entropy"] += abs(net) * abs(np.log(there / back)) * step
            found["states"] -= net * np.log(state[r] / state[s]) * step
            found["environment"] += net * np.log(rates[r, s] / rates[s, r]) * step
            found["activity"] += (there + back) * step
            mobility = net / np.log(there / back) if abs(net) > 1e-12 * there else there  # the limit without a force
            found["mobility"] += mobility * cost[r, s] ** 2 * step
    return found


def random_rates(n: int, rng: np.random.Generator, speed: float = 1.0) -> Floats:
    """Return random rates, positive both ways; columns sum to zero."""
    rates = speed * rng.gamma(0.7, size=(n, n)) + 1e-3
    np.fill_diagonal(rates, 0.0)
    return np.asarray(rates - np.diag(rates.sum(axis=0)))


def relaxing(rates: Floats, start: Floats) -> Flow:
    """Return the flow of a process with these rates, from this state."""
    values, vectors = np.linalg.eig(rates)
    parts = np.linalg.solve(vectors, start.astype(complex))
    return lambda t: (rates, np.real(vectors @ (np.exp(values * t) * parts)))


def random_plan(p: Floats, q: Floats, rng: np.random.Generator) -> Floats:
    """Return a feasible plan: north-west corners after shuffling rows and columns, a vertex that need not be cheap."""
    plan, left, open_ = np.zeros((len(p), len(q))), p.copy(), q.copy()
    rows: list[Any] = rng.permutation(len(p)).tolist()
    columns: list[Any] = rng.permutation(len(q)).tolist()
    for r in rows:
        for s in columns:
            mass = min(left[r], open_[s])
            plan[r, s], left[r], open_[s] = mass, left[r] - mass, open_[s] - mass
    return plan
