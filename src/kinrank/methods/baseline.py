"""The baseline without re-ranking: the Euclidean distance of unit vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank.methods.base import Answer, Arrays, Facts, GalleryIndex, MethodState, PreparedMethod
from kinrank.methods.capabilities import Capabilities
from kinrank.problem import Items
from kinrank.progress import Progress
from kinrank.stages.request import UNRESTRICTED, Request
from kinrank.vector_input import Vectors


@dataclass(frozen=True, eq=False, kw_only=True)
class PlainState(MethodState):
    """Prepared gallery: nothing besides its vectors."""

    @classmethod
    def from_arrays(cls, method: Any, vectors: Vectors, arrays: Arrays, facts: Facts) -> PlainState:
        return cls(facts=facts)


@dataclass(frozen=True, kw_only=True)
class NoReranking(PreparedMethod):
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
    capabilities: ClassVar[Capabilities] = Capabilities(prepared_search=True, filters=True, changes=True)
    state: ClassVar[type[MethodState]] = PlainState

    def prepare(self, items: Items, progress: Progress) -> Items:
        return items

    def distances(self, prepared: Items, queries: NDArray[np.int64]) -> NDArray[np.float32]:
        return prepared.query_distances(queries)

    def prepare_gallery(self, gallery: GalleryIndex, progress: Progress, changes: bool = True) -> PlainState:
        return PlainState()

    def neighbors_needed(self, depth: int) -> int:
        return depth

    def search_gallery(self, gallery: GalleryIndex, state: PlainState, request: Request) -> Answer:
        found = request.neighbors.first(request.depth)
        if request.masks is not UNRESTRICTED:
            found = gallery.search_among(request.queries, request.depth, request.masks.results)
        return Answer(found.indices.astype(np.int64), found.distances, {"certain": 1.0})
