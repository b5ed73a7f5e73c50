"""A gallery or a store -> neighbour lists: exact in blocks, or whatever the store finds, tidied."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.features import Vectors, check, unit
from kinrank.manifold.snapshot import Snapshot
from kinrank.neighbors import Neighbors, nearest, pairwise
from kinrank.progress import Progress
from kinrank.stores import Store

BLOCK = 1024  # rows searched at once


def gallery_of(gallery_or_store: ArrayLike | Store) -> Vectors:
    """The whole gallery as unit rows; a store is asked for its vectors block by block."""
    if not isinstance(gallery_or_store, Store):
        return _unit_blocks(check(gallery_or_store, "gallery"))
    if not isinstance(gallery_or_store, Sized):
        raise ValueError("this store does not tell how many vectors it holds; give it a __len__, or pass its vectors")
    name = "vectors of the store"
    count = len(gallery_or_store)
    rows: Vectors | None = None
    for start in range(0, count, BLOCK):
        numbers = np.arange(start, min(start + BLOCK, count))
        block = unit(check(gallery_or_store.vectors(numbers), name, None if rows is None else rows.shape[1]), name)
        if rows is None:
            rows = np.empty((count, block.shape[1]), np.float32)
        rows[numbers] = block
    if rows is None:
        return check(gallery_or_store.vectors(np.arange(0)), name)
    return rows


def _unit_blocks(gallery: Vectors) -> Vectors:
    """`unit`, block by block: it takes several times its input."""
    if not gallery.any(axis=1).all():
        return unit(gallery, "gallery")  # refuses the zero row, by its number
    rows = np.empty_like(gallery)
    for start in range(0, len(gallery), BLOCK):
        rows[start : start + BLOCK] = unit(gallery[start : start + BLOCK])
    return rows


def gallery_lists(vectors: Vectors, store: Store | None, k: int, progress: Progress) -> Neighbors:
    """(n, min(k, n)) neighbours of every item, itself first, from the store or by exact search."""
    n = len(vectors)
    k = min(k, n)
    indices, distances = np.empty((n, k), np.int32), np.empty((n, k), np.float32)
    blocks = [np.arange(start, min(start + BLOCK, n)) for start in range(0, n, BLOCK)]
    for block in progress.each("neighbours", blocks, len(blocks)):
        lists = block_lists(vectors, store, k, block)
        indices[block], distances[block] = lists.indices, lists.distances
    return Neighbors(indices, distances)


def block_lists(vectors: Vectors, store: Store | None, k: int, block: NDArray[np.int64]) -> Neighbors:
    """The rows of `gallery_lists` that belong to the items of a block; k is at most n."""
    n = len(vectors)
    if store is None:
        return nearest(vectors[block], vectors, k, own=block)
    ranking = store.search(vectors[block], min(k + 1, n))
    lists = tidied(ranking.indices, ranking.distances, k, block, n)
    short = np.flatnonzero(lists.indices[:, -1] < 0)
    if len(short):  # an approximate index found too few: search these exactly
        exact = nearest(vectors[block[short]], vectors, k, own=block[short])
        lists.indices[short], lists.distances[short] = exact.indices, exact.distances
    return lists


def found_by(snapshot: Snapshot, queries: Vectors, k: int) -> Neighbors:
    """(q, min(k, n)) nearest items of queries, rows padded with -1 where the store found fewer."""
    k = min(k, len(snapshot))
    if snapshot.store is None:
        return nearest(queries, snapshot.vectors, k)
    ranking = snapshot.store.search(queries, k)
    return tidied(ranking.indices, ranking.distances, k, None, len(snapshot))


def rank_of(query: Vectors, vectors: Vectors, item: int) -> int:
    """The place of an item in an exact search of one query (1, d), from 1; ties go to the lower number."""
    mine = pairwise(query, vectors[item : item + 1])[0, 0]
    place = 1
    for start in range(0, len(vectors), BLOCK):
        gaps = pairwise(query, vectors[start : start + BLOCK])[0]
        numbers = np.arange(start, start + len(gaps))
        place += int(((gaps < mine) | ((gaps == mine) & (numbers < item)))[numbers != item].sum())
    return place


def _tidy(indices: NDArray[Any], distances: NDArray[Any], k: int) -> bool:
    """Whether nothing is left to do: k items each, ascending by distance, then by number, none twice."""
    if indices.shape[1] != k or not k or int(indices.min(initial=0)) < 0 or float(distances[:, 0].min(initial=0)) < 0:
        return False
    step, ahead = np.diff(distances, axis=1), np.diff(indices, axis=1)
    ascending = bool(((step > 0) | ((step == 0) & (ahead > 0))).all())
    return ascending and bool(np.isfinite(distances[:, -1]).all()) and not bool((np.diff(np.sort(indices)) == 0).any())


def tidied(
    indices: NDArray[np.int64], distances: NDArray[np.float32], k: int, own: NDArray[np.int64] | None, n: int
) -> Neighbors:
    """What a store found, as lists: in order, each item once, `own` first at distance 0, -1 and inf behind.

    Approximate indexes pad with -1, and may list an item twice, out of order, or not at all.
    """
    if indices.size and int(indices.max()) >= n:
        raise ValueError(f"the store found item {int(indices.max())} but the manifold holds {n}; give the same items")
    if own is None and _tidy(indices, distances, k):
        return Neighbors(indices.astype(np.int32), distances.astype(np.float32))
    numbers = indices.astype(np.int64)
    gaps = np.maximum(distances.astype(np.float32), 0.0)  # a copy; rounding may leave a little below 0
    gaps[(numbers < 0) | ~np.isfinite(gaps)] = np.inf
    if own is not None:
        gaps[numbers == own[:, None]] = np.inf
        numbers = np.concatenate([own[:, None], numbers], axis=1)
        gaps = np.concatenate([np.full((len(own), 1), -1.0, np.float32), gaps], axis=1)
    order = np.lexsort((numbers, gaps), axis=1)
    numbers, gaps = np.take_along_axis(numbers, order, axis=1), np.take_along_axis(gaps, order, axis=1)
    by_number = np.argsort(numbers, axis=1, kind="stable")  # of equal numbers the nearest stays first
    ordered = np.take_along_axis(numbers, by_number, axis=1)
    again = np.zeros(numbers.shape, np.bool_)
    np.put_along_axis(again, by_number[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
    gaps[again] = np.inf
    numbers[np.isinf(gaps)] = -1
    order = np.argsort(gaps, axis=1, kind="stable")[:, :k]
    numbers, gaps = np.take_along_axis(numbers, order, axis=1), np.take_along_axis(gaps, order, axis=1)
    missing = k - numbers.shape[1]
    if missing > 0:
        numbers = np.pad(numbers, ((0, 0), (0, missing)), constant_values=-1)
        gaps = np.pad(gaps, ((0, 0), (0, missing)), constant_values=np.inf)
    return Neighbors(numbers.astype(np.int32), np.maximum(gaps, 0.0))
