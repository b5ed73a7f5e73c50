"""What callers give as item numbers -> an array of them, inside the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def item_numbers(ids: Sequence[int] | NDArray[Any], count: int) -> NDArray[np.int64]:
    """ids as int64, or a ValueError if one of them is not from 0 to count - 1."""
    numbers = np.asarray(ids, dtype=np.int64)
    if numbers.size and (numbers.min() < 0 or numbers.max() >= count):
        raise ValueError(f"ids must be item numbers from 0 to {count - 1}; got {numbers.min()}..{numbers.max()}")
    return numbers
