"""EIR: diffusion among the nearest items, solved in advance; a query adds a few of the stored rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.methods.base import (
    Answer,
    Arrays,
    Facts,
    GalleryIndex,
    MethodState,
    PreparedMethod,
    distances_from_scores,
    list_seconds,
)
from kinrank.methods.capabilities import Capabilities, Limitation
from kinrank.methods.dfs import ALPHA_MEANING, GAMMA_MEANING, MAXITER_MEANING, TOL_MEANING, graph_bytes, mutual_affinity
from kinrank.methods.prepared_search import rank_by_score
from kinrank.neighbors import Neighbors
from kinrank.parameters import parameter
from kinrank.problem import Items
from kinrank.progress import Progress
from kinrank.stages.request import Request
from kinrank.vector_input import Vectors

KQ_MEANING = "number of nearest gallery items from which a query spreads its similarity; not used by variant `joint`"
VARIANT_MEANING = (
    "`paper`: the graph of the gallery, whose stored rows a query adds; `joint`: a graph of queries and gallery, "
    "whose rows are compared"
)


@dataclass(frozen=True, eq=False, kw_only=True)
class TruncatedRows(MethodState):
    """Prepared gallery: per item its `truncation` nearest items (n, t), and their scores."""

    row_items: NDArray[np.int32]
    row_values: NDArray[np.float32]

    @classmethod
    def from_arrays(cls, method: EIR, vectors: Vectors, arrays: Arrays, facts: Facts) -> TruncatedRows:
        checks, shape = stages.array_storage, (len(vectors), min(method.truncation, len(vectors)))
        items = checks.require_array(arrays, "row_items", np.int32, shape)
        checks.check_items("row_items", items, len(vectors))
        checks.check_own_first("row_items", items)
        largest = 1.001 / (1.0 - method.alpha)  # norm of the inverse of I - alpha S, plus rounding
        values = checks.require_array(arrays, "row_values", np.float32, shape)
        checks.check_range("row_values", values, -largest, largest)
        return cls(row_items=items, row_values=values, facts=facts)


@dataclass(frozen=True, kw_only=True)
class EIR(PreparedMethod):
    """Solve the diffusion in advance for every gallery item among its nearest items, and store the solutions.

    A query then only adds the stored rows of its kq nearest items, so a search costs
    almost nothing. The graph is the one of DFS, normalised as a whole before truncation (late truncation).

    Equation: with S the normalised mutual kNN affinity of the gallery (see DFS, with kd neighbours) and T_i
    the `truncation` items nearest to i: (I - alpha S)[T_i, T_i] x_i = e_i; score(q, x) = sum over the kq
    nearest j of max(s_qj, 0)^gamma x_j(x). The distance is -score. `variant="joint"` puts the queries into
    the graph and compares whole rows instead: score(q, x) = cosine(x_q, x_x); better, but every set of
    queries has to be solved again. Items in none of the rows follow in search order.

    Cost: O(n^2 d) for lists, about 20 `truncation` kd operations per row, of which only those that the
    queries use are solved (all of them in variant joint); memory 8 bytes per item of each row: 1000 items
    times 1000 are 8 MB.

    Helps where DFS helps, if searches have to be fast. Hurts if relevant items lie beyond the
    `truncation` nearest, because nothing beyond them is reached. The published settings, for landmarks, are kd=50,
    kq=10 and alpha=0.99.

    Example:
        >>> kinrank.rerank(queries, gallery, kinrank.methods.EIR(truncation=1000))
    """

    name: ClassVar[str] = "eir"
    paper: ClassVar[str] = (
        "Yang, Hinami, Matsui, Ly, Satoh: Efficient Image Retrieval via Decoupling Diffusion into Online and "
        "Offline Processing (AAAI 2019)"
    )
    capabilities: ClassVar[Capabilities] = Capabilities(prepared_search=True, filters=True)
    limitations: ClassVar[tuple[Limitation, ...]] = (
        Limitation(
            capability="prepared_search",
            parameter="variant",
            needed="paper",
            problem="puts the queries into the graph, so it cannot prepare a gallery without them and a Manifold "
            "cannot use it",
            remedy="use EIR(variant='paper'), DFS, FSR or LPMT",
        ),
    )
    state: ClassVar[type[MethodState]] = TruncatedRows

    truncation: int = parameter(1000, "number of nearest items to which the diffusion of an item is restricted", low=1)
    kd: int = parameter(20, "length of the neighbour list of an item in the graph, the item itself included", low=1)
    kq: int = parameter(5, KQ_MEANING, low=1)
    gamma: float = parameter(3.0, GAMMA_MEANING, low=0, above_low=True, high=100)
    alpha: float = parameter(0.9, ALPHA_MEANING, low=0, high=0.999999)
    tol: float = parameter(1e-6, TOL_MEANING, low=0, high=1)
    maxiter: int = parameter(20, MAXITER_MEANING, low=1, high=10_000)
    variant: str = parameter("paper", VARIANT_MEANING, choices=("paper", "joint"))

    def prepare(self, items: Items, progress: Progress) -> tuple[Items, Any, Any]:
        """Return the items, weights of each query (q, r), and the rows (g, r) to multiply them with.

        All rows in variant joint, otherwise those of items that are among the kq nearest of some query.
        """
        if self.variant == "joint":
            rows = self._rows(items.neighbors(self.kd), items.vectors, np.arange(len(items)), progress, items.unit)
            rows, between = stages.affinity.normalize_rows(rows), stages.affinity.slice_rows
            first = len(items) - len(items.gallery)
            return items, between(rows, 0, len(items.queries)), between(rows, first, len(items))
        used, queries = stages.affinity.compute_entry_weights(items.query_neighbors(self.kq), self.gamma)
        rows = self._rows(items.gallery_neighbors(self.kd), items.gallery_vectors, used, progress, items.unit)
        return items, queries, rows.T.tocsr()

    def _rows(self, lists: Neighbors, vectors: Any, numbers: Any, progress: Progress, unit: bool) -> Any:
        """Return the sparse rows x_i of some items."""
        affinity, solver = mutual_affinity(lists, self.gamma), self._solver()
        return stages.affinity.solve_truncated_rows(affinity, vectors, numbers, self.truncation, solver, progress, unit)

    def _solver(self) -> Any:
        return stages.affinity.SolverSettings(self.alpha, self.tol, self.maxiter)

    def distances(self, prepared: tuple[Items, Any, Any], queries: NDArray[np.int64]) -> NDArray[np.float64]:
        items, weights, rows = prepared
        return distances_from_scores(self.scores(weights[queries], rows), lambda: items.query_distances(queries))

    def scores(self, weights_of_queries: Any, gallery: Any) -> NDArray[np.float64]:
        """Multiply sparse (q, r) and (g, r) to (q, g), exactly 0 for items in none of the rows."""
        scores = np.empty((weights_of_queries.shape[0], gallery.shape[0]))
        for start in range(0, len(scores), 64):
            block = slice(start, start + 64)
            scores[block] = stages.affinity.multiply_block(
                gallery, weights_of_queries[block].toarray().T.astype(np.float64)
            ).T
        return scores

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        length = min(self.truncation, items)
        rows = items if self.variant == "joint" else min(items, queries * self.kq)
        copies = rows * length * 24  # scaled in variant joint, transposed otherwise: two copies and temporary arrays
        return graph_bytes(items, self.kd) + copies + 2048 * (length + 8) * 24 + items * 64 * 24 + 64_000_000

    def seconds(self, items: int, dimensions: int) -> float:
        rows = items if self.variant == "joint" else min(items, self.kq)
        solved = 2e-9 * rows * self.maxiter * min(self.truncation, items) * self.kd
        return list_seconds(items, dimensions, self.kd) + solved

    def prepared_bytes(self, items: int, dimensions: int, changes: bool) -> int:
        lists = min(max(self.truncation, self.kd), items) * 8
        rows = min(self.truncation, items) * 8
        return super().prepared_bytes(items, dimensions, changes) + items * (lists + rows)

    def prepare_gallery(self, gallery: GalleryIndex, progress: Progress, changes: bool = True) -> MethodState:
        """Return per item `truncation` items and their scores; 8 bytes each, 8 KB an item by default."""
        lists = gallery.lists(max(self.truncation, self.kd))
        nearest, affinity = lists.indices[:, : self.truncation], mutual_affinity(lists.first(self.kd), self.gamma)
        values = stages.affinity.solve_local_rows(affinity, nearest, self._solver(), progress)
        return TruncatedRows(row_items=np.ascontiguousarray(nearest), row_values=values)

    def neighbors_needed(self, depth: int) -> int:
        return max(self.kq, depth)

    def search_gallery(self, gallery: GalleryIndex, state: TruncatedRows, request: Request) -> Answer:
        def scores(nearest: Neighbors) -> NDArray[np.float64]:
            used, weights = stages.affinity.compute_entry_weights(nearest, self.gamma)
            rows = stages.csr.matrix_from_lists(state.row_items[used], state.row_values[used], len(gallery))
            return self.scores(weights, rows.T.tocsr())

        return rank_by_score(request, len(gallery), self.kq, scores)
