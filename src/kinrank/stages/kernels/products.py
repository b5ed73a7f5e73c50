"""Sparse rows -> their products with a block; neighbour lists -> which of them are mutual."""

from __future__ import annotations

from typing import Any

from kinrank.stages.kernels.compiled import compiled


@compiled
def times_block(start: Any, stop: Any, pointers: Any, columns: Any, values: Any, block: Any, result: Any) -> None:
    """result[row] = sum of values * block[columns], for the rows start..stop of a CSR matrix."""
    width = block.shape[1]
    for row in range(start, stop):
        mine = result[row]
        for column in range(width):
            mine[column] = 0.0
        for entry in range(pointers[row], pointers[row + 1]):
            value = values[entry]
            other = block[columns[entry]]
            for column in range(width):
                mine[column] += value * other[column]


@compiled
def mark_mutual(start: Any, stop: Any, lists: Any, mutual: Any) -> None:
    """mutual[i, a] = whether i stands in the list of its a-th neighbour too."""
    k = lists.shape[1]
    for row in range(start, stop):
        for entry in range(k):
            other = lists[row, entry]
            found = 0
            for back in range(k):  # to the end: many columns at once
                found += lists[other, back] == row
            mutual[row, entry] = found > 0
