"""States: one sparse probability distribution per item, from similarities along neighbour lists (LSE: Eq. 14 to 16).

    p^_i = F_i on its region R(i, k1), divided by its sum
    p_i  = sum over j in N(i, k2) of weights_ij p^_j, its `support` largest entries, divided by their sum

Only the largest entries are kept, because the others hold little mass and their transport would take most of the time.

Wide states are compared directly, without chains:

    r_i = sum_j w_ij p_j,    w_ij = F_ij / sum_j F_ij over the direct_k items of the largest F,

with F = (1 - a)(I - a S_beta)^-1 as in stages/diffusion.py, but a = 1 / (1 + direct_mu), which reaches further. The
direct_support largest entries of r_i are kept. An item with few similar items has its F on these, one with many on all
of them, so that the width of r adapts itself. The distance of two items is that of their wide states:
1 - sum_c min(r_q(c), r_x(c)). Among few items, such as the candidates of a query, the mean is taken over all of them, r
= F P, and direct_mu is larger by half, because F must not reach everything there.

A prepared gallery keeps both kinds packed, in 3 bytes per entry instead of 8 (`PackedRows`):

    entry:  gap to the item of the entry before (uint16), code (uint8)
    mass:   code^2 * scale of the row                scale = 1 / (sum of code^2), so that the row sums to 1

The largest mass of a row has the code 255. Codes are proportional to the root, because masses span orders of magnitude
and their absolute errors matter. Entries below code 8, a thousandth of the largest mass, are left out: a third of the
entries of a wide state, with 0.03 % of its mass. A gap above 65535 takes further entries of code 0 and gap 65535.
Packing what was unpacked returns the same bytes, so nothing is lost if a gallery is saved, loaded or changed often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.stages import diffusion
from kinrank.stages.csr import Rows, invert_rows, jaccard_distances, matrix_from_rows
from kinrank.stages.diffusion import DiffusedLists
from kinrank.stages.gaussian_graph import find_mutual, find_position
from kinrank.stages.kernels.compiler import (
    LIGHT_CHUNK_ROWS,
    THREAD_RUNNER,
    Output,
    Runner,
    compile_inner,
    compile_kernel,
    run_in_chunks,
)
from kinrank.stages.kernels.data_structures import UNTOUCHED, new_top_k_scratch, select_largest
from kinrank.stages.lpmt_settings import LpmtSettings
from kinrank.stages.transport import State, get_state, longest_row

NO_MASS = np.empty(0, np.float64)  # the kernel allocates its own
FEW_ITEMS_MU = 1.5  # direct_mu, times, where the mean is taken over all items
WIDE_TOLERANCE = (0.3, 0.55, 0.8, 0.9, 0.95), (6.0, 3.0, 2.5, 1.8, 1.0)  # of wide diffusions, by `direct`
FEW_ITEMS_TOLERANCE = (0.22, 0.65, 0.88), (12.0, 8.0, 2.0)  # the same where the mean is taken over all items
MAX_GAP, MAX_CODE, MIN_CODE = 65535, 255, 8
LEAST_SHARE = np.float32((MIN_CODE - 0.5) / MAX_CODE) ** 2  # of the largest mass; smaller ones are left out


class PackedRows(NamedTuple):
    """Distributions over items, one per item: indptr (n + 1,) int64; gaps uint16; codes uint8; scales (n,) float32.

    Items ascend in every row. Columns (`transpose`) have the same form, but the scale of an entry is that of its item.
    """

    indptr: NDArray[np.int64]
    gaps: NDArray[np.uint16]
    codes: NDArray[np.uint8]
    scales: NDArray[np.float32]

    @classmethod
    def pack(cls, rows: Rows | PackedRows) -> PackedRows:
        """Pack rows that sum to 1 or have no entries, and whose items ascend; packed ones stay as they are."""
        if isinstance(rows, PackedRows):
            return rows
        count = len(rows.indptr) - 1
        return cls.pack_parts([rows], count, len(rows.indices) + count * (int(rows.indices.max(initial=0)) // MAX_GAP))

    @classmethod
    def pack_parts(cls, parts: Iterable[Rows], count: int, entries: int) -> PackedRows:
        """Pack the rows of all parts, `count` in all, with at most `entries`, including those for large gaps.

        Memory that is never written takes no space, and nothing is copied when the arrays are cut.
        """
        packed = cls._empty(np.zeros(count + 1, np.int64), entries, np.zeros(count, np.float32))
        first = 0
        for part in parts:
            write_packed(part, first, packed)
            first += len(part.indptr) - 1
        packed.gaps.resize(packed.indptr[-1], refcheck=False)
        packed.codes.resize(packed.indptr[-1], refcheck=False)
        return packed

    @classmethod
    def _empty(cls, indptr: NDArray[np.int64], size: int, scales: NDArray[np.float32]) -> PackedRows:
        """Return rows whose entries are to be written."""
        return cls(indptr, np.empty(size, np.uint16), np.empty(size, np.uint8), scales)

    def unpack(self, items: NDArray[np.int32] | None = None) -> Rows:
        """Return all rows, or those of some items; a row without entries for -1."""
        items = np.arange(len(self.scales), dtype=np.int32) if items is None else items
        size = int((self.indptr[items + 1] - self.indptr[items])[items >= 0].sum())
        rows = Rows(np.zeros(len(items) + 1, np.int64), np.empty(size, np.int32), np.empty(size, np.float32))
        write_unpacked(items, self, rows)
        size = int(rows.indptr[-1])  # smaller if gaps took further entries
        return (
            rows if size == len(rows.data) else Rows(rows.indptr, rows.indices[:size].copy(), rows.data[:size].copy())
        )

    def state(self, item: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the distribution of one item: its items and their mass."""
        return self.unpack(np.array([item], np.int32))[1:]

    def transpose(self) -> PackedRows:
        """Return the entries by item: row c has the items whose distribution has mass on c."""
        last = np.zeros(len(self.scales), np.int64)
        ends = np.zeros(len(last) + 1, np.int64)
        write_columns(self, last, ends[1:], self._empty(ends, 0, self.scales))
        indptr = np.cumsum(ends)
        columns = self._empty(indptr, int(indptr[-1]), self.scales)
        last[:] = 0
        write_columns(self, last, indptr[:-1].copy(), columns)
        return columns


class ConfidentLists(NamedTuple):
    """The items whose regions each state averages, (m, c) int32, and their weights, (m, c) float32."""

    items: NDArray[np.int32]
    weights: NDArray[np.float32]

    def select(self, rows: NDArray[np.int64]) -> ConfidentLists:
        """Return the lists of some states."""
        return ConfidentLists(self.items[rows], self.weights[rows])


def confidence_weights(lists: NDArray[np.int32], kappa: float) -> NDArray[np.float32]:
    """Return (n, k2) the weights of Eq. 16 along the lists: (kappa [j in R(i, k2)] + 1) / (kappa |R(i, k2)| + k2)."""
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
    run: Runner = THREAD_RUNNER,
    overwrite: bool = False,
) -> Rows:
    """Return p_i of every item, or of those whose confident lists are given, sorted by item, each summing to 1.

    `rows` are the items that occur in the confident lists, by default all. `overwrite`: F is no longer needed, so its
    array can be used for F with marks.
    """
    n, width = diffused.nearest.shape
    rows = np.arange(n) if rows is None else rows
    totals = run.empty((n,), np.float32)
    marked = diffused.similar if overwrite else run.empty((n, width), np.float32)
    k1 = min(k1, width)
    run(mark_regions, len(rows), (rows, diffused, k1), (Output(marked), Output(totals)), "states")
    regions = Rows(np.arange(n + 1, dtype=np.int64) * width, diffused.nearest.reshape(-1), marked.reshape(-1))
    most = min(n, support or confident.items.shape[1] * k1)
    return average_regions(confident, totals, regions, most, run)


def average_regions(
    confident: ConfidentLists, totals: NDArray[np.float32], regions: Rows, support: int, run: Runner = THREAD_RUNNER
) -> Rows:
    """Return weighted means of regions, divided by their `totals`; at most `support` entries each."""
    lists, weights = confident

    def fill(block: slice, outputs: tuple[Output, ...]) -> None:
        mixture = RowMixture(lists[block], weights[block] / totals[lists[block]], regions, NO_MASS)
        run(average_rows, block.stop - block.start, (mixture,), outputs, "states")

    return _gather_rows(len(lists), support, run, fill)


def _gather_rows(count: int, support: int, run: Runner, fill: Callable[[slice, tuple[Output, ...]], None]) -> Rows:
    """Return `count` rows of at most `support` entries, filled block by block, so that gaps never take much memory.

    `fill(block, outputs)` writes the items, masses and sizes of a range of rows.
    """
    indptr = np.zeros(count + 1, np.int64)
    indices, data = np.empty(count * support, np.int32), np.empty(count * support, np.float32)  # cut at the end
    for first in range(0, count, run.together):
        block = slice(first, min(first + run.together, count))
        room = slice(int(indptr[first]), int(indptr[first]) + (block.stop - first) * support)
        items, masses = indices[room].reshape(-1, support), data[room].reshape(-1, support)
        sizes = np.empty(len(items), np.int64)
        fill(block, (Output(items), Output(masses), Output(sizes)))
        indptr[first + 1 : block.stop + 1] = indptr[first] + np.cumsum(sizes)
        entries = slice(room.start, int(indptr[block.stop]))
        if entries != room:
            filled = np.arange(support) < sizes[:, None]
            indices[entries], data[entries] = items[filled], masses[filled]
    size = int(indptr[-1])
    return Rows(indptr, indices[:size], data[:size])


def empty_states(count: int) -> Rows:
    """Return rows without entries, for settings without direct comparison."""
    return Rows(np.zeros(count + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32))


def build_wide_states(
    rows: NDArray[np.int64],
    spreading: Rows,
    embedded: Rows,
    settings: LpmtSettings,
    direct: float,
    run: Runner = THREAD_RUNNER,
    order: NDArray[np.int64] | None = None,
) -> Rows:
    """Return r_i of some items, sorted by item, each summing to 1.

    `spreading` is the graph a S_beta of the states, `embedded` the states of all items, `direct` the share of their
    comparison in d': the smaller it is, the less exact their diffusion needs to be. `order`: all items in the order in
    which they should be computed.
    """
    n = len(embedded.indptr) - 1
    few = n <= diffusion.MAX_BLOCK_ITEMS
    mu = settings.direct_mu * (FEW_ITEMS_MU if few else 1.0)
    tolerance = settings.tolerance * np.interp(direct, *(FEW_ITEMS_TOLERANCE if few else WIDE_TOLERANCE))
    spread = diffusion.Spread.over(spreading, mu, tolerance, settings.mu)
    mean = DiffusedMean(spread, embedded, min(settings.answer_values.direct_k, n))
    diffused = np.empty((n, n) if few else (0, 0), np.float32)
    if few:
        blocks = -(-n // diffusion.BLOCK_COLUMNS)
        THREAD_RUNNER(diffuse_states, blocks, (spread, embedded), (Output(diffused),), "diffusion")
    rank = np.arange(n)
    if order is not None:
        rank[order] = np.arange(n)

    def fill(block: slice, outputs: tuple[Output, ...]) -> None:
        count = block.stop - block.start
        if few:
            THREAD_RUNNER(keep_largest, count, (rows[block], diffused), outputs, "diffusion")
        else:
            places = np.argsort(rank[rows[block]])
            run(wide_rows, count, (places, rows[block], mean), outputs, "diffusion")

    return _gather_rows(len(rows), min(n, settings.answer_values.direct_support), run, fill)


def wide_distances(wide: Rows, queries: NDArray[np.int64], gallery: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return (queries, gallery) distances of wide states, from 0 to 1; `gallery` is a range of consecutive numbers."""
    if len(queries) == 1:  # inverting the rows would take several times as long
        return _wide_distances_of(int(queries[0]), wide)[None, gallery]
    matrix = matrix_from_rows(wide, len(wide.indptr) - 1)
    jaccard = jaccard_distances(matrix, invert_rows(matrix, gallery), queries)
    return np.maximum(jaccard / (2.0 - jaccard), 0.0).astype(np.float32)


def _wide_distances_of(query: int, wide: Rows) -> NDArray[np.float32]:
    """Return (n,) the distances of one wide state to all."""
    masses = np.zeros(len(wide.indptr) - 1, np.float32)
    items, mine = get_state(wide, query)
    masses[items] = mine
    distances = np.empty(len(masses), np.float32)
    run_in_chunks(compare_to_masses, len(masses), wide, masses, distances, chunk=LIGHT_CHUNK_ROWS)
    return distances


def wide_distances_from(state: State, columns: PackedRows) -> NDArray[np.float32]:
    """Return (n,) the distances from one wide state to those of all items; `columns` from `PackedRows.transpose`."""
    items, masses = state
    n = len(columns.indptr) - 1
    firsts, sizes = columns.indptr[items], np.diff(columns.indptr)[items]
    starts = np.cumsum(sizes) - sizes
    entries = np.arange(int(sizes.sum())) + np.repeat(firsts - starts, sizes)
    reached = np.concatenate([[0], np.cumsum(columns.gaps[entries], dtype=np.int64)])
    others = reached[1:] - np.repeat(reached[starts], sizes)
    found = columns.codes[entries].astype(np.float32) ** 2 * columns.scales[others]
    total = np.zeros(n, np.float64)
    np.add.at(total, others, np.minimum(found, np.repeat(masses, sizes)))
    return np.asarray(np.maximum(1.0 - total, 0.0), np.float32)


@compile_kernel
def mark_regions(start: Any, stop: Any, rows: Any, diffused: Any, k1: Any, marked: Any, totals: Any) -> None:
    """Write marked[i] = F_i, negative outside the region of i, and totals[i] = its sum inside; i in rows[start..stop].

    rows (m,) int64; diffused: DiffusedLists; marked (n, k) float32, which may be F itself, because signs are not read;
    totals (n,) float32. A region has those of the first k1 that list the item among their own first k1, and only if F
    reaches both ways, because lists may have been filled up with other items.
    """
    nearest, similar = diffused
    for place in range(start, stop):
        i = rows[place]
        total = 0.0
        for column in range(similar.shape[1]):
            inside = column < k1
            if inside:
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

    lists (m, c) int32; weights (m, c) float32, 0 if nothing is added; rows: Rows; mass (n,) float64, all UNTOUCHED
    before and after, or empty to allocate one.
    """

    lists: NDArray[np.int32]
    weights: NDArray[np.float32]
    rows: Rows
    mass: NDArray[np.float64]


class MeanScratch(NamedTuple):
    """Work arrays of a mean over rows with at most m entries together.

    mass (n,) float64, all UNTOUCHED between means; touched (m + 1,) int32 the items met; gathered (m + 1,) float32
    their mass; floor (1,) float32 half of the least mass kept last; counting and chosen (m + 1,) int32 for the
    selection of the largest.
    """

    mass: Any
    touched: Any
    gathered: Any
    floor: Any
    counting: Any
    chosen: Any


@compile_inner
def _new_masses(count: Any) -> Any:
    """Return (count,) float64, all UNTOUCHED."""
    masses = np.empty(count, np.float64)
    for place in range(count):
        masses[place] = UNTOUCHED
    return masses


@compile_inner
def _new_mean_scratch(mass: Any, most: Any) -> Any:
    """Allocate the work arrays for means over rows with at most `most` entries together."""
    touched, chosen = np.empty(most + 1, np.int32), np.empty(most + 1, np.int32)
    gathered, floor = np.empty(most + 1, np.float32), np.zeros(1, np.float32)
    return MeanScratch(mass, touched, gathered, floor, new_top_k_scratch(most), chosen)


@compile_inner
def _write_largest(count: Any, scratch: Any, items: Any, masses: Any) -> Any:
    """Write the largest of the first `count` gathered masses, by item and divided by their sum; return their number."""
    touched, gathered = scratch.touched, scratch.gathered
    size = select_largest(gathered, touched, count, len(items), scratch.counting, scratch.chosen)
    least = np.float32(np.inf)
    for entry in range(np.uint64(size)):  # insertion sort by item: there are few
        item, value = touched[np.uint32(scratch.chosen[entry])], gathered[np.uint32(scratch.chosen[entry])]
        least = min(least, value)
        at = entry
        while at > np.uint64(0) and items[at - np.uint64(1)] > item:
            items[at] = items[at - np.uint64(1)]
            masses[at] = masses[at - np.uint64(1)]
            at -= np.uint64(1)
        items[at] = item
        masses[at] = value
    scratch.floor[0] = np.float32(0.5) * least
    total_mass = np.float32(0.0)
    for place in range(size):  # in the order of items: that of `chosen` depends on what else was gathered
        total_mass += masses[place]
    for place in range(size):
        masses[place] /= total_mass
    return size


@compile_inner
def _write_mean(lists: Any, weights: Any, rows: Any, scratch: Any, items: Any, masses: Any) -> Any:
    """Write the mean of the rows `lists` with these weights: its largest entries, sorted by item; return their number.

    lists, weights (c,); rows: Rows; items (support,) int32 and masses (support,) float32. Among equal entries those of
    the lower items are kept. A product that underflows to 0 adds no entry, so every mass is positive and no item occurs
    twice. Sums are float64, so that equal items get equal masses whatever the order of their neighbours.
    """
    indptr, indices, data = rows
    mass, touched, gathered = scratch.mass, scratch.touched, scratch.gathered
    count = 0 * len(lists)  # a literal has another type, for which Numba would compile the callees again
    dense = len(mass) < 2 * len(gathered)  # then most items are met, and remembering them would take longer
    for column in range(len(weights)):
        weight = weights[column]
        if not weight > 0.0:  # also for NaN
            continue
        first, last = np.uint64(indptr[lists[column]]), np.uint64(indptr[lists[column] + 1])
        if dense:
            for entry in range(first, last):
                item, added = np.uint32(indices[entry]), weight * data[entry]
                mass[item] = max(mass[item], 0.0) + max(added, np.float32(0.0))
            continue
        for entry in range(first, last):
            item, added = np.uint32(indices[entry]), weight * data[entry]
            if not added > 0.0:  # outside the region or an underflow
                continue
            # written always, counted conditionally: unpredictable branches would take twice the time
            before = mass[item]
            touched[np.uint64(count)] = item
            count += np.int64(before < 0.0)
            mass[item] = max(before, 0.0) + added
    if dense:
        count = _gather_heaviest(mass, scratch, len(items))
        for item in range(len(mass)):
            mass[item] = UNTOUCHED
    else:
        for place in range(np.uint64(count)):
            item = np.uint32(touched[place])
            gathered[place] = mass[item]
            mass[item] = UNTOUCHED
    return _write_largest(count, scratch, items, masses)


@compile_inner
def _gather_heaviest(masses: Any, scratch: Any, size: Any) -> Any:
    """Gather masses (n,) in the order of items, at least the `size` largest of them; return their number.

    Items have similar masses, so the least mass kept last tells which are too small.
    """
    touched, gathered, floor = scratch.touched, scratch.gathered, scratch.floor
    count = 0 * size
    while True:
        for item in range(np.uint64(len(masses))):
            value = np.float32(masses[item])
            touched[np.uint64(count)] = item
            gathered[np.uint64(count)] = value
            count += np.int64(value > 0.0) & np.int64(value >= floor[0])
        if count >= size or floor[0] == 0.0:
            return count
        floor[0] = 0.0
        count = 0 * size


@compile_kernel
def average_rows(start: Any, stop: Any, mixture: Any, items: Any, masses: Any, sizes: Any) -> None:
    """Write rows start..stop of a RowMixture; the largest entries of each are kept and sum to 1.

    Writes items (m, support) int32 and masses (m, support) float32, of which the first sizes[r] (int64) count, sorted
    by item.
    """
    lists, weights, rows, mass = mixture
    if len(mass) == 0:
        mass = _new_masses(len(rows.indptr) - 1)
    longest = 1 + 0 * start  # a literal has another type, for which Numba would compile the callees again
    for row in range(start, stop):
        total = 0
        for column in range(weights.shape[1]):
            if weights[row, column] > 0.0:  # same test as in _write_mean: more would not fit
                total += rows.indptr[lists[row, column] + 1] - rows.indptr[lists[row, column]]
        longest = max(longest, total)
    scratch = _new_mean_scratch(mass, longest)
    for row in range(start, stop):
        sizes[row] = _write_mean(lists[row, : weights.shape[1]], weights[row], rows, scratch, items[row], masses[row])


class DiffusedMean(NamedTuple):
    """Means along a diffusion: each is a mean of `states` over the `width` items of the largest F."""

    spread: diffusion.Spread
    states: Rows
    width: int


@compile_inner
def _new_wide_scratch(mean: Any) -> Any:
    """Allocate the work arrays for wide states."""
    n = len(mean.states.indptr) - 1
    most = mean.width * longest_row(mean.states.indptr)
    kept = np.empty(mean.width, np.int32), np.empty(mean.width, np.float32)
    return _new_mean_scratch(_new_masses(n), most), diffusion.new_selection(n), kept


@compile_inner
def _write_wide_state(own: Any, f: Any, touched: Any, mean: Any, scratch: Any, items: Any, masses: Any) -> Any:
    """Write the mean of the states of `own` and the other items of the largest f, weighted by f; return its size."""
    mixing, selection, kept = scratch
    values, numbers = selection.values, selection.items
    reached = 0 * len(touched)  # a literal has another type, for which Numba would compile the callees again
    for place in range(np.uint64(len(touched))):
        value = f[np.uint32(touched[place])]
        numbers[np.uint64(reached)] = touched[place]
        values[np.uint64(reached)] = value
        reached += np.int64(value > 0.0) & np.int64(touched[place] != own)
    found = select_largest(values, numbers, reached, mean.width - 1, selection.counting, selection.chosen)
    nearest, weights = kept
    for entry in range(found):
        nearest[entry] = numbers[selection.chosen[entry]]
        weights[entry] = values[selection.chosen[entry]]
    nearest[found] = own
    weights[found] = f[own]
    return _write_mean(nearest[: found + 1], weights[: found + 1], mean.states, mixing, items, masses)


@compile_kernel
def wide_rows(start: Any, stop: Any, places: Any, rows: Any, mean: Any, items: Any, masses: Any, sizes: Any) -> None:
    """Write the wide states of the items rows[places[start..stop]] to these places.

    places, rows (m,) int64; mean: DiffusedMean; items (m, support) int32 and masses (m, support) float32, of which the
    first sizes[r] (int64) count, sorted by item.
    """
    work = diffusion.new_spread_scratch(len(mean.states.indptr) - 1)
    scratch = _new_wide_scratch(mean)
    for place in range(start, stop):
        row = places[place]
        count = diffusion.spread_row(rows[row], mean.spread, work)
        diffusion.settle_rest(count, work)
        sizes[row] = _write_wide_state(rows[row], work.f, work.touched[:count], mean, scratch, items[row], masses[row])
        diffusion.clean_scratch(count, work)


@compile_kernel
def diffuse_states(start: Any, stop: Any, spread: Any, states: Any, diffused: Any) -> None:
    """Write F P, BLOCK_COLUMNS columns at once; blocks start..stop. states: Rows, P; diffused (n, n) float32."""
    n = len(diffused)
    scratch = diffusion.new_block_scratch(n)
    block = scratch[0]
    for number in range(start, stop):
        first = number * diffusion.BLOCK_COLUMNS
        last = min(first + diffusion.BLOCK_COLUMNS, n)
        for row in range(n):
            line = block[row]
            for column in range(len(line)):
                line[column] = 0.0
            for entry in range(states.indptr[row], states.indptr[row + 1]):
                if first <= states.indices[entry] < last:
                    line[states.indices[entry] - first] = states.data[entry]
        found = diffusion.diffuse_block(spread, scratch)
        for row in range(n):
            for column in range(first, last):
                diffused[row, column] = found[row, column - first]


@compile_kernel
def keep_largest(start: Any, stop: Any, rows: Any, diffused: Any, items: Any, masses: Any, sizes: Any) -> None:
    """Write wide states like `wide_rows` from rows[start..stop] of F P."""
    n = len(diffused)
    scratch = _new_mean_scratch(_new_masses(0 * n), n)
    for row in range(start, stop):
        count = _gather_heaviest(diffused[rows[row]], scratch, items.shape[1])
        sizes[row] = _write_largest(count, scratch, items[row], masses[row])


@compile_kernel
def compare_to_masses(start: Any, stop: Any, rows: Any, masses: Any, distances: Any) -> None:
    """Write distances[r] = 1 - sum_c min(rows[r, c], masses[c]) of rows start..stop; masses, distances (n,) float32."""
    for row in range(start, stop):
        shared = 0.0
        for entry in range(np.uint64(rows.indptr[row]), np.uint64(rows.indptr[row + 1])):
            shared += np.float64(min(rows.data[entry], masses[np.uint32(rows.indices[entry])]))
        distances[row] = max(1.0 - shared, 0.0)


@compile_kernel
def write_packed(rows: Any, first: Any, packed: Any) -> None:
    """Write indptr, gaps, codes and scales of all rows, after the `first` rows that are written: Rows -> PackedRows."""
    indptr, gaps, codes, scales = packed
    size = indptr[first]
    for row in range(len(rows.indptr) - 1):
        largest = np.float32(0.0)
        for entry in range(rows.indptr[row], rows.indptr[row + 1]):
            largest = max(largest, rows.data[entry])
        item, squares = 0, 0
        for entry in range(rows.indptr[row], rows.indptr[row + 1]):
            share = rows.data[entry] / largest
            if not share >= LEAST_SHARE:  # also for NaN, if all are 0
                continue
            while rows.indices[entry] - item > MAX_GAP:
                gaps[size] = MAX_GAP
                codes[size] = 0
                item += MAX_GAP
                size += 1
            code = max(int(np.sqrt(share) * MAX_CODE + np.float32(0.5)), MIN_CODE)
            gaps[size] = rows.indices[entry] - item
            codes[size] = code
            item = np.int64(rows.indices[entry])
            squares += code * code
            size += 1
        indptr[first + row + 1] = size
        scales[first + row] = 1.0 / max(squares, 1)


@compile_kernel
def write_unpacked(items: Any, packed: Any, rows: Any) -> None:
    """Write the rows of `items` (m,) int32, none for -1: PackedRows -> Rows, indptr included."""
    indptr, gaps, codes, scales = packed
    size = 0
    for place in range(len(items)):
        row, item = items[place], 0
        if row >= 0:
            for entry in range(indptr[row], indptr[row + 1]):
                item += gaps[entry]
                if codes[entry] > 0:
                    code = np.int64(codes[entry])
                    rows.indices[size] = item
                    rows.data[size] = np.float32(code * code) * scales[row]
                    size += 1
        rows.indptr[place + 1] = size


@compile_kernel
def write_columns(packed: Any, last: Any, at: Any, columns: Any) -> None:
    """Write the columns of PackedRows, or only count their entries: at (n,) int64 advances by those of each column.

    last (n,) int64, 0 on entry: the last row met in each column. columns: PackedRows; without room entries are counted.
    """
    writing = len(columns.codes) > 0
    for row in range(len(packed.scales)):
        item = 0
        for entry in range(packed.indptr[row], packed.indptr[row + 1]):
            item += packed.gaps[entry]
            if packed.codes[entry] == 0:
                continue
            while row - last[item] > MAX_GAP:
                if writing:
                    columns.gaps[at[item]] = MAX_GAP
                    columns.codes[at[item]] = 0
                last[item] += MAX_GAP
                at[item] += 1
            if writing:
                columns.gaps[at[item]] = row - last[item]
                columns.codes[at[item]] = packed.codes[entry]
            last[item] = row
            at[item] += 1
