"""Nearest neighbours by definition, every pair measured: slow counterpart of kinrank.neighbors.find_nearest."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def distances(queries: NDArray[np.float32], items: NDArray[np.float32]) -> NDArray[np.float64]:
    """Eq. 1: return (q, n) Euclidean distances in double precision."""
    table = np.zeros((len(queries), len(items)))
    for row, query in enumerate(queries.astype(np.float64)):
        for column, item in enumerate(items.astype(np.float64)):
            table[row, column] = np.sqrt(np.sum((query - item) ** 2))
    return table


def nearest(
    queries: NDArray[np.float32],
    items: NDArray[np.float32],
    k: int,
    own: NDArray[np.int64] | None = None,
    self_first: bool = True,
) -> list[list[tuple[float, int]]]:
    """Return the k nearest of each query as (distance, item), ties to the lower item; own item first or left out."""
    lists = []
    for row, measured in enumerate(distances(queries, items)):
        me = -1 if own is None else int(own[row])
        others = sorted((float(gap), item) for item, gap in enumerate(measured) if item != me)
        first = [(0.0, me)] if me >= 0 and self_first else []
        lists.append((first + others)[:k])
    return lists
