"""Who may be a result, and who counts as a neighbour -> one pair of masks that a search takes along."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]


class Masks(NamedTuple):
    """Two (n,) masks over the items; one of length 0 leaves out nobody. Chains pass through all items in any case.

    results: items that may be results.
    counted: items that count where the scale of a neighbourhood is measured. The others are stepping stones, such as
        remembered queries; they are no results either.
    possible: how many items may be results, -1 where all may.
    """

    results: Mask
    counted: Mask
    possible: int

    @classmethod
    def of(cls, allowed: Mask | None = None, counted: Mask | None = None) -> Masks:
        """From masks that may be missing: a result must be allowed, and must be counted."""
        everyone = np.empty(0, np.bool_)
        results = counted if allowed is None else allowed
        if allowed is not None and counted is not None:
            results = allowed & counted
        if results is None:
            return cls(everyone, everyone, -1)
        # copies: the loops are compiled for arrays that can be written, which a mapped file cannot
        mine = np.array(results, np.bool_)
        return cls(mine, everyone if counted is None else np.array(counted, np.bool_), int(mine.sum()))

    def at_most(self, count: int) -> int:
        """`count`, or how many items may be results if they are fewer."""
        return count if self.possible < 0 else min(count, self.possible)

    def without(self, items: NDArray[np.int64], count: int) -> Masks:
        """The same for `count` items, but that these are no results."""
        results = self.results.copy() if len(self.results) else np.ones(count, np.bool_)
        results[items] = False
        return Masks(results, self.counted, int(results.sum()))


EVERYONE = Masks.of()
