"""The baseline without re-ranking: the Euclidean distance of unit vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank.methods.base import Method
from kinrank.problem import Items
from kinrank.progress import Progress


@dataclass(frozen=True, kw_only=True)
class NoReranking(Method):
    """Keep the order of the search: nearest vectors first.

    Vectors are scaled to unit length, so this is also the order of the cosine similarity; with the metric
    "euclidean" they keep their lengths. Every other method starts from this distance and is compared with it.

        d(q, x) = |q - x| = sqrt(2 - 2 q.x)

    Cost: one matrix product, O(q n d) time; memory for one block of distances.

    Helps as the baseline, and if an item has a single right result. Hurts no query, and finds
    nothing that only the neighbours of a query reveal.

    Example:
        >>> ranking = kinrank.rerank(queries, gallery, kinrank.methods.NoReranking())
    """

    name: ClassVar[str] = "none"
    paper: ClassVar[str] = "the baseline of every table: Euclidean distance between unit vectors"

    def prepare(self, items: Items, progress: Progress) -> Items:
        return items

    def distances(self, prepared: Items, queries: NDArray[np.int64]) -> NDArray[np.float32]:
        return prepared.query_distances(queries)
