"""What an engine found for one query -> each item once, by exact distance, then by id."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors, unit
from kinrank.neighbors import nearest


class Listed(NamedTuple):
    """Items of one query, nearest first: (n,) ids, (n,) distances, (n, d) vectors."""

    ids: NDArray[Any]
    distances: NDArray[np.float32]
    rows: Vectors


def ordered(query: Vectors, ids: NDArray[Any], rows: NDArray[Any], k: int, metric: str, dimensions: int) -> Listed:
    """The k nearest of the items `ids` with the vectors `rows` (n, d), in any order, some perhaps twice.

    Items that cannot be compared, see `comparable`, are left out.
    """
    ids, first = np.unique(ids, return_index=True)  # ascending: ties go to the lower id
    ids, rows = comparable(ids, rows[first], metric, dimensions)
    found = nearest(query[None, :], rows, k, unit=metric == "cosine")
    order = found.indices[0]
    return Listed(ids[order], found.distances[0], rows[order])


def comparable(
    ids: NDArray[Any], rows: NDArray[Any], metric: str, dimensions: int | None
) -> tuple[NDArray[Any], Vectors]:
    """The items whose vectors can be compared, and these as a store keeps them: unit rows where the metric is cosine.

    Vectors that are missing (NaN), not finite, or zero where directions are compared cannot be.
    """
    if rows.ndim != 2 or (dimensions and len(rows) and rows.shape[1] != dimensions):
        raise ValueError(f"the store gave vectors of the shape {rows.shape} but {dimensions} dimensions are needed")
    with np.errstate(over="ignore"):
        rows = np.ascontiguousarray(rows, np.float32)
    good = np.isfinite(rows).all(axis=1)
    if metric == "cosine":
        good &= rows.any(axis=1)
    if not good.all():
        ids, rows = ids[good], rows[good]
    return ids, unit(rows) if metric == "cosine" else rows
