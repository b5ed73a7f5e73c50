"""Filters, marks and labels given by users, parsed into masks and item numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import InputError
from kinrank.ids import list_entries, parse_ids, to_list, unwrap_masked_array

IdLookup = Callable[[Any, str], NDArray[np.int64]]  # (ids, name of the parameter) -> item numbers
SINGLE_OR_UNORDERED = (str, int, np.generic, UUID, set, frozenset)  # forms of a filter that cannot be a mask


def looks_like_mask(entries: Any, count: int) -> bool:
    """True if a list has one entry per item and holds nothing but 0 and 1.

    With three or more items such a list names an item twice, so it is hardly a list of ids. The texts "0" and "1", as
    read from files, count only then.
    """
    if len(entries) != count or not count:
        return False
    if isinstance(entries, np.ndarray) and entries.dtype.kind in "iuf":
        return bool(((entries == 0) | (entries == 1)).all())
    if all(isinstance(entry, str) for entry in entries):
        return count > 2 and set(entries) <= {"0", "1"}
    numbers = (int, float, np.integer, np.floating)
    return all(isinstance(entry, numbers) and not isinstance(entry, bool) and entry in (0, 1) for entry in entries)


def refuse_mask_of_numbers(entries: Any, count: int) -> None:
    """Raise an InputError if a filter could be a mask written as 0 and 1 instead of a list of ids.

    The rule also holds for one and two items, where `[0]` and `[0, 1]` may be the ids of all items. Read as ids they
    would filter nothing, as a mask they exclude items that must not be returned. Refusing them costs little, because
    the caller can leave the filter out; a wrong guess would return excluded items silently. A single id outside a list
    and a set of ids cannot be masks and are never refused here.
    """
    if looks_like_mask(entries, count):
        raise InputError(
            f"looks like a mask of 0 and 1, with one entry for each of the {count} items",
            parameter="where",
            allowed="True and False for a mask, or ids, each once",
            remedy="or leave it out to allow every item",
        )


def parse_mask(where: Any, count: int, places: IdLookup) -> NDArray[np.bool_]:
    """Return a (count,) mask of the items that a filter allows. `places` turns ids into item numbers.

    A mask holds booleans; `refuse_mask_of_numbers` says which lists of numbers are refused.

    Example:
        >>> parse_mask([True, False, True], 3, lambda names, _: np.array(names)).tolist()
        [True, False, True]
    """
    entries = where
    if hasattr(where, "__array__") and not isinstance(where, np.generic):
        entries = np.asarray(unwrap_masked_array(where, "where"))
    if isinstance(entries, np.ndarray) and entries.ndim != 1:
        raise InputError(
            f"must be one mask over all items, or a list of ids; got shape {entries.shape}", parameter="where"
        )
    if not isinstance(entries, np.ndarray) or entries.dtype == object:
        entries = to_list(entries, "where")
        if entries and all(isinstance(entry, (bool, np.bool_)) for entry in entries):
            entries = np.array(entries, np.bool_)
    if not isinstance(where, SINGLE_OR_UNORDERED):
        refuse_mask_of_numbers(entries, count)
    allowed: NDArray[np.bool_] = np.zeros(count, np.bool_)
    if isinstance(entries, np.ndarray) and entries.dtype == np.bool_:
        if len(entries) != count:
            raise InputError(
                f"has {len(entries)} entries but there are {count} items", parameter="where", allowed="one for each"
            )
        allowed |= entries
    else:
        allowed[places(entries, "where")] = True
    if not allowed.any():
        raise InputError("leaves no item", parameter="where", remedy="allow at least one, or leave it out")
    return allowed


def parse_marks(
    positives: Any, negatives: Any, count: int, places: IdLookup, items: Callable[[], int]
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]] | None:
    """Return for each of `count` queries the numbers of the items marked right and wrong; None without marks.

    Marks are one list of ids for a single query, or one such list per query. Repeated ids count once. A list of 0 and 1
    as long as the gallery, which has `items()` items, is refused: marks cannot be given as a mask.
    """
    if positives is None and negatives is None:
        return None
    right, wrong = _split_per_query(positives, "positives", count), _split_per_query(negatives, "negatives", count)
    marked = []
    for row in range(count):
        _refuse_mark_mask(right[row], "positives", items)
        _refuse_mark_mask(wrong[row], "negatives", items)
        positive, negative = np.unique(places(right[row], "positives")), np.unique(places(wrong[row], "negatives"))
        both = np.intersect1d(positive, negative)
        if len(both):
            name = next(name for name in right[row] if places([name], "positives")[0] == both[0])
            raise InputError(
                f"`positives` and `negatives` both name {name!r} for query {row}",
                remedy="mark an item as right or as wrong, not both",
            )
        marked.append((positive, negative))
    return marked


def _refuse_mark_mask(entries: list[Any], parameter: str, items: Callable[[], int]) -> None:
    """Raise an InputError for a mask of 0 and 1. One or two entries are ids, because masks are not allowed here."""
    if len(entries) > 2 and looks_like_mask(entries, len(entries)) and len(entries) == items():
        raise InputError(
            f"looks like a mask of 0 and 1, with one entry for each of the {len(entries)} items",
            parameter=parameter,
            allowed="the ids of the marked items, each once",
        )


def _split_per_query(lists: Any, parameter: str, count: int) -> list[list[Any]]:
    """Return one list of ids per query from either form of input."""
    if lists is None:
        return [[]] * count
    entries = to_list(lists, parameter)
    inner = [not isinstance(entry, (str, UUID)) and hasattr(entry, "__iter__") for entry in entries]
    if count == 1 and not any(inner):
        return [entries]
    if len(entries) != count or not all(inner):
        raise InputError(
            f"must be one list of items per query, which may be empty; there are {count} queries and {len(entries)} "
            "entries",
            parameter=parameter,
        )
    return [to_list(entry, parameter) for entry in entries]


def parse_labels(groups: Any, count: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the distinct labels by first appearance, and for each of `count` queries the position of its label.

    Example:
        >>> parse_labels(["b", "a", "b"], 3)[1].tolist()
        [0, 1, 0]
    """
    entries = list_entries(groups, "groups")
    entries = entries.tolist() if isinstance(entries, np.ndarray) else entries
    if len(entries) != count:
        raise InputError(
            f"has {len(entries)} labels but there are {count} queries", parameter="groups", allowed="one for each"
        )
    try:
        different = {label: number for number, label in enumerate(dict.fromkeys(entries))}
    except TypeError:
        raise InputError(
            "must be a list of texts or of whole numbers, one for each query", parameter="groups"
        ) from None
    return parse_ids(list(different), "groups"), np.array([different[label] for label in entries], np.int64)
