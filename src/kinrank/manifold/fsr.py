"""FSR, served: eigenpairs of the gallery's graph once; then per query two products with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.manifold.scored import WithoutChains, check_items, kept, ranked
from kinrank.manifold.serving import Answer
from kinrank.manifold.snapshot import Snapshot
from kinrank.methods import FSR, Method
from kinrank.neighbors import Neighbors
from kinrank.progress import Progress

if TYPE_CHECKING:
    from kinrank.stages.spectrum import Part


class ServingFSR(WithoutChains):
    """Kept per item: its entry in each eigenvector of its component, up to `rank` of them; 8 bytes each.

    Components lie one behind the other: their items, their eigenvalues, and their vectors row by row.
    """

    def memory(self, method: Method, items: int, dimensions: int) -> int:
        assert isinstance(method, FSR)
        rank = items if method.variant == "published" else min(items, method.rank)
        entries = items * rank  # joined into one array while the parts are still there
        return 4 * dimensions * items + method.memory(items, 0, dimensions) + 8 * entries

    def offline(
        self, method: Method, vectors: Vectors, lists_of: Callable[[int], Neighbors], progress: Progress
    ) -> tuple[dict[str, NDArray[Any]], dict[str, float]]:
        assert isinstance(method, FSR)
        parts, _ = method.spectrum(lists_of(method.k))
        sizes = [(len(part.items), len(part.values)) for part in parts]
        arrays = {
            "part_sizes": np.array(sizes, np.int64).reshape(-1, 2),
            "part_items": np.concatenate([np.empty(0, np.int64), *(part.items for part in parts)]),
            "part_values": np.concatenate([np.empty(0), *(part.values for part in parts)]),
            "part_vectors": np.concatenate([np.empty(0), *(part.vectors.ravel() for part in parts)]),
        }
        return arrays, {}

    def restore(
        self, method: Method, vectors: Vectors, arrays: dict[str, NDArray[Any]], facts: dict[str, float]
    ) -> tuple[list[Part], NDArray[np.int64]]:
        from kinrank.stages.spectrum import Part

        sizes = kept(arrays, "part_sizes", np.int64, (None, 2))
        if sizes.size and int(sizes.min()) < 1:
            raise ValueError("part_sizes must be positive")
        many, ranks = int(sizes[:, 0].sum()), int(sizes[:, 1].sum())
        items = kept(arrays, "part_items", np.int64, (many,))
        values = kept(arrays, "part_values", np.float64, (ranks,))
        entries = kept(arrays, "part_vectors", np.float64, (int(sizes.prod(axis=1).sum()),))
        check_items("part_items", items, len(vectors))
        parts, item, rank, entry = [], 0, 0, 0
        for size, count in sizes.tolist():
            block = entries[entry : entry + size * count].reshape(size, count)
            parts.append(Part(items[item : item + size], values[rank : rank + count], block))
            item, rank, entry = item + size, rank + count, entry + size * count
        return parts, np.setdiff1d(np.arange(len(vectors)), items)

    def reach(self, method: Method, depth: int) -> int:
        assert isinstance(method, FSR)
        return max(method.kq, depth)

    def online(
        self, snapshot: Snapshot, queries: Vectors, found: Neighbors, k: int, depth: int, budget: int | None
    ) -> Answer:
        method = snapshot.method
        assert isinstance(method, FSR)
        parts, isolated = snapshot.prepared

        def scores(nearest: Neighbors) -> NDArray[np.float64]:
            return method.scores(parts, isolated, len(snapshot), nearest, np.arange(len(nearest.indices)))

        return ranked(snapshot, found, method.kq, depth, scores)
