"""Inner products of a few items -> each item's nearest among them, itself first, ties to the earlier one."""

from __future__ import annotations

from typing import Any

from kinrank.stages.kernels.compiled import compiled


@compiled
def nearest_within(start: Any, stop: Any, products: Any, numbers: Any, values: Any) -> None:
    """The k largest inner products of each row, for rows start..stop: positions and values, largest first.

    products (m, m) float32; numbers (m, 1 + k) int64 and values (m, 1 + k) float32, written. Column 0 is the
    item itself even among its duplicates. A short insertion sort: k is small, and most candidates fail the first
    comparison.
    """
    k = numbers.shape[1] - 1
    for row in range(start, stop):
        numbers[row, 0] = row
        values[row, 0] = products[row, row]
        filled = 0
        for column in range(products.shape[0]):
            value = products[row, column]
            if column == row or k == 0 or (filled == k and value <= values[row, k]):
                continue
            place = filled + 1 if filled < k else k
            filled = min(filled + 1, k)
            while place > 1 and values[row, place - 1] < value:
                values[row, place] = values[row, place - 1]
                numbers[row, place] = numbers[row, place - 1]
                place -= 1
            values[row, place] = value
            numbers[row, place] = column
