"""Sparse rows -> their products with a block."""

from __future__ import annotations

from typing import Any

from kinrank.stages.kernels.compiled import compiled


@compiled
def times_block(start: Any, stop: Any, matrix: Any, block: Any, result: Any) -> None:
    """result[row] = row of the matrix times the block, for rows start..stop.

    matrix: Rows, (m, n), data float32 or float64; block (n, b) float64; result (m, b) float64, written.
    """
    width = block.shape[1]
    for row in range(start, stop):
        mine = result[row]
        for column in range(width):
            mine[column] = 0.0
        for entry in range(matrix.indptr[row], matrix.indptr[row + 1]):
            value = matrix.data[entry]
            other = block[matrix.indices[entry]]
            for column in range(width):
                mine[column] += value * other[column]
