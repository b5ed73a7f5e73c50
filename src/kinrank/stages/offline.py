"""Neighbour lists of a gallery -> its graphs and states, block by block: LPMT's numbers in less room.

The functions of graph.py, diffusion.py and states.py, with compiled loops over rows instead of sparse matrix products:
about four times the vectors at the peak for 128 dimensions, where those take ten.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.neighbors import Neighbors
from kinrank.stages.diffusion import weights_of_graphs
from kinrank.stages.graph import Layers
from kinrank.stages.online import chunk_of
from kinrank.stages.paths import Steps, local_steps

BLOCK = 16384  # rows whose states are made at once
SAMPLE = 8192  # rows of F that the weights of the graphs are estimated from, in larger galleries


def layered(lists: Neighbors, lengths: NDArray[np.float64], k: int, sigma: float, scales: tuple[float, ...]) -> Layers:
    """As `graph.layered_graphs`, for a symmetric kernel exp(-d^2 / (sigma^2 l_i l_j))."""
    from kinrank.stages.kernels import offline as kernels
    from kinrank.stages.kernels.compiled import in_chunks

    n = len(lists.indices)
    sizes = np.array([min(max(1, round(k * scale)), lists.k - 1) for scale in scales])
    near = np.ascontiguousarray(lists.indices[:, 1 : int(sizes.max()) + 1])
    gaps = np.ascontiguousarray(lists.distances[:, 1 : int(sizes.max()) + 1])
    starts, ends = _either(near)
    values = np.empty((len(ends), len(sizes)), np.float32)
    degrees = np.zeros((n, len(sizes)))
    chunk = chunk_of(n)
    in_chunks(
        kernels.layer_weights,
        n,
        near,
        gaps,
        lengths,
        float(sigma),
        sizes,
        starts,
        ends,
        values,
        degrees,
        chunk=chunk,
    )
    in_chunks(kernels.normalise_layers, n, starts, ends, degrees, values, chunk=chunk)
    return Layers(starts, ends, values)


def _either(near: NDArray[np.int32]) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Row starts and items of the graph in which either item lists the other; near (n, k), without the item itself."""
    from kinrank.stages.kernels import offline as kernels
    from kinrank.stages.kernels.compiled import in_chunks
    from kinrank.stages.kernels.products import mark_mutual

    n = len(near)
    mutual, starts = np.empty(near.shape, np.bool_), np.zeros(n + 1, np.int64)
    in_chunks(mark_mutual, n, near, mutual, chunk=chunk_of(n))
    kernels.union_starts(near, mutual, starts)
    ends = np.empty(int(starts[-1]), np.int32)
    kernels.union_entries(near, mutual, starts, ends)
    in_chunks(kernels.sort_rows, n, starts, ends, chunk=chunk_of(n))
    return starts, ends


def steps_between(near: NDArray[np.int32], kind: str) -> Steps:
    """As `paths.local_steps`, for lists (n, k + 1) that start with the item itself."""
    from kinrank.stages.kernels.offline import mirror_entries

    if kind == "reciprocal":
        return local_steps(Neighbors(near, np.empty((0, 0), np.float32)), near.shape[1] - 1, kind)
    starts, ends = _either(np.ascontiguousarray(near[:, 1:]))
    mirror = np.empty(len(ends), np.int64)
    mirror_entries(starts, ends, mirror)
    return Steps(starts, ends, mirror)


def graph_weights(layers: Layers, mu: float, lam: float, cycles: int, tolerance: float) -> NDArray[np.float64]:
    """beta as `diffusion.collaborative`; from every (n / SAMPLE)-th row of F where there are more items than SAMPLE.

    H_v is a mean over rows times n: thousands of them give it to the few digits that beta needs.
    """
    from kinrank.stages.kernels.compiled import in_chunks
    from kinrank.stages.kernels.diffusion import resolvent_rows

    n = len(layers.indptr) - 1
    rows = np.unique(np.linspace(0, n - 1, min(n, SAMPLE)).astype(np.int64))
    a = 1.0 / (1.0 + mu)
    beta = np.full(layers.count, 1.0 / layers.count)
    nowhere = np.zeros(len(rows) + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32)
    for _ in range(cycles if layers.count > 1 else 0):
        step = layers.blended(a * beta)
        energies = np.zeros((len(rows), layers.count), np.float32)
        in_chunks(
            resolvent_rows, len(rows), rows, layers.indptr, layers.indices, step, np.float32(1.0 - a),
            np.float32(tolerance), *nowhere, np.zeros(len(rows), np.float32), layers.values, energies,
            chunk=chunk_of(len(rows)),
        )  # fmt: skip
        beta = weights_of_graphs(energies.sum(axis=0, dtype=np.float64) * (n / len(rows)), lam * n)
    return beta


def kindred(
    layers: Layers,
    beta: NDArray[np.float64],
    mu: float,
    tolerance: float,
    lists: NDArray[np.int32],
    width: int,
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """As `diffusion.diffused_neighbors`: (n, width) lists by F, itself first, and F along them.

    Where F reaches too few items `lists` fills up; where those end, the item itself, at F = 0.
    """
    from kinrank.stages.kernels.compiled import in_chunks
    from kinrank.stages.kernels.diffusion import resolvent_nearest

    a = 1.0 / (1.0 + mu)
    step = layers.blended(a * beta)
    shape = len(lists), width
    found, similar = np.empty(shape, np.int32), np.empty(shape, np.float32)
    in_chunks(
        resolvent_nearest, len(found), np.arange(len(found)), layers.indptr, layers.indices, step, np.float32(1.0 - a),
        np.float32(tolerance), lists, found, similar, chunk=chunk_of(len(found)),
    )  # fmt: skip
    return found, similar


def confident(near: NDArray[np.int32], kappa: float) -> NDArray[np.float32]:
    """(n, k2) weights of Eq. 15 along the lists, as `states.confidence` has them in a matrix."""
    from kinrank.stages.kernels.compiled import in_chunks
    from kinrank.stages.kernels.offline import confidence_rows

    weights = np.empty(near.shape, np.float32)
    in_chunks(confidence_rows, len(near), near, float(kappa), weights, chunk=chunk_of(len(near)))
    return weights


def confident_lists(
    near: NDArray[np.int32], kin: NDArray[np.int32], k2: int, kappa: float, share: float
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """The items whose regions each state averages, and their weights: the k2 nearest, and a share of those by F."""
    near = np.ascontiguousarray(near[:, :k2])
    weights = confident(near, kappa)
    if share <= 0:
        return near, weights
    alike = np.ascontiguousarray(kin[:, :k2])
    both = (1.0 - share) * weights, share * confident(alike, kappa)
    return np.concatenate([near, alike], axis=1), np.concatenate(both, axis=1).astype(np.float32, copy=False)


def states_of(
    near: NDArray[np.int32],
    weights: NDArray[np.float32],
    kin: NDArray[np.int32],
    similar: NDArray[np.float32],
    k1: int,
    region: str,
    support: int,
) -> Any:
    """p_i as `states.locality_states`, csr."""
    totals = np.zeros(len(kin), np.float32)
    marked = mark(np.arange(len(kin)), kin, similar, k1, region, totals)
    states = averaged(near, weights, totals, kin, marked, support)
    np.abs(similar, out=similar)
    return states


def mark(
    rows: NDArray[np.int64],
    kin: NDArray[np.int32],
    similar: NDArray[np.float32],
    k1: int,
    region: str,
    totals: NDArray[np.float32],
) -> NDArray[np.float32]:
    """`similar` itself, with the rows' F outside their regions made negative; `totals` gets their sums inside."""
    from kinrank.stages.kernels.compiled import in_chunks
    from kinrank.stages.kernels.offline import mark_regions

    k1, reciprocal = min(k1, kin.shape[1]), region == "reciprocal"
    in_chunks(mark_regions, len(rows), rows, kin, k1, reciprocal, similar, totals, chunk=chunk_of(len(rows)))
    return similar


def averaged(
    near: NDArray[np.int32],
    weights: NDArray[np.float32],
    totals: NDArray[np.float32],
    kin: NDArray[np.int32],
    marked: NDArray[np.float32],
    support: int,
) -> Any:
    """(rows, n) csr: means of the regions `near`, as `mark` left them, with these weights; `support` entries each."""
    n, (items, width) = len(near), kin.shape
    regions = np.arange(items + 1, dtype=np.int64) * width, kin.reshape(-1), marked.reshape(-1)
    rooms: list[NDArray[np.float32]] = []
    places, masses = (
        np.empty(n * support, np.int32),
        np.empty(n * support, np.float32),
    )  # in use: what is filled
    starts = np.zeros(n + 1, np.int64)
    for first in range(0, n, BLOCK):
        block = slice(first, min(first + BLOCK, n))
        shares = weights[block] / totals[near[block]]
        some_places, some_masses, sizes = _mean_states(near[block], shares, regions, support, rooms)
        np.cumsum(sizes, out=starts[block.start + 1 : block.stop + 1])
        starts[block.start + 1 : block.stop + 1] += starts[block.start]
        there = np.arange(support) < sizes[:, None]
        entries = slice(int(starts[block.start]), int(starts[block.stop]))
        places[entries], masses[entries] = some_places[there], some_masses[there]
    filled = int(starts[-1])
    return sparse_rows(starts, places[:filled], masses[:filled], items)


def sparse_rows(starts: NDArray[np.int64], items: NDArray[np.int32], values: NDArray[np.float32], n: int) -> Any:
    """(rows, n) csr around these arrays: scipy turns items into int64 unless the starts are int32, too."""
    from scipy import sparse

    few = int(starts[-1]) < 2**31
    starts = starts.astype(np.int32 if few else np.int64, copy=False)
    return sparse.csr_array((values, items, starts), shape=(len(starts) - 1, n))


def _mean_states(
    near: NDArray[np.int32],
    weights: NDArray[np.float32],
    regions: tuple[NDArray[Any], ...],
    support: int,
    rooms: list[NDArray[np.float32]],
) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.int64]]:
    """(rows, support) items and masses, of which the first `sizes` count. `rooms` are clean, and used again."""
    from kinrank.stages.kernels.compiled import chunks, over_threads
    from kinrank.stages.kernels.online import mean_states

    n = len(near)
    places, masses = np.empty((n, support), np.int32), np.empty((n, support), np.float32)
    sizes = np.zeros(n, np.int64)

    def some(start: int, stop: int) -> None:
        try:
            room = rooms.pop()
        except IndexError:
            room = np.zeros(len(regions[0]) - 1, np.float32)
        mean_states(start, stop, near, weights, *regions, support, room, places, masses, sizes)
        rooms.append(room)

    some(0, 0)  # compiles before the threads start
    over_threads(some, chunks(n, chunk_of(n)))
    return places, masses, sizes
