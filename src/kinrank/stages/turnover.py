"""Turnover: which items left a gallery, and how many came."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Turnover:
    """Items that left a gallery and items that came to it.

    Attributes:
        before: how many there were.
        stay: (s,) old numbers of those that stay, ascending, which become 0..s-1.
        fresh: how many came; they get the numbers behind.
    """

    before: int
    stay: Numbers
    fresh: int

    @property
    def after(self) -> int:
        """How many there are now."""
        return len(self.stay) + self.fresh

    @property
    def moved(self) -> int:
        """How many left or came."""
        return self.before - len(self.stay) + self.fresh

    @property
    def new(self) -> Numbers:
        """(fresh,) the numbers of those that came."""
        return np.arange(len(self.stay), self.after)

    def of(self, array: NDArray[Any]) -> NDArray[Any]:
        """The rows of those that stay; the array itself where nobody left."""
        return array if len(self.stay) == self.before else array[self.stay]

    def renumbered(self, items: NDArray[np.int32]) -> NDArray[np.int32]:
        """New numbers in place of old ones; -1 for those who left."""
        return items if len(self.stay) == self.before else self.numbers[items]

    def then(self, later: Turnover) -> Turnover:
        """This turnover and a later one as one: those that came and left in between are not counted."""
        old = later.stay < len(self.stay)
        return Turnover(self.before, self.stay[later.stay[old]], int((~old).sum()) + later.fresh)

    @cached_property
    def numbers(self) -> NDArray[np.int32]:
        """(before + 1,) new numbers of the old ones, -1 for those who left; the last for -1, which stays."""
        numbers = np.full(self.before + 1, -1, np.int32)
        numbers[self.stay] = np.arange(len(self.stay))
        return numbers
