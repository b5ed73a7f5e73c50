"""Vectors -> the k nearest of every item, itself first; and Items, what a method gets to work on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors

Integers = NDArray[np.int64]
Block = 2048  # pairs that are summed again at once


@dataclass(frozen=True, eq=False)
class Neighbors:
    """indices (n, k) item numbers, nearest first; distances (n, k) Euclidean. Ties go to the lower number."""

    indices: NDArray[np.int32]
    distances: NDArray[np.float32]

    @property
    def k(self) -> int:
        return int(self.indices.shape[1])

    def first(self, k: int) -> Neighbors:
        """The k nearest only."""
        if k >= self.k:
            return self
        return Neighbors(
            np.ascontiguousarray(self.indices[:, :k]), np.ascontiguousarray(self.distances[:, :k])
        )


def nearest(
    queries: Vectors, items: Vectors, k: int, *, own: Integers | None = None, self_first: bool = True
) -> Neighbors:
    """The exact k nearest items of every query, by blocked matrix products; no n x n matrix.

    `own[i]` is the item that query i itself is (-1: none). With `self_first` it stands first, at distance 0,
    even among duplicates; otherwise it is left out. Shapes: (q, d), (n, d) -> (q, min(k, n)).
    """
    from kinrank.stages._kernels.search import nearest_blocks

    k = max(0, min(k, len(items) if own is None or self_first else len(items) - 1))
    identity = np.full(len(queries), -1, np.int64) if own is None else np.asarray(own, np.int64)
    known = identity >= 0
    if known.all() or not known.any():
        return Neighbors(*nearest_blocks(queries, items, k, identity, self_first))
    indices = np.empty((len(queries), k), np.int32)
    distances = np.empty((len(queries), k), np.float32)
    for some in (known, ~known):  # rows with an item of their own search one entry less
        indices[some], distances[some] = nearest_blocks(queries[some], items, k, identity[some], self_first)
    return Neighbors(indices, distances)


@dataclass(eq=False)
class Items:
    """The items of one re-ranking problem: unit vectors, which of them ask, which of them can be answers.

    In a joint problem the queries come first, then the gallery; when every item queries the others, `queries`
    and `gallery` are the same numbers. Neighbour lists are computed once, for the largest k asked for so far.
    """

    vectors: Vectors
    queries: Integers
    gallery: Integers
    _lists: dict[str, Neighbors] = field(default_factory=dict, repr=False)
    _first: Integers | None = field(default=None, repr=False)

    @classmethod
    def joint(cls, queries: Vectors, gallery: Vectors) -> Items:
        count = len(queries)
        vectors = np.concatenate([queries, gallery])
        return cls(vectors, np.arange(count), np.arange(count, len(vectors)))

    @classmethod
    def everyone(cls, gallery: Vectors) -> Items:
        numbers = np.arange(len(gallery))
        return cls(gallery, numbers, numbers)

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def self_query(self) -> bool:
        """Whether every item queries the others (queries and gallery are the same items)."""
        return len(self.queries) == len(self.vectors)

    @property
    def query_vectors(self) -> Vectors:
        return self.vectors[: len(self.queries)]  # a view: queries always come first

    @property
    def gallery_vectors(self) -> Vectors:
        return self.vectors[len(self.vectors) - len(self.gallery) :]

    def neighbors(self, k: int) -> Neighbors:
        """(n, min(k, n)): over all items, queries included; each item first in its own list."""
        everything = np.arange(len(self))
        return self._cached("joint", k, len(self), self.vectors, self.vectors, everything)

    def gallery_neighbors(self, k: int) -> Neighbors:
        """(g, min(k, g)) positions in the gallery: the gallery's own graph, each item first in its list."""
        if self.self_query:
            return self.neighbors(k)
        size, rows = len(self.gallery), self.gallery_vectors
        return self._cached("gallery", k, size, rows, rows, np.arange(size))

    def query_neighbors(self, k: int) -> Neighbors:
        """(q, min(k, g)) positions in the gallery nearest to each query; an item is not its own answer."""
        if self.self_query:
            lists = self.neighbors(k + 1)
            return Neighbors(
                np.ascontiguousarray(lists.indices[:, 1:]), np.ascontiguousarray(lists.distances[:, 1:])
            )
        return self._cached("query", k, len(self.gallery), self.query_vectors, self.gallery_vectors, None)

    def query_distances(self, queries: Integers) -> NDArray[np.float32]:
        """(len(queries), g) Euclidean distances to the whole gallery; equal items at equal distances."""
        if self._first is None:
            self._first = first_equal(self.gallery_vectors)
        return share_equal(pairwise(self.query_vectors[queries], self.gallery_vectors), self._first)

    def _cached(
        self, key: str, k: int, most: int, rows: Vectors, items: Vectors, own: Integers | None
    ) -> Neighbors:
        k = min(k, most)
        lists = self._lists.get(key)
        if lists is None or lists.k < k:
            lists = self._lists[key] = nearest(rows, items, k, own=own)
        return lists.first(k)


def share_equal(values: NDArray[Any], first: Integers) -> NDArray[Any]:
    """Give equal items the value of the first of them: matrix products round equal columns differently.

    values (rows, items), changed in place and returned; first (items,), see first_equal.
    """
    later = np.flatnonzero(first != np.arange(len(first)))
    if len(later):
        values[:, later] = values[:, first[later]]
    return values


def pairwise(left: Vectors, right: Vectors) -> NDArray[np.float32]:
    """Euclidean distances of unit rows, (a, d), (b, d) -> (a, b).

    From inner products, except where these lose the digits: pairs nearer than about 0.03 are summed again
    from differences, so that duplicates are at distance 0.
    """
    squared: NDArray[np.float32] = left @ right.T
    squared *= -2.0
    squared += 2.0
    a, b = np.nonzero(squared < 1e-3)
    for start in range(0, len(a), Block):
        some = slice(start, start + Block)
        gaps = left[a[some]] - right[b[some]]
        squared[a[some], b[some]] = np.einsum("ij,ij->i", gaps, gaps)
    np.sqrt(squared, out=squared)
    return squared


def first_equal(rows: Vectors) -> Integers:
    """For every row the position of the first row equal to it (its own where none comes before): (n,).

    Matrix products may round equal columns differently; methods copy the first one's answer to the others.
    """
    numbers = np.arange(len(rows))
    factors = np.random.default_rng(0).integers(1, 2**63, rows.shape[1], dtype=np.uint64) | np.uint64(1)
    keys = np.empty(len(rows), np.uint64)
    for start in range(0, len(rows), 1024):
        bits = (rows[start : start + 1024] + np.float32(0)).view(np.uint32)  # + 0 turns -0 into 0
        keys[start : start + 1024] = (bits * factors).sum(axis=1)
    _, places, groups = np.unique(keys, return_index=True, return_inverse=True)
    first = places[groups.reshape(-1)]
    for row in np.flatnonzero(first != numbers):
        if not np.array_equal(rows[row], rows[first[row]]):
            first[row] = row
    return first.astype(np.int64)
