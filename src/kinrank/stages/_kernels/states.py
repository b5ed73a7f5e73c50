"""Sparse rows -> which of their entries are the largest."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.stages._kernels.compiled import compiled


@compiled
def keep_strongest(start: Any, stop: Any, indptr: Any, values: Any, support: Any, keep: Any) -> None:
    """Mark the `support` largest entries of rows start..stop; equal ones in order of position."""
    for row in range(start, stop):
        first, last = indptr[row], indptr[row + 1]
        if last - first <= support:
            keep[first:last] = True
            continue
        order = np.argsort(-values[first:last], kind="mergesort")
        for position in range(support):
            keep[first + order[position]] = True
