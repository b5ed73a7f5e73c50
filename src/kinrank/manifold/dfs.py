"""DFS, served: the gallery's graph once; then per query a few steps of conjugate gradients over it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.manifold.scored import WithoutChains, check_items, kept, ranked
from kinrank.manifold.serving import Answer
from kinrank.manifold.snapshot import Snapshot
from kinrank.methods import DFS, Method
from kinrank.neighbors import Neighbors
from kinrank.progress import Progress


class ServingDFS(WithoutChains):
    """Kept per item: its mutual neighbours, fewer than k, with their weights in S; 12 bytes each."""

    def memory(self, method: Method, items: int, dimensions: int) -> int:
        return 4 * dimensions * items + method.memory(items, 0, dimensions)

    def offline(
        self, method: Method, vectors: Vectors, lists_of: Callable[[int], Neighbors], progress: Progress
    ) -> tuple[dict[str, NDArray[Any]], dict[str, float]]:
        assert isinstance(method, DFS)
        graph = method.affinity(lists_of(method.k))
        arrays = {
            "graph_starts": graph.indptr.astype(np.int64),
            "graph_items": graph.indices.astype(np.int32),
            "graph_weights": graph.data,
        }
        return arrays, {}

    def restore(
        self, method: Method, vectors: Vectors, arrays: dict[str, NDArray[Any]], facts: dict[str, float]
    ) -> Any:
        from scipy import sparse

        n = len(vectors)
        starts = kept(arrays, "graph_starts", np.int64, (n + 1,))
        items = kept(arrays, "graph_items", np.int32, (None,))
        weights = kept(arrays, "graph_weights", np.float64, (len(items),))
        if int(starts[0]) != 0 or int(starts[-1]) != len(items) or bool((np.diff(starts) < 0).any()):
            raise ValueError("graph_starts do not fit graph_items")
        check_items("graph_items", items, n)
        return sparse.csr_array((weights, items, starts), shape=(n, n))

    def reach(self, method: Method, depth: int) -> int:
        assert isinstance(method, DFS)
        return max(method.kq, depth)

    def online(
        self, snapshot: Snapshot, queries: Vectors, found: Neighbors, k: int, depth: int, budget: int | None
    ) -> Answer:
        method, graph = snapshot.method, snapshot.prepared
        assert isinstance(method, DFS)

        def scores(nearest: Neighbors) -> NDArray[np.float64]:
            return method.scores(graph, nearest, np.arange(len(nearest.indices)))

        return ranked(snapshot, found, method.kq, depth, scores)
