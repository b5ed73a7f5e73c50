"""The names of all items after the last change that was logged, applied or not -> whether the next one can be made."""

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

import numpy as np

from kinrank.given import INT64, listed
from kinrank.manifold.names import Names, check_new_ids


class Made(NamedTuple):
    """What a change does: the names, or the first number, of what it puts or removes; how many are new, and known."""

    ids: list[Any] | None
    first: int | None
    fresh: int
    there: int


def plain(name: Any) -> Any:
    """A name as JSON can hold it: a text or a number of Python; a UUID as its text."""
    if isinstance(name, UUID):
        return str(name)
    return name.item() if isinstance(name, np.generic) else name


class Known:
    """Names that are taken. A change is checked as a Manifold would check it, and counts at once; `undo` takes it back.

    Attributes:
        names: of all items.
        following: the number that the next item gets; None where items have names.
    """

    def __init__(self, names: Names) -> None:
        self.names: set[Any] = set(names.all.tolist())
        self._undecided = names.ids is None and not names.count  # the first items say whether they have names
        self.following = names.count if names.ids is None and names.count else names.following
        self._done: list[tuple[set[Any], set[Any], int | None, bool]] = []

    def __len__(self) -> int:
        return len(self.names)

    def put(self, given: Any, count: int, replace: bool) -> Made:
        """`count` items come, under given names or under the next numbers; a ValueError if they cannot."""
        ids = check_new_ids(given, count, self.names)
        if not count:
            return Made([], None, 0, 0)
        if ids is None and (self.following is not None or self._undecided):
            first = self.following or 0
            self._change(set(range(first, first + count)), set(), first + count)
            return Made(None, first, count, 0)
        if self.following is not None:
            raise ValueError("this gallery names items by their numbers, and new ones get the next; leave ids out")
        if ids is None:
            raise ValueError(f"ids is missing: items of this gallery have names; give one for each of the {count} rows")
        wanted = ids.tolist()
        there = self._check_new(wanted, replace)
        self._change(set(wanted) - self.names, set(), None)
        return Made(wanted, None, count - there, there)

    def remove(self, given: Any) -> Made:
        """Items leave; a ValueError if one of them is not there, or is named twice."""
        wanted = [plain(name) for name in listed(given, "ids")]
        seen = set[Any]()
        for name in wanted:
            if type(name) not in (str, int) or name not in self.names:
                such = f", such as {next(iter(self.names))!r}" if self.names else ", which is empty"
                raise ValueError(f"ids names {name!r:.80}, which is not in this gallery{such}; nothing was removed")
            if name in seen:
                raise ValueError(f"ids names {name!r:.80} twice; name every item once. Nothing was removed")
            seen.add(name)
        self._change(set(), seen, self.following)
        return Made(wanted, None, 0, len(wanted))

    def settle(self) -> None:
        """What was done so far is logged, and is not taken back."""
        self._done.clear()

    def undo(self) -> None:
        """Take back everything since `settle`."""
        while self._done:
            fresh, gone, following, undecided = self._done.pop()
            self.names -= fresh
            self.names |= gone
            self.following, self._undecided = following, undecided

    def _change(self, fresh: set[Any], gone: set[Any], following: int | None) -> None:
        self._done.append((fresh, gone, self.following, self._undecided))
        self.names |= fresh
        self.names -= gone
        self.following, self._undecided = following, self._undecided and not fresh

    def _check_new(self, wanted: list[Any], replace: bool) -> int:
        """How many of these names are there already; a ValueError unless they fit to the others."""
        other = next(iter(self.names), wanted[0])
        if type(other) is not type(wanted[0]):
            kind = "texts" if isinstance(other, str) else "whole numbers"
            raise ValueError(f"ids of this gallery are {kind}, such as {other!r:.80}; {wanted[0]!r:.80} is not")
        there = [name for name in wanted if name in self.names]
        if there and not replace:
            raise ValueError(
                f"ids must be new; {there[0]!r:.80} is there already: give another name, or ask for it to be replaced"
            )
        if isinstance(other, int) and not 0 <= min(wanted) <= max(wanted) <= INT64.max:
            every = [min(wanted), max(wanted), *self.names]
            if min(every) < 0 and max(every) > INT64.max:
                raise ValueError("ids hold numbers that do not fit in 64 bits together; give others")
        return len(there)
