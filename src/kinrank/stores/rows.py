"""A gallery, in memory, in a file or in a Store -> all its vectors as unit rows, block by block."""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.features import Vectors, check, unit
from kinrank.stores import Store

VECTORS = "vectors of the store"
BLOCK = 1024  # rows brought to unit length at once: that takes several times its input

Create = Callable[[tuple[int, int]], Vectors]


def unit_rows(gallery_or_store: ArrayLike | Store) -> Vectors:
    """(n, d) float32 rows of unit length, in a new array; a Store that knows its length is asked for all its vectors.

    Example:
        >>> unit_rows([[3, 4]])
        array([[0.6, 0.8]], dtype=float32)
    """
    if not isinstance(gallery_or_store, Store):
        rows = check(gallery_or_store, "gallery")
        if not rows.any(axis=1).all():
            return unit(rows, "gallery")  # refuses the zero row, by its number
        return unit_blocks(lambda start, stop: rows[start:stop], len(rows), "gallery", _empty, rows.shape[1])
    if not isinstance(gallery_or_store, Sized):
        raise ValueError(
            "this store does not tell how many vectors it holds; give it a __len__, pass its vectors, or pass queries "
            "and candidates= to re-rank from it"
        )
    store = gallery_or_store
    return unit_blocks(
        lambda start, stop: store.vectors(np.arange(start, stop)), len(gallery_or_store), VECTORS, _empty
    )


def unit_blocks(
    rows: Callable[[int, int], Any], count: int, name: str, create: Create, dimensions: int | None = None
) -> Vectors:
    """The same of rows that are read block by block, `rows(start, stop)`, into an array that `create(shape)` makes.

    A bad row is named by its number in its block, and the block by its first row.
    """
    first = check(rows(0, min(BLOCK, count)), name, dimensions)
    made = create((count, first.shape[1]))
    for start in range(0, count, BLOCK):
        stop = min(start + BLOCK, count)
        label = name if start == 0 else f"{name} (counted from row {start})"
        block = first if start == 0 else check(rows(start, stop), label, first.shape[1])
        made[start:stop] = unit(block, label)
    return made


def _empty(shape: tuple[int, int]) -> NDArray[np.float32]:
    return np.empty(shape, np.float32)
