"""One list of item numbers per query -> two flat arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank import given

Integers = NDArray[np.int64]
MOST = 2**31  # items that can be told apart


@dataclass(frozen=True, eq=False)
class Lists:
    """Ragged lists end to end: list i is items[starts[i]:starts[i + 1]], ascending, without repeats."""

    starts: Integers
    items: Integers

    @classmethod
    def of(cls, lists: Sequence[ArrayLike], name: str) -> Lists:
        """From one list per query, sorted and without repeats; refuses what is no item number."""
        rows = [_numbers(row, f"{name} of query {query}") for query, row in enumerate(lists)]
        starts = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=starts[1:])
        return cls(starts, np.concatenate(rows) if rows else np.empty(0, np.int64))

    @classmethod
    def empty(cls, queries: int) -> Lists:
        return cls(np.zeros(queries + 1, np.int64), np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, query: int) -> Integers:
        return self.items[self.starts[query] : self.starts[query + 1]]

    @property
    def counts(self) -> Integers:
        """(queries,) length of every list."""
        return np.diff(self.starts)

    @property
    def owners(self) -> Integers:
        """(items,) the query that each entry belongs to."""
        return np.repeat(np.arange(len(self)), self.counts)

    def where(self, kept: NDArray[np.bool_]) -> Lists:
        """The entries that are kept, in the same lists; (items,) yes or no."""
        counts = np.bincount(self.owners[kept], minlength=len(self))
        return Lists(np.concatenate([[0], np.cumsum(counts)]), self.items[kept])

    def with_all(self, items: Integers) -> Lists:
        """The same lists, and these items in every one of them; none of them is in a list already."""
        if not len(items):
            return self
        owners = np.concatenate([self.owners, np.repeat(np.arange(len(self)), len(items))])
        found = np.concatenate([self.items, np.tile(items, len(self))])
        return Lists(self.starts + len(items) * np.arange(len(self) + 1), found[np.lexsort((found, owners))])

    def take(self, queries: Integers) -> tuple[Lists, Integers]:
        """The lists of some queries, and where in `items` their entries stood."""
        counts = self.counts[queries]
        starts = np.zeros(len(queries) + 1, np.int64)
        np.cumsum(counts, out=starts[1:])
        where = np.arange(starts[-1]) + np.repeat(self.starts[queries] - starts[:-1], counts)
        return Lists(starts, self.items[where]), where


def _numbers(row: ArrayLike, name: str) -> Integers:
    array = np.asarray(given.unmasked(row, name))
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu" or not 0 <= int(array.min()) <= int(array.max()) < MOST:
        raise ValueError(f"{name} must be a list of item numbers from 0 to {MOST - 1}; got {row!r}"[:300])
    return np.unique(array.astype(np.int64))
