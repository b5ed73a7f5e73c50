"""States and a wider diffusion -> wide states, which are compared directly, without chains.

    r_i = sum_j w_ij p_j,    w_ij = F_ij / sum_j F_ij over the direct_k items of the largest F,

with F = (1 - a)(I - a S_beta)^-1 as in stages/diffusion.py, but a = 1 / (1 + direct_mu), which reaches further; of r_i
the direct_support largest entries are kept. An item with few kin has its F on these, one with many on all of them: the
width of r adapts itself. Two items are as far apart as their wide states: 1 - sum_c min(r_q(c), r_x(c)).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kinrank.stages import diffusion, states
from kinrank.stages.csr import Rows, matrix_of
from kinrank.stages.run import THREADS, Run
from kinrank.stages.settings import Settings
from kinrank.stages.transport import State


def no_states(count: int) -> Rows:
    """Rows without entries, where nothing is compared directly."""
    return Rows(np.zeros(count + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))


def wide_states(
    rows: NDArray[np.int64],
    spreading: Rows,
    lists: NDArray[np.int32],
    embedded: Rows,
    settings: Settings,
    run: Run = THREADS,
) -> Rows:
    """r_i of some items, sorted by item, each summing to 1.

    `spreading` is a S_beta as the states were made with, lists (n, k) the neighbours, `embedded` the states of all.
    """
    n = len(lists)
    wider = np.float32((1.0 + settings.mu) / (1.0 + settings.direct_mu))
    graph = Rows(spreading.indptr, spreading.indices, spreading.data * wider)
    width = min(settings.direct_k, n)
    nearest, similar = run.empty((n, width), np.int32), run.empty((n, width), np.float32)
    diffusion.renew_rows(rows, graph, settings.direct_mu, settings.tolerance, lists, nearest, similar, run)
    near, weights = nearest[rows], similar[rows]
    del nearest, similar
    weights /= weights.sum(axis=1, keepdims=True)
    return states.averaged(near, weights, np.ones(n, np.float32), embedded, min(n, settings.direct_support), run)


def apart(wide: Rows, queries: NDArray[np.int64], gallery: NDArray[np.int64]) -> NDArray[np.float32]:
    """(queries, gallery) how far apart the wide states are, from 0 to 1; `gallery` is a run of consecutive numbers."""
    found = states.state_distances(matrix_of(wide, len(wide.indptr) - 1), queries, gallery, "total_variation")
    found[~np.isfinite(found)] = 1.0
    return found


def apart_from(state: State, columns: Rows) -> NDArray[np.float32]:
    """(n,) the same from one wide state to those of all items; `columns` from `columns_of`."""
    items, masses = state
    n = len(columns.indptr) - 1
    firsts, sizes = columns.indptr[items], np.diff(columns.indptr)[items]
    entries = np.arange(int(sizes.sum())) + np.repeat(firsts - (np.cumsum(sizes) - sizes), sizes)
    shared = np.minimum(columns.data[entries], np.repeat(masses, sizes))
    total = np.zeros(n, np.float64)
    np.add.at(total, columns.indices[entries], shared)
    return np.asarray(np.maximum(1.0 - total, 0.0), np.float32)


def columns_of(wide: Rows) -> Rows:
    """The same entries by the item they lie on: row c says who has mass on c, and how much."""
    n = len(wide.indptr) - 1
    turned = matrix_of(wide, n).tocsc()
    return Rows(turned.indptr.astype(np.int64), turned.indices.astype(np.int32, copy=False), turned.data)
