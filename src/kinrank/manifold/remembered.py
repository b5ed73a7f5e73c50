"""Remembered queries: which rows of a prepared gallery they are, how many there may be, and which are near-copies.

A remembered query is a row among the items: it has a state and steps, and chains pass through it. Users never see it.
A place is where a row stands in the arrays, items and remembered queries in the order they came; an item number counts
the items only. Names are about item numbers, so that remembering and forgetting change nobody's name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.neighbors import Neighbors, nearest, pairwise
from kinrank.parameters import whole_number

Places = NDArray[np.int64]
Search = Callable[[Vectors, int], Neighbors]  # queries, k -> what stands nearest to them

REMEMBERED = "remembered"  # the name under which the mask is saved
LIMIT = "observed_limit"  # and the limit, where one was given
SHARE = 3  # without a limit, one query is remembered for so many items: as far as measurements go
NEAR = 0.2  # of the distance to the 10th item: nearer to another remembered query is a copy of it
TENTH = 10


@dataclass(frozen=True, eq=False)
class Remembered:
    """Which rows of a gallery are remembered queries.

    Attributes:
        mask: (n,) bool, True for remembered queries, False for items.
        limit: how many there may be; None for one per SHARE items.
    """

    mask: NDArray[np.bool_]
    limit: int | None = None

    @classmethod
    def none(cls, count: int, limit: int | None = None) -> Remembered:
        """Of `count` items, before anything is remembered."""
        return cls(np.zeros(count, np.bool_), None if limit is None else whole_number(limit, LIMIT))

    @classmethod
    def restored(cls, count: int, mask: NDArray[Any] | None, limit: float | None) -> Remembered:
        """From what was saved; a ValueError if it does not say yes or no of `count` rows."""
        if limit is not None and not (1 <= limit < 2**53 and limit == int(limit)):
            raise ValueError(f"{LIMIT}={limit} is not allowed; it counts remembered queries")
        most = None if limit is None else int(limit)
        if mask is None:
            return cls.none(count, most)
        if mask.shape != (count,) or mask.dtype != np.bool_:
            raise ValueError(f"{REMEMBERED} must say yes or no of {count} rows; it is {mask.dtype} of {mask.shape}")
        if mask.view(np.uint8).max(initial=0) > 1:
            raise ValueError(f"{REMEMBERED} holds something else than yes and no")
        return cls(np.array(mask), most)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is saved: nothing, where nothing is remembered."""
        return {REMEMBERED: self.mask} if self.count else {}

    @property
    def facts(self) -> dict[str, float]:
        return {} if self.limit is None else {LIMIT: float(self.limit)}

    @cached_property
    def count(self) -> int:
        """How many are remembered."""
        return int(self.mask.sum())

    @cached_property
    def items(self) -> Places:
        """The places of the items."""
        return np.flatnonzero(~self.mask)

    @cached_property
    def queries(self) -> Places:
        """The places of the remembered queries, the oldest first."""
        return np.flatnonzero(self.mask)

    @cached_property
    def _counted(self) -> Places:
        """(n + 1,) the item number at every place, or that of a remembered query; the last for -1, which stays."""
        numbers = np.full(len(self.mask) + 1, -1, np.int64)
        numbers[self.items] = np.arange(len(self.items))
        numbers[self.queries] = np.arange(self.count)
        return numbers

    def numbers(self, places: NDArray[Any]) -> Places:
        """Item numbers at places of any shape, and for a remembered query its number among these, the oldest 0."""
        return places if not self.count else self._counted[places]

    def over_places(self, mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """A mask of the items as one of all places; remembered queries are not in it."""
        spread = np.zeros(len(self.mask), np.bool_)
        spread[self.items] = mask
        return spread

    def most(self, items: int) -> int:
        """How many may be remembered beside so many items."""
        return items // SHARE if self.limit is None else self.limit

    def after(self, stay: Places, came: int, asked: bool) -> Remembered:
        """After a change: the rows `stay`, then those that came, all of them queries (`asked`) or all of them items."""
        return Remembered(np.concatenate([self.mask[stay], np.full(came, asked)]), self.limit)

    def oldest_out(self, stay: Places, came: int, items: int) -> Places:
        """The rows `stay` without the oldest queries that are too many beside `came` new ones and so many items."""
        queries = stay[self.mask[stay]]
        over = max(0, len(queries) + came - self.most(items))
        return np.setdiff1d(stay, queries[:over]) if over else stay


def no_copies(rows: Vectors, known: Vectors, lengths: NDArray[Any], unit: bool = True) -> Places:
    """Which of the queries `rows` (q, d) are new: not within NEAR l of one that is known, or stands before in `rows`.

    lengths (q,) has the l of every query, see `distances_of_tenth`. An exact copy is never new.
    `unit`: all rows have length one.
    """
    least = NEAR * lengths
    fresh = nearest(rows, known, 1, unit=unit).distances[:, 0] > least if len(known) else np.ones(len(rows), np.bool_)
    kept: list[int] = []
    for row in np.flatnonzero(fresh).tolist():
        if not kept or float(pairwise(rows[row : row + 1], rows[kept], unit).min()) > least[row]:
            kept.append(row)
    return np.array(kept, np.int64)


def distances_of_tenth(rows: Vectors, search: Search, remembered: Remembered) -> NDArray[np.float32]:
    """(q,) the distance from queries to their TENTH nearest item; to the last there is, 0 without any."""
    found = items_found(rows, search, TENTH, remembered)
    there = (found.indices >= 0) & ~remembered.mask[found.indices]
    within = there & (there.cumsum(axis=1) <= TENTH)
    return np.asarray(np.max(found.distances, axis=1, where=within, initial=0.0), np.float32)


def items_found(rows: Vectors, search: Search, count: int, remembered: Remembered) -> Neighbors:
    """What stands nearest to queries: `count` items of each, or all there are, and the remembered queries between."""
    if not remembered.count:
        return search(rows, count)
    depth = count + min(count, remembered.count)
    while True:  # deeper where remembered queries leave too few items
        found = search(rows, depth)
        items = ((found.indices >= 0) & ~remembered.mask[found.indices]).sum(axis=1)
        if depth >= count + remembered.count or bool((items >= count).all()):
            return found
        depth *= 2
