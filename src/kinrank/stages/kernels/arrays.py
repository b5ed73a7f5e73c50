"""Small arrays that several loops begin with; numpy's own ways to make them take longer to compile."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.stages.kernels.compiled import inner

UNTOUCHED = np.float32(-1.0)  # marks an item that a sum of masses has not reached; no mass is negative


@inner
def untouched(count: Any) -> Any:
    """(count,) float32, all UNTOUCHED."""
    sums = np.empty(count, np.float32)
    for place in range(count):
        sums[place] = UNTOUCHED
    return sums


@inner
def nobody(count: Any) -> Any:
    """(count,) int32, all -1."""
    numbers = np.empty(count, np.int32)
    for place in range(count):
        numbers[place] = -1
    return numbers


@inner
def numbered(count: Any) -> Any:
    """(count,) int32: 0, 1, 2 and so on."""
    numbers = np.empty(count, np.int32)
    for place in range(count):
        numbers[place] = place
    return numbers


@inner
def has(mask: Any, item: Any) -> Any:
    """Whether an item is in a mask; everybody is in an empty one."""
    return len(mask) == 0 or mask[item]
