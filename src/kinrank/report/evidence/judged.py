"""A Truth and item numbers -> what is right, wrong or neither for every query, by its row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kinrank.evaluation import Score, Truth
from kinrank.evaluation.lists import Integers, Lists
from kinrank.evaluation.names import Naming

RIGHT, WRONG, JUNK = "right", "wrong", "junk"


class Judged:
    """What is right, by rows of the queries and numbers of the gallery, however the truth names them.

    Attributes:
        queries: (rows,) which query of the truth each row is; -1 where nothing is known of it.
    """

    def __init__(self, truth: Truth, rows: int, items: int) -> None:
        self.queries = _places(truth.queries, rows)
        places = _places(truth.items, items)
        self._numbers = np.full(max(truth.span, int(places.max(initial=-1)) + 1), -1, np.int64)
        known = np.flatnonzero(places >= 0)
        self._numbers[places[known]] = known
        self._truth = truth

    def right(self, row: int) -> Integers:
        """Numbers of the items that are right for a query."""
        return self._listed(self._truth.positives, row)

    def junk(self, row: int) -> Integers:
        """Numbers of the items that do not count for a query."""
        return self._listed(self._truth.junk, row)

    def marks(self, row: int, items: Integers) -> list[str]:
        """right, wrong or junk, of each of some items."""
        right, junk = np.isin(items, self.right(row)), np.isin(items, self.junk(row))
        return [RIGHT if good else JUNK if ignored else WRONG for good, ignored in zip(right, junk, strict=True)]

    def per_row(self, score: Score) -> NDArray[np.float64]:
        """(rows,) the value of every query; NaN where none is known."""
        values = np.append(np.asarray(score.per_query, np.float64), np.nan)
        return values[self.queries]

    def _listed(self, lists: Lists, row: int) -> Integers:
        query = int(self.queries[row])
        if query < 0:
            return np.empty(0, np.int64)
        numbers = self._numbers[lists[query]]
        return numbers[numbers >= 0]


def _places(naming: Naming | None, count: int) -> Integers:
    """The place in the truth of each of so many rows without names."""
    return np.arange(count) if naming is None or naming.in_order else naming.find(np.arange(count))
