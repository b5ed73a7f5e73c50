"""A plain model of a changing gallery: names and rows in order, and the observed queries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Row = NDArray[np.float32]
NEAR, TENTH, SHARE = 0.2, 10, 3  # the rule for near-copies and for the number of observed queries
UNSURE = 1e-3  # distances this close to the limit of a near-copy may be rounded to either side


class Unsure(Exception):
    """Rounding decides whether a query is a near-copy."""


class GalleryModel:
    """Expected content of a Manifold after changes, computed in the slowest and plainest way.

    Attributes:
        items: the row of every item by its name, in the order of `Manifold.ids`.
        queries: the observed queries, oldest first.
        limit: largest number of observed queries; None for a third of the items.
        named: True if items have names; otherwise they have numbers, and `following` is the next one.
    """

    def __init__(self, rows: Row, names: list[Any] | None, limit: int | None, unit: bool = True) -> None:
        self.named, self.limit, self.unit = names is not None, limit, unit
        self.items: dict[Any, Row] = dict(zip(range(len(rows)) if names is None else names, rows, strict=True))
        self.following = len(rows)
        self.queries: list[Row] = []

    @property
    def names(self) -> list[Any]:
        return list(self.items)

    @property
    def rows(self) -> Row:
        """(n, d) as they were given."""
        return np.stack(list(self.items.values()))

    @property
    def most(self) -> int:
        """Largest number of observed queries."""
        return len(self.items) // SHARE if self.limit is None else self.limit

    def put(self, rows: Row, names: list[Any] | None) -> None:
        """Add items, or replace those of the same names, which then come last."""
        if names is None:
            names = list(range(self.following, self.following + len(rows)))
            self.following += len(rows)
        for name in names:
            self.items.pop(name, None)
        self.items.update(zip(names, rows, strict=True))
        self._forget_oldest()

    def remove(self, names: list[Any]) -> None:
        for name in names:
            del self.items[name]
        self._forget_oldest()

    def observe(self, queries: Row) -> int:
        """Keep queries that are not near-copies; return their number.

        Raises Unsure, without a change, if rounding decides.
        """
        fresh: list[Row] = []
        for query in queries:
            near = self._least(query)
            if all(self._differs(query, other, near) for other in [*self.queries, *fresh]):
                fresh.append(query)
        kept = fresh[max(0, len(fresh) - self.most) :]
        self.queries += kept
        self._forget_oldest()
        return len(kept)

    def forget(self) -> None:
        self.queries = []

    def _forget_oldest(self) -> None:
        del self.queries[: max(0, len(self.queries) - self.most)]

    def _least(self, query: Row) -> float:
        """Distance within which another query is a near-copy."""
        apart = sorted(self._distance(query, row) for row in self.items.values())
        return NEAR * apart[:TENTH][-1] if apart else 0.0

    def _differs(self, query: Row, other: Row, least: float) -> bool:
        if np.array_equal(query, other):
            return False
        distance = self._distance(query, other)
        if abs(distance - least) < UNSURE * max(1.0, distance):
            raise Unsure
        return distance > least

    def _distance(self, left: Row, right: Row) -> float:
        return float(np.linalg.norm(self._compared(left) - self._compared(right)))

    def _compared(self, row: Row) -> NDArray[np.float64]:
        wide = row.astype(np.float64)
        return wide / np.linalg.norm(wide) if self.unit else wide
