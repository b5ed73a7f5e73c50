"""Change of a gallery: the items that remain and the number of new ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ItemChange:
    """Removed and added items of a gallery.

    Attributes:
        before: number of items before the change.
        stay: (s,) old numbers of the remaining items, ascending, which become 0..s-1.
        fresh: number of new items; they get the numbers after these.
    """

    before: int
    stay: Numbers
    fresh: int

    @property
    def after(self) -> int:
        """Number of items after the change."""
        return len(self.stay) + self.fresh

    @property
    def moved(self) -> int:
        """Number of removed plus added items."""
        return self.before - len(self.stay) + self.fresh

    @property
    def new(self) -> Numbers:
        """Numbers of the new items, (fresh,)."""
        return np.arange(len(self.stay), self.after)

    def of(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return the rows of the remaining items; the array itself if none was removed."""
        return array if len(self.stay) == self.before else array[self.stay]

    def renumber(self, items: NDArray[np.int32]) -> NDArray[np.int32]:
        """Replace old numbers by new ones; -1 for removed items."""
        return items if len(self.stay) == self.before else self.numbers[items]

    def then(self, later: ItemChange) -> ItemChange:
        """Combine this change with a later one; items that were added and removed in between are not counted."""
        old = later.stay < len(self.stay)
        return ItemChange(self.before, self.stay[later.stay[old]], int((~old).sum()) + later.fresh)

    @cached_property
    def numbers(self) -> NDArray[np.int32]:
        """New numbers of the old items, (before + 1,), -1 for removed ones; the last entry maps -1 to itself."""
        numbers = np.full(self.before + 1, -1, np.int32)
        numbers[self.stay] = np.arange(len(self.stay))
        return numbers
