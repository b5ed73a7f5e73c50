"""A gallery, in memory, in a file or in a Store -> all its vectors as rows that can be compared, block by block."""

from __future__ import annotations

from collections.abc import Callable, Sized
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.features import Vectors, bounded, check, unit
from kinrank.space import Space
from kinrank.stores import Store
from kinrank.stores.engine import EngineStore
from kinrank.stores.scaled import metric_of

VECTORS = "vectors of the store"
BLOCK = 1024  # rows brought to unit length at once: that takes several times its input

Create = Callable[[tuple[int, int]], Vectors]


def gallery_rows(gallery_or_store: ArrayLike | Store, metric: str | None = None) -> tuple[Vectors, Space]:
    """(n, d) float32 rows in a new array, and how they were made: unit rows, or all in units of one scale."""
    return gallery_with_ids(gallery_or_store, metric)[:2]


def gallery_with_ids(
    gallery_or_store: ArrayLike | Store, metric: str | None = None
) -> tuple[Vectors, Space, NDArray[Any] | None]:
    """The same, and the ids of the items, lowest first, where a vector database holds them."""
    ids, metric = None, metric_of(gallery_or_store, metric)
    if isinstance(gallery_or_store, EngineStore):
        ids, rows = gallery_or_store.everything()
    else:
        rows = given_rows(gallery_or_store, metric)
    if metric == "cosine":
        return rows, Space.of(gallery_or_store), ids
    space = Space.of(gallery_or_store, rows)
    return space.scaled(rows, "gallery"), space, ids


def given_rows(gallery_or_store: ArrayLike | Store, metric: str | None = None) -> Vectors:
    """The rows of a gallery as unit rows, or as they were given where lengths matter."""
    if metric_of(gallery_or_store, metric) == "cosine":
        return unit_rows(gallery_or_store)
    if not isinstance(gallery_or_store, Store):
        return check(gallery_or_store, "gallery")
    store = gallery_or_store
    return unit_blocks(
        lambda start, stop: store.vectors(np.arange(start, stop)), _count(store), VECTORS, _empty, make=bounded
    )


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
    store = gallery_or_store
    return unit_blocks(lambda start, stop: store.vectors(np.arange(start, stop)), _count(store), VECTORS, _empty)


def unit_blocks(
    rows: Callable[[int, int], Any],
    count: int,
    name: str,
    create: Create,
    dimensions: int | None = None,
    make: Callable[[Vectors, str], Vectors] = unit,
) -> Vectors:
    """The same of rows that are read block by block, `rows(start, stop)`, into an array that `create(shape)` makes.

    A bad row is named by its number in its block, and the block by its first row. `make` turns a checked block into
    what is kept.
    """
    first = check(rows(0, min(BLOCK, count)), name, dimensions)
    made = create((count, first.shape[1]))
    for start in range(0, count, BLOCK):
        stop = min(start + BLOCK, count)
        label = name if start == 0 else f"{name} (counted from row {start})"
        block = first if start == 0 else check(rows(start, stop), label, first.shape[1])
        made[start:stop] = make(block, label)
    return made


def _count(store: Store) -> int:
    if not isinstance(store, Sized):
        raise ValueError(
            "this store does not tell how many vectors it holds; give it a __len__, pass its vectors, or pass queries "
            "and candidates= to re-rank from it"
        )
    return len(store)


def _empty(shape: tuple[int, int]) -> NDArray[np.float32]:
    return np.empty(shape, np.float32)
