"""Names of items: given as ids, or item numbers that stay what they are when items come and go.

Items of a manifold with ids are added with ids and removed by them. Without ids the item numbers are the names, and
they are stable: new items continue behind the highest number ever given, and a removal changes nobody's name. From the
first removal on the names are therefore kept as ids, and `Ranking.indices` are positions in `manifold.ids`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

NEXT = "next_number"  # the name under which `following` is saved


@dataclass(frozen=True, eq=False)
class Names:
    """The names of `count` items.

    Attributes:
        count: how many items there are.
        ids: (n,) their names, text or whole numbers; None where item numbers are the names.
        following: the number the next item gets, where item numbers are the names and some were removed.
    """

    count: int
    ids: NDArray[Any] | None = None
    following: int | None = None

    @property
    def all(self) -> NDArray[Any]:
        """(n,) every name, in the order of the items."""
        return np.arange(self.count) if self.ids is None else self.ids

    @property
    def kind(self) -> str:
        """Where the names come from, in words."""
        if self.ids is None:
            return "item numbers"
        return "given" if self.following is None else "item numbers, some removed"

    @property
    def facts(self) -> dict[str, float]:
        """What is saved beside the ids."""
        return {} if self.following is None else {NEXT: float(self.following)}

    def check(self) -> None:
        """A ValueError if names that come from files are not what this class makes of names."""
        names = check_ids(self.ids, self.count)
        if self.following is None:
            return
        if names is None or names.dtype.kind != "i":
            raise ValueError("ids must be the numbers of the items where none were given")
        if not int(names.max(initial=-1)) < self.following <= 2**53:
            raise ValueError(f"{NEXT}={self.following} is not allowed; it must be above every number that was given")

    def of(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """The names of item numbers of any shape; padding (-1) stays -1, or an empty text."""
        if self.ids is None:
            return numbers
        names = self.ids[np.maximum(numbers, 0)] if len(self.ids) else np.empty(numbers.shape, self.ids.dtype)
        names[numbers < 0] = -1 if self.ids.dtype.kind == "i" else ""
        return names

    def number_of(self, item: Any) -> int:
        """The item number behind a name, or a ValueError."""
        if self.ids is None:
            if isinstance(item, (int, np.integer)) and not isinstance(item, bool) and 0 <= item < self.count:
                return int(item)
            raise ValueError(f"item={item!r} does not exist; give an item number from 0 to {self.count - 1}")
        same = isinstance(item, str) if self.ids.dtype.kind == "U" else isinstance(item, (int, np.integer))
        at = np.flatnonzero(self.ids == item) if same else np.empty(0, np.int64)
        if not at.size:
            raise ValueError(f"item={item!r} is not among the ids of this manifold, such as {self.ids[:1].tolist()}")
        return int(at[0])

    def numbers_of(self, ids: Any) -> NDArray[np.int64]:
        """Item numbers of the names to be removed; a ValueError for unknown names and for names given twice."""
        given = [ids] if isinstance(ids, (str, int, np.integer)) else list(ids)
        names = self.all
        places = {name: place for place, name in enumerate(names.tolist())}
        numbers: dict[int, None] = {}
        for name in given:
            plain = name.item() if isinstance(name, np.generic) else name
            if isinstance(plain, bool) or not isinstance(plain, (str, int)) or plain not in places:
                such = f", such as {names[0].item()!r}" if len(names) else ", which is empty"
                raise ValueError(f"ids names {plain!r}, which is not in this manifold{such}; nothing was removed")
            if places[plain] in numbers:
                raise ValueError(f"ids names {plain!r} twice; name every item once. Nothing was removed")
            numbers[places[plain]] = None
        return np.array(list(numbers), np.int64)

    def without(self, stay: NDArray[np.int64]) -> Names:
        """The names of the items `stay`, by their numbers: they keep them."""
        following = self.count if self.ids is None else self.following
        return Names(len(stay), self.all[stay], following)

    def and_more(self, ids: ArrayLike | None, count: int) -> Names:
        """With `count` items behind; a ValueError if ids are missing, not wanted, of another kind, or there already."""
        old, total = self.ids, self.count + count
        numbered = self.following is not None or (old is None and self.count > 0)
        if ids is None and (numbered or old is None):
            if old is None or self.following is None:
                return Names(total)
            last = self.following + count
            return Names(total, np.concatenate([old, np.arange(self.following, last)]), last)
        if numbered:
            raise ValueError("this manifold names items by their numbers, and new ones get the next; leave ids= out")
        names = check_ids(ids, count)
        if names is None:
            raise ValueError(
                f"ids is missing: items of this manifold have names; give one for each of the {count} rows"
            )
        if old is None or not len(old) or not count:
            return Names(total, names if old is None or count else old)
        _check_new(old, names)
        return Names(total, np.concatenate([old, names]))


def check_ids(ids: Any, count: int) -> NDArray[Any] | None:
    """(n,) names as text or int64: one per item, no two alike; None stays None."""
    if ids is None:
        return None
    names = np.asarray(ids)
    if names.dtype.kind == "O" and all(isinstance(name, str) for name in names.ravel()):
        names = names.astype(str)
    if names.size == 0 and names.ndim == 1:
        names = names.astype(np.int64)
    if names.ndim != 1 or names.dtype.kind not in "Uiu":
        raise ValueError(
            f"ids must be a list of texts or of whole numbers; got shape {names.shape} and dtype {names.dtype}"
        )
    if len(names) != count:
        raise ValueError(f"ids has {len(names)} names but there are {count} items; give one for each")
    unique, first = np.unique(names, return_index=True)
    if len(unique) < count:
        again = sorted(set(range(count)) - set(first.tolist()))[0]
        raise ValueError(f"ids must differ; {names[again].item()!r} stands there twice, the second time at {again}")
    return names.astype(np.int64) if names.dtype.kind in "iu" else names


def _check_new(old: NDArray[Any], names: NDArray[Any]) -> None:
    """A ValueError if names are of another kind than those that are there, or among them."""
    if names.dtype.kind != old.dtype.kind:
        kind = "texts" if old.dtype.kind == "U" else "whole numbers"
        raise ValueError(f"ids of this manifold are {kind}, such as {old[0].item()!r}; {names[0].item()!r} is not")
    twice = np.flatnonzero(np.isin(names, old))
    if len(twice):
        raise ValueError(
            f"ids must be new; {names[twice[0]].item()!r} is there already: remove it first, or give another name"
        )
