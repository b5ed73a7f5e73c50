"""Arrays by name, as they come from files -> a sentence about the first that compiled loops could not rely on.

Loops follow numbers without looking. Each check is one or two passes over an array: for 200 thousand items all of them
together take a third of the time that comparing the checksums takes, so that all are always made.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.stages.kernels.rows import Rows

Arrays = dict[str, NDArray[Any]]
BLOCK = 4096  # rows whose lengths are computed at once
ROUNDING = 1e-3  # by which a length or a sum that is 1 may differ from it in float32


class BadArray(ValueError):
    """An array that was kept and that cannot be used: its name, and why."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name} {problem}")
        self.name = name


def array_in(arrays: Arrays, name: str, kind: type, shape: tuple[int | None, ...]) -> NDArray[Any]:
    """An array that was kept, or an error if it is missing or of another kind; None allows any length."""
    array = arrays.get(name)
    if array is None:
        raise BadArray(name, "is missing")
    fits = array.ndim == len(shape) and all(want in (None, got) for want, got in zip(shape, array.shape, strict=True))
    if not fits or array.dtype != kind:
        raise BadArray(name, f"must have the shape {shape} of {np.dtype(kind)}; it has {array.shape} of {array.dtype}")
    return array


def check_items(name: str, items: NDArray[Any], count: int, missing: bool = False) -> None:
    """An error if item numbers lie outside the gallery; `missing` allows -1."""
    if items.size and (int(items.min()) < (-1 if missing else 0) or int(items.max()) >= count):
        raise BadArray(name, "names items that are not there")


def check_own_first(name: str, items: NDArray[Any]) -> None:
    """An error unless every row (n, >= 1) of item numbers starts with the item itself."""
    if len(items) and not np.array_equal(items[:, 0], np.arange(len(items))):
        raise BadArray(name, "must start every row with the item itself")


def check_distinct(name: str, items: NDArray[Any]) -> None:
    """An error if a row of item numbers names an item twice; -1 may stand there as often as it likes."""
    ordered = np.sort(items, axis=1)
    if bool(((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any()):
        raise BadArray(name, "must name every item once at most in a row")


def check_range(name: str, values: NDArray[Any], low: float, high: float = math.inf) -> None:
    """An error if a number is not from low to high, or no number (NaN)."""
    if values.size and not (low <= float(values.min()) and float(values.max()) <= high):
        allowed = f"from {low:g} to {high:g}" if high < math.inf else f"of {low:g} and above"
        raise BadArray(name, f"must hold numbers {allowed}; it holds {_first_outside(values, low, high):g}")


def check_finite(name: str, values: NDArray[Any], low: float = -math.inf) -> None:
    """An error if a number is below low, infinite, or no number."""
    most = float(np.finfo(values.dtype).max)
    check_range(name, values, max(low, -most), most)


def _first_outside(values: NDArray[Any], low: float, high: float) -> float:
    flat = values.reshape(-1)
    return float(flat[np.flatnonzero(~((flat >= low) & (flat <= high)))[0]])


def check_unit(name: str, rows: Vectors) -> None:
    """An error unless every row has the length 1; this notices NaN, infinite and zero rows, too."""
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK]
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.einsum("ij,ij->i", block, block)
        bad = np.flatnonzero(~(np.abs(squares - 1.0) <= ROUNDING))
        if len(bad):
            row = start + int(bad[0])
            raise BadArray(name, f"must hold rows of length 1; that of row {row} is {math.sqrt(squares[bad[0]]):g}")


def rows_in(arrays: Arrays, name: str, count: int, kind: type = np.float32, high: float = math.inf) -> Rows:
    """Sparse rows over `count` items that were kept as name_indptr, name_indices, name_data; checked.

    Their values are from 0 to `high`.
    """
    indptr = array_in(arrays, f"{name}_indptr", np.int64, (count + 1,))
    indices = array_in(arrays, f"{name}_indices", np.int32, (None,))
    data = array_in(arrays, f"{name}_data", kind, (len(indices),))
    if int(indptr[0]) != 0 or int(indptr[-1]) != len(indices) or bool((indptr[1:] < indptr[:-1]).any()):
        raise BadArray(f"{name}_indptr", f"does not fit {name}_indices")
    check_items(f"{name}_indices", indices, count)
    check_range(f"{name}_data", data, 0.0, high)
    return Rows(indptr, indices, data)


def check_ascending(name: str, rows: Rows) -> None:
    """An error unless the items of every row ascend, none of them twice."""
    ascends = rows.indices[1:] > rows.indices[:-1]
    starts = rows.indptr[1:-1]
    ascends[starts[(starts > 0) & (starts < len(rows.indices))] - 1] = True
    if not ascends.all():
        raise BadArray(f"{name}_indices", "must ascend in every row")


def check_distributions(name: str, rows: Rows, most: int) -> None:
    """An error unless every row has 1 to `most` entries that sum to 1."""
    sizes = np.diff(rows.indptr)
    if not len(sizes):
        return
    if int(sizes.min()) < 1 or int(sizes.max()) > most:
        raise BadArray(f"{name}_indptr", f"must give every row 1 to {most} entries")
    sums = np.add.reduceat(rows.data, rows.indptr[:-1])
    bad = np.flatnonzero(~(np.abs(sums - 1.0) <= ROUNDING))
    if len(bad):
        raise BadArray(f"{name}_data", f"must sum to 1 in every row; row {int(bad[0])} sums to {sums[bad[0]]:g}")
