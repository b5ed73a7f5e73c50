"""Sparse rows as the compiled loops take them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Rows(NamedTuple):
    """Sparse rows under scipy's names: row i holds the entries indptr[i] to indptr[i + 1].

    indptr (n + 1,) int64; indices (entries,) int32, the column of each entry; data (entries,) float32, its value
    (float64 where a loop says so).
    """

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: NDArray[Any]
