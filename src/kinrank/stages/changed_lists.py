"""Items that leave a gallery and items that come -> its neighbour lists, searched anew only where they must be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.neighbors import Neighbors
from kinrank.stages.kernels import changes as kernels
from kinrank.stages.kernels.compiled import in_chunks
from kinrank.stages.kernels.search import NOBODY, ROUNDING, Products
from kinrank.stages.run import chunk_of
from kinrank.stages.turnover import Numbers, Turnover

WIDE = 61  # nearest of a new item, found by a store, whose lists it may enter
ROWS = 1024  # items searched at once
OLD = 4096  # items whose inner products with ROWS new ones are computed at once

Search = Callable[[Numbers, int], Neighbors]  # items, k -> their neighbour lists, each item first in its own


def lists_after(
    near: Neighbors,
    vectors: Vectors,
    lists_of: Search,
    exact: bool,
    turnover: Turnover,
    width: int,
    least: int,
    unit: bool = True,
) -> Neighbors:
    """(n', min(width, n')) neighbours, as far as they are known without a search: at least `least` of them.

    Lists that lost entries are shorter then (-1 and inf behind), those too short are searched again, and new items
    enter wherever they are nearer than the end of a list. If the search is `exact`, so is the result; otherwise new
    items enter the lists of items among their own WIDE nearest. `unit`: the vectors have length one.
    """
    old, n = len(turnover.stay), turnover.after
    size = min(width, n)
    indices, distances = np.full((n, size), -1, np.int32), np.full((n, size), np.inf, np.float32)
    both = min(size, near.k)
    kept_items, kept_distances = (
        turnover.renumbered(near.indices[turnover.stay]),
        near.distances[turnover.stay],
    )  # copies
    counts = np.zeros(old, np.int64)
    in_chunks(kernels.close_up, old, kept_items, kept_distances, counts, chunk=4096)
    indices[:old, :both], distances[:old, :both] = kept_items[:, :both], kept_distances[:, :both]
    whole = counts == old  # these list everyone
    short = (counts < min(least, n)) & ~whole
    lists = Neighbors(indices, distances)
    searched = np.concatenate([np.flatnonzero(short), turnover.new])
    met = _search_again(lists, lists_of, exact, searched)
    if turnover.fresh and old:
        ends = np.where(whole, np.inf, kept_distances[np.arange(old), np.maximum(counts - 1, 0)])
        radius = np.where(short, -np.inf, ends)  # the short ones have met the new ones
        pairs = _within(vectors, turnover, radius, unit) if exact else _among(met, turnover, radius)
        _enter(lists, vectors, *pairs, radius)
    return lists


def _search_again(lists: Neighbors, lists_of: Search, exact: bool, rows: Numbers) -> tuple[Numbers, Numbers]:
    """Fill in these rows; if not exact also (row, item) pairs of all that was found, more than the lists hold."""
    n = len(lists.indices)
    wide = lists.k if exact else min(max(lists.k, WIDE), n)
    items = np.empty((0 if exact else len(rows), wide), np.int64)
    for start in range(0, len(rows), ROWS):
        block = rows[start : start + ROWS]
        found = lists_of(block, wide)
        lists.indices[block], lists.distances[block] = found.indices[:, : lists.k], found.distances[:, : lists.k]
        if not exact:
            items[start : start + ROWS] = found.indices
    return np.repeat(rows[: len(items)], wide), items.ravel()


def _enter(lists: Neighbors, vectors: Vectors, rows: Numbers, items: Numbers, radius: NDArray[Any]) -> None:
    """Put new items into the lists of rows whose radius holds them, where they belong."""
    order = np.argsort(rows, kind="stable")
    rows, items = rows[order], items[order]
    distances = np.empty(len(rows), np.float32)
    in_chunks(kernels.pair_distances, len(rows), rows, items, vectors, distances, chunk=4096)
    inside = distances < radius[rows]
    lists.indices[lists.indices < 0] = NOBODY
    np.negative(lists.distances, out=lists.distances)
    kernels.insert(rows[inside], items[inside], -distances[inside], lists.indices, lists.distances)
    np.negative(lists.distances, out=lists.distances)
    lists.indices[lists.indices == NOBODY] = -1


def _among(met: tuple[Numbers, Numbers], turnover: Turnover, radius: NDArray[Any]) -> tuple[Numbers, Numbers]:
    """(old, new) pairs of which the new one found the old, and whose old one takes new ones."""
    new, old = met
    count = len(turnover.stay)
    good = (new >= count) & (old >= 0) & (old < count)
    good[good] = radius[old[good]] >= 0
    return old[good], new[good]


def _within(vectors: Vectors, turnover: Turnover, radius: NDArray[Any], unit: bool) -> tuple[Numbers, Numbers]:
    """(old, new) pairs that are about as near as the radius of the old one, or nearer."""
    products = Products(vectors, vectors, unit)
    far = np.maximum(radius.astype(np.float64), 0.0)
    rounding = 2.0 * ROUNDING if unit else 2.0 * products.rounding(np.append(far, np.zeros(turnover.fresh)))[: len(far)]
    least = products.top - 0.5 * (far**2 + rounding)
    least[radius < 0] = np.inf
    least = least.astype(np.float32)
    rows, items = [], []
    for start in range(0, turnover.fresh, ROWS):
        new = turnover.new[start : start + ROWS]
        for first in range(0, len(turnover.stay), OLD):
            columns = slice(first, min(first + OLD, len(turnover.stay)))
            block, bound = products.block(new, columns), least[columns]
            counts = np.zeros(len(new), np.int64)
            in_chunks(kernels.count_within, len(new), block, bound, counts, chunk=chunk_of(len(new), 8))
            indptr = np.concatenate([[0], np.cumsum(counts)])
            row = np.empty(int(indptr[-1]), np.int64)
            in_chunks(kernels.list_within, len(new), block, bound, indptr, row, chunk=chunk_of(len(new), 8))
            rows.append(row + first)
            items.append(np.repeat(new, counts))
    return np.concatenate(rows), np.concatenate(items)
