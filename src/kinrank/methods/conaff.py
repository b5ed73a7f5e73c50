"""Neighbour lists, passed along the graph twice -> contextual affinity (ConNR)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank.items import Items
from kinrank.methods.base import Method
from kinrank.methods.gnn import Passed, pass_lists, passed_distances, passed_memory, similarity_weights
from kinrank.parameters import parameter
from kinrank.progress import Progress


@dataclass(frozen=True, kw_only=True)
class ConAff(Method):
    """Two items are near when their neighbour lists, smoothed over the graph, point the same way.

    The lists are those of GNN re-ranking, passed twice along the graph with squared similarities as
    weights. Only the lists decide; the similarity of the query itself has no share in the result.

    Equation, over queries and gallery together, with cosine s_ij and N_k the first k, the item itself
    included:

        A_ij = 1 for j in N_k1(i), else 0
        twice: A <- A + A',   A_i <- sum_(j in N_k2(i)) s_ij^2 A_j,   A_i <- A_i / |A_i|
        dist = -A_q . A_x

    Distances are negated scores, so they lie in [-1, 0]; items that share nothing with the query lie at
    1e-5 of their Euclidean distance, behind the others in its order. It differs from GNN by its defaults
    only: the authors train with k1 = 10, k2 = 2 and evaluate with 40 and 20.

    Cost: n k1 k2 per step, all sparse. Memory about 24 k1 k2 bytes per item at its peak.

    Helps in large groups (dozens of right answers). Hurts in groups smaller than k2, where strangers vote.

    Example:
        >>> kinrank.rerank(queries, gallery, kinrank.ConAff(k1=40, k2=20))
    """

    name: ClassVar[str] = "conaff"
    paper: ClassVar[str] = "Contextual affinity of neighbourhood re-ranking (ConNR), NeurIPS 2023"

    k1: int = parameter(40, "length of the neighbour list that describes an item, the item itself included", low=1)
    k2: int = parameter(
        20, "how many nearest items, the item itself included, add their descriptions to that of an item", low=1
    )

    def prepare(self, items: Items, progress: Progress) -> Passed:
        near = items.neighbors(max(self.k1, self.k2))
        return pass_lists(items, near, self.k1, similarity_weights(near.first(self.k2), 2.0))

    def distances(self, prepared: Passed, queries: NDArray[np.int64]) -> NDArray[np.float32]:
        return passed_distances(prepared, queries, 0.0)

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        return passed_memory(items, self.k1, self.k2)

    def seconds(self, items: int, dimensions: int) -> float:
        return super().seconds(items, dimensions) + 6e-8 * items * self.k1 * self.k2
