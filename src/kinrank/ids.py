"""Ids: parsed from what users give, looked up, changed, stored as arrays, and checked before a change is logged.

Items of a manifold with ids are added with ids and removed by them. Without ids, the item numbers are the ids, and they
are stable: new items get the numbers after the highest one ever used, and a removal changes no other number. From the
first removal on, the numbers are therefore stored. A position is the index of an item in the arrays, which a removal
does change; positions are internal.

Ids are stored as int64, as uint64 if one needs it, or as Python texts (dtype object) of any length.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.errors import InputError, shorten

INTEGER_TEXT = re.compile("0|-?[1-9][0-9]{0,19}")  # text of a whole number
CONTROL_CHARACTERS = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\ud800-\\udfff]"
)  # not allowed in a line of text
INT64 = np.iinfo(np.int64)
UINT64 = np.iinfo(np.uint64)
NEXT_NUMBER_KEY = "next_number"  # `following` in a saved manifold
IDS_PREFIX = "ids"  # start of the names of the saved arrays


@dataclass(frozen=True, eq=False)
class Ids:
    """Ids of `count` items.

    Attributes:
        count: number of items.
        stored: (n,) texts or whole numbers; None if item numbers are both ids and positions.
        following: number of the next item, if item numbers are the ids and some were removed.
    """

    count: int
    stored: NDArray[Any] | None = None
    following: int | None = None

    @property
    def all(self) -> NDArray[Any]:
        """(n,) all ids, in the order of the items."""
        return np.arange(self.count) if self.stored is None else self.stored

    @property
    def kind(self) -> str:
        """Description of the ids: given, or item numbers."""
        if self.stored is None:
            return "item numbers"
        return "given" if self.following is None else "item numbers, some removed"

    @property
    def facts(self) -> dict[str, float]:
        """Single numbers to save."""
        return {} if self.following is None else {NEXT_NUMBER_KEY: float(self.following)}

    @property
    def size(self) -> int:
        """Size of the ids in bytes."""
        return 0 if self.stored is None else count_id_bytes(self.stored)

    @property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Arrays to save, without Python objects."""
        return {} if self.stored is None else pack_ids(self.stored, IDS_PREFIX)

    @classmethod
    def of_new_items(cls, ids: ArrayLike | None, count: int) -> Ids:
        """Create the ids of `count` new items from what a user gives; None for item numbers."""
        return cls(count, check_new_ids(ids, count))

    @classmethod
    def restore(cls, count: int, arrays: dict[str, NDArray[Any]], following: float | None) -> Ids:
        """Restore saved ids, taking them out of `arrays`. Raises an InputError if they do not fit `count` items."""
        packed = {key: arrays.pop(key) for key in list(arrays) if key.split("_")[0] == IDS_PREFIX}
        ids = unpack_ids(packed, IDS_PREFIX)
        if ids is not None and len(ids) != count:
            raise InputError("its ids do not fit its vectors")
        if following is None:
            return cls(count, ids)
        numbered = ids is not None and ids.dtype == np.int64 and ids.min(initial=0) >= 0
        last = int(ids.max(initial=-1)) if ids is not None and numbered else None
        if last is None or not last < following < 2**53 or following != int(following):
            raise InputError(
                f"{NEXT_NUMBER_KEY}={following} is not allowed: it must be above all item numbers, which start at 0"
            )
        return cls(count, ids, int(following))

    def of(self, places: NDArray[np.int64]) -> NDArray[Any]:
        """Return the ids at positions of any shape; padding (-1) stays -1, or becomes an empty text."""
        return places if self.stored is None else pick_ids(self.stored, places)

    def numbers(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the item numbers at positions of any shape: stable numbers, or positions if items have ids."""
        return places if self.following is None else self.of(places)

    def find_item(self, item: Any) -> int:
        """Return the position of the item with this id. Raises an InputError if it does not exist."""
        place = self._find(item)
        if place is None and self.stored is None:
            raise InputError(
                "does not exist", parameter="item", given=item, allowed=f"an item number from 0 to {self.count - 1}"
            )
        if place is None:
            raise InputError(f"is not among the ids of this manifold{self._example}", parameter="item", given=item)
        return place

    def find_items_to_remove(self, ids: Any) -> NDArray[np.int64]:
        """Return the positions of items. Raises an InputError for unknown and for repeated ids."""
        places = self.places_of(ids, "ids", "; nothing was removed")
        _, first, counts = np.unique(places, return_index=True, return_counts=True)
        if (counts > 1).any():
            repeated = self.all[places[int(first[counts > 1].min())]]
            raise InputError(
                f"contains {to_json_id(repeated)!r} twice",
                parameter="ids",
                remedy="give every id once. Nothing was removed",
            )
        return places

    def places_of(self, ids: Any, parameter: str, ending: str = "") -> NDArray[np.int64]:
        """Return the positions of items by their ids, in the given order. Raises an InputError for unknown ids.

        `ending` is appended to the message.
        """
        places = []
        for name in to_list(ids, parameter):
            place = self._find(name)
            if place is None:
                example = self._example.replace(", such as", "; its ids look like")
                problem = f"contains {to_json_id(name)!r}, which is not in this manifold{example}{ending}"
                raise InputError(problem, parameter=parameter)
            places.append(place)
        return np.array(places, np.int64)

    def _find(self, name: Any) -> int | None:
        """Return the position of an id as users give it; None if it does not exist."""
        plain = to_json_id(name)
        return self.place_of(plain) if type(plain) is not bool and isinstance(plain, (str, int)) else None

    @property
    def _example(self) -> str:
        """An existing id for a message."""
        return f", such as {self.all[:1].tolist()[0]!r}" if self.count else ", which is empty"

    def find_known_places(self, ids: NDArray[Any]) -> NDArray[np.int64]:
        """Return (len(ids),) positions of items by the ids of an engine; -1 for unknown ids."""
        texts = self.all.dtype.kind == "O"
        names = map(str, ids.tolist()) if texts else ids.tolist()
        places = (self.place_of(name) for name in names)
        return np.array([-1 if place is None else place for place in places], np.int64)

    def parse_text(self, text: str) -> str | int:
        """Convert a word of a URL, command line or file to an id: to a number if the ids are numbers.

        A word that is no number stays as it is: looking it up raises an error that shows an existing id.
        """
        return text if self.all.dtype.kind == "O" else id_from_text(text)

    def place_of(self, name: str | int) -> int | None:
        """Return the position of the item with this id; None if it does not exist."""
        if self.stored is None:
            return name if isinstance(name, int) and 0 <= name < self.count else None
        return self._places.get(name)

    @cached_property
    def _places(self) -> dict[Any, int]:
        """Position of every id, computed on first use; about 100 bytes per item."""
        return {name: place for place, name in enumerate(self.all.tolist())}

    def without(self, stay: NDArray[np.int64]) -> Ids:
        """Return the ids of the items at the positions `stay`."""
        following = self.count if self.stored is None else self.following
        return Ids(len(stay), self.all[stay], following)

    def append(self, ids: ArrayLike | None, count: int) -> Ids:
        """Append `count` items. Raises an InputError if ids are missing, not allowed, of another kind or in use."""
        old, total = self.stored, self.count + count
        numbered = self.following is not None or (old is None and self.count > 0)
        if ids is None and (numbered or old is None):
            if old is None or self.following is None:
                return Ids(total)
            last = self.following + count
            return Ids(total, np.concatenate([old, np.arange(self.following, last)]), last)
        names = check_ids(require_ids(ids, count, numbered), count)
        assert names is not None
        if old is None or not len(old) or not count:
            return Ids(total, names if old is None or count else old)
        return Ids(total, _append_ids(old, names))

    def check_replacements(self, ids: Any, count: int) -> NDArray[Any]:
        """Return one id per row that replaces an item or adds one. Raises an InputError if items have no ids."""
        if self.count and self.kind != "given":
            raise InputError(
                "this manifold has item numbers and no ids, so items cannot be replaced by id",
                remedy="build it with `ids`, or use remove() and add()",
            )
        given = check_new_ids(ids, count, self._places)
        if given is None:
            raise InputError(
                "is missing", parameter="ids", allowed=f"the new or existing id of each of the {count} rows"
            )
        return given

    def find_existing(self, ids: Any) -> NDArray[np.int64]:
        """Return the positions of the ids that exist, each once, in ascending order."""
        names = ids.tolist() if isinstance(ids, np.ndarray) else ids
        places = {place for place in map(self.place_of, names) if place is not None}
        return np.array(sorted(places), np.int64)


def check_ids(ids: Any, count: int) -> NDArray[Any] | None:
    """Return (n,) ids, one per item; None stays None. Raises an InputError if their number differs."""
    if ids is None:
        return None
    names = parse_ids(ids)
    if len(names) != count:
        raise InputError(
            f"has {len(names)} entries, but there are {count} items", parameter="ids", remedy="give one id per item"
        )
    return names


def require_ids(ids: Any, count: int, is_numbered: bool) -> Any:
    """Return the ids of `count` new items; raise an InputError if they are missing, or if items have numbers."""
    if is_numbered:
        raise InputError(
            "cannot be given: this manifold has item numbers, and new items get the next ones",
            parameter="ids",
            remedy="leave it out",
        )
    if ids is None:
        allowed = f"one id for each of the {count} rows"
        raise InputError("is missing: the items of this manifold have ids", parameter="ids", allowed=allowed)
    return ids


def check_new_ids(ids: Any, count: int, known: Container[Any] = ()) -> NDArray[Any] | None:
    """Check ids as `check_ids` does; those that are not `known` must also be single lines of text."""
    names = check_ids(ids, count)
    if names is not None and names.dtype.kind == "O":
        fresh = np.array([name not in known for name in names.tolist()], np.bool_)
        refuse_control_characters(names[fresh])
    return names


def _append_ids(old: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
    """Append ids. Raises an InputError if the new ones are of another kind or exist already."""
    if (new.dtype.kind == "O") != (old.dtype.kind == "O"):
        kind = "texts" if old.dtype.kind == "O" else "whole numbers"
        raise InputError(
            f"contains {new.tolist()[0]!r}, but the ids of this manifold are {kind}, such as {old.tolist()[0]!r}",
            parameter="ids",
        )
    existing = set(old.tolist())
    repeated = next((name for name in new.tolist() if name in existing), None)
    if repeated is not None:
        raise InputError(
            f"contains {repeated!r}, which exists already",
            parameter="ids",
            remedy="give another id, or replace the item by `upsert`",
        )
    if new.dtype != old.dtype:  # int64 and uint64: numpy would convert both to floats
        return parse_ids([*old.tolist(), *new.tolist()])
    return np.concatenate([old, new])


def unwrap_masked_array(array: Any, name: str) -> Any:
    """Return the array, or the data of a masked array without masked entries; raise an InputError if any is masked."""
    rows = array if isinstance(array, (list, tuple)) else [array]
    masked = sum(int(np.ma.getmaskarray(row).sum()) for row in rows if isinstance(row, np.ma.MaskedArray))
    if masked:
        raise InputError(
            f"has {masked} masked entries, which have no value", parameter=name, remedy="fill or drop them first"
        )
    return array.data if isinstance(array, np.ma.MaskedArray) else array


def parse_ids(ids: Any, parameter: str = "ids") -> NDArray[Any]:
    """Parse unique ids into an (n,) array: int64, uint64 if a number needs it, or Python strings (dtype object).

    UUIDs become text. Mixtures of numbers and texts are refused, and so are other types and the two values that
    stand for "no item": -1 and the empty text.

    Example:
        >>> parse_ids(["a", "b"]).tolist()
        ['a', 'b']
    """
    entries = list_entries(ids, parameter)
    if isinstance(entries, np.ndarray):
        array = _to_integer_array(entries, int(entries.min(initial=0)), int(entries.max(initial=0)), parameter)
    else:
        kinds = {kind: _find_kind(kind) for kind in set(map(type, entries))}
        if None in kinds.values():
            place = next(place for place, entry in enumerate(entries) if kinds[type(entry)] is None)
            raise InputError(
                f"must be a list of texts or of whole numbers; the one at {place} is {shorten(entries[place])}, a "
                f"{type(entries[place]).__name__}",
                parameter=parameter,
            )
        if len(set(kinds.values())) > 1:
            examples = [next(e for e in entries if kinds[type(e)] == kind) for kind in ("number", "text")]
            raise InputError(
                f"mixes whole numbers and texts ({examples[0]!r} and {examples[1]!r:.80})",
                parameter=parameter,
                remedy="give them all as text, such as [str(name) for name in names], or all as numbers",
            )
        if "text" in kinds.values():
            array = _to_text_array([str(entry) for entry in entries], parameter)
        else:
            array = _to_integer_array(entries, min(entries, default=0), max(entries, default=0), parameter)
    _check_unique(array, parameter)
    return array


def refuse_control_characters(ids: NDArray[Any], parameter: str = "ids") -> None:
    """Refuse ids with control characters or line separators, which neither a URL nor a line of a file can hold.

    Only for new ids: galleries of kinrank 0.1.0 may have such ids and can still be read.
    """
    if ids.dtype.kind != "O" or not CONTROL_CHARACTERS.search("".join(ids.tolist())):
        return
    place, name = next((place, name) for place, name in enumerate(ids.tolist()) if CONTROL_CHARACTERS.search(name))
    raise InputError(
        f"has {name!r:.80} at {place}, which contains a control character or a line separator",
        parameter=parameter,
        allowed="an id that is one line of text",
    )


def count_id_bytes(ids: NDArray[Any]) -> int:
    """Count the bytes of an array of ids, including its texts."""
    return ids.nbytes + (sum(map(sys.getsizeof, ids.tolist())) if ids.dtype.kind == "O" else 0)


def list_entries(ids: Any, parameter: str) -> list[Any] | NDArray[Any]:
    """Return the ids as a list, or as an array of whole numbers."""
    if isinstance(ids, (str, bytes, UUID)) or not hasattr(ids, "__iter__"):
        raise InputError(f"must be a list of texts or of whole numbers; got {shorten(ids)}", parameter=parameter)
    if isinstance(ids, (set, frozenset)):
        raise InputError(
            "is a set, which has no order", parameter=parameter, allowed="a list, in the order of the rows"
        )
    if not isinstance(ids, (list, tuple)) and hasattr(ids, "__array__"):
        ids = np.asarray(unwrap_masked_array(ids, parameter))
        if ids.ndim != 1:
            raise InputError(
                f"must be a list of texts or of whole numbers; got shape {ids.shape} and dtype {ids.dtype}",
                parameter=parameter,
            )
        return ids if ids.dtype.kind in "iu" else list(ids.tolist())
    return list(ids)


def _find_kind(kind: type) -> str | None:
    if issubclass(kind, (str, UUID)):
        return "text"
    return "number" if issubclass(kind, (int, np.integer)) and not issubclass(kind, bool) else None


def _to_integer_array(entries: Any, low: int, high: int, parameter: str) -> NDArray[Any]:
    if low >= INT64.min and high <= INT64.max:
        return np.array(entries, np.int64)
    if low >= 0 and high <= UINT64.max:
        return np.array(entries, np.uint64)
    raise InputError(
        "has numbers that do not fit in 64 bits together", parameter=parameter, remedy="give all of them as text"
    )


def _to_text_array(entries: list[str], parameter: str) -> NDArray[Any]:
    try:
        "".join(entries).encode()
    except UnicodeEncodeError:
        entry = next(entry for entry in entries if entry.encode("utf-8", "replace").decode() != entry)
        raise InputError(f"has {entry!r:.80}, which UTF-8 cannot encode", parameter=parameter) from None
    array = np.empty(len(entries), object)
    array[:] = entries
    return array


def _check_unique(ids: NDArray[Any], parameter: str) -> None:
    entries = ids.tolist()
    different = set(entries)
    no_item = "" if ids.dtype.kind == "O" else -1
    if no_item in different:
        raise InputError(
            f"has {no_item!r} at {entries.index(no_item)}, which stands for no item",
            parameter=parameter,
            allowed="another id",
        )
    if len(different) < len(entries):
        first = {entry: place for place, entry in reversed(list(enumerate(entries)))}
        repeated = next(place for place, entry in enumerate(entries) if first[entry] != place)
        raise InputError(
            f"must be unique; {entries[repeated]!r:.80} occurs twice, the second time at {repeated}",
            parameter=parameter,
        )


def to_list(ids: Any, parameter: str) -> list[Any]:
    """Return one id or several as a list; raise an InputError for anything else."""
    if isinstance(ids, (str, int, np.integer, UUID)):
        return [ids]
    if not hasattr(ids, "__iter__") or isinstance(ids, bytes):
        raise InputError(parameter=parameter, given=ids, allowed="a list of item ids or numbers")
    ids = unwrap_masked_array(ids, parameter)
    return list(np.asarray(ids) if hasattr(ids, "__array__") else ids)  # entries of other libraries become numpy's


def to_json_id(name: Any) -> Any:
    """Convert an id to a Python value that JSON has, str or int; a UUID becomes its text."""
    if isinstance(name, UUID):
        return str(name)
    return name.item() if isinstance(name, np.generic) else name


def id_from_text(text: str) -> str | int:
    """Return the whole number that a text stands for, or else the text."""
    return int(text) if INTEGER_TEXT.fullmatch(text) else text


def pick_ids(ids: NDArray[Any], places: NDArray[np.int64]) -> NDArray[Any]:
    """Return the ids at positions of any shape; padding (-1) becomes -1, or an empty text."""
    if ids.dtype.kind == "u":  # above int64: Python integers, which can hold -1
        ids = ids.astype(object)
        no_item: Any = -1
    else:
        no_item = "" if ids.dtype.kind == "O" else -1
    picked = ids[np.maximum(places, 0)] if len(ids) else np.empty(places.shape, ids.dtype)
    picked[places < 0] = no_item
    return picked


def pack_ids(ids: NDArray[Any], name: str) -> dict[str, NDArray[Any]]:
    """Return the arrays that store ids.

    `name` contains whole numbers. For texts, `name`_text contains all of them in UTF-8, and `name`_starts the offset of
    each and the total length.
    """
    if ids.dtype.kind != "O":
        return {name: ids}
    texts = [text.encode() for text in ids.tolist()]
    starts = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(text) for text in texts], out=starts[1:])
    return {f"{name}_text": np.frombuffer(b"".join(texts), np.uint8), f"{name}_starts": starts}


def unpack_ids(arrays: Mapping[str, NDArray[Any]], name: str) -> NDArray[Any] | None:
    """Restore and check packed ids; None if there are none. Raises an InputError for anything else."""
    numbers, text, starts = (arrays.get(key) for key in (name, f"{name}_text", f"{name}_starts"))
    if numbers is not None and text is None and starts is None:
        if numbers.ndim != 1 or numbers.dtype not in (np.int64, np.uint64):
            raise InputError(f"its {name} have dtype {numbers.dtype} and shape {numbers.shape}, which ids cannot have")
        return parse_ids(numbers, name)
    if numbers is None and text is None and starts is None:
        return None
    if numbers is not None or text is None or starts is None:
        raise InputError(f"its {name} are not complete")
    if text.ndim != 1 or text.dtype != np.uint8 or starts.ndim != 1 or starts.dtype != np.int64:
        raise InputError(f"its {name} are not texts")
    if not len(starts) or starts[0] != 0 or starts[-1] != len(text) or (np.diff(starts) < 0).any():
        raise InputError(f"its {name} have offsets outside the text")
    whole, places = text.tobytes(), starts.tolist()
    entries = [whole[start:stop].decode() for start, stop in itertools.pairwise(places)]
    if not entries:
        return np.empty(0, object)
    return parse_ids(entries, name)


class IdChange(NamedTuple):
    """Effect of a change: the ids, or the first number, of its items; how many are new, how many existed."""

    ids: list[Any] | None
    first: int | None
    new: int
    existing: int


class PendingIds:
    """Ids in use. Changes are validated like those of a Manifold and count at once; `undo` reverts them.

    Attributes:
        names: ids of all items.
        following: number of the next item; None if items have ids.
    """

    def __init__(self, names: Ids) -> None:
        self.names: set[Any] = set(names.all.tolist())
        self._undecided = names.stored is None and not names.count  # the first items decide whether there are ids
        self.following = names.count if names.stored is None and names.count else names.following
        self._changes: list[tuple[set[Any], set[Any], int | None, bool]] = []

    def __len__(self) -> int:
        return len(self.names)

    def put(self, given: Any, count: int, replace: bool) -> IdChange:
        """Add `count` items, with the given ids or the next numbers."""
        ids = check_new_ids(given, count, self.names)
        if not count:
            return IdChange([], None, 0, 0)
        if ids is None and (self.following is not None or self._undecided):
            first = self.following or 0
            self._change(set(range(first, first + count)), set(), first + count)
            return IdChange(None, first, count, 0)
        wanted = require_ids(ids, count, self.following is not None).tolist()
        existing = self._count_existing(wanted, replace)
        self._change(set(wanted) - self.names, set(), None)
        return IdChange(wanted, None, count - existing, existing)

    def remove(self, given: Any) -> IdChange:
        """Remove items; each must exist and be given once."""
        wanted = [to_json_id(name) for name in to_list(given, "ids")]
        seen = set[Any]()
        for name in wanted:
            if type(name) not in (str, int) or name not in self.names:
                example = f", such as {next(iter(self.names))!r}" if self.names else ", which is empty"
                raise InputError(
                    f"contains {name!r:.80}, which is not in this gallery{example}; nothing was removed",
                    parameter="ids",
                )
            if name in seen:
                raise InputError(
                    f"contains {name!r:.80} twice; nothing was removed", parameter="ids", remedy="give each id once"
                )
            seen.add(name)
        self._change(set(), seen, self.following)
        return IdChange(wanted, None, 0, len(wanted))

    def settle(self) -> None:
        """Keep all changes so far, because they are logged."""
        self._changes.clear()

    def undo(self) -> None:
        """Revert all changes since `settle`."""
        while self._changes:
            added, removed, following, undecided = self._changes.pop()
            self.names -= added
            self.names |= removed
            self.following, self._undecided = following, undecided

    def _change(self, added: set[Any], removed: set[Any], following: int | None) -> None:
        self._changes.append((added, removed, self.following, self._undecided))
        self.names |= added
        self.names -= removed
        self.following, self._undecided = following, self._undecided and not added

    def _count_existing(self, wanted: list[Any], replace: bool) -> int:
        """Return how many of these ids exist; check that they are compatible with the others."""
        other = next(iter(self.names), wanted[0])
        if type(other) is not type(wanted[0]):
            kind = "texts" if isinstance(other, str) else "whole numbers"
            raise InputError(
                f"of this gallery are {kind}, such as {other!r:.80}; {wanted[0]!r:.80} is not", parameter="ids"
            )
        existing = [name for name in wanted if name in self.names]
        if existing and not replace:
            raise InputError(
                f"must be new, but {existing[0]!r:.80} exists already",
                parameter="ids",
                remedy="give another id, or `replace`",
            )
        if isinstance(other, int) and not 0 <= min(wanted) <= max(wanted) <= INT64.max:
            every = [min(wanted), max(wanted), *self.names]
            if min(every) < 0 and max(every) > INT64.max:
                raise InputError("contains numbers that do not fit into 64 bits together", parameter="ids")
        return len(existing)
