"""DFS: diffusion from each query's nearest items over the gallery's mutual kNN graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.features import Vectors
from kinrank.items import Items
from kinrank.methods.base import Method
from kinrank.methods.served import Answer, Gallery, Kept, best_scored
from kinrank.neighbors import Neighbors
from kinrank.parameters import parameter
from kinrank.progress import Progress
from kinrank.stages.masks import EVERYONE, Masks

ALPHA = "share of an item's score that is passed on to its neighbours; closer to 1 reaches further from the query"


@dataclass(frozen=True)
class Graph:
    """The items, the gallery nearest to each query, and the normalised affinity S of the gallery."""

    items: Items
    nearest: Neighbors
    affinity: Any


@dataclass(frozen=True, kw_only=True)
class DFS(Method):
    """Spreads similarity from each query's nearest items through the gallery's graph and ranks by where it
    settles. Two items are joined when each is among the k nearest of the other, with weight s^gamma. The
    query itself is not in the graph: it enters through its kq nearest items only.

    Equation: A_ij = max(s_ij, 0)^gamma for mutual neighbours, A_ii = 0; S = D^-1/2 A D^-1/2; y_j =
    max(s_qj, 0)^gamma for the kq nearest, 0 elsewhere; (I - alpha S) f = y. The distance is -f. Items
    that the diffusion does not reach follow in the order of the search.

    Cost: O(n^2 d) for the graph, O(n k) per conjugate gradient step and query; memory O(n k). Nothing n x n.

    Helps when relevant items form chains or clusters of which the query sees only one end, and alpha near 1
    lets similarity travel far. Hurts when the kq nearest are wrong (the mistake is spread too) and in
    galleries of unrelated items, where mutual neighbours are accidental: lower alpha or k.

    Example:
        >>> kinrank.rerank(queries, gallery, kinrank.DFS(k=50, kq=10))
    """

    name: ClassVar[str] = "dfs"
    paper: ClassVar[str] = "Iscen, Tolias, Avrithis, Furon, Chum: Efficient Diffusion on Region Manifolds (CVPR 2017)"

    k: int = parameter(
        50, "length of the neighbour list of a gallery item in the graph, the item itself included", low=1
    )
    kq: int = parameter(10, "how many of the nearest gallery items a query spreads its similarity from", low=1)
    gamma: float = parameter(
        3.0,
        "power to which similarities are raised; larger favours the nearest neighbours",
        low=0,
        above_low=True,
        high=100,
    )
    alpha: float = parameter(0.99, ALPHA, low=0, high=0.999999)
    tol: float = parameter(
        1e-6, "relative residual at which the linear solver stops; smaller is more exact and slower", low=0, high=1
    )
    maxiter: int = parameter(20, "largest number of steps of the linear solver", low=1, high=10_000)

    def prepare(self, items: Items, progress: Progress) -> Graph:
        affinity = self.affinity(items.gallery_neighbors(self.k))
        return Graph(items, items.query_neighbors(self.kq), affinity)

    def affinity(self, lists: Neighbors) -> Any:
        """S, (g, g), of the gallery's k nearest; all that has to be known before there are queries."""
        return stages.affinity.normalised(stages.affinity.mutual_affinity(lists, self.gamma))

    def distances(self, prepared: Graph, queries: NDArray[np.int64]) -> NDArray[np.float64]:
        scores = self.scores(prepared.affinity, prepared.nearest, queries)
        return stages.fallback.from_scores(scores, lambda: prepared.items.query_distances(queries))

    def scores(self, affinity: Any, nearest: Neighbors, queries: NDArray[np.int64]) -> NDArray[np.float64]:
        """(len(queries), g) f of these rows of `nearest`, exactly 0 where the diffusion does not come."""
        sources = stages.affinity.seeds(nearest, queries, affinity.shape[0], self.gamma)
        return np.asarray(stages.linear.diffuse(affinity, sources, self.alpha, self.tol, self.maxiter).T)

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        return graph_bytes(items, self.k) + solver_bytes(items)

    def keep(self, gallery: Gallery, progress: Progress, changes: bool = True) -> Kept:
        """Per item its mutual neighbours, fewer than k, with their weights in S; 12 bytes each."""
        graph = self.affinity(gallery.lists(self.k))
        rows = stages.csr.Rows(graph.indptr.astype(np.int64), graph.indices.astype(np.int32), graph.data)
        return Kept(stages.saved.arrays_of("graph", rows))

    def opened(self, vectors: Vectors, kept: Kept, checked: bool = False) -> Any:
        """S, (n, n) csr."""
        if not checked:  # the largest eigenvalue of S is 1: no entry is larger
            stages.checks.rows_in(kept.arrays, "graph", len(vectors), np.float64, 1.0 + stages.checks.ROUNDING)
        return stages.csr.matrix_of(stages.saved.known_rows(kept.arrays, "graph"), len(vectors))

    def reach(self, depth: int) -> int:
        return max(self.kq, depth)

    def answer(
        self, gallery: Gallery, opened: Any, queries: Vectors, found: Neighbors, k: int, depth: int, budget: int | None,
        masks: Masks = EVERYONE,
    ) -> Answer:  # fmt: skip
        def scores(nearest: Neighbors) -> NDArray[np.float64]:
            return self.scores(opened, nearest, np.arange(len(nearest.indices)))

        return best_scored(found, len(gallery), self.kq, depth, scores, masks)


def graph_bytes(items: int, k: int) -> int:
    """Neighbour lists with the copies their search makes, then weights, mask and the matrix twice."""
    k = min(k, items)
    return items * (k + 8) * 24 + items * k * 42


def solver_bytes(items: int) -> int:
    """A few arrays of 64 right-hand sides, and the sources and scores of a block of queries."""
    return items * 64 * 8 * 6 + 64_000_000
