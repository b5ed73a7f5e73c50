"""Labels and ground truth -> for a query and some items: right, wrong, or neither."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

CLASS = "class"  # the level of labels
USUAL = "medium"  # the level that counts where none is asked for


class Judged(NamedTuple):
    """For every query the ids of the items that are right, and of those that are neither right nor wrong."""

    right: list[set[str]]
    neither: list[set[str]]


class Ground(NamedTuple):
    """What a file of ground truth says: by level, and what it calls queries and items (None: nothing)."""

    levels: dict[str, Judged]
    query_names: list[str] | None = None
    item_names: list[str] | None = None


class Verdicts:
    """What is known of right and wrong.

    Args:
        order: the ids of the items that labels and truth speak of; nothing is known of others.
        labels: id -> label.
        query_labels: one per query, None if there are none.
        ground: of the queries.
    """

    def __init__(
        self, order: Sequence[str], labels: dict[str, str], query_labels: list[str] | None, ground: Ground | None
    ) -> None:
        self._known = frozenset(order)
        self._labels, self._query_labels = labels, query_labels
        self._sizes = Counter(labels.values())
        self._levels = {} if ground is None else ground.levels
        self.levels = [*self._levels, *([CLASS] if labels else [])]

    def of(self, asked: tuple[str, Any], level: str | None, items: Sequence[Any]) -> list[bool | None] | None:
        """True for right, False for wrong, None for neither, of each item; None where nothing is known of the query."""
        names = [str(item) for item in items]
        judged = self._judged(asked, level)
        if judged is not None:
            right, neither = judged
            return [
                True if name in right else None if name in neither or name not in self._known else False
                for name in names
            ]
        label = self._label(asked)
        if label is None:
            return None
        own = str(asked[1]) if asked[0] == "item" else None
        found = ((name, self._labels.get(name)) for name in names)
        return [None if other is None or name == own else other == label for name, other in found]

    def known_right(self, asked: tuple[str, Any], level: str | None) -> int | None:
        """How many items are right in all; None where nothing is known of the query."""
        judged = self._judged(asked, level)
        if judged is not None:
            return len(judged[0])
        label = self._label(asked)
        return None if label is None else self._sizes[label] - int(asked[0] == "item")

    def _judged(self, asked: tuple[str, Any], level: str | None) -> tuple[set[str], set[str]] | None:
        kind, number = asked
        if kind != "query" or not self._levels or (level == CLASS and CLASS not in self._levels):
            return None
        first = USUAL if USUAL in self._levels else next(iter(self._levels))
        judged = self._levels[level if level in self._levels else first]
        return (judged.right[number], judged.neither[number]) if 0 <= number < len(judged.right) else None

    def _label(self, asked: tuple[str, Any]) -> str | None:
        kind, who = asked
        if kind == "item":
            return self._labels.get(str(who))
        if kind != "query" or self._query_labels is None or not self._labels:
            return None
        return self._query_labels[who] if 0 <= who < len(self._query_labels) else None
