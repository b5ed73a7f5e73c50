"""What callers give as item numbers, or as a filter of them -> arrays inside the store."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank import given


def item_numbers(ids: Sequence[int] | NDArray[Any], count: int) -> NDArray[np.int64]:
    """ids as int64, or a ValueError if one of them is not from 0 to count - 1."""
    numbers = np.asarray(ids, dtype=np.int64)
    if numbers.size and (numbers.min() < 0 or numbers.max() >= count):
        raise ValueError(f"ids must be item numbers from 0 to {count - 1}; got {numbers.min()}..{numbers.max()}")
    return numbers


def numbers_meant(count: int, entries: Any, parameter: str) -> NDArray[np.int64]:
    """The item numbers that were given as `parameter`, one or several; a ValueError for what is no item."""
    entries = given.listed(entries, parameter)
    for entry in entries:
        whole = isinstance(entry, (int, np.integer)) and not isinstance(entry, bool)
        if not whole or not 0 <= entry < count:
            raise ValueError(f"{parameter} names {entry!r}, which is no item; give numbers from 0 to {count - 1}")
    return np.array(entries, np.int64)


def allowed_by(where: Any, count: int) -> NDArray[np.bool_]:
    """(count,) the items that a filter leaves: a mask, or item numbers."""
    return given.mask(where, count, partial(numbers_meant, count))
