"""Query expansion, served: maybe an augmented gallery once; then per query a mixture, searched for again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.items import Items
from kinrank.manifold.lists import found_by
from kinrank.manifold.scored import WithoutChains, alike, kept
from kinrank.manifold.serving import Answer
from kinrank.manifold.snapshot import Snapshot
from kinrank.methods import Method
from kinrank.methods.expansion import Expansion, Neighborhoods
from kinrank.neighbors import Neighbors, first_equal, nearest
from kinrank.progress import SILENT, Progress


class ServingExpansion(WithoutChains):
    """Kept: the augmented gallery, (n, d), where kdba > 0; else nothing.

    Queries are expanded from the original gallery. The second search asks the store, if there is one, as long as the
    gallery is not augmented: an augmented one is searched exactly, since the store does not hold it.
    """

    def memory(self, method: Method, items: int, dimensions: int) -> int:
        return 4 * dimensions * items + method.memory(items, 0, dimensions)

    def offline(
        self, method: Method, vectors: Vectors, lists_of: Callable[[int], Neighbors], progress: Progress
    ) -> tuple[dict[str, NDArray[Any]], dict[str, float]]:
        assert isinstance(method, Expansion)
        if not method.kdba:
            return {}, {}
        items = Items.everyone(vectors)
        items._lists["joint"] = lists_of(method.kdba)  # instead of an exact search of its own
        return {"augmented": method.augmented(items, progress)[first_equal(vectors)]}, {}

    def restore(
        self, method: Method, vectors: Vectors, arrays: dict[str, NDArray[Any]], facts: dict[str, float]
    ) -> Vectors | None:
        assert isinstance(method, Expansion)
        return kept(arrays, "augmented", np.float32, vectors.shape) if method.kdba else None

    def reach(self, method: Method, depth: int) -> int:
        assert isinstance(method, Expansion)
        return method.k

    def online(
        self, snapshot: Snapshot, queries: Vectors, found: Neighbors, k: int, depth: int, budget: int | None
    ) -> Answer:
        method, augmented = snapshot.method, snapshot.prepared
        assert isinstance(method, Expansion)
        expanded = np.empty_like(queries)
        for some, others in alike(found, method.k):
            around = Neighborhoods(queries[some], snapshot.vectors, others, method.k, None, False)
            expanded[some] = method.expand(around, SILENT)
        exact = augmented is not None
        again = nearest(expanded, augmented, depth) if exact else found_by(snapshot, expanded, depth)
        # -q'.x' of unit vectors, as `Expansion.distances` has it
        distances = np.square(again.distances, dtype=np.float64) / 2.0 - 1.0
        return Answer(again.indices.astype(np.int64), distances.astype(np.float32), {"certain": 1.0})
