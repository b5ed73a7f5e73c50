"""Classes of the items, or a truth -> which colour an item has on a map."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinrank.report.evidence.judged import Judged
from kinrank.report.evidence.looks import NAMED, Looks, cut

MOST = 30  # groups of queries that get a colour
SHARED = 0.5  # of the right answers of one of two queries, from which on they ask for the same
MANY = 10_000  # queries that are not compared with each other any more


@dataclass(frozen=True, eq=False)
class Groups:
    """Which items belong together.

    Attributes:
        of: (items,) the number of an item's group; -1 for none.
        names: what the groups are called.
        about: what they are, in sentences.
    """

    of: NDArray[np.int64]
    names: list[str]
    about: str


def groups_of(items: Looks, asked: Looks, judged: Judged, rows: int, count: int) -> Groups:
    """By class where the items have some; else by queries that share right answers, such as views of one landmark."""
    if items.classes is not None:
        words = [str(name) for name in items.classes]
        names = sorted(set(words), key=lambda name: (len(name) if name.isdigit() else 0, name))  # 2 before 10
        places = {name: place for place, name in enumerate(names)}
        return Groups(
            np.array([places[word] for word in words], np.int64),
            [cut(name, NAMED) for name in names],
            "The colour is the class of an item.",
        )
    right = [judged.right(row) for row in range(rows)]
    joined = _joined(right, count)
    sizes = np.bincount(joined, [len(items) for items in right]) if rows else np.zeros(0)
    shown = np.argsort(-sizes, kind="stable")[:MOST]
    numbers = np.full(len(sizes), -1, np.int64)
    numbers[shown] = np.arange(len(shown))
    called = [_common([asked.name(int(row)) for row in np.flatnonzero(joined == one)]) for one in shown]
    about = "The colour says for which queries an item is right; queries that mostly ask for the same share one."
    some = f" The {len(shown)} largest such groups have a colour." if len(shown) < len(sizes) else ""
    return Groups(_owners(right, numbers[joined], count), _distinct(called), about + some)


def query_groups(asked: Looks, judged: Judged, rows: int, count: int) -> NDArray[np.int64]:
    """(rows,) queries with the same number ask for the same: by class, else by shared right answers."""
    if asked.classes is not None:
        classes = np.unique(np.asarray([str(name) for name in asked.classes]), return_inverse=True)[1]
        return classes.reshape(-1).astype(np.int64)
    return _joined([judged.right(row) for row in range(rows)], count)


def _joined(right: list[NDArray[np.int64]], count: int) -> NDArray[np.int64]:
    """(rows,) the number of each query's group: those joined that share most of the right answers of one of them."""
    rows = len(right)
    sizes = np.array([len(items) for items in right], np.int64)
    if rows > MANY or not sizes.sum():
        return np.arange(rows)
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import connected_components

    starts = np.concatenate([[0], np.cumsum(sizes)])
    table = csr_array((np.ones(starts[-1]), np.concatenate(right), starts), shape=(rows, count))
    shared = (table @ table.T).tocoo()
    enough = shared.data > SHARED * np.minimum(sizes[shared.row], sizes[shared.col])
    links = csr_array((shared.data[enough], (shared.row[enough], shared.col[enough])), shape=(rows, rows))
    return np.asarray(connected_components(links, directed=False)[1], np.int64)


def _owners(right: list[NDArray[np.int64]], numbers: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """(items,) the group for most of whose queries an item is right; -1 for none."""
    votes = np.zeros((count, int(numbers.max(initial=-1)) + 1), np.int32)
    for items, number in zip(right, numbers.tolist(), strict=True):
        if number >= 0:
            votes[items, number] += 1
    return np.where(votes.any(axis=1), votes.argmax(axis=1), -1) if votes.size else np.full(count, -1, np.int64)


def _common(names: list[str]) -> str:
    """What most names are called but for the number at their end, such as all_souls; the first where they differ."""
    if len(names) == 1:
        return names[0]
    stem, times = Counter(name.rstrip("0123456789_- .") for name in names).most_common(1)[0]
    return stem if stem and 2 * times >= len(names) else names[0]


def _distinct(names: list[str]) -> list[str]:
    """The same names, those that come again with a number behind them."""
    seen: dict[str, int] = {}
    found = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found
