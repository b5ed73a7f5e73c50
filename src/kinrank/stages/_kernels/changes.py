"""Some rows of lists, diffusion and regions, computed anew in place while all others stay."""

from __future__ import annotations

from typing import Any

from kinrank.stages._kernels.compiled import compiled
from kinrank.stages._kernels.diffusion import resolvent_nearest
from kinrank.stages._kernels.offline import region_weights
from kinrank.stages._kernels.search import _distance, comes_after


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
def fill_up(start: Any, stop: Any, rows: Any, near: Any, lists: Any, best: Any) -> None:
    """Close the gaps (-1) in lists[rows[p]]; what is free behind takes the nearest not yet listed, at 0."""
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
            if size == k:
                break
            item = near[row, column]
            there = False
            for other in range(size):
                there = there or lists[row, other] == item
            if not there:
                lists[row, size] = item
                best[row, size] = 0.0
                size += 1


@compiled
def diffused_rows(
    start: Any,
    stop: Any,
    rows: Any,
    indptr: Any,
    indices: Any,
    step: Any,
    restart: Any,
    tolerance: Any,
    near: Any,
    kin: Any,
    similar: Any,
) -> None:
    """`resolvent_nearest` for the rows named only."""
    for position in range(start, stop):
        row = rows[position]
        resolvent_nearest(row, row + 1, indptr, indices, step, restart, tolerance, near, kin, similar)


@compiled
def region_rows(start: Any, stop: Any, rows: Any, kin: Any, k1: Any, reciprocal: Any, similar: Any) -> None:
    """`region_weights` for the rows named only."""
    for position in range(start, stop):
        region_weights(rows[position], rows[position] + 1, kin, k1, reciprocal, similar)
