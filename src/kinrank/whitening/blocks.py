"""Vectors of any size -> float64 rows of length one, a block at a time: a memory map is never copied whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.features import check

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]
BLOCK = 2**22  # numbers of a block, 32 MB of them
LARGEST = float(np.finfo(np.float32).max)


def readable(vectors: ArrayLike, name: str, dimensions: int | None = None) -> NDArray[Any]:
    """A 2-d array of numbers that can be read in blocks; what `features.check` refuses is refused in its words.

    An array is left where it is, with the digits it has; everything else (lists, tensors, tables) becomes float32.
    """
    if not isinstance(vectors, np.ndarray) or isinstance(vectors, np.ma.MaskedArray):
        return check(vectors, name, dimensions)
    fits = vectors.ndim == 2 and vectors.dtype.kind in "fiub" and vectors.shape[1] == (dimensions or vectors.shape[1])
    return np.asarray(vectors) if fits and vectors.shape[1] else check(vectors, name, dimensions)


def blocks(rows: NDArray[Any], name: str) -> Iterator[Floats]:
    """All rows, each of length one, in blocks whose size depends on the number of columns alone."""
    for numbers in ranges(len(rows), rows.shape[1]):
        yield unit_rows(rows[numbers[0] : numbers[-1] + 1], name, numbers)


def ranges(count: int, columns: int) -> Iterator[Numbers]:
    """The numbers below `count`, so many at a time that a block has about 32 MB."""
    size = max(1, BLOCK // columns)
    for start in range(0, count, size):
        yield np.arange(start, min(start + size, count))


def unit_rows(rows: NDArray[Any], name: str, numbers: Numbers) -> Floats:
    """The rows as float64, divided by their length; `numbers` says which they are, for what goes wrong."""
    found = np.array(rows, np.float64, order="C")
    peak = np.abs(found).max(axis=1, keepdims=True)
    bad = np.flatnonzero(~(peak[:, 0] <= LARGEST))  # NaN is not below anything
    if bad.size:
        raise ValueError(
            f"{name} row {numbers[bad[0]]} contains NaN or Inf (or a number beyond float32); drop or repair it"
        )
    zero = np.flatnonzero(peak[:, 0] == 0)
    if zero.size:
        raise ValueError(f"{name} row {numbers[zero[0]]} is a zero vector and has no direction; drop it")
    found /= peak  # first, so that squares neither overflow nor vanish
    found /= np.sqrt(np.einsum("ij,ij->i", found, found))[:, None]
    return found
