"""One search of a prepared gallery: queries, their neighbours, possible results and marked items."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.neighbors import Neighbors
from kinrank.vector_input import Vectors

Mask = NDArray[np.bool_]
ALL_ITEMS = sys.maxsize  # more than any gallery has


class Masks(NamedTuple):
    """Two (n,) masks over the items; a mask of length 0 excludes nothing. Chains pass through all items in any case.

    Attributes:
        results: items that may be results.
        counted: items that count when the scale of a neighbourhood is measured. The others are only stepping stones,
            such as observed queries, and cannot be results either.
        possible: number of items that may be results; ALL_ITEMS if all may.
    """

    results: Mask
    counted: Mask
    possible: int

    @classmethod
    def of(cls, allowed: Mask | None = None, counted: Mask | None = None) -> Masks:
        """Build masks from optional ones: a result must be allowed and must count."""
        all_items = np.empty(0, np.bool_)
        results = counted if allowed is None else allowed
        if allowed is not None and counted is not None:
            results = allowed & counted
        if results is None:
            return cls(all_items, all_items, ALL_ITEMS)
        # copies, because kernels are compiled for writable arrays, and a memory-mapped file is read-only
        results = np.array(results, np.bool_)
        return cls(results, all_items if counted is None else np.array(counted, np.bool_), int(results.sum()))

    def without(self, items: NDArray[np.int64], count: int) -> Masks:
        """Return masks over `count` items that also exclude `items` from results."""
        results = self.results.copy() if len(self.results) else np.ones(count, np.bool_)
        results[items] = False
        return Masks(results, self.counted, int(results.sum()))


class Marks(NamedTuple):
    """Ascending item numbers, marked right (positives) and wrong (negatives); no item is in both."""

    positives: NDArray[np.int64]
    negatives: NDArray[np.int64]

    @property
    def all(self) -> NDArray[np.int64]:
        """All marked items."""
        return np.concatenate([self.positives, self.negatives])

    def without(self, item: int) -> Marks:
        """Return the marks without one item."""
        return Marks(*(items[items != item] for items in self))


UNRESTRICTED = Masks.of()
NO_NEIGHBORS = Neighbors(np.empty((0, 0), np.int32), np.empty((0, 0), np.float32))


@dataclass(frozen=True, eq=False)
class Request:
    """A search of a prepared gallery. Queries do not influence each other.

    Attributes:
        queries: (q, d) rows; of length one if those of the gallery are.
        k: number of items per query that must be certain.
        depth: number of items to return per query, from 1 to the size of the gallery.
        budget: maximum number of items to visit per query, for methods that search step by step; None: their own
            choice.
        masks: items that may be results.
        marks: items that the user marked right or wrong, one entry per query; empty if none are.
        neighbors: nearest items of the queries, as many as the method needs, rows padded with -1. A Manifold finds
            them before it calls the method.
    """

    queries: Vectors
    k: int
    depth: int
    budget: int | None = None
    masks: Masks = UNRESTRICTED
    marks: tuple[Marks, ...] = ()
    neighbors: Neighbors = NO_NEIGHBORS

    def select_query(self, row: int) -> Request:
        """Return the request of one query."""
        rows = slice(row, row + 1)
        neighbors = Neighbors(self.neighbors.indices[rows], self.neighbors.distances[rows])
        return replace(self, queries=self.queries[rows], marks=self.marks[rows], neighbors=neighbors)
