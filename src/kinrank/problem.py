"""The re-ranking problem that a method works on: vectors, queries and gallery."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kinrank.neighbors import (
    Integers,
    Neighbors,
    find_first_equal,
    find_nearest,
    pairwise_distances,
    share_equal_columns,
)
from kinrank.vector_input import Vectors


@dataclass(eq=False)
class Items:
    """The items of one re-ranking problem: their vectors, and which of them are queries and possible results.

    In a joint problem the queries come first, then the gallery. If every item queries the others, `queries` and
    `gallery` are the same numbers. Neighbour lists are computed once, for the largest k requested so far. `unit`: all
    vectors have length one, so inner products alone determine distances (metric "cosine").
    """

    vectors: Vectors
    queries: Integers
    gallery: Integers
    unit: bool = True
    _lists: dict[str, Neighbors] = field(default_factory=dict, repr=False)
    _first: Integers | None = field(default=None, repr=False)

    @classmethod
    def joint(cls, queries: Vectors, gallery: Vectors, unit: bool = True) -> Items:
        count = len(queries)
        vectors = np.concatenate([queries, gallery])
        return cls(vectors, np.arange(count), np.arange(count, len(vectors)), unit)

    @classmethod
    def from_gallery(cls, gallery: Vectors, unit: bool = True) -> Items:
        numbers = np.arange(len(gallery))
        return cls(gallery, numbers, numbers, unit)

    def use_neighbors(self, lists: Neighbors) -> None:
        """Use these neighbours over all items instead of searching them again."""
        self._lists["joint"] = lists

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def self_query(self) -> bool:
        """True if every item queries the others (queries and gallery are the same items)."""
        return len(self.queries) == len(self.vectors)

    @property
    def query_vectors(self) -> Vectors:
        return self.vectors[: len(self.queries)]  # a view: queries always come first

    @property
    def gallery_vectors(self) -> Vectors:
        return self.vectors[len(self.vectors) - len(self.gallery) :]

    def neighbors(self, k: int, products: NDArray[np.float32] | None = None) -> Neighbors:
        """Return (n, min(k, n)) neighbours over all items, queries included; each item is first in its own list.

        `products`: (n, n) the inner products of all vectors, if the caller has them.
        """
        everything = np.arange(len(self))
        return self._cached("joint", k, len(self), self.vectors, self.vectors, everything, products)

    def gallery_neighbors(self, k: int) -> Neighbors:
        """Return (g, min(k, g)) positions in the gallery: its own graph, each item first in its list."""
        if self.self_query:
            return self.neighbors(k)
        size, rows = len(self.gallery), self.gallery_vectors
        return self._cached("gallery", k, size, rows, rows, np.arange(size))

    def query_neighbors(self, k: int) -> Neighbors:
        """Return (q, min(k, g)) positions in the gallery nearest to each query; an item is not its own result."""
        if self.self_query:
            lists = self.neighbors(k + 1)
            return Neighbors(np.ascontiguousarray(lists.indices[:, 1:]), np.ascontiguousarray(lists.distances[:, 1:]))
        return self._cached("query", k, len(self.gallery), self.query_vectors, self.gallery_vectors, None)

    def query_distances(self, queries: Integers) -> NDArray[np.float32]:
        """Return (len(queries), g) Euclidean distances to the whole gallery; equal items have equal distances."""
        if self._first is None:
            self._first = find_first_equal(self.gallery_vectors)
        return share_equal_columns(
            pairwise_distances(self.query_vectors[queries], self.gallery_vectors, self.unit), self._first
        )

    def _cached(
        self,
        key: str,
        k: int,
        most: int,
        rows: Vectors,
        items: Vectors,
        own: Integers | None,
        products: NDArray[np.float32] | None = None,
    ) -> Neighbors:
        k = min(k, most)
        lists = self._lists.get(key)
        if lists is None or lists.k < k:
            lists = self._lists[key] = find_nearest(rows, items, k, own=own, unit=self.unit, products=products)
        return lists.first(k)
