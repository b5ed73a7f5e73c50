"""Sparse rows as the kernels take them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Pattern(NamedTuple):
    """Positions of sparse entries with scipy's names: indptr (n + 1,) int64 and indices (entries,) int32."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]


class Rows(NamedTuple):
    """Sparse rows with scipy's names: row i holds the entries indptr[i] to indptr[i + 1].

    indptr (n + 1,) int64; indices (entries,) int32, the column of each entry; data (entries,) float32, its value
    (float64 for kernels that say so).
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: NDArray[Any]
