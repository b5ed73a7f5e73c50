"""Names of items: given as ids, or item numbers that stay what they are when items come and go.

Items of a manifold with ids are added with ids and removed by them. Without ids the item numbers are the names, and
they are stable: new items continue behind the highest number ever given, and a removal changes nobody's name. From the
first removal on the numbers are therefore kept beside the items. Here a place is where an item stands in the arrays,
which a removal does move; places never leave a manifold without ids.

Ids are kept as int64, as uint64 where one needs it, or as Python texts (dtype object), each in its own length.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank import given
from kinrank.files.texts import packed, unpacked
from kinrank.ranking import Ranking, chosen

NEXT = "next_number"  # the name under which `following` is saved
IDS = "ids"  # what the names of the saved arrays begin with


@dataclass(frozen=True, eq=False)
class Names:
    """The names of `count` items.

    Attributes:
        count: how many items there are.
        ids: (n,) their names, texts or whole numbers; None where item numbers are the names and places.
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

    @property
    def size(self) -> int:
        """Bytes that the names take."""
        return 0 if self.ids is None else given.size_of(self.ids)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """What is saved of the ids: arrays without objects."""
        return {} if self.ids is None else packed(self.ids, IDS)

    @classmethod
    def restored(cls, count: int, arrays: dict[str, NDArray[Any]], following: float | None) -> Names:
        """From what was saved, which is taken out of `arrays`; a ValueError if it does not name `count` items."""
        mine = {key: arrays.pop(key) for key in list(arrays) if key.split("_")[0] == IDS}
        ids = unpacked(mine, IDS)
        if ids is not None and len(ids) != count:
            raise ValueError("its ids do not fit its vectors")
        if following is None:
            return cls(count, ids)
        numbered = ids is not None and ids.dtype == np.int64 and ids.min(initial=0) >= 0
        last = int(ids.max(initial=-1)) if ids is not None and numbered else None
        if last is None or not last < following < 2**53 or following != int(following):
            raise ValueError(
                f"{NEXT}={following} is not allowed: it must be above every number that was given, and these from 0"
            )
        return cls(count, ids, int(following))

    def of(self, places: NDArray[np.int64]) -> NDArray[Any]:
        """The names at places of any shape; padding (-1) stays -1, or an empty text."""
        return places if self.ids is None else chosen(self.ids, places)

    def numbers(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """The item numbers at places of any shape: they stay what they are, unless items have ids and need none."""
        return places if self.following is None else self.of(places)

    def ranking(self, places: NDArray[np.int64], distances: NDArray[np.float32], meta: dict[str, Any]) -> Ranking:
        """The ranking as it leaves the manifold: with ids, or with item numbers that stay what they are."""
        if self.ids is None:
            return Ranking(places, distances, meta)
        return Ranking(self.numbers(places), distances, meta, self.of(places))

    def number_of(self, item: Any) -> int:
        """The place of the item with a name, or a ValueError."""
        plain = _plain(item)
        if self.ids is None:
            if isinstance(plain, int) and not isinstance(plain, bool) and 0 <= plain < self.count:
                return plain
            raise ValueError(f"item={item!r} does not exist; give an item number from 0 to {self.count - 1}")
        entries = self.ids.tolist()
        if isinstance(plain, bool) or not isinstance(plain, (str, int)) or plain not in entries:
            such = f", such as {entries[0]!r}" if entries else ", which is empty"
            raise ValueError(f"item={item!r} is not among the ids of this manifold{such}")
        return int(entries.index(plain))

    def numbers_of(self, ids: Any) -> NDArray[np.int64]:
        """Places of the items to be removed; a ValueError for unknown names and for names given twice."""
        places = self.places_of(ids, "ids", "; nothing was removed")
        _, first, counts = np.unique(places, return_index=True, return_counts=True)
        if (counts > 1).any():
            again = self.all[places[int(first[counts > 1].min())]]
            raise ValueError(f"ids names {_plain(again)!r} twice; name every item once. Nothing was removed")
        return places

    def places_of(self, ids: Any, parameter: str, ending: str = "") -> NDArray[np.int64]:
        """Places of items by their names, in the order given; a ValueError for unknown names, which ends as given."""
        wanted = given.listed(ids, parameter)
        found = []
        for name in map(_plain, wanted):
            known = isinstance(name, (str, int)) and not isinstance(name, bool)
            place = self.place_of(name) if known else None
            if place is None:
                such = f", such as {self.all[:1].tolist()[0]!r}" if self.count else ", which is empty"
                raise ValueError(f"{parameter} names {name!r}, which is not in this manifold{such}{ending}")
            found.append(place)
        return np.array(found, np.int64)

    def places_there(self, ids: NDArray[Any]) -> NDArray[np.int64]:
        """(len(ids),) places of items by their names, as `stores.ids.names_of` makes them; -1 for unknown ones."""
        texts = self.all.dtype.kind == "O"
        names = map(str, ids.tolist()) if texts else ids.tolist()
        places = (self.place_of(name) for name in names)
        return np.array([-1 if place is None else place for place in places], np.int64)

    def place_of(self, name: str | int) -> int | None:
        """The place of the item with a name; None if it is not there."""
        if self.ids is None:
            return name if isinstance(name, int) and 0 <= name < self.count else None
        return self._places.get(name)

    @cached_property
    def _places(self) -> dict[Any, int]:
        """The place of every name: made when it is first asked for, about 100 bytes an item."""
        return {name: place for place, name in enumerate(self.all.tolist())}

    def without(self, stay: NDArray[np.int64]) -> Names:
        """The names of the items at the places `stay`: they keep them."""
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
                f"ids= is missing: items of this manifold have names; give one for each of the {count} rows"
            )
        if old is None or not len(old) or not count:
            return Names(total, names if old is None or count else old)
        return Names(total, _joined(old, names))

    def swapped(self, leaving: NDArray[np.int64] | list[int], ids: ArrayLike | None, count: int) -> Names:
        """Without the items at the places `leaving`, then with `count` items behind, as `and_more` names them."""
        stay = np.setdiff1d(np.arange(self.count), leaving)
        return (self.without(stay) if len(leaving) else self).and_more(ids, count)


def check_ids(ids: Any, count: int) -> NDArray[Any] | None:
    """(n,) names as `given.names` makes them, one per item; None stays None."""
    if ids is None:
        return None
    names = given.names(ids)
    if len(names) != count:
        raise ValueError(f"ids has {len(names)} names but there are {count} items; give one for each")
    return names


def check_new_ids(ids: Any, count: int, known: Container[Any] = ()) -> NDArray[Any] | None:
    """What `check_ids` returns, for ids that a user gives: those that are not `known` must be lines of text."""
    names = check_ids(ids, count)
    if names is not None and names.dtype.kind == "O":
        fresh = np.array([name not in known for name in names.tolist()], np.bool_)
        given.check_new_names(names[fresh])
    return names


def _joined(old: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
    """Both behind each other; a ValueError if the new ones are of another kind, or there already."""
    if (new.dtype.kind == "O") != (old.dtype.kind == "O"):
        kind = "texts" if old.dtype.kind == "O" else "whole numbers"
        raise ValueError(f"ids of this manifold are {kind}, such as {old.tolist()[0]!r}; {new.tolist()[0]!r} is not")
    there = set(old.tolist())
    again = next((name for name in new.tolist() if name in there), None)
    if again is not None:
        raise ValueError(f"ids must be new; {again!r} is there already: give another name, or replace it by upsert")
    if new.dtype != old.dtype:  # int64 and uint64: numpy would make floats of them
        return given.names([*old.tolist(), *new.tolist()])
    return np.concatenate([old, new])


def _plain(name: Any) -> Any:
    """A name as Python knows it; a UUID as its text."""
    if isinstance(name, UUID):
        return str(name)
    return name.item() if isinstance(name, np.generic) else name
