"""Inner products of the vectors of two supports -> ground costs d^rho."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinrank.stages.kernels.compiled import compiled, inner
from kinrank.stages.kernels.fastmath import power32

CLOSE = np.float32(1e-3)  # squared distance, of rows of length one, below which differences are summed instead


@inner
def _squared_length(row: Any) -> Any:
    total = np.float32(0.0)
    for column in range(len(row)):
        total += row[column] * row[column]
    return total


@compiled
def ground_costs(products: Any, left: Any, right: Any, rho: Any, unit: Any) -> None:
    """(m, k) inner products of rows become d^rho, in place; `unit`: the rows have length one."""
    half = np.float32(0.5 * rho)
    lengths = np.empty(0 if unit else products.shape[1], np.float32)
    for y in range(len(lengths)):
        lengths[y] = _squared_length(right[y])
    for x in range(len(products)):
        row = products[x]
        close = CLOSE
        if not unit:
            length = _squared_length(left[x])
            close = CLOSE * max(length, np.float32(1.0))
            for y in range(len(row)):  # 1 - d^2 / 2, what the product would be if all rows had length one
                row[y] += np.float32(1.0) - np.float32(0.5) * (length + lengths[y])
        least = np.float32(4.0)
        for y in range(len(row)):
            row[y] = np.float32(2.0) - np.float32(2.0) * row[y]
            least = min(least, row[y])
        if least < close:  # products have lost the digits: duplicates must be at distance 0
            for y in range(len(row)):
                if row[y] < close:
                    squared = np.float32(0.0)
                    for column in range(left.shape[1]):
                        difference = left[x, column] - right[y, column]
                        squared += difference * difference
                    row[y] = squared
        for y in range(len(row)):
            row[y] = power32(row[y], half)
