"""Gallery: vectors, vector space and ids of a whole gallery, read from an array, a file or a Store."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.errors import MemoryLimitError
from kinrank.memory_limit import default_limit_bytes, format_bytes, parse_bytes
from kinrank.problem import Items
from kinrank.progress import SILENT, Progress
from kinrank.stores.base import Store, resolve_metric
from kinrank.stores.engine import EngineStore
from kinrank.vector_input import Vectors, check_magnitude, check_vectors, to_unit_rows
from kinrank.vector_space import Space

STORE_VECTORS = "vectors of the store"
NOTABLE_BYTES = 100_000_000  # vectors of a database: reading more is announced by a warning in the log
BLOCK_ROWS = 1024  # rows normalised at once: this takes several times the memory of its input
log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Gallery:
    """The items of a gallery, in memory and comparable.

    Attributes:
        rows: (n, d) float32 vectors in a new array, normalised or divided by one scale.
        space: how they were made comparable.
        ids: (n,) ids of a vector database, ascending; None if items are numbered.
        store: the store that they were read from; None for an array or a file.
    """

    rows: Vectors
    space: Space
    ids: NDArray[Any] | None = None
    store: Store | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def convert(self, queries: Any) -> Vectors:
        """Convert queries to comparable rows."""
        return self.space.rows(queries, "queries", self.rows.shape[1])

    def items(self, queries: Any) -> Items:
        """Return the re-ranking problem of queries; with None, every item queries the others."""
        if queries is None:
            return Items.from_gallery(self.rows, self.space.unit)
        return Items.joint(self.convert(queries), self.rows, self.space.unit)


def read_gallery(
    source: ArrayLike | Store,
    metric: str | None = None,
    name: str = "gallery",
    max_memory: int | str | None = None,
    report: Progress = SILENT,
) -> Gallery:
    """Read an array, a file or a store. `metric` is that of the store by default, else cosine.

    `name` is the parameter of the caller, for errors. `max_memory` and `report` are for `read_database`.
    """
    ids, metric = None, resolve_metric(source, metric)
    if isinstance(source, EngineStore):
        ids, rows = read_database(source, max_memory, report)
    else:
        rows = read_rows(source, metric, name)
    space = Space.of(source, None if metric == "cosine" else rows)
    rows = rows if space.unit else space.scale_rows(rows, name)
    return Gallery(rows, space, ids, source if isinstance(source, Store) else None)


def read_database(
    engine: EngineStore, max_memory: int | str | None = None, report: Progress = SILENT
) -> tuple[NDArray[Any], Vectors]:
    """Return the ids of all items of a vector database, ascending, and their vectors.

    The log and the progress say first how much will be read. Raise MemoryLimitError if it exceeds `max_memory`, by
    default four fifths of the free memory.
    """
    count, dimensions = len(engine), engine.dimensions
    size = 4 * count * dimensions
    what = f"all {count:,} items of {engine!r}: {count:,} x {dimensions} numbers, {format_bytes(size)}"
    budget = default_limit_bytes() if max_memory is None else parse_bytes(max_memory)
    if 2 * size > budget:
        raise MemoryLimitError(
            f"reading {what}, and joining them, needs {format_bytes(2 * size)} but `max_memory` allows "
            f"{format_bytes(budget)}; give a larger `max_memory`, or re-rank a number of `candidates` per query"
        )
    log.log(logging.WARNING if size >= NOTABLE_BYTES else logging.INFO, "reading %s", what)
    return report.run(f"reading {format_bytes(size)} from {engine!r}", engine.everything)


def read_rows(source: ArrayLike | Store, metric: str | None = None, name: str = "gallery") -> Vectors:
    """Return the vectors of a gallery, normalised under cosine and unchanged under the Euclidean metric.

    Example:
        >>> read_rows([[3, 4]])
        array([[0.6, 0.8]], dtype=float32)
    """
    unit = resolve_metric(source, metric) == "cosine"
    if isinstance(source, Store):
        store, make = source, to_unit_rows if unit else check_magnitude
        return convert_blocks(
            lambda start, stop: store.vectors(np.arange(start, stop)), len(store), STORE_VECTORS, make=make
        )
    rows = check_vectors(source, name)
    if not unit:
        return rows
    if not rows.any(axis=1).all():
        return to_unit_rows(rows, name)  # raises an error that names the zero row
    return convert_blocks(lambda start, stop: rows[start:stop], len(rows), name)


def convert_blocks(
    rows: Callable[[int, int], Any],
    count: int,
    name: str,
    create: Callable[[tuple[int, int]], Vectors] | None = None,
    make: Callable[[Vectors, str], Vectors] = to_unit_rows,
) -> Vectors:
    """Read vectors block by block with `rows(start, stop)` into a new array, or into the one of `create(shape)`.

    `make` converts a validated block. Errors name a bad row by its number in the block, and the block by its first row.
    """
    first = check_vectors(rows(0, min(BLOCK_ROWS, count)), name)
    shape = count, first.shape[1]
    made = np.empty(shape, np.float32) if create is None else create(shape)
    for start in range(0, count, BLOCK_ROWS):
        stop = min(start + BLOCK_ROWS, count)
        label = name if start == 0 else f"{name} (counted from row {start})"
        block = first if start == 0 else check_vectors(rows(start, stop), label, first.shape[1])
        made[start:stop] = make(block, label)
    return made
