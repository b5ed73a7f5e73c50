"""What can be searched of many entries -> the places of those on one page, in order or at random."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int32]
LONGEST = 200  # characters of what is searched for
KEPT = 8  # answers that are remembered, for whoever turns the page


class Grid:
    """Entries by what is written on them.

    Args:
        entries: what a place stands for, such as its id.
        written: what is searched, one text per entry, as `folded` makes it.
    """

    def __init__(self, entries: list[Any], written: list[str]) -> None:
        self._entries, self._written = entries, written
        self._answers: dict[tuple[str, int | None], Places] = {}
        self._alone = threading.Lock()

    def page(self, words: str, offset: int, limit: int, seed: int | None) -> tuple[list[Any], int]:
        """Entries `offset` to `offset + limit` of those that have all words in them, and how many these are.

        With a seed they come in an order of its own, always the same one.
        """
        found = self._found(folded(words[:LONGEST]), seed)
        offset = max(offset, 0)
        return [self._entries[place] for place in found[offset : offset + max(limit, 0)].tolist()], len(found)

    def _found(self, words: str, seed: int | None) -> Places:
        known = self._answers.get((words, seed))
        if known is not None:
            return known
        if seed is not None:
            order = np.random.default_rng(abs(seed)).permutation
            found: Places = order(self._found(words, None))
        else:
            found = self._matching(words.split())
        with self._alone:
            while len(self._answers) >= KEPT:
                del self._answers[next(iter(self._answers))]
            self._answers[words, seed] = found
        return found

    def _matching(self, words: list[str]) -> Places:
        if not words:
            return np.arange(len(self._written), dtype=np.int32)
        first, *others = sorted(words, key=len, reverse=True)  # the longest leaves the fewest
        found = [place for place, text in enumerate(self._written) if first in text]
        for word in others:
            found = [place for place in found if word in self._written[place]]
        return np.array(found, np.int32)


def folded(text: str) -> str:
    """The text as it is compared: without the difference of large and small letters."""
    return text.casefold()
