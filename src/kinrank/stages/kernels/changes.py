"""Some rows of lists, diffusion and regions, computed anew in place while all others stay."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.stages.kernels.compiled import compiled
from kinrank.stages.kernels.search import _distance, comes_after


@compiled
def pair_gaps(start: Any, stop: Any, rows: Any, items: Any, vectors: Any, gaps: Any) -> None:
    """gaps[p] = |vectors[rows[p]] - vectors[items[p]]|, summed as the search sums it."""
    for pair in range(start, stop):
        gaps[pair] = _distance(vectors[rows[pair]], vectors[items[pair]])


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
def close_up(start: Any, stop: Any, lists: Any, gaps: Any, counts: Any) -> None:
    """Move what is there (>= 0) to the front of rows start..stop, in order; -1 and inf behind; how many there are."""
    for row in range(start, stop):
        size = 0
        for column in range(lists.shape[1]):
            if lists[row, column] >= 0:
                lists[row, size] = lists[row, column]
                gaps[row, size] = gaps[row, column]
                size += 1
        counts[row] = size
        for column in range(size, lists.shape[1]):
            lists[row, column] = -1
            gaps[row, column] = np.inf


@compiled
def fill_up(start: Any, stop: Any, rows: Any, near: Any, lists: Any, best: Any) -> None:
    """Close the gaps (-1) in lists[rows[p]]; what is free behind takes the nearest not yet listed, at 0.

    Where `near` ends (-1), it takes the item itself, as `resolvent_nearest` does.
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
def list_within(start: Any, stop: Any, products: Any, least: Any, starts: Any, columns: Any) -> None:
    """Those columns, from columns[starts[row]] on."""
    for row in range(start, stop):
        at = starts[row]
        for column in range(products.shape[1]):
            if products[row, column] >= least[column]:
                columns[at] = column
                at += 1


@compiled
def known_costs(
    start: Any,
    stop: Any,
    sources: Any,
    numbers: Any,
    links: Any,
    ends: Any,
    costs: Any,
    now: Any,
    to: Any,
    found: Any,
) -> None:
    """Costs of steps that were there before: found[e] of now[i]..now[i + 1] to `to`, or -1; rows start..stop.

    Row i was sources[i] before (-1: nobody), and an item that was o then is numbers[o].
    """
    for row in range(start, stop):
        source = sources[row]
        for entry in range(now[row], now[row + 1]):
            found[entry] = -1.0
            if source < 0:
                continue
            for former in range(links[source], links[source + 1]):
                if numbers[ends[former]] == to[entry]:
                    found[entry] = costs[former]
                    break


@compiled
def row_changes(
    start: Any,
    stop: Any,
    rows: Any,
    sources: Any,
    numbers: Any,
    old_starts: Any,
    old_items: Any,
    old_values: Any,
    starts: Any,
    items: Any,
    values: Any,
    change: Any,
) -> None:
    """change[row] = L1 distance of sparse row `row` from what it was, row sources[row]; for rows[start..stop].

    An item that was o before is numbers[o] now; what was at one who left (-1) counts whole.
    """
    room = np.zeros(len(starts) - 1, np.float32)
    for position in range(start, stop):
        row = rows[position]
        source = sources[row]
        total = 0.0
        for entry in range(starts[row], starts[row + 1]):
            room[items[entry]] += values[entry]
        for entry in range(old_starts[source], old_starts[source + 1]):
            item = numbers[old_items[entry]]
            if item < 0:
                total += old_values[entry]
            else:
                room[item] -= old_values[entry]
        for entry in range(starts[row], starts[row + 1]):
            total += abs(room[items[entry]])
            room[items[entry]] = 0.0
        for entry in range(old_starts[source], old_starts[source + 1]):
            item = numbers[old_items[entry]]
            if item >= 0:
                total += abs(room[item])
                room[item] = 0.0
        change[row] = total


@compiled
def reached_changes(start: Any, stop: Any, lists: Any, values: Any, moved: Any, total: Any) -> None:
    """total[i] = sum over its list of values * moved[item]; rows start..stop."""
    for row in range(start, stop):
        found = np.float32(0.0)
        for column in range(lists.shape[1]):
            found += values[row, column] * moved[lists[row, column]]
        total[row] = found


@compiled
def splice_rows(
    start: Any,
    stop: Any,
    which: Any,
    old_starts: Any,
    old_items: Any,
    old_values: Any,
    new_starts: Any,
    new_items: Any,
    new_values: Any,
    starts: Any,
    items: Any,
    values: Any,
) -> None:
    """Sparse rows start..stop: row which[i] of the new ones, or where that is -1, row i of the old ones."""
    for row in range(start, stop):
        at = starts[row]
        if which[row] >= 0:
            for entry in range(new_starts[which[row]], new_starts[which[row] + 1]):
                items[at] = new_items[entry]
                values[at] = new_values[entry]
                at += 1
        else:
            for entry in range(old_starts[row], old_starts[row + 1]):
                items[at] = old_items[entry]
                values[at] = old_values[entry]
                at += 1
