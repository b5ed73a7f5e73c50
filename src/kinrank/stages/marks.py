"""Marks of users: which items are right and which are wrong for a query."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Marks(NamedTuple):
    """Item numbers, ascending, no item in both: those marked right, and those marked wrong."""

    positives: NDArray[np.int64]
    negatives: NDArray[np.int64]

    @property
    def all(self) -> NDArray[np.int64]:
        return np.concatenate([self.positives, self.negatives])

    def without(self, item: int) -> Marks:
        """The same marks but for one item."""
        return Marks(*(some[some != item] for some in self))
