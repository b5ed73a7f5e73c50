"""Some rows of lists, diffusion and regions, computed anew in place while all others stay."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.stages.kernels.compiled import compiled
from kinrank.stages.kernels.order import comes_after
from kinrank.stages.kernels.search import _distance


@compiled
def pair_distances(start: Any, stop: Any, rows: Any, items: Any, vectors: Any, distances: Any) -> None:
    """distances[p] = |vectors[rows[p]] - vectors[items[p]]|, summed as the search sums it."""
    for pair in range(start, stop):
        distances[pair] = _distance(vectors[rows[pair]], vectors[items[pair]])


@compiled
def insert(rows: Any, items: Any, values: Any, lists: Any, best: Any) -> None:
    """Put items[p] with values[p] into lists[rows[p]], largest values first, behind the item itself in column 0."""
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


@compiled
def close_up(start: Any, stop: Any, lists: Any, distances: Any, counts: Any) -> None:
    """Move what is there (>= 0) to the front of rows start..stop, in order; -1 and inf behind; how many there are."""
    for row in range(start, stop):
        size = 0
        for column in range(lists.shape[1]):
            if lists[row, column] >= 0:
                lists[row, size] = lists[row, column]
                distances[row, size] = distances[row, column]
                size += 1
        counts[row] = size
        for column in range(size, lists.shape[1]):
            lists[row, column] = -1
            distances[row, column] = np.inf


@compiled
def fill_up(start: Any, stop: Any, rows: Any, near: Any, lists: Any, best: Any) -> None:
    """Close the holes (-1) in lists[rows[p]]; what is free behind takes the nearest not yet listed, at 0.

    Where `near` ends (-1), it takes the item itself, as `kernels.diffusion.nearest_rows` does.
    """
    k = lists.shape[1]
    for pair in range(start, stop):
        row = rows[pair]
        size = 0
        for column in range(k):
            if lists[row, column] >= 0:
                lists[row, size] = lists[row, column]
                best[row, size] = best[row, column]
                size += 1
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


@compiled
def count_within(start: Any, stop: Any, products: Any, least: Any, counts: Any) -> None:
    """counts[row] = how many columns of products[row] reach least[column]; rows start..stop."""
    for row in range(start, stop):
        count = 0
        for column in range(products.shape[1]):
            count += products[row, column] >= least[column]
        counts[row] = count


@compiled
def list_within(start: Any, stop: Any, products: Any, least: Any, indptr: Any, columns: Any) -> None:
    """Those columns, from columns[indptr[row]] on."""
    for row in range(start, stop):
        at = indptr[row]
        for column in range(products.shape[1]):
            if products[row, column] >= least[column]:
                columns[at] = column
                at += 1


@compiled
def known_prices(
    start: Any, stop: Any, sources: Any, numbers: Any, before: Any, indptr: Any, indices: Any, prices: Any
) -> None:
    """prices[e] of steps that were there before, -1 of others; rows start..stop of indptr and indices.

    Row i was sources[i] before (-1: nobody), and an item that was o then is numbers[o]; before csr.Rows, prices
    (steps,) float32.
    """
    for row in range(start, stop):
        source = sources[row]
        for entry in range(indptr[row], indptr[row + 1]):
            prices[entry] = -1.0
            if source < 0:
                continue
            for former in range(before.indptr[source], before.indptr[source + 1]):
                if numbers[before.indices[former]] == indices[entry]:
                    prices[entry] = before.data[former]
                    break


@compiled
def row_changes(
    start: Any, stop: Any, rows: Any, sources: Any, numbers: Any, before: Any, after: Any, change: Any
) -> None:
    """change[row] = L1 distance of row `row` of `after` from row sources[row] of `before`; for rows[start..stop].

    Both csr.Rows; change (n,) float32. An item that was o before is numbers[o] now; what was at one who left (-1)
    counts whole.
    """
    difference = np.zeros(len(after.indptr) - 1, np.float32)
    for position in range(start, stop):
        row = rows[position]
        source = sources[row]
        total = 0.0
        for entry in range(after.indptr[row], after.indptr[row + 1]):
            difference[after.indices[entry]] += after.data[entry]
        for entry in range(before.indptr[source], before.indptr[source + 1]):
            item = numbers[before.indices[entry]]
            if item < 0:
                total += before.data[entry]
            else:
                difference[item] -= before.data[entry]
        for entry in range(after.indptr[row], after.indptr[row + 1]):
            total += abs(difference[after.indices[entry]])
            difference[after.indices[entry]] = 0.0
        for entry in range(before.indptr[source], before.indptr[source + 1]):
            item = numbers[before.indices[entry]]
            if item >= 0:
                total += abs(difference[item])
                difference[item] = 0.0
        change[row] = total


@compiled
def weighted_sums(start: Any, stop: Any, lists: Any, values: Any, moved: Any, total: Any) -> None:
    """total[i] = sum over its list of values * moved[item]; rows start..stop.

    lists (n, k) int32, values (n, k) float32, moved (n,) float32 -> total (n,) float32.
    """
    for row in range(start, stop):
        found = np.float32(0.0)
        for column in range(lists.shape[1]):
            found += values[row, column] * moved[lists[row, column]]
        total[row] = found


@compiled
def splice_rows(start: Any, stop: Any, which: Any, old: Any, new: Any, spliced: Any) -> None:
    """Rows start..stop of `spliced`: row which[i] of the new ones, or where that is -1, row i of the old ones.

    which (n,) int64; old, new and spliced csr.Rows, of which the last has its indptr already.
    """
    for row in range(start, stop):
        at = spliced.indptr[row]
        if which[row] >= 0:
            for entry in range(new.indptr[which[row]], new.indptr[which[row] + 1]):
                spliced.indices[at] = new.indices[entry]
                spliced.data[at] = new.data[entry]
                at += 1
        else:
            for entry in range(old.indptr[row], old.indptr[row + 1]):
                spliced.indices[at] = old.indices[entry]
                spliced.data[at] = old.data[entry]
                at += 1
