"""Sparse rows -> which of their entries are the largest."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.stages.kernels.compiled import compiled
from kinrank.stages.kernels.search import comes_after, sift_down


@compiled
def keep_strongest(start: Any, stop: Any, indptr: Any, values: Any, support: Any, keep: Any) -> None:
    """Mark the `support` largest entries of rows start..stop; of equal ones those that come first."""
    best = np.empty(support, np.float32)
    places = np.empty(support, np.int64)
    for row in range(start, stop):
        first, last = indptr[row], indptr[row + 1]
        if last - first <= support:
            for entry in range(first, last):
                keep[entry] = True
            continue
        for position in range(support):
            best[position] = -np.inf
            places[position] = last
        for entry in range(first, last):
            if comes_after(best[0], places[0], values[entry], entry):
                best[0] = values[entry]
                places[0] = entry
                sift_down(best, places, 0, support)
        for position in range(support):
            keep[places[position]] = True
