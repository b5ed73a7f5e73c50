"""States: one sparse probability distribution per item, from similarities along neighbour lists (LSE: Sec. 4.2).

    p^_i = F_i on its region R(i, k1), divided by its sum
    p_i  = sum over j in N(i, k2) of weights_ij p^_j, its `support` largest entries, divided by their sum

Only the largest entries are kept, because the others hold little mass and their transport would take most of the time.

Wide states are compared directly, without chains:

    r_i = sum_j w_ij p_j,    w_ij = F_ij / sum_j F_ij over the direct_k items of the largest F,

with F = (1 - a)(I - a S_beta)^-1 as in stages/diffusion.py, but a = 1 / (1 + direct_mu), which reaches further. The
direct_support largest entries of r_i are kept. An item with few similar items has its F on these, one with many on all
of them, so that the width of r adapts itself. The distance of two items is that of their wide states:
1 - sum_c min(r_q(c), r_x(c)).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.stages import diffusion
from kinrank.stages.csr import Rows, invert_rows, jaccard_distances, matrix_from_rows
from kinrank.stages.diffusion import DiffusedLists
from kinrank.stages.gaussian_graph import find_mutual, find_position
from kinrank.stages.kernels.compiler import THREAD_RUNNER, Output, Runner, compile_kernel
from kinrank.stages.kernels.data_structures import UNTOUCHED, new_top_k_scratch, new_untouched_sums, select_largest
from kinrank.stages.lpmt_settings import LpmtSettings
from kinrank.stages.transport import State

NO_MASS = np.empty(0, np.float32)  # the kernel allocates its own
FULL_WIDE_SHARE = 0.6  # share of the direct comparison below which wide states are diffused less exactly
LEAST_EXACTNESS = 0.8  # of small shares; the tolerance is divided by its square


class ConfidentLists(NamedTuple):
    """The items whose regions each state averages, (m, c) int32, and their weights, (m, c) float32."""

    items: NDArray[np.int32]
    weights: NDArray[np.float32]

    def select(self, rows: NDArray[np.int64]) -> ConfidentLists:
        """Return the lists of some states."""
        return ConfidentLists(self.items[rows], self.weights[rows])


def confidence_weights(lists: NDArray[np.int32], kappa: float) -> NDArray[np.float32]:
    """Return (n, k2) the weights of Eq. 15 along the lists: (kappa [j in R(i, k2)] + 1) / (kappa |R(i, k2)| + k2)."""
    weights = 1.0 + kappa * find_mutual(lists)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True), np.float32)


def confident_lists(
    lists: NDArray[np.int32], nearest: NDArray[np.int32], k2: int, kappa: float, share: float
) -> ConfidentLists:
    """Return the items whose regions each state averages, and their weights: k2 nearest, and a share of those by F."""
    near = np.ascontiguousarray(lists[:, :k2])
    weights = confidence_weights(near, kappa)
    if share <= 0:
        return ConfidentLists(near, weights)
    similar = np.ascontiguousarray(nearest[:, :k2])
    both = (1.0 - share) * weights, share * confidence_weights(similar, kappa)
    return ConfidentLists(
        np.concatenate([near, similar], axis=1), np.concatenate(both, axis=1).astype(np.float32, copy=False)
    )


def locality_states(
    confident: ConfidentLists,
    diffused: DiffusedLists,
    k1: int,
    support: int,
    rows: NDArray[np.int64] | None = None,
    reciprocal: bool = True,
    run: Runner = THREAD_RUNNER,
) -> Rows:
    """Return p_i of every item, or of those whose confident lists are given, sorted by item, each summing to 1.

    `rows` are the items that occur in the confident lists, by default all.
    """
    n, width = diffused.nearest.shape
    rows = np.arange(n) if rows is None else rows
    totals = run.empty((n,), np.float32)
    marked = run.empty((n, width), np.float32)
    region = RegionRule(min(k1, width), reciprocal)
    run(mark_regions, len(rows), (rows, diffused, region), (Output(marked), Output(totals)), "states")
    regions = Rows(np.arange(n + 1, dtype=np.int64) * width, diffused.nearest.reshape(-1), marked.reshape(-1))
    most = min(n, support or confident.items.shape[1] * region.k1)
    return average_regions(confident, totals, regions, most, run)


def average_regions(
    confident: ConfidentLists, totals: NDArray[np.float32], regions: Rows, support: int, run: Runner = THREAD_RUNNER
) -> Rows:
    """Return weighted means of regions, divided by their `totals`; at most `support` entries each."""
    lists, weights = confident
    count = len(lists)
    indptr = np.zeros(count + 1, np.int64)
    indices, data = np.empty(count * support, np.int32), np.empty(count * support, np.float32)  # cut at the end
    for first in range(0, count, run.together):
        block = slice(first, min(first + run.together, count))
        block_size = block.stop - first
        items, masses = run.empty((block_size, support), np.int32), run.empty((block_size, support), np.float32)
        sizes = run.empty((block_size,), np.int64)
        mixture = RowMixture(lists[block], weights[block] / totals[lists[block]], regions, NO_MASS)
        run(average_rows, block_size, (mixture,), (Output(items), Output(masses), Output(sizes)), "states")
        indptr[first + 1 : block.stop + 1] = indptr[first] + np.cumsum(sizes)
        filled = np.arange(support) < sizes[:, None]
        entries = slice(int(indptr[first]), int(indptr[block.stop]))
        indices[entries], data[entries] = items[filled], masses[filled]
    size = int(indptr[-1])
    return Rows(indptr, indices[:size], data[:size])


def state_distances(
    states: Any, queries: NDArray[np.int64], gallery: NDArray[np.int64], kind: str
) -> NDArray[np.float32]:
    """Return (queries, gallery) distances of the distributions themselves (Table 6); inf if two share nothing.

    total_variation 1 - m and jaccard 1 - m / (2 - m), with m = sum_c min(p_c, q_c); cosine 1 - <p, q> / |p||q|;
    euclidean |p - q|. If nothing is shared these are constant or depend only on the lengths, so the caller orders such
    items by the distance of the search. `states` is a csr_array.
    """
    if kind in ("total_variation", "jaccard"):
        distances = jaccard_distances(states, invert_rows(states, gallery), queries)
        disjoint = distances >= 1.0
        if kind == "total_variation":
            distances = distances / (2.0 - distances)
    else:
        inner = (states[queries] @ states[gallery].T).toarray()
        squares = np.asarray(states.multiply(states).sum(axis=1)).ravel()
        disjoint = inner <= 0
        if kind == "cosine":
            distances = 1.0 - inner / np.sqrt(np.outer(squares[queries], squares[gallery]))
        else:
            squared = squares[queries][:, None] + squares[gallery][None, :] - 2.0 * inner
            distances = np.sqrt(np.maximum(squared, 0.0))
    distances = np.maximum(distances, 0.0).astype(np.float32)
    distances[disjoint] = np.inf
    return distances


def empty_states(count: int) -> Rows:
    """Return rows without entries, for settings without direct comparison."""
    return Rows(np.zeros(count + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))


def build_wide_states(
    rows: NDArray[np.int64],
    spreading: Rows,
    lists: NDArray[np.int32],
    embedded: Rows,
    settings: LpmtSettings,
    direct: float,
    run: Runner = THREAD_RUNNER,
) -> Rows:
    """Return r_i of some items, sorted by item, each summing to 1.

    `spreading` is the graph a S_beta of the states, lists (n, k) the neighbours, `embedded` the states of all items,
    `direct` the share of their comparison in d': the smaller it is, the less exact their diffusion needs to be.
    """
    n = len(lists)
    wider = np.float32((1.0 + settings.mu) / (1.0 + settings.direct_mu))
    graph = Rows(spreading.indptr, spreading.indices, spreading.data * wider)
    width, support = min(settings.direct_k, n), min(n, settings.direct_support)
    tolerance = settings.tolerance / np.clip(direct / FULL_WIDE_SHARE, LEAST_EXACTNESS, 1.0) ** 2
    spread = diffusion.Spread.over(graph, settings.direct_mu, tolerance)
    indptr, ones = np.zeros(len(rows) + 1, np.int64), np.ones(n, np.float32)
    indices, data = np.empty(len(rows) * support, np.int32), np.empty(len(rows) * support, np.float32)  # cut at the end
    for first in range(0, len(rows), run.together):  # lists of all items would be the largest arrays of a build
        block = rows[first : first + run.together]
        diffused = DiffusedLists(run.empty((n, width), np.int32), run.empty((n, width), np.float32))
        diffusion.update_nearest_rows(block, spread, lists, diffused, run)
        near = ConfidentLists(diffused.nearest[block], diffused.similar[block])
        del diffused
        np.divide(near.weights, near.weights.sum(axis=1, keepdims=True), out=near.weights)
        states = average_regions(near, ones, embedded, support, run)
        indptr[first + 1 : first + len(block) + 1] = indptr[first] + states.indptr[1:]
        entries = slice(int(indptr[first]), int(indptr[first + len(block)]))
        indices[entries], data[entries] = states.indices, states.data
    size = int(indptr[-1])
    return Rows(indptr, indices[:size], data[:size])


def wide_distances(wide: Rows, queries: NDArray[np.int64], gallery: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return (queries, gallery) distances of wide states, from 0 to 1; `gallery` is a range of consecutive numbers."""
    distances = state_distances(matrix_from_rows(wide, len(wide.indptr) - 1), queries, gallery, "total_variation")
    distances[~np.isfinite(distances)] = 1.0
    return distances


def wide_distances_from(state: State, columns: Rows) -> NDArray[np.float32]:
    """Return (n,) the distances from one wide state to those of all items; `columns` from `transpose_states`."""
    items, masses = state
    n = len(columns.indptr) - 1
    firsts, sizes = columns.indptr[items], np.diff(columns.indptr)[items]
    entries = np.arange(int(sizes.sum())) + np.repeat(firsts - (np.cumsum(sizes) - sizes), sizes)
    shared = np.minimum(columns.data[entries], np.repeat(masses, sizes))
    total = np.zeros(n, np.float64)
    np.add.at(total, columns.indices[entries], shared)
    return np.asarray(np.maximum(1.0 - total, 0.0), np.float32)


def transpose_states(wide: Rows) -> Rows:
    """Return the entries by item: row c has the items whose state has mass on c, with that mass."""
    n = len(wide.indptr) - 1
    turned = matrix_from_rows(wide, n).tocsc()
    return Rows(turned.indptr.astype(np.int64), turned.indices.astype(np.int32, copy=False), turned.data)


class RegionRule(NamedTuple):
    """Items that form a region: the first k1, only those that list the item among their own first k1 if reciprocal."""

    k1: int
    reciprocal: bool


@compile_kernel
def mark_regions(start: Any, stop: Any, rows: Any, diffused: Any, region: Any, marked: Any, totals: Any) -> None:
    """Write marked[i] = F_i, negative outside the region of i, and totals[i] = its sum inside; i in rows[start..stop].

    rows (m,) int64; diffused: DiffusedLists; region: RegionRule; marked (n, k) float32, totals (n,) float32. Items that
    list each other are in each other's regions only if F reaches both ways, because lists may have been filled up with
    other items.
    """
    nearest, similar = diffused
    k1 = region.k1
    for place in range(start, stop):
        i = rows[place]
        total = 0.0
        for column in range(similar.shape[1]):
            inside = column < k1
            if inside and region.reciprocal:
                other = nearest[i, column]
                at = find_position(nearest[other, :k1], i)
                inside = at < k1 and similar[other, at] != 0.0
            value = abs(similar[i, column])
            if inside:
                total += value
            marked[i, column] = value if inside else -value
        totals[i] = np.float32(total)


class RowMixture(NamedTuple):
    """Rows to average: row r is the sum of weights[r, c] times row lists[r, c] of `rows`, whose positive entries count.

    lists (m, c) int32; weights (m, c) float32, 0 if nothing is added; rows: Rows; mass (n,) float32, all UNTOUCHED
    before and after, or empty to allocate one.
    """

    lists: NDArray[np.int32]
    weights: NDArray[np.float32]
    rows: Rows
    mass: NDArray[np.float32]


@compile_kernel
def average_rows(start: Any, stop: Any, mixture: Any, items: Any, masses: Any, sizes: Any) -> None:
    """Write rows start..stop of a RowMixture; the largest entries of each are kept and sum to 1.

    Among equal entries those of the lower items are kept. Writes items (m, support) int32 and masses (m, support)
    float32, of which the first sizes[r] (int64) count, sorted by item. A product that underflows to 0 adds no entry, so
    every mass is positive and no item occurs twice in a row.
    """
    lists, weights, rows, mass = mixture
    indptr, indices, data = rows
    if len(mass) == 0:
        mass = new_untouched_sums(len(indptr) - 1)
    longest = 1 + 0 * start  # a literal has another type, for which Numba would compile the callees again
    for row in range(start, stop):
        total = 0
        for column in range(weights.shape[1]):
            if weights[row, column] > 0.0:
                total += indptr[lists[row, column] + 1] - indptr[lists[row, column]]
        longest = max(longest, total)
    touched = np.empty(longest + 1, np.int32)  # one more than is filled, see below
    gathered = np.empty(longest, np.float32)
    scratch, chosen = new_top_k_scratch(longest), np.empty(longest + 1, np.int32)
    for row in range(start, stop):
        count = 0 * row
        for column in range(weights.shape[1]):
            weight = weights[row, column]
            if not weight > 0.0:  # same test as above, also for NaN: more would not fit
                continue
            for entry in range(indptr[lists[row, column]], indptr[lists[row, column] + 1]):
                item = indices[entry]
                added = weight * data[entry]
                if not added > 0.0:  # outside the region or an underflow
                    continue
                # written always, counted conditionally: unpredictable branches would take twice the time
                touched[count] = item
                count += np.int64(mass[item] < 0.0)
                mass[item] = max(mass[item], np.float32(0.0)) + added
        for place in range(count):
            gathered[place] = mass[touched[place]]
            mass[touched[place]] = UNTOUCHED
        size = select_largest(gathered, touched, count, items.shape[1], scratch, chosen)
        total_mass = np.float32(0.0)
        for entry in range(size):  # insertion sort by item: there are few
            item, value = touched[chosen[entry]], gathered[chosen[entry]]
            at = entry
            while at > 0 and items[row, at - 1] > item:
                items[row, at] = items[row, at - 1]
                masses[row, at] = masses[row, at - 1]
                at -= 1
            items[row, at] = item
            masses[row, at] = value
        for place in range(size):
            total_mass += masses[row, place]
        for place in range(size):
            masses[row, place] /= total_mass
        sizes[row] = size
