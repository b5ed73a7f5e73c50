"""Vectors, and maybe a Store of them -> a Gallery: neighbours by exact search in blocks, or as the store finds them."""

from __future__ import annotations

import importlib.util
from functools import partial

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.methods.served import Gallery
from kinrank.neighbors import Neighbors, nearest, pairwise
from kinrank.progress import SILENT, Progress
from kinrank.stores import Store
from kinrank.stores.faiss import FaissStore
from kinrank.stores.found import tidied

BLOCK = 1024  # rows searched at once
EXACT = 20_000  # items up to which an exact search is quick


def gallery_over(
    vectors: Vectors, store: Store | None = None, progress: Progress = SILENT, unit: bool = True
) -> Gallery:
    """The gallery of rows (n, d), searched by the store if there is one; `lists` reports to `progress`.

    `unit`: all rows have length one.
    """
    return Gallery(
        vectors=vectors,
        lists=partial(_lists, vectors, store, progress, unit),
        lists_of=partial(lists_of, vectors, store, unit=unit),
        search=partial(_search, vectors, store, unit),
        exact=store is None,
        unit=unit,
    )


def local_index(vectors: Vectors, store: Store | None, unit: bool) -> Store | None:
    """What finds the neighbours of all items when a manifold is built: the store, unless it is a vector database.

    A database would be asked once per item. The vectors are here, so the search is made here: exactly, or, of many
    items, by FAISS where it is installed. None for an exact search.
    """
    if getattr(store, "engine", None) is None:
        return store
    if len(vectors) <= EXACT or importlib.util.find_spec("faiss") is None:
        return None
    return FaissStore(vectors, "ivf", metric="cosine" if unit else "euclidean")


def _lists(vectors: Vectors, store: Store | None, progress: Progress, unit: bool, k: int) -> Neighbors:
    """(n, min(k, n)) neighbours of every item, itself first."""
    n = len(vectors)
    k = min(k, n)
    indices, distances = np.empty((n, k), np.int32), np.empty((n, k), np.float32)
    blocks = [np.arange(start, min(start + BLOCK, n)) for start in range(0, n, BLOCK)]
    for block in progress.each("neighbours", blocks, len(blocks)):
        lists = lists_of(vectors, store, block, k, unit)
        indices[block], distances[block] = lists.indices, lists.distances
    return Neighbors(indices, distances)


def lists_of(vectors: Vectors, store: Store | None, rows: NDArray[np.int64], k: int, unit: bool = True) -> Neighbors:
    """(rows, k) neighbours of some items, the item itself first; k is at most n."""
    if store is None:
        return nearest(vectors[rows], vectors, k, own=rows, unit=unit)
    found = store.search(vectors[rows], min(k + 1, len(vectors)))
    lists = neighbors_found(found.indices, found.distances, k, rows, len(vectors))
    short = np.flatnonzero(lists.indices[:, -1] < 0)
    if len(short):  # an approximate index found too few: search these exactly
        exact = nearest(vectors[rows[short]], vectors, k, own=rows[short], unit=unit)
        lists.indices[short], lists.distances[short] = exact.indices, exact.distances
    return lists


def _search(vectors: Vectors, store: Store | None, unit: bool, queries: Vectors, k: int) -> Neighbors:
    """(q, min(k, n)) nearest items of queries, rows padded with -1 where the store found fewer."""
    k = min(k, len(vectors))
    if store is None:
        return nearest(queries, vectors, k, unit=unit)
    found = store.search(queries, k)
    return neighbors_found(found.indices, found.distances, k, None, len(vectors))


def neighbors_found(
    indices: NDArray[np.int64], distances: NDArray[np.float32], k: int, own: NDArray[np.int64] | None, n: int
) -> Neighbors:
    """What a store of n items found, tidied, as neighbour lists (q, k); a ValueError if it found others."""
    if indices.size and int(indices.max()) >= n:
        raise ValueError(f"the store found item {int(indices.max())} but the manifold holds {n}; give the same items")
    numbers, lengths = tidied(indices, distances, k, own)
    return Neighbors(numbers.astype(np.int32), lengths.astype(np.float32))


def rank_of(query: Vectors, vectors: Vectors, item: int, unit: bool = True) -> int:
    """The place of an item in an exact search of one query (1, d), from 1; ties go to the lower number."""
    mine = pairwise(query, vectors[item : item + 1], unit)[0, 0]
    place = 1
    for start in range(0, len(vectors), BLOCK):
        distances = pairwise(query, vectors[start : start + BLOCK], unit)[0]
        numbers = np.arange(start, start + len(distances))
        nearer = (distances < mine) | ((distances == mine) & (numbers < item))
        place += int(nearer[numbers != item].sum())
    return place
