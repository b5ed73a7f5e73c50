"""Sparse rows under scipy's names, as the compiled loops want them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array


class Rows(NamedTuple):
    """Row i holds `data[indptr[i]:indptr[i + 1]]` at the columns `indices[indptr[i]:indptr[i + 1]]`."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int32]
    data: NDArray[np.float32]


def matrix_of(rows: Rows, width: int) -> csr_array:
    """The same as a scipy matrix of that many columns; scipy would copy the indices unless indptr is of their type."""
    indptr = rows.indptr.astype(np.int32) if rows.indptr[-1] < np.iinfo(np.int32).max else rows.indptr
    return csr_array((rows.data, rows.indices, indptr), shape=(len(indptr) - 1, width))
