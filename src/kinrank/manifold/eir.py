"""EIR, served: the truncated diffusion of every item once; then per query the sum of a few of these rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.manifold.scored import WithoutChains, check_items, kept, ranked
from kinrank.manifold.serving import Answer
from kinrank.manifold.snapshot import Snapshot
from kinrank.methods import EIR, Method
from kinrank.neighbors import Neighbors
from kinrank.progress import Progress


class ServingEIR(WithoutChains):
    """Kept per item: `truncation` items and what they get from it; 8 bytes each, 8 KB an item by default."""

    def check(self, method: Method) -> None:
        assert isinstance(method, EIR)
        if method.variant != "paper":
            raise ValueError(
                f"EIR(variant={method.variant!r}) puts the queries into the graph, so nothing can be prepared "
                "without them and a Manifold cannot serve it; use EIR(variant='paper'), DFS, FSR or LPMT"
            )

    def memory(self, method: Method, items: int, dimensions: int) -> int:
        assert isinstance(method, EIR)
        lists = min(max(method.truncation, method.kd), items) * 8
        rows = min(method.truncation, items) * 8
        return items * (4 * dimensions + lists + rows) + method.memory(items, 0, dimensions)

    def offline(
        self, method: Method, vectors: Vectors, lists_of: Callable[[int], Neighbors], progress: Progress
    ) -> tuple[dict[str, NDArray[Any]], dict[str, float]]:
        assert isinstance(method, EIR)
        lists = lists_of(max(method.truncation, method.kd))
        values = method.all_rows(lists, progress)
        items = np.ascontiguousarray(lists.indices[:, : method.truncation])
        return {"row_items": items, "row_values": values}, {}

    def restore(
        self, method: Method, vectors: Vectors, arrays: dict[str, NDArray[Any]], facts: dict[str, float]
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        assert isinstance(method, EIR)
        shape = len(vectors), min(method.truncation, len(vectors))
        items = kept(arrays, "row_items", np.int32, shape)
        values = kept(arrays, "row_values", np.float32, shape)
        check_items("row_items", items, len(vectors))
        return items, values

    def reach(self, method: Method, depth: int) -> int:
        assert isinstance(method, EIR)
        return max(method.kq, depth)

    def online(
        self, snapshot: Snapshot, queries: Vectors, found: Neighbors, k: int, depth: int, budget: int | None
    ) -> Answer:
        from kinrank.stages.truncation import as_matrix

        method = snapshot.method
        assert isinstance(method, EIR)
        items, values = snapshot.prepared

        def scores(nearest: Neighbors) -> NDArray[np.float64]:
            used, weights = method.weigh(nearest)
            rows = as_matrix(items[used], values[used], len(snapshot))
            return method.scores(weights, rows.T.tocsr())

        return ranked(snapshot, found, method.kq, depth, scores)
