"""What users give -> plain arrays that lose nothing on the way: no mask, no digit of an id, no end of a text."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

NUMBER = re.compile("0|-?[1-9][0-9]{0,19}")  # how a whole number is written
CONTROL = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\ud800-\\udfff]")  # no part of a line of text
INT64 = np.iinfo(np.int64)
UINT64 = np.iinfo(np.uint64)


def unmasked(array: Any, name: str) -> Any:
    """The same, or the data of a masked array in which nothing is masked; a ValueError where something is."""
    rows = array if isinstance(array, (list, tuple)) else [array]
    masked = sum(int(np.ma.getmaskarray(row).sum()) for row in rows if isinstance(row, np.ma.MaskedArray))
    if masked:
        raise ValueError(f"{name} has {masked} masked entries, which have no value; fill or drop them first")
    return array.data if isinstance(array, np.ma.MaskedArray) else array


def names(ids: Any, parameter: str = "ids") -> NDArray[Any]:
    """(n,) ids, no two alike: int64; uint64 where a number needs it; or Python texts of any length, dtype object.

    UUIDs become their text. Numbers mixed with texts are refused, and so are other kinds, and the two values that
    stand for "no item": -1 and the empty text.

    Example:
        >>> names(["a", "b"]).tolist()
        ['a', 'b']
    """
    entries = _entries(ids, parameter)
    if isinstance(entries, np.ndarray):
        found = _numbers(entries, int(entries.min(initial=0)), int(entries.max(initial=0)), parameter)
    else:
        kinds = {kind: _kind(kind) for kind in set(map(type, entries))}
        if None in kinds.values():
            place = next(place for place, entry in enumerate(entries) if kinds[type(entry)] is None)
            raise ValueError(
                f"{parameter} must be a list of texts or of whole numbers; "
                f"the one at {place} is {entries[place]!r}, a {type(entries[place]).__name__}"[:300]
            )
        if len(set(kinds.values())) > 1:
            examples = [next(e for e in entries if kinds[type(e)] == kind) for kind in ("number", "text")]
            raise ValueError(
                f"{parameter} mixes whole numbers and texts ({examples[0]!r} and {examples[1]!r:.80}); give them all "
                "as text, such as [str(name) for name in names], or all as numbers"
            )
        if "text" in kinds.values():
            found = _texts([str(entry) for entry in entries], parameter)
        else:
            found = _numbers(entries, min(entries, default=0), max(entries, default=0), parameter)
    _check_different(found, parameter)
    return found


def check_new_names(ids: NDArray[Any], parameter: str = "ids") -> None:
    """Refuse texts with control characters or line separators, which no address, no line of a file can carry.

    Only for names that are given now: galleries of kinrank 0.1.0 may have such names, and are still read.
    """
    if ids.dtype.kind != "O" or not CONTROL.search("".join(ids.tolist())):
        return
    place, name = next((place, name) for place, name in enumerate(ids.tolist()) if CONTROL.search(name))
    raise ValueError(
        f"{parameter} has {name!r:.80} at {place}, with a control character or a line separator in it; give a name "
        "that is a line of text"
    )


def size_of(ids: NDArray[Any]) -> int:
    """Bytes that an array of ids takes, its texts included."""
    return ids.nbytes + (sum(map(sys.getsizeof, ids.tolist())) if ids.dtype.kind == "O" else 0)


def _entries(ids: Any, parameter: str) -> list[Any] | NDArray[Any]:
    """The ids one by one, or an array of whole numbers."""
    if isinstance(ids, (str, bytes, UUID)) or not hasattr(ids, "__iter__"):
        raise ValueError(f"{parameter} must be a list of texts or of whole numbers; got {ids!r}"[:300])
    if isinstance(ids, (set, frozenset)):
        raise ValueError(f"{parameter} is a set, which has no order; give a list, in the order of the rows")
    if not isinstance(ids, (list, tuple)) and hasattr(ids, "__array__"):
        ids = np.asarray(unmasked(ids, parameter))
        if ids.ndim != 1:
            raise ValueError(
                f"{parameter} must be a list of texts or of whole numbers; got shape {ids.shape} and dtype {ids.dtype}"
            )
        return ids if ids.dtype.kind in "iu" else list(ids.tolist())
    return list(ids)


def _kind(kind: type) -> str | None:
    if issubclass(kind, (str, UUID)):
        return "text"
    return "number" if issubclass(kind, (int, np.integer)) and not issubclass(kind, bool) else None


def _numbers(entries: Any, low: int, high: int, parameter: str) -> NDArray[Any]:
    if low >= INT64.min and high <= INT64.max:
        return np.array(entries, np.int64)
    if low >= 0 and high <= UINT64.max:
        return np.array(entries, np.uint64)
    raise ValueError(f"{parameter} hold numbers that do not fit in 64 bits together; give all of them as text")


def _texts(entries: list[str], parameter: str) -> NDArray[Any]:
    try:
        "".join(entries).encode()
    except UnicodeEncodeError:
        entry = next(entry for entry in entries if entry.encode("utf-8", "replace").decode() != entry)
        raise ValueError(f"{parameter} has {entry!r:.80}, which is no text that UTF-8 can hold") from None
    found = np.empty(len(entries), object)
    found[:] = entries
    return found


def _check_different(found: NDArray[Any], parameter: str) -> None:
    entries = found.tolist()
    different = set(entries)
    nothing = "" if found.dtype.kind == "O" else -1
    if nothing in different:
        raise ValueError(
            f"{parameter} has {nothing!r} at {entries.index(nothing)}, which stands for no item; give another name"
        )
    if len(different) < len(entries):
        first = {entry: place for place, entry in reversed(list(enumerate(entries)))}
        again = next(place for place, entry in enumerate(entries) if first[entry] != place)
        raise ValueError(
            f"{parameter} must differ; {entries[again]!r:.80} stands there twice, the second time at {again}"
        )


def listed(ids: Any, parameter: str) -> list[Any]:
    """One name, or several, as a list; a ValueError for what is neither."""
    if isinstance(ids, (str, int, np.integer, UUID)):
        return [ids]
    if not hasattr(ids, "__iter__") or isinstance(ids, bytes):
        raise ValueError(f"{parameter}={ids!r:.80} is not allowed; give a list of items by their names or numbers")
    return list(unmasked(ids, parameter))


Places = Callable[[Any, str], NDArray[np.int64]]  # (names, parameter they were given as) -> item numbers


def mask(where: Any, count: int, places: Places) -> NDArray[np.bool_]:
    """(count,) the items a filter leaves: given as a mask, or by names, which `places` turns into item numbers.

    Example:
        >>> mask([True, False, True], 3, lambda names, _: np.array(names)).tolist()
        [True, False, True]
    """
    entries = where
    if hasattr(where, "__array__") and not isinstance(where, np.generic):
        entries = np.asarray(unmasked(where, "where"))
    if isinstance(entries, np.ndarray) and entries.ndim != 1:
        raise ValueError(f"where must be one mask over all items, or a list of them; got shape {entries.shape}")
    if not isinstance(entries, np.ndarray) or entries.dtype == object:
        entries = listed(entries, "where")
        if entries and all(isinstance(entry, (bool, np.bool_)) for entry in entries):
            entries = np.array(entries, np.bool_)
    elif entries.dtype.kind in "iu" and len(entries) == count > 2 and set(entries.tolist()) == {0, 1}:
        raise ValueError("where looks like a mask of 0 and 1; give where.astype(bool), or item numbers, each once")
    left: NDArray[np.bool_] = np.zeros(count, np.bool_)
    if isinstance(entries, np.ndarray) and entries.dtype == np.bool_:
        if len(entries) != count:
            raise ValueError(f"where has {len(entries)} entries but there are {count} items; give one for each")
        left |= entries
    else:
        left[places(entries, "where")] = True
    if not left.any():
        raise ValueError("where leaves no item; allow at least one, or leave it out")
    return left


def marks(
    positives: Any, negatives: Any, count: int, places: Places
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]] | None:
    """For each of `count` queries the numbers of the items marked right, and of those marked wrong; None for no marks.

    Given as one list of names for a single query, or as one such list per query. An item given twice counts once.
    """
    if positives is None and negatives is None:
        return None
    right, wrong = _per_query(positives, "positives", count), _per_query(negatives, "negatives", count)
    found = []
    for row in range(count):
        good, bad = np.unique(places(right[row], "positives")), np.unique(places(wrong[row], "negatives"))
        both = np.intersect1d(good, bad)
        if len(both):
            name = next(name for name in right[row] if places([name], "positives")[0] == both[0])
            raise ValueError(
                f"positives and negatives both name {name!r} for query {row}; an item is right or wrong, not both"
            )
        found.append((good, bad))
    return found


def _per_query(lists: Any, parameter: str, count: int) -> list[list[Any]]:
    """For each query a list of names, however they were given."""
    if lists is None:
        return [[]] * count
    entries = listed(lists, parameter)
    inner = [not isinstance(entry, (str, UUID)) and hasattr(entry, "__iter__") for entry in entries]
    if count == 1 and not any(inner):
        return [entries]
    if len(entries) != count or not all(inner):
        raise ValueError(
            f"{parameter} must be one list of items per query, an empty one where there are none; there are "
            f"{count} queries and {len(entries)} entries"
        )
    return [list(entry) for entry in entries]


def labels(groups: Any, count: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The different labels by first appearance, and for each of `count` queries which of them it has.

    Example:
        >>> labels(["b", "a", "b"], 3)[1].tolist()
        [0, 1, 0]
    """
    entries = _entries(groups, "groups")
    entries = entries.tolist() if isinstance(entries, np.ndarray) else entries
    if len(entries) != count:
        raise ValueError(f"groups has {len(entries)} labels but there are {count} queries; give one for each")
    try:
        different = {label: number for number, label in enumerate(dict.fromkeys(entries))}
    except TypeError:
        raise ValueError("groups must be a list of texts or of whole numbers, one for each query") from None
    return names(list(different), "groups"), np.array([different[label] for label in entries], np.int64)
