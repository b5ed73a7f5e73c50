"""Similarities along neighbour lists -> one sparse probability distribution per item (LSE: Sec. 4.2).

    p^_i = F_i on its region R(i, k1), divided by its sum
    p_i  = sum over j in N(i, k2) of weights_ij p^_j, its `support` largest entries, divided by their sum

Only the largest entries are kept, because the others hold little mass and their transport would take most of the time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.stages.context import inverted, jaccard
from kinrank.stages.csr import Rows
from kinrank.stages.kernels import states as kernels
from kinrank.stages.mutual import mutual
from kinrank.stages.run import THREADS, Output, Run

NO_MASS = np.empty(0, np.float32)  # the loop makes its own


def confidence(lists: NDArray[np.int32], kappa: float) -> NDArray[np.float32]:
    """(n, k2) Eq. 15's weights along the lists: (kappa [j in R(i, k2)] + 1) / (kappa |R(i, k2)| + k2)."""
    weights = 1.0 + kappa * mutual(lists)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), np.float32)


def confident_lists(
    lists: NDArray[np.int32], nearest: NDArray[np.int32], k2: int, kappa: float, share: float
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The items whose regions each state averages, and their weights: the k2 nearest, and a share of those by F."""
    near = np.ascontiguousarray(lists[:, :k2])
    weights = confidence(near, kappa)
    if share <= 0:
        return near, weights
    similar = np.ascontiguousarray(nearest[:, :k2])
    both = (1.0 - share) * weights, share * confidence(similar, kappa)
    return np.concatenate([near, similar], axis=1), np.concatenate(both, axis=1).astype(np.float32, copy=False)


def locality_states(
    lists: NDArray[np.int32],
    weights: NDArray[np.float32],
    nearest: NDArray[np.int32],
    similar: NDArray[np.float32],
    k1: int,
    support: int,
    rows: NDArray[np.int64] | None = None,
    reciprocal: bool = True,
    run: Run = THREADS,
) -> Rows:
    """p_i of every item, or of those whose `lists` and `weights` are given, sorted by item, each summing to 1.

    lists, weights: (m, c) from `confident_lists`; nearest, similar: (n, k) from `nearest_by_diffusion`. `rows` are the
    items that stand in `lists`, all unless given. F may come back negative outside the regions; its sign means nothing.
    """
    n, width = nearest.shape
    rows = np.arange(n) if rows is None else rows
    totals = run.empty((n,), np.float32)
    marked = similar if run is THREADS else run.empty(similar.shape, np.float32)
    inputs = rows, nearest, min(k1, width), reciprocal, similar
    run(kernels.mark_regions, len(rows), inputs, (Output(marked), Output(totals)), "states")
    regions = Rows(np.arange(n + 1, dtype=np.int64) * width, nearest.reshape(-1), marked.reshape(-1))
    return averaged(lists, weights, totals, regions, min(n, support or lists.shape[1] * min(k1, width)), run)


def averaged(
    lists: NDArray[np.int32],
    weights: NDArray[np.float32],
    totals: NDArray[np.float32],
    regions: Rows,
    support: int,
    run: Run = THREADS,
) -> Rows:
    """Means of the regions `lists`, over their `totals`, with these weights; at most `support` entries each."""
    count = len(lists)
    indptr = np.zeros(count + 1, np.int64)
    indices, data = np.empty(count * support, np.int32), np.empty(count * support, np.float32)  # used: what is filled
    for first in range(0, count, run.together):
        block = slice(first, min(first + run.together, count))
        here = block.stop - first
        items, masses = run.empty((here, support), np.int32), run.empty((here, support), np.float32)
        sizes = run.empty((here,), np.int64)
        inputs = lists[block], weights[block] / totals[lists[block]], regions, NO_MASS
        run(kernels.average, here, inputs, (Output(items), Output(masses), Output(sizes)), "states")
        indptr[first + 1 : block.stop + 1] = indptr[first] + np.cumsum(sizes)
        filled = np.arange(support) < sizes[:, None]
        entries = slice(int(indptr[first]), int(indptr[block.stop]))
        indices[entries], data[entries] = items[filled], masses[filled]
    size = int(indptr[-1])
    return Rows(indptr, indices[:size], data[:size])


def state_distances(
    states: Any, queries: NDArray[np.int64], gallery: NDArray[np.int64], kind: str
) -> NDArray[np.float32]:
    """(queries, gallery) distance of the distributions themselves (Table 6); inf where two share nothing.

    total_variation 1 - m and jaccard 1 - m / (2 - m), with m = sum_c min(p_c, q_c); cosine 1 - <p, q> / |p||q|;
    euclidean |p - q|. Without anything shared these are constant or know only the lengths: the caller orders such
    items by the distance of the search. `states` is a csr_array.
    """
    if kind in ("total_variation", "jaccard"):
        distances = jaccard(states, inverted(states, gallery), queries)
        nothing = distances >= 1.0
        if kind == "total_variation":
            distances = distances / (2.0 - distances)
    else:
        inner = (states[queries] @ states[gallery].T).toarray()
        squares = np.asarray(states.multiply(states).sum(axis=1)).ravel()
        nothing = inner <= 0
        if kind == "cosine":
            distances = 1.0 - inner / np.sqrt(np.outer(squares[queries], squares[gallery]))
        else:
            squared = squares[queries][:, None] + squares[gallery][None, :] - 2.0 * inner
            distances = np.sqrt(np.maximum(squared, 0.0))
    distances = np.maximum(distances, 0.0).astype(np.float32)
    distances[nothing] = np.inf
    return distances
