"""States -> the steps a chain may take, and the price of each: W(p_i, p_j; d^rho)^gamma (TMT: Sec. 4.3)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.stages.csr import Rows
from kinrank.stages.graph import mutual_pattern, union
from kinrank.stages.kernels import costs as kernels
from kinrank.stages.kernels.compiled import one_blas_thread
from kinrank.stages.kernels.transport import Transport
from kinrank.stages.run import THREADS, Output, Run
from kinrank.stages.transport import exact_flows, state_of

TABLE = 6000  # items up to which ground costs are computed for all pairs at once: 144 MB, and a third less time
NO_TABLE = np.empty((0, 0), np.float32)


def step_pattern(nearest: NDArray[np.int32], k: int, both: bool = False) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """indptr and indices of the steps between items of which one has the other among its k nearest; rows ascend.

    `both`: only between items that list each other. nearest (n, > k), each item first in its own list.
    """
    lists = np.ascontiguousarray(nearest[:, 1 : k + 1])
    return mutual_pattern(lists) if both else union(lists)


def step_costs(
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    states: Rows,
    vectors: Vectors,
    settings: Transport,
    run: Run = THREADS,
) -> NDArray[np.float32]:
    """(steps,) the price of every step of a symmetric pattern, each solved once, from its lower item."""
    n = len(indptr) - 1
    firsts = np.empty(n, np.int64)
    THREADS(kernels.first_higher, n, (indptr, indices), (Output(firsts),))
    costs = _solved(firsts, indptr, indices, states, vectors, settings, run)
    mirror(indptr, indices, costs)
    return costs


def mirror(indptr: NDArray[np.int64], indices: NDArray[np.int32], costs: NDArray[np.float32]) -> None:
    """Steps to lower items cost what they cost from there, in place."""
    THREADS(kernels.mirror_costs, len(indptr) - 1, (indptr, indices), (Output(costs, indptr),))


def pair_costs(
    sources: NDArray[np.int64], targets: NDArray[np.int32], states: Rows, vectors: Vectors, settings: Transport
) -> NDArray[np.float32]:
    """(pairs,) the same for some pairs; those of one source are solved together."""
    n = len(states.indptr) - 1
    order = np.argsort(sources, kind="stable")
    indptr = np.zeros(n + 1, np.int64)
    np.cumsum(np.bincount(sources, minlength=n), out=indptr[1:])
    indices = targets[order].astype(np.int32, copy=False)
    found = np.empty(len(order), np.float32)
    found[order] = _solved(indptr[:-1].copy(), indptr, indices, states, vectors, settings, THREADS)
    return found


def _solved(
    firsts: NDArray[np.int64],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    states: Rows,
    vectors: Vectors,
    settings: Transport,
    run: Run,
) -> NDArray[np.float32]:
    """Prices of the steps from firsts[i] to indptr[i + 1] of every item i."""
    costs = run.empty((len(indices),), np.float32)
    if not settings.iterations:
        _solve_exactly(firsts, indptr, indices, states, vectors, settings, costs)
        return costs
    with one_blas_thread():
        inputs = firsts, indptr, indices, states, vectors, _ground_table(vectors, settings), settings
        run(kernels.step_costs, len(firsts), inputs, (Output(costs, indptr),), "steps")
    return costs


def _solve_exactly(
    firsts: NDArray[np.int64],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int32],
    states: Rows,
    vectors: Vectors,
    settings: Transport,
    costs: NDArray[np.float32],
) -> None:
    """Exact transport, one step after the other: for comparisons, and not worth a compiled loop of its own."""
    for item in range(len(firsts)):
        for entry in range(int(firsts[item]), int(indptr[item + 1])):
            pair = state_of(states, item), state_of(states, int(indices[entry]))
            flows = exact_flows(*pair, vectors, settings.rho, settings.unit)
            costs[entry] = sum(mass * cost for _, _, mass, cost in flows) ** settings.gamma


def _ground_table(vectors: Vectors, settings: Transport) -> NDArray[np.float32]:
    """d^rho between all items where these are few; nothing where the loops compute it from the vectors."""
    n = len(vectors)
    if n > TABLE:
        return NO_TABLE
    table = np.empty((n, n), np.float32)
    inputs = vectors, float(settings.rho), settings.unit
    THREADS(kernels.ground_table, -(-n // kernels.BLOCK), inputs, (Output(table),), "steps")
    return table
