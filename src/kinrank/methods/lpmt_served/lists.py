"""Items that leave a gallery and items that come -> its neighbour lists, searched anew only where they must be."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.methods.served import Gallery, Numbers, Turnover
from kinrank.neighbors import Neighbors
from kinrank.stages.online import chunk_of

WIDE = 61  # nearest of a new item, found by a store, whose lists it may enter
NEW, OLD = 1024, 4096  # inner products at once
BLOCK = 1024  # rows searched at once


def lists_after(near: Neighbors, gallery: Gallery, turn: Turnover, width: int, least: int) -> Neighbors:
    """(n', min(width, n')) neighbours, as far as they are known without a search: at least `least` of them.

    Lists that lost entries are shorter then (-1 and inf behind), those too short are searched again, and new items
    enter wherever they are nearer than the end of a list. In an exact gallery the result is exact; with a store, new
    items enter the lists of items among their own WIDE nearest.
    """
    from kinrank.stages.kernels import changes as kernels
    from kinrank.stages.kernels.compiled import in_chunks

    old, n = len(turn.stay), turn.after
    size = min(width, n)
    indices, gaps = np.full((n, size), -1, np.int32), np.full((n, size), np.inf, np.float32)
    both = min(size, near.k)
    moved, distances = turn.renumbered(near.indices[turn.stay]), near.distances[turn.stay]  # copies
    counts = np.zeros(old, np.int64)
    in_chunks(kernels.close_up, old, moved, distances, counts, chunk=4096)
    indices[:old, :both], gaps[:old, :both] = moved[:, :both], distances[:, :both]
    whole = counts == old  # these list everyone
    short = (counts < min(least, n)) & ~whole
    lists = Neighbors(indices, gaps)
    met = _search_again(lists, gallery, np.concatenate([np.flatnonzero(short), turn.new]))
    if turn.fresh and old:
        reach = np.where(whole, np.inf, distances[np.arange(old), np.maximum(counts - 1, 0)])
        open_to = np.where(short, -np.inf, reach)  # the short ones have met the new ones
        pairs = _within(gallery.vectors, turn, open_to) if gallery.exact else _among(met, turn, open_to)
        _enter(lists, gallery.vectors, *pairs, open_to)
    return lists


def _search_again(lists: Neighbors, gallery: Gallery, rows: Numbers) -> tuple[Numbers, Numbers]:
    """Fill in these rows; with a store also (row, item) pairs of all that it found, more than the lists hold."""
    wide = lists.k if gallery.exact else min(max(lists.k, WIDE), len(gallery))
    items = np.empty((0 if gallery.exact else len(rows), wide), np.int64)
    for start in range(0, len(rows), BLOCK):
        some = rows[start : start + BLOCK]
        found = gallery.lists_of(some, wide)
        lists.indices[some], lists.distances[some] = (
            found.indices[:, : lists.k],
            found.distances[:, : lists.k],
        )
        if not gallery.exact:
            items[start : start + BLOCK] = found.indices
    return np.repeat(rows[: len(items)], wide), items.ravel()


def _enter(lists: Neighbors, vectors: Vectors, rows: Numbers, items: Numbers, reach: NDArray[Any]) -> None:
    """Put new items into the lists of rows that reach at least so far, where they belong."""
    from kinrank.stages.kernels import changes as kernels
    from kinrank.stages.kernels.compiled import in_chunks

    order = np.argsort(rows, kind="stable")
    rows, items = rows[order], items[order]
    gaps = np.empty(len(rows), np.float32)
    in_chunks(kernels.pair_gaps, len(rows), rows, items, vectors, gaps, chunk=4096)
    inside = gaps < reach[rows]
    nobody = np.iinfo(np.int32).max
    lists.indices[lists.indices < 0] = nobody
    np.negative(lists.distances, out=lists.distances)
    kernels.insert(rows[inside], items[inside], -gaps[inside], lists.indices, lists.distances)
    np.negative(lists.distances, out=lists.distances)
    lists.indices[lists.indices == nobody] = -1


def _among(met: tuple[Numbers, Numbers], turn: Turnover, reach: NDArray[Any]) -> tuple[Numbers, Numbers]:
    """(old, new) pairs of which the new one found the old, and which the old one is open to."""
    new, old = met
    count = len(turn.stay)
    good = (new >= count) & (old >= 0) & (old < count)
    good[good] = reach[old[good]] >= 0
    return old[good], new[good]


def _within(vectors: Vectors, turn: Turnover, reach: NDArray[Any]) -> tuple[Numbers, Numbers]:
    """(old, new) pairs that are about as near as `reach` of the old one, or nearer."""
    from kinrank.stages.kernels import changes as kernels
    from kinrank.stages.kernels.compiled import in_chunks
    from kinrank.stages.kernels.search import ROUNDING

    least = 1.0 - 0.5 * (np.where(reach < 0, -2.0, reach.astype(np.float64) ** 2) + 2 * ROUNDING)
    least[reach < 0] = np.inf
    least = least.astype(np.float32)
    rows, items = [], []
    for start in range(0, turn.fresh, NEW):
        new = turn.new[start : start + NEW]
        ours = vectors[new]
        for first in range(0, len(turn.stay), OLD):
            columns = slice(first, min(first + OLD, len(turn.stay)))
            products, bound = ours @ vectors[columns].T, least[columns]
            counts = np.zeros(len(new), np.int64)
            in_chunks(kernels.count_within, len(new), products, bound, counts, chunk=chunk_of(len(new), 8))
            starts = np.concatenate([[0], np.cumsum(counts)])
            row = np.empty(int(starts[-1]), np.int64)
            in_chunks(kernels.list_within, len(new), products, bound, starts, row, chunk=chunk_of(len(new), 8))
            rows.append(row + first)
            items.append(np.repeat(new, counts))
    return np.concatenate(rows), np.concatenate(items)
