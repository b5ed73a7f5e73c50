"""Ragged lists: one list of item numbers per query, stored in two flat arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.errors import InputError
from kinrank.ids import unwrap_masked_array

Integers = NDArray[np.int64]
MAX_ITEMS = 2**31  # largest number of items


@dataclass(frozen=True, eq=False)
class RaggedLists:
    """Lists of item numbers, end to end: list i is items[starts[i]:starts[i + 1]], ascending, without repeats."""

    starts: Integers
    items: Integers

    @classmethod
    def of(cls, lists: Sequence[ArrayLike], name: str) -> RaggedLists:
        """Build from one list per query. Sorts them, drops repeats, and refuses anything but item numbers."""
        rows = [_check_numbers(row, f"{name} of query {query}") for query, row in enumerate(lists)]
        starts = np.zeros(len(rows) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=starts[1:])
        return cls(starts, np.concatenate(rows) if rows else np.empty(0, np.int64))

    @classmethod
    def empty(cls, queries: int) -> RaggedLists:
        return cls(np.zeros(queries + 1, np.int64), np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, query: int) -> Integers:
        return self.items[self.starts[query] : self.starts[query + 1]]

    @property
    def counts(self) -> Integers:
        """Lengths of the lists, (queries,)."""
        return np.diff(self.starts)

    @property
    def owners(self) -> Integers:
        """Query that each entry belongs to, (items,)."""
        return np.repeat(np.arange(len(self)), self.counts)

    def where(self, mask: NDArray[np.bool_]) -> RaggedLists:
        """Return the lists with only those entries whose mask, (items,), is True."""
        counts = np.bincount(self.owners[mask], minlength=len(self))
        return RaggedLists(np.concatenate([[0], np.cumsum(counts)]), self.items[mask])

    def add_to_all(self, items: Integers) -> RaggedLists:
        """Return the lists with these items added to each of them. No list may contain one already."""
        if not len(items):
            return self
        owners = np.concatenate([self.owners, np.repeat(np.arange(len(self)), len(items))])
        merged = np.concatenate([self.items, np.tile(items, len(self))])
        return RaggedLists(self.starts + len(items) * np.arange(len(self) + 1), merged[np.lexsort((merged, owners))])

    def take(self, queries: Integers) -> tuple[RaggedLists, Integers]:
        """Return the lists of some queries, and the positions of their entries in `items`."""
        counts = self.counts[queries]
        starts = np.zeros(len(queries) + 1, np.int64)
        np.cumsum(counts, out=starts[1:])
        where = np.arange(starts[-1]) + np.repeat(self.starts[queries] - starts[:-1], counts)
        return RaggedLists(starts, self.items[where]), where


def _check_numbers(row: ArrayLike, name: str) -> Integers:
    array = np.asarray(unwrap_masked_array(row, name))
    if array.size == 0:
        return np.empty(0, np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu" or not 0 <= int(array.min()) <= int(array.max()) < MAX_ITEMS:
        raise InputError(f"must be a list of item numbers from 0 to {MAX_ITEMS - 1}; got {row!r}"[:250], parameter=name)
    return np.unique(array.astype(np.int64))
