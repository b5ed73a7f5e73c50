"""Labels, or what LPMT finds without them -> which items are relevant to which."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank import given
from kinrank.features import Vectors
from kinrank.methods import LPMT
from kinrank.neighbors import Integers
from kinrank.progress import Show
from kinrank.rerank import rerank

PSEUDO = "pseudo"
NEAREST = 20  # by LPMT, among which two items must have each other
UNKNOWN = (-1, "", "-1")  # the last as files of text have it
HOW = (
    'give one label per row of features: whole numbers (-1 where it is not known) or texts ("" where not), or '
    'labels="pseudo" to learn from what LPMT finds without any'
)
Signs = NDArray[np.int8]


class Relevance(Protocol):
    """Who can be a training query, (n,) `asks`, and what is relevant to it."""

    asks: NDArray[np.bool_]

    def of(self, queries: Integers, items: NDArray[Any]) -> Signs:
        """(q, k) for items (q, k): 1 relevant to their query, 0 not, -1 not known."""


class ByLabel:
    """Items of a query's label are relevant to it. Items of no known label are neither relevant nor the opposite."""

    def __init__(self, codes: Integers) -> None:
        self._codes = codes
        self.asks = codes >= 0

    def of(self, queries: Integers, items: NDArray[Any]) -> Signs:
        theirs = self._codes[items]
        return np.where(theirs < 0, -1, theirs == self._codes[queries][:, None]).astype(np.int8)


class ByPairs:
    """Pairs of items, (p,) numbers i n + j, are relevant to each other, all others are not."""

    def __init__(self, pairs: Integers, count: int) -> None:
        self._pairs, self._count = pairs, count
        self.asks = np.zeros(count, np.bool_)
        self.asks[pairs // count] = True

    def of(self, queries: Integers, items: NDArray[Any]) -> Signs:
        wanted = queries[:, None] * self._count + items.astype(np.int64)
        return np.isin(wanted, self._pairs).astype(np.int8)


def is_pseudo(labels: Any) -> bool:
    """Whether somebody asked, by name, to learn without labels."""
    return isinstance(labels, str) and labels == PSEUDO


def mutual(rows: Vectors, progress: Show = None) -> ByPairs:
    """Pairs of items that have each other among their 20 nearest by LPMT, each item asking the others."""
    found = rerank(None, rows, LPMT(), depth=NEAREST, progress=progress).indices
    count = len(rows)
    first, second = np.repeat(np.arange(count), found.shape[1]), found.reshape(-1).astype(np.int64)
    there = np.sort(first * count + second)
    back = second * count + first
    pairs = np.sort(back[np.isin(back, there)])
    if not len(pairs):
        raise ValueError('labels="pseudo": no two items are near each other, so there is nothing to learn; give labels')
    return ByPairs(pairs, count)


def codes_of(labels: ArrayLike | None, count: int) -> Integers:
    """(n,) a number for each label, -1 where it is not known; a ValueError where nothing can be learned from them.

    Example:
        >>> codes_of(["a", "", "b", "a"], 4).tolist()
        [0, -1, 1, 0]
    """
    entries = _entries(labels)
    if len(entries) != count:
        raise ValueError(f"labels has {len(entries)} entries but features has {count} rows; give one for each")
    try:
        different = [label for label in dict.fromkeys(entries) if label not in UNKNOWN]
    except TypeError:  # lists in a list
        raise ValueError(f"labels must be one label per row of features, not rows of them; {HOW}") from None
    _check_kinds(entries)
    if not different:
        raise ValueError(
            'labels are all unknown, so there is nothing to learn; give some that are known, or labels="pseudo"'
        )
    if len(different) == 1:
        raise ValueError("labels are all the same, so there is nothing to tell apart; give at least two different ones")
    number = {label: place for place, label in enumerate(different)}
    codes = np.array([number.get(label, -1) for label in entries], np.int64)
    if np.bincount(codes[codes >= 0]).max() < 2:
        raise ValueError(
            "labels are all different, so that no item is relevant to another; give labels that items share"
        )
    return codes


def _check_kinds(entries: list[Any]) -> None:
    """A ValueError for what is neither text nor whole number, and for both at once."""
    kinds: dict[str, int] = {}
    for place, label in enumerate(entries):
        whole = isinstance(label, (int, np.integer)) and not isinstance(label, bool)
        if not whole and not isinstance(label, str):
            raise ValueError(f"labels has {label!r:.80} at place {place}; {HOW}")
        kinds.setdefault("a number" if whole else "a text", place)
    if len(kinds) > 1:
        said = " and ".join(f"{kind} at place {place}" for kind, place in kinds.items())
        raise ValueError(f"labels has {said}; {HOW}")


def _entries(labels: Any) -> list[Any]:
    """The labels one by one."""
    if labels is None or isinstance(labels, (str, bytes)) or not hasattr(labels, "__iter__"):
        raise ValueError(f"labels={labels!r:.80} is not allowed; {HOW}")
    if isinstance(labels, (list, tuple)):
        return list(labels)
    array = np.asarray(given.unmasked(labels, "labels"))
    if array.ndim != 1:
        raise ValueError(f"labels has shape {array.shape}; {HOW}")
    if array.dtype.kind not in "iuUO":
        raise ValueError(f"labels has dtype {array.dtype}; {HOW}")
    return list(array.tolist())
