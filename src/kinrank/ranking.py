"""Ranking: per query, item numbers and distances, nearest first."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Ranking:
    """What a search returns, a method returns and an evaluation reads.

    Attributes:
        indices: (queries, depth) item numbers, nearest first; -1 pads a row that found fewer items.
        distances: (queries, depth) how far, by the method; never decreasing along a row; inf where the row is padded.
            They order the items of one query and mean nothing beyond: most methods measure in units of the query's own
            neighbourhood, or negate a score (then some are below 0), so that rows, methods, and galleries before and
            after a change cannot be compared. Nor do equal vectors always get equal distances: a method that works on
            a graph, such as LPMT, tells copies apart by the neighbours they have in it, and among more copies than a
            neighbour list holds, those with lower numbers are listed. `none` and query expansion do not: equal vectors
            are equally far.
        meta: how it came about: `mode` (joint, candidates, online, search), `method`, `seconds`, ...

    Example:
        >>> Ranking([[2, 0]], [[0.1, 0.4]]).indices.shape
        (1, 2)
    """

    indices: Integers
    distances: Floats
    meta: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        indices = np.ascontiguousarray(self.indices, dtype=np.int64)
        distances = np.ascontiguousarray(self.distances, dtype=np.float32)
        if indices.ndim != 2 or indices.shape != distances.shape:
            raise ValueError(
                f"ranking: indices {indices.shape} and distances {distances.shape} must be two equal 2-d shapes"
            )
        object.__setattr__(self, "indices", indices)
        object.__setattr__(self, "distances", distances)

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def depth(self) -> int:
        return int(self.indices.shape[1])

    def top(self, depth: int) -> Ranking:
        """The same ranking cut to its first `depth` items."""
        return Ranking(self.indices[:, :depth], self.distances[:, :depth], self.meta)

    def __repr__(self) -> str:
        mode = self.meta.get("mode", "search")
        return f"Ranking({len(self)} queries x {self.depth} items, {mode})"


def rank_rows(distances: NDArray[Any], depth: int) -> tuple[Integers, Floats]:
    """Order each row of a dense block by (distance, item number) and cut it to `depth`.

    Shapes: (rows, items) -> two of (rows, min(depth, items)). NaN is a bug upstream and sorts last.
    """
    items = distances.shape[1]
    depth = min(depth, items)
    order = np.argsort(distances, axis=1, kind="stable")[:, :depth]
    return order.astype(np.int64, copy=False), np.take_along_axis(distances, order, axis=1).astype(np.float32)
