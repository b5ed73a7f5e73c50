"""Contextual affinity (ConNR): neighbour lists, smoothed twice along the graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.methods.base import Method, distances_from_scores
from kinrank.neighbors import Neighbors
from kinrank.parameters import parameter
from kinrank.problem import Items
from kinrank.progress import Progress

if TYPE_CHECKING:
    from scipy.sparse import csr_array

UNREACHED_SCALE = 1e-5  # of the Euclidean distance of items that share nothing with the query (score 0)


class SmoothedLists(NamedTuple):
    """Prepared data: lists and weights of the last step, the rows that it sums, and the norms of the sums."""

    items: Items
    lists: NDArray[np.int32]
    weights: NDArray[np.float32]
    rows: csr_array
    norms: NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class ConAff(Method):
    """Two items are near if their neighbour lists, smoothed over the graph, point in the same direction.

    The lists are those of GNN re-ranking, passed twice along the graph with squared similarities as
    weights. Only the lists decide; the similarity of the query itself does not contribute.

    Equation, over queries and gallery together, with cosine s_ij and N_k the first k, the item itself
    included:

        A_ij = 1 for j in N_k1(i), else 0
        twice: A <- A + A',   A_i <- sum_(j in N_k2(i)) s_ij^2 A_j,   A_i <- A_i / |A_i|
        dist = -A_q . A_x

    Distances are negated scores, so they lie in [-1, 0]; items that share nothing with the query follow
    at 1e-5 of their Euclidean distance, in its order. It differs from GNN by its defaults
    only: the authors train with k1 = 10, k2 = 2 and evaluate with 40 and 20.

    Cost: n k1 k2 per step, all sparse. Memory about 24 k1 k2 bytes per item at its peak.

    Helps in large groups (dozens of right results). Hurts in groups smaller than k2, where unrelated items vote.

    Example:
        >>> kinrank.rerank(queries, gallery, kinrank.methods.ConAff(k1=40, k2=20))
    """

    name: ClassVar[str] = "conaff"
    paper: ClassVar[str] = "Contextual affinity of neighbourhood re-ranking (ConNR), NeurIPS 2023"

    k1: int = parameter(40, "length of the neighbour list that describes an item, the item itself included", low=1)
    k2: int = parameter(
        20, "number of nearest items, the item itself included, whose descriptions are added to that of an item", low=1
    )

    def weights(self, near: Neighbors) -> NDArray[np.float32]:
        """Return (n, k2) weights of the lists that are added: squared similarities, negative ones count as 0."""
        return np.asarray(np.maximum(stages.affinity.similarity(near.distances), 0) ** 2.0, np.float32)

    def prepare(self, items: Items, progress: Progress) -> SmoothedLists:
        """Compute the first step, and everything of the second except the rows themselves."""
        near = items.neighbors(max(self.k1, self.k2))
        weights = self.weights(near.first(self.k2))
        context, plus_transpose = stages.reciprocal_sets, stages.csr.add_transpose
        near_items = near.first(self.k1).indices
        adjacent = stages.csr.matrix_from_lists(near_items, np.ones(near_items.shape, np.float32), len(items))
        lists = np.ascontiguousarray(near.indices[:, : weights.shape[1]])
        rows = plus_transpose(context.normalize_rows(context.sum_rows(lists, weights, plus_transpose(adjacent))))
        return SmoothedLists(items, lists, weights, rows, context.compute_row_norms(lists, weights, rows))

    def scores(self, prepared: SmoothedLists, queries: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return (len(queries), g) the cosines of the smoothed lists, exactly 0 if they share nothing."""
        items, lists, weights, rows, norms = prepared
        return stages.reciprocal_sets.compute_smoothed_cosines(
            items.queries[queries], lists, weights, rows, norms, items.gallery
        )

    def distances(self, prepared: SmoothedLists, queries: NDArray[np.int64]) -> NDArray[np.float32]:
        ranked = distances_from_scores(
            self.scores(prepared, queries),
            lambda: np.float32(UNREACHED_SCALE) * prepared.items.query_distances(queries),
            last=0.0,
        )
        return ranked.astype(np.float32)

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        """Estimate the bytes of the symmetric rows of the second step while they are added."""
        width = min(items, 2 * self.k1 * self.k2)
        return items * (8 * max(self.k1, self.k2) + 4 * self.k2 + 24 * width) + 32 * 2**20

    def seconds(self, items: int, dimensions: int) -> float:
        return super().seconds(items, dimensions) + 6e-8 * items * self.k1 * self.k2
