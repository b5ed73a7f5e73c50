"""Update of lists, graph, diffusion, states and prices after items were added or removed.

Only what changes is computed again. Neighbour lists and graph are updated exactly, the rest where it matters:

    rows of F   if the graph around them changed:   sum_j F_ij |a S'_j - a S_j|_1 / (1 - a)  exceeds
                BOUND_SLACK tolerances
    states      if the rows they average changed by more than the tolerance, or they average other rows
    prices      of new steps, and of steps with an end whose state moved by more than the tolerance
    wide states of items with a new state or with mass on a removed item; others follow at the next `refresh`

Changes are L1, of mass 1. Changes below the tolerance are added up per item in `UpdateRecord.drift`, so that many small
ones are followed as well. An old item that a new one reaches gets its F with the new one without a diffusion of its
own, because F is symmetric. With a tolerance of 0 every row is solved, and the result is that of
`pipeline.prepare_graph` with the same powers and graph weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from kinrank.neighbors import Neighbors
from kinrank.stages import diffusion, gaussian_graph, states, step_costs
from kinrank.stages.diffusion import DiffusedLists
from kinrank.stages.item_change import ItemChange, Numbers
from kinrank.stages.kernels.compiler import choose_chunk_rows, compile_inner, compile_kernel, run_in_chunks
from kinrank.stages.kernels.data_structures import comes_after
from kinrank.stages.kernels.nearest_search import NO_ITEM, PRODUCT_ROUNDING, ProductBlocks, exact_distance
from kinrank.stages.lpmt_settings import LpmtSettings
from kinrank.stages.pipeline import ListSizes, LpmtGraph, UpdateRecord, transport_settings
from kinrank.stages.sparse_rows import Pattern, Rows
from kinrank.stages.states import ConfidentLists, PackedRows
from kinrank.vector_input import Vectors

# L1 change of a state, or of the states of a step, that is not followed. Measured against rebuilds with the same powers
# after one to four changes of up to 4 of 100 items: 9.6 of the 10 best agree and d* differs by 0.06 on average (in the
# worst of 40 sequences 9.1 and 0.11). After four changes of 1 % on published sets of thousands of items: 9.6 to 9.9.
TOLERANCE = 0.3
MAX_LOCAL_SHARE = 0.05  # share of changed items above which everything is solved again
BOUND_SLACK = 5.0  # before a row is solved only a bound of its change is known, which is much larger

F_DRIFT, STATE_DRIFT, PRICE_DRIFT = 0, 1, 2  # columns of `UpdateRecord.drift`
STORE_NEIGHBORS = 61  # a new item may enter the lists of so many nearest items that a store returns
ITEMS_PER_SEARCH = 1024
OLD_ITEMS_PER_BLOCK = 4096  # old items whose inner products with ITEMS_PER_SEARCH new ones are computed together

NeighborSearch = Callable[[Numbers, int], Neighbors]  # items, k -> their lists, each starting with the item


class ChangedGallery(NamedTuple):
    """A gallery after a change.

    Attributes:
        change: the items that remain and the number of new ones.
        vectors: (n', d) those of the remaining items, then of the new ones.
        lists_of: search among these vectors.
        exact: the search is exact.
        unit: the vectors have length one.
    """

    change: ItemChange
    vectors: Vectors
    lists_of: NeighborSearch
    exact: bool
    unit: bool = True


def update_graph(
    before: LpmtGraph[PackedRows], gallery: ChangedGallery, settings: LpmtSettings, tolerance: float | None = None
) -> LpmtGraph[PackedRows]:
    """Return the graph after a change; `before` must have its record.

    `tolerance` None: TOLERANCE, or 0 if many items were added or removed at once.
    """
    assert before.record is not None
    old, change = before.record.unpack(), gallery.change
    if tolerance is None:
        tolerance = TOLERANCE if change.moved <= MAX_LOCAL_SHARE * change.after else 0.0
    widths = ListSizes.of(settings)
    near = update_lists(old.near, gallery, widths.kept, widths.needed if tolerance else widths.kept)
    lengths = gaussian_graph.kernel_lengths(near, settings.k)
    layers = gaussian_graph.build_layers(near, lengths, gaussian_graph.LayerSettings(settings.k, settings.sigma))
    graph = diffusion.build_diffusion_graph(layers, old.beta, settings.mu)
    del layers
    drift = np.zeros((change.after, 3), np.float32)
    drift[: len(change.stay)] = old.drift[change.stay]
    shape = change.after, min(widths.diffused, change.after)
    record = UpdateRecord(near, np.empty(shape, np.int32), np.empty(shape, np.float32), graph, old.beta, drift)
    same_width = (old.nearest.shape[1], old.near.k) == (record.nearest.shape[1], near.k)
    if not same_width or not len(change.stay):  # small galleries: list lengths changed
        tolerance = 0.0
    return _Update(before, old, record, gallery, settings, tolerance).run(lengths)


@dataclass(frozen=True, eq=False)
class _Update:
    """One update: the graph before and its record, the record to fill, the gallery, settings and tolerance."""

    before: LpmtGraph[PackedRows]
    old: UpdateRecord
    record: UpdateRecord
    gallery: ChangedGallery
    settings: LpmtSettings
    tolerance: float

    def run(self, lengths: NDArray[np.float64]) -> LpmtGraph[PackedRows]:
        """Update diffusion, states, wide states and prices; lists and graph of the record are given."""
        before, record, change, settings = self.before, self.record, self.gallery.change, self.settings
        share, diffused = before.powers.share, record.diffused
        touched = self._update_diffusion()
        confident = states.confident_lists(
            record.near.indices, record.nearest, settings.answer_values.k2, settings.kappa, share
        )
        former, truncated = _renumber_states(before.states.unpack(), change)
        outdated = np.arange(change.after)
        if self.tolerance:
            outdated = self._find_outdated_states(touched, confident, truncated)
        averaged = confident.select(outdated)
        needed = np.unique(averaged.items).astype(np.int64)
        fresh = states.locality_states(averaged, diffused, settings.k1, settings.support, needed)
        record.drift[outdated, STATE_DRIFT] = 0.0
        embedded = _splice_states(former, fresh, outdated)
        pattern = step_costs.build_step_pattern(record.nearest, settings.path_k)
        moved = _measure_row_changes(former, embedded, outdated, Numbering.unchanged(change.after))
        steps = Rows(*pattern, self._update_prices(pattern, embedded, moved))
        wide = states.empty_states(change.after)
        if before.powers.direct:
            wide = self._update_wide_states(embedded, outdated)
        return LpmtGraph(self.gallery.vectors, embedded, steps, wide, lengths, before.powers, record).pack()

    def _update_diffusion(self) -> Numbers:
        """Fill `nearest` and `similar` of the record; return the items whose rows changed."""
        old, record, change, settings = self.old, self.record, self.gallery.change, self.settings
        count = len(change.stay)
        nearest, similar = record.diffused
        touched = np.zeros(change.after, np.bool_)
        if self.tolerance == 0:
            rows = np.arange(change.after)
        else:
            nearest[:count], similar[:count] = change.renumber(change.of(old.nearest)), change.of(old.similar)
            holes = np.flatnonzero((nearest[:count] < 0).any(axis=1)) if count < change.before else np.arange(0)
            touched[holes] = True
            record.drift[holes, F_DRIFT] += np.where(nearest[holes] < 0, similar[holes], 0.0).sum(axis=1)
            run_in_chunks(fill_gaps, len(holes), holes, record.near.indices, nearest, similar, chunk=256)
            moved = _measure_row_changes(old.graph, record.graph, np.arange(count), Numbering.of(change))
            bound = np.einsum("ij,ij->i", similar[:count], moved[nearest[:count]])
            record.drift[:count, F_DRIFT] += bound * np.float32((1.0 + settings.mu) / settings.mu)
            # rows whose steps follow the distance, because F reaches too few items
            few = np.flatnonzero(similar[:count, min(settings.path_k, nearest.shape[1] - 1)] == 0)
            other = change.renumber(old.near.indices[change.stay[few]]) != record.near.indices[few]
            solve = record.drift[:count, F_DRIFT] > BOUND_SLACK * self.tolerance
            solve[few[other.any(axis=1)]] = True
            rows = np.concatenate([np.flatnonzero(solve), change.new])
        spread = diffusion.Spread.over(record.graph, settings.mu, settings.tolerance)
        diffusion.update_nearest_rows(rows, spread, record.near.indices, record.diffused)
        record.drift[rows, F_DRIFT] = 0.0
        solved = np.zeros(change.after, np.bool_)
        solved[rows] = True
        others, values = nearest[change.new], similar[change.new]
        at, column = np.nonzero((values > 0) & ~solved[others])
        receivers = others[at, column].astype(np.int64)
        insert_entries(receivers, change.new[at], values[at, column], nearest, similar)
        touched[rows] = touched[receivers] = True
        return np.flatnonzero(touched)

    def _find_outdated_states(
        self, touched: Numbers, confident: ConfidentLists, truncated: NDArray[np.bool_]
    ) -> Numbers:
        """Return the items whose states must be averaged again: their rows changed, or they average other rows."""
        old, record, change, k2 = self.old, self.record, self.gallery.change, self.settings.answer_values.k2
        count = len(change.stay)
        rows = touched[touched < count]
        moved = _measure_row_changes(
            _rows_from_lists(old.diffused), _rows_from_lists(record.diffused), rows, Numbering.of(change)
        )
        moved[rows] /= np.maximum(record.similar[rows].sum(axis=1), 1e-30)
        moved[count:] = 2.0
        forced = truncated.copy()
        forced[count:] = True
        lists = [(old.near.indices, record.near.indices)]
        if self.before.powers.share > 0:
            lists.append((old.nearest, record.nearest))
        for was, new in lists:
            first, last = change.renumber(change.of(was[:, :k2])), new[:count, :k2]
            other = np.flatnonzero((first != last).any(axis=1))
            forced[other] |= (np.sort(first[other], axis=1) != np.sort(last[other], axis=1)).any(axis=1)
        record.drift[:, STATE_DRIFT] += np.einsum("ij,ij->i", confident.weights, moved[confident.items])
        return np.flatnonzero(forced | (record.drift[:, STATE_DRIFT] > self.tolerance))

    def _update_prices(self, pattern: Pattern, embedded: Rows, moved: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the prices of all steps, reusing those between two ends whose states hardly `moved`."""
        change, vectors, drift = self.gallery.change, self.gallery.vectors, self.record.drift
        transport = transport_settings(self.settings, self.before.powers, self.gallery.unit)
        n, indices = change.after, pattern.indices
        drift[:, PRICE_DRIFT] += moved
        outdated = drift[:, PRICE_DRIFT] >= self.tolerance
        outdated[len(change.stay) :] = True
        origins = np.repeat(np.arange(n, dtype=np.int32), np.diff(pattern.indptr))
        wanted = outdated[origins] | outdated[indices]
        prices = np.zeros(len(indices), np.float32)
        if not wanted.all():
            sources = np.full(n, -1, np.int64)
            sources[: len(change.stay)] = change.stay
            arguments = Numbering(sources, change.numbers), self.before.steps, Rows(*pattern, prices)
            run_in_chunks(copy_known_prices, n, *arguments, chunk=choose_chunk_rows(n))
            wanted |= prices < 0
        drift[outdated, PRICE_DRIFT] = 0.0
        if wanted.all():
            return step_costs.price_steps(pattern, embedded, vectors, transport)
        few = np.flatnonzero(wanted & (origins < indices))
        low, high = origins[few], indices[few]
        sources = np.where(outdated[high], high, low)  # steps from one source are solved together
        prices[few] = step_costs.price_pairs(sources, low + high - sources, embedded, vectors, transport)
        step_costs.mirror_prices(pattern, prices)
        return prices

    def _update_wide_states(self, embedded: Rows, outdated: Numbers) -> Rows:
        """Recompute wide states of items with a new state or with mass on a removed item."""
        former, truncated = _renumber_states(self.before.wide.unpack(), self.gallery.change)
        truncated[outdated] = True
        rows = np.flatnonzero(truncated)
        direct = self.before.powers.direct
        fresh = states.build_wide_states(rows, self.record.graph, embedded, self.settings, direct)
        return _splice_states(former, fresh, rows)


class Numbering(NamedTuple):
    """Items before and after a change: item i was sources[i] (int64, -1: new), and item o is numbers[o] (int32) now."""

    sources: Numbers
    numbers: NDArray[np.int32]

    @classmethod
    def of(cls, change: ItemChange) -> Numbering:
        """Return the numbers of the remaining items."""
        return cls(change.stay, change.numbers)

    @classmethod
    def unchanged(cls, n: int) -> Numbering:
        """Return the numbers of n items that all remain."""
        return cls(np.arange(n), np.append(np.arange(n, dtype=np.int32), np.int32(-1)))


def _measure_row_changes(before: Rows, after: Rows, rows: Numbers, numbering: Numbering) -> NDArray[np.float32]:
    """Return (n',) the L1 change of these rows, 0 for all others; mass on a removed item counts fully."""
    n = len(after.indptr) - 1
    change = np.zeros(n, np.float32)
    former = _to_matrix(before, len(numbering.numbers))[numbering.sources[rows]]
    items = numbering.numbers[former.indices]
    items[items < 0] = n  # a column of its own for removed items
    was = _to_matrix(Rows(former.indptr, items, former.data), n + 1)
    change[rows] = abs(_to_matrix(after, n + 1)[rows] - was).sum(axis=1)
    return change


def _to_matrix(rows: Rows, width: int) -> csr_array:
    """Return the (n, width) matrix with these rows."""
    return csr_array((rows.data, rows.indices, rows.indptr), shape=(len(rows.indptr) - 1, width))


def _rows_from_lists(lists: DiffusedLists) -> Rows:
    """Convert (n, k) lists to sparse rows."""
    n, width = lists.nearest.shape
    return Rows(np.arange(n + 1, dtype=np.int64) * width, lists.nearest.reshape(-1), lists.similar.reshape(-1))


def _renumber_states(before: Rows, change: ItemChange) -> tuple[Rows, NDArray[np.bool_]]:
    """Return old states with new numbers, empty for new items, and a mask of states with mass on a removed item."""
    truncated = np.zeros(change.after, np.bool_)
    count = len(change.stay)
    sizes = np.zeros(change.after, np.int64)
    sizes[:count] = np.diff(before.indptr)[change.stay]
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    if count == change.before:
        return Rows(indptr, before.indices, before.data), truncated
    entries = np.arange(int(indptr[-1])) + np.repeat(before.indptr[change.stay] - indptr[:count], sizes[:count])
    items, data = change.renumber(before.indices[entries]), before.data[entries]
    truncated[np.repeat(np.arange(count), sizes[:count])[items < 0]] = True
    return Rows(indptr, np.maximum(items, 0), np.where(items < 0, np.float32(0), data)), truncated


def _splice_states(former: Rows, fresh: Rows, rows: Numbers) -> Rows:
    """Replace some rows of the former states."""
    n = len(former.indptr) - 1
    which = np.arange(n)
    which[rows] = n + np.arange(len(rows))
    indptr = np.concatenate([former.indptr, former.indptr[-1] + fresh.indptr[1:]])
    both = Rows(indptr, *(np.concatenate(parts) for parts in zip(former[1:], fresh[1:], strict=True)))
    spliced = _to_matrix(both, n)[which]
    return Rows(spliced.indptr.astype(np.int64), spliced.indices, spliced.data)


def update_lists(near: Neighbors, gallery: ChangedGallery, width: int, least: int) -> Neighbors:
    """Return (n', min(width, n')) neighbour lists, at least `least` entries each, with as few searches as possible.

    Lists that lost entries become shorter (padded with -1 and inf), lists that are too short are searched again, and
    new items enter wherever they are nearer than the end of a list. If the search is exact, so is the result; otherwise
    new items enter the lists of items among their own STORE_NEIGHBORS nearest.
    """
    change = gallery.change
    old, n = len(change.stay), change.after
    size = min(width, n)
    indices, distances = np.full((n, size), -1, np.int32), np.full((n, size), np.inf, np.float32)
    both = min(size, near.k)
    # indexing copies both, so the kernel may change them
    kept_items, kept_distances = change.renumber(near.indices[change.stay]), near.distances[change.stay]
    counts = np.zeros(old, np.int64)
    run_in_chunks(remove_gaps, old, kept_items, kept_distances, counts, chunk=4096)
    indices[:old, :both], distances[:old, :both] = kept_items[:, :both], kept_distances[:, :both]
    whole = counts == old  # these list all items
    short = (counts < min(least, n)) & ~whole
    lists = Neighbors(indices, distances)
    searched = np.concatenate([np.flatnonzero(short), change.new])
    hits = _search_rows(lists, gallery, searched)
    if change.fresh and old:
        ends = np.where(whole, np.inf, kept_distances[np.arange(old), np.maximum(counts - 1, 0)])
        radius = np.where(short, -np.inf, ends)  # the short lists were searched with the new items
        pairs = _pairs_within_radius(gallery, radius) if gallery.exact else _pairs_found_by_new(hits, change, radius)
        _insert_new_items(lists, gallery.vectors, *pairs, radius)
    return lists


def _search_rows(lists: Neighbors, gallery: ChangedGallery, rows: Numbers) -> tuple[Numbers, Numbers]:
    """Search these rows again. If not exact, also return (row, item) pairs of all hits, more than the lists hold."""
    n, exact = len(lists.indices), gallery.exact
    wide = lists.k if exact else min(max(lists.k, STORE_NEIGHBORS), n)
    items = np.empty((0 if exact else len(rows), wide), np.int64)
    for start in range(0, len(rows), ITEMS_PER_SEARCH):
        block = rows[start : start + ITEMS_PER_SEARCH]
        result = gallery.lists_of(block, wide)
        lists.indices[block], lists.distances[block] = result.indices[:, : lists.k], result.distances[:, : lists.k]
        if not exact:
            items[start : start + ITEMS_PER_SEARCH] = result.indices
    return np.repeat(rows[: len(items)], wide), items.ravel()


def _insert_new_items(lists: Neighbors, vectors: Vectors, rows: Numbers, items: Numbers, radius: NDArray[Any]) -> None:
    """Insert new items, in order, into the lists of rows whose radius contains them."""
    order = np.argsort(rows, kind="stable")
    rows, items = rows[order], items[order]
    distances = np.empty(len(rows), np.float32)
    run_in_chunks(measure_pairs, len(rows), rows, items, vectors, distances, chunk=4096)
    inside = distances < radius[rows]
    lists.indices[lists.indices < 0] = NO_ITEM
    np.negative(lists.distances, out=lists.distances)
    insert_entries(rows[inside], items[inside], -distances[inside], lists.indices, lists.distances)
    np.negative(lists.distances, out=lists.distances)
    lists.indices[lists.indices == NO_ITEM] = -1


def _pairs_found_by_new(
    hits: tuple[Numbers, Numbers], change: ItemChange, radius: NDArray[Any]
) -> tuple[Numbers, Numbers]:
    """Return the (old, new) pairs in which the new item's search returned the old one, and the old list is open."""
    new, old = hits
    count = len(change.stay)
    good = (new >= count) & (old >= 0) & (old < count)
    good[good] = radius[old[good]] >= 0
    return old[good], new[good]


def _pairs_within_radius(gallery: ChangedGallery, radius: NDArray[Any]) -> tuple[Numbers, Numbers]:
    """Return the (old, new) pairs whose distance is at most about the radius of the old item."""
    change, unit = gallery.change, gallery.unit
    products = ProductBlocks(gallery.vectors, gallery.vectors, unit)
    far = np.maximum(radius.astype(np.float64), 0.0)
    rounding = (
        2.0 * PRODUCT_ROUNDING if unit else 2.0 * products.rounding(np.append(far, np.zeros(change.fresh)))[: len(far)]
    )
    least = products.top - 0.5 * (far**2 + rounding)
    least[radius < 0] = np.inf
    least = least.astype(np.float32)
    rows, items = [], []
    for start in range(0, change.fresh, ITEMS_PER_SEARCH):
        new = change.new[start : start + ITEMS_PER_SEARCH]
        for first in range(0, len(change.stay), OLD_ITEMS_PER_BLOCK):
            columns = slice(first, min(first + OLD_ITEMS_PER_BLOCK, len(change.stay)))
            block, bound = products.block(new, columns), least[columns]
            item, row = np.nonzero(block >= bound)
            rows.append(row + first)
            items.append(new[item])
    return np.concatenate(rows), np.concatenate(items)


@compile_kernel
def measure_pairs(start: Any, stop: Any, rows: Any, items: Any, vectors: Any, distances: Any) -> None:
    """Write distances[p] = |vectors[rows[p]] - vectors[items[p]]|, summed in the order of the search."""
    for pair in range(start, stop):
        distances[pair] = exact_distance(vectors[rows[pair]], vectors[items[pair]])


@compile_kernel
def insert_entries(rows: Any, items: Any, values: Any, lists: Any, best: Any) -> None:
    """Insert items[p] with values[p] into lists[rows[p]], largest values first, after the item itself in column 0."""
    for pair in range(len(rows)):
        row, item, value = rows[pair], items[pair], values[pair]
        at = lists.shape[1]
        while at > 1 and comes_after(best[row, at - 1], lists[row, at - 1], value, item):
            at -= 1
        for column in range(lists.shape[1] - 1, at, -1):
            lists[row, column] = lists[row, column - 1]
            best[row, column] = best[row, column - 1]
        if at < lists.shape[1]:
            lists[row, at] = item
            best[row, at] = value


@compile_inner
def _close_gaps(items: Any, values: Any) -> Any:
    """Move the entries >= 0 of a list to its front, in order; return their number."""
    size = 0
    for column in range(len(items)):
        if items[column] >= 0:
            items[size] = items[column]
            values[size] = values[column]
            size += 1
    return size


@compile_kernel
def remove_gaps(start: Any, stop: Any, lists: Any, distances: Any, counts: Any) -> None:
    """Move entries >= 0 to the front of rows start..stop, in order; pad with -1 and inf; write how many there are."""
    for row in range(start, stop):
        size = _close_gaps(lists[row], distances[row])
        counts[row] = size
        for column in range(size, lists.shape[1]):
            lists[row, column] = -1
            distances[row, column] = np.inf


@compile_kernel
def fill_gaps(start: Any, stop: Any, rows: Any, near: Any, lists: Any, best: Any) -> None:
    """Close the gaps (-1) in lists[rows[p]]; free entries at the end take the nearest items not yet listed, at 0.

    If `near` ends (-1), they take the item itself, as in `diffusion.nearest_rows`.
    """
    k = lists.shape[1]
    for pair in range(start, stop):
        row = rows[pair]
        size = _close_gaps(lists[row], best[row])
        for column in range(near.shape[1]):
            item = near[row, column]
            if size == k or item < 0:
                break
            there = False
            for other in range(size):
                there = there or lists[row, other] == item
            if not there:
                lists[row, size] = item
                best[row, size] = 0.0
                size += 1
        for column in range(size, k):
            lists[row, column] = row
            best[row, column] = 0.0


@compile_kernel
def copy_known_prices(start: Any, stop: Any, numbering: Any, before: Any, steps: Any) -> None:
    """Write the prices of steps that existed before, -1 for others; rows start..stop; Numbering, Rows, Rows."""
    for row in range(start, stop):
        source = numbering.sources[row]
        for entry in range(steps.indptr[row], steps.indptr[row + 1]):
            steps.data[entry] = -1.0
            if source < 0:
                continue
            for former in range(before.indptr[source], before.indptr[source + 1]):
                if numbering.numbers[before.indices[former]] == steps.indices[entry]:
                    steps.data[entry] = before.data[former]
                    break
