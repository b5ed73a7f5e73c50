"""DFS: diffusion from the nearest items of each query over the mutual kNN graph of the gallery."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.methods.base import Answer, Arrays, Facts, GalleryIndex, MethodState, PreparedMethod, distances_from_scores
from kinrank.methods.capabilities import Capabilities
from kinrank.methods.prepared_search import rank_by_score
from kinrank.neighbors import Neighbors
from kinrank.parameters import parameter
from kinrank.problem import Items
from kinrank.progress import Progress
from kinrank.stages.request import Request
from kinrank.vector_input import Vectors

if TYPE_CHECKING:
    from kinrank.stages.csr import Rows

GAMMA_MEANING = "power to which similarities are raised; larger favours the nearest neighbours"
TOL_MEANING = "relative residual at which the linear solver stops; smaller is more exact and slower"
MAXITER_MEANING = "largest number of steps of the linear solver"
ALPHA_MEANING = (
    "share of an item's score that is passed on to its neighbours; closer to 1 reaches further from the query"
)


def mutual_affinity(lists: Neighbors, gamma: float) -> Any:
    """Return S, (g, g): similarity^gamma of items that list each other, normalised."""
    return stages.affinity.normalize_affinity(stages.affinity.mutual_affinity(lists, gamma))


class QueriesOverGraph(NamedTuple):
    """Prepared data: items, gallery items nearest to each query, and the state of the gallery."""

    items: Items
    nearest: Neighbors
    state: Any


@dataclass(frozen=True, kw_only=True)
class GraphDiffusion(PreparedMethod):
    """Base class of methods that spread similarity from the nearest items of a query over the graph of the gallery.

    Subclasses implement `make_state` and `scores`; the distance is the negated score.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(prepared_search=True, filters=True)

    k: int = parameter(
        20, "length of the neighbour list of a gallery item in the graph, the item itself included", low=1
    )
    kq: int = parameter(5, "number of nearest gallery items from which a query spreads its similarity", low=1)
    gamma: float = parameter(3.0, GAMMA_MEANING, low=0, above_low=True, high=100)
    alpha: float = parameter(0.9, ALPHA_MEANING, low=0, high=0.999999)

    def make_state(self, affinity: Any) -> MethodState:
        """Return the state of a gallery with the normalised affinity S, (g, g); it is independent of the queries."""
        raise NotImplementedError

    def scores(self, state: Any, sources: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (g, q) f for sources y, (g, q); exactly 0 where the diffusion does not arrive."""
        raise NotImplementedError

    def _diffuse(self, state: Any, count: int, nearest: Neighbors) -> NDArray[np.float64]:
        """Return (q, count) f of queries with these nearest items."""
        sources = stages.affinity.build_right_hand_sides(nearest, count, self.gamma)
        return np.asarray(self.scores(state, sources).T)

    def prepare(self, items: Items, progress: Progress) -> QueriesOverGraph:
        affinity = mutual_affinity(items.gallery_neighbors(self.k), self.gamma)
        return QueriesOverGraph(items, items.query_neighbors(self.kq), self.make_state(affinity))

    def distances(self, prepared: QueriesOverGraph, queries: NDArray[np.int64]) -> NDArray[np.float64]:
        items, nearest, state = prepared
        chosen = Neighbors(nearest.indices[queries], nearest.distances[queries])
        scores = self._diffuse(state, len(items.gallery), chosen)
        return distances_from_scores(scores, lambda: items.query_distances(queries))

    def prepare_gallery(self, gallery: GalleryIndex, progress: Progress, changes: bool = True) -> MethodState:
        return self.make_state(mutual_affinity(gallery.lists(self.k), self.gamma))

    def neighbors_needed(self, depth: int) -> int:
        return max(self.kq, depth)

    def search_gallery(self, gallery: GalleryIndex, state: MethodState, request: Request) -> Answer:
        count = len(gallery)
        return rank_by_score(request, count, self.kq, lambda nearest: self._diffuse(state, count, nearest))


@dataclass(frozen=True, eq=False, kw_only=True)
class AffinityRows(MethodState):
    """Prepared gallery: S, per item its mutual neighbours with their weights."""

    rows: Rows

    @cached_property
    def matrix(self) -> Any:
        """S as an (n, n) csr array."""
        return stages.csr.matrix_from_rows(self.rows, len(self.rows.indptr) - 1)

    def to_arrays(self) -> Arrays:
        return stages.array_storage.rows_to_arrays("graph", self.rows)

    @classmethod
    def from_arrays(cls, method: DFS, vectors: Vectors, arrays: Arrays, facts: Facts) -> AffinityRows:
        largest = 1.0 + stages.array_storage.ROUNDING  # the largest eigenvalue of S is 1, so no entry is larger
        rows = stages.array_storage.require_rows(arrays, "graph", len(vectors), np.float64, largest)
        return cls(rows=rows, facts=facts)


@dataclass(frozen=True, kw_only=True)
class DFS(GraphDiffusion):
    """Spread similarity from the nearest items of each query through the graph of the gallery, and rank by the result.

    Two items are connected if each is among the k nearest of the other, with weight s^gamma. The
    query itself is not in the graph: it enters through its kq nearest items only.

    Equation: A_ij = max(s_ij, 0)^gamma for mutual neighbours, A_ii = 0; S = D^-1/2 A D^-1/2; y_j =
    max(s_qj, 0)^gamma for the kq nearest, 0 elsewhere; (I - alpha S) f = y. The distance is -f. Items
    that the diffusion does not reach follow in search order.

    Cost: O(n^2 d) for the graph, O(n k) per conjugate gradient step and query; memory O(n k). Nothing n x n.

    Helps if relevant items form chains or clusters of which the query is near one end only; alpha near 1
    lets similarity travel far. Hurts if the kq nearest are wrong (the mistake spreads too) and in
    galleries of unrelated items, where mutual neighbours are accidental: lower alpha or k. The published settings,
    for landmarks, are k=50, kq=10 and alpha=0.99; on other data they lose several points.

    Example:
        >>> kinrank.rerank(queries, gallery, kinrank.DFS(k=20, kq=5))
    """

    name: ClassVar[str] = "dfs"
    paper: ClassVar[str] = "Iscen, Tolias, Avrithis, Furon, Chum: Efficient Diffusion on Region Manifolds (CVPR 2017)"
    state: ClassVar[type[MethodState]] = AffinityRows

    tol: float = parameter(1e-6, TOL_MEANING, low=0, high=1)
    maxiter: int = parameter(20, MAXITER_MEANING, low=1, high=10_000)

    def make_state(self, affinity: Any) -> AffinityRows:
        """Return per item its mutual neighbours, fewer than k, with their weights in S; 12 bytes each."""
        return AffinityRows(rows=stages.csr.rows_from_matrix(affinity, np.float64))

    def scores(self, state: AffinityRows, sources: NDArray[np.float64]) -> NDArray[np.float64]:
        return stages.affinity.diffuse_sources(state.matrix, sources, self.alpha, self.tol, self.maxiter)

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        return graph_bytes(items, self.k) + solver_bytes(items)


def graph_bytes(items: int, k: int) -> int:
    """Estimate neighbour lists with the copies of their search, then weights, mask and the matrix twice."""
    k = min(k, items)
    return items * (k + 8) * 24 + items * k * 42


def solver_bytes(items: int) -> int:
    """Estimate a few arrays of 64 right-hand sides, and the sources and scores of a block of queries."""
    return items * 64 * 8 * 6 + 64_000_000
