"""Answers that come as Arrow columns -> ids and vectors, without a Python object per number."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.stores.engine import Hits


def rows_of(column: Any, dimensions: int) -> Vectors:
    """(n, d) float32 rows of a column of fixed-size lists; NaN where a list, or a number in it, is missing."""
    lists = column.combine_chunks() if hasattr(column, "combine_chunks") else column
    numbers = lists.values.slice(lists.offset * dimensions, len(lists) * dimensions).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        rows: Vectors = numbers.reshape(len(lists), dimensions).astype(np.float32, copy=False)
    if lists.null_count:
        rows = np.where(lists.is_valid().to_numpy(zero_copy_only=False)[:, None], rows, np.float32(np.nan))
    return rows


def hits_of(keys: Any, vectors: Any, dimensions: int, distances: NDArray[Any] | None = None) -> Hits:
    """The items of one answer; those without an id, or with a distance that is none, are left out."""
    rows = None if vectors is None else rows_of(vectors, dimensions)
    good = keys.is_valid().to_numpy(zero_copy_only=False) if keys.null_count else np.ones(len(keys), np.bool_)
    if distances is not None:
        with np.errstate(over="ignore"):
            good &= np.isfinite(distances.astype(np.float32))
    return left(Hits(keys.to_pylist(), rows, distances), good)


def split(keys: Any, distances: NDArray[Any], places: Any, queries: int) -> list[Hits]:
    """One answer for many queries, in any order -> a list for each, nearest first; `places` numbers the queries."""
    numbers = np.asarray(places)
    if (np.diff(numbers) < 0).any():
        order = np.lexsort((distances, numbers))
        keys, distances = keys.take(order), distances[order]
    ends = np.bincount(numbers, minlength=queries).cumsum().tolist()
    return [
        hits_of(keys[start:end], None, 0, distances[start:end])
        for start, end in zip([0, *ends[:-1]], ends, strict=True)
    ]


def left(hits: Hits, good: NDArray[np.bool_]) -> Hits:
    """Those of the items that are good."""
    if good.all():
        return hits
    names = [hits.keys[place] for place in np.flatnonzero(good).tolist()]
    gaps = None if hits.distances is None else hits.distances[good]
    return Hits(names, None if hits.rows is None else hits.rows[good], gaps)
