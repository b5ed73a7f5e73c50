"""Whole numbers that name items, and filters made of them -> sorted arrays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank import given
from kinrank.stores.address import Address

Labels = NDArray[Any]


def as_labels(entries: Any, number: Any) -> Labels:
    """Whole numbers as labels of the type `number`, ascending, each once; those that no label can be are left out."""
    if not isinstance(entries, np.ndarray):
        limits = np.iinfo(number)
        low, high = int(limits.min), int(limits.max)
        return np.unique(np.array([int(entry) for entry in entries if low <= entry <= high], number))
    if entries.dtype.kind == "i" and number is np.uint64:
        entries = entries[entries >= 0]
    elif entries.dtype.kind == "u" and number is np.int64:
        entries = entries[entries <= np.uint64(np.iinfo(np.int64).max)]
    return np.unique(entries.astype(number))


def placed(sorted_labels: Labels, labels: Labels) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Where labels stand in an ascending array, and whether they do."""
    if not len(sorted_labels):
        return np.zeros(len(labels), np.int64), np.zeros(len(labels), np.bool_)
    places = np.minimum(np.searchsorted(sorted_labels, labels), len(sorted_labels) - 1)
    return places, sorted_labels[places] == labels


def wanted_by(where: Any, number: Any, count: int, everything: Callable[[], Labels], who: Any) -> Labels:
    """The labels, ascending, that a filter names: a list of them, or a mask over all of them in ascending order.

    `everything()` gives all labels, ascending, of which there are `count` at most. `who` stands in errors.
    """
    plain = isinstance(where, np.ndarray) and where.ndim == 1 and where.dtype.kind in "biu"
    entries: Any = given.unmasked(where, "where") if plain else given.listed(where, "where")
    if not len(entries):
        raise ValueError("where leaves no item; allow at least one, or leave it out")
    if entries.dtype.kind == "b" if plain else all(isinstance(entry, (bool, np.bool_)) for entry in entries):
        labels = everything()
        return labels[given.mask(entries, len(labels), lambda *_: np.empty(0, np.int64))]
    ordered = not isinstance(where, given.SINGLE_OR_UNORDERED)
    if ordered and len(entries) <= count and given.looks_like_mask(entries, len(entries)):
        given.refuse_mask_of_numbers(entries, len(everything()))
    if not plain:
        strange = [e for e in entries if not isinstance(e, (int, np.integer)) or isinstance(e, bool)]
        if strange:
            raise ValueError(
                f"where names {strange[0]!r:.60}, a {type(strange[0]).__name__}, but {who!r} has no fields and its ids "
                "are whole numbers; give a list of ids, or a mask of all items in the order of their ids"
            )
    return as_labels(entries, number)


def file_of(address: Address) -> Path:
    """The file that an address names, if it is there."""
    scheme = address.scheme
    if address.host is not None:
        raise ValueError(f"{scheme}://{address.host}/... names a server; it needs a file, {scheme}:file")
    path = Path(address.needed("path", f"a file, {scheme}:file"))
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there, or is no file")
    return path
