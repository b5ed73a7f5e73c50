"""GNN re-ranking: similarity of neighbour lists that are smoothed twice along the graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.methods.conaff import ConAff, SmoothedLists
from kinrank.neighbors import Neighbors
from kinrank.parameters import parameter

VARIANT_MEANING = (
    "`corrected`: the sum contains an item's own description once; `published`: twice, as in a widespread program"
)


@dataclass(frozen=True, kw_only=True)
class GNN(ConAff):
    """Describe every item by its neighbour list and pass these descriptions along the graph twice.

    An item starts as the 0/1 list of its k1 nearest. Twice, the lists are made symmetric and each becomes
    the sum of those of its k2 nearest, weighted by similarity. Items whose lists then point in the same
    direction are near.

    Equation, over queries and gallery together, with cosine s_ij and N_k the first k, the item itself
    included:

        A_ij = 1 for j in N_k1(i), else 0
        twice: A <- A + A',   A_i <- sum_(j in N_k2(i)) s_ij^alpha A_j,   A_i <- A_i / |A_i|
        dist = -( (1 - lam) A_q . A_x + lam s_qx )

    Distances are negated scores, so they lie in [-1, 0]; items that share nothing with the query follow
    at 1e-5 of their Euclidean distance, in its order. `variant="published"` adds the item's
    own row once more to the sum, as a widespread program does; otherwise similarities below 0 count as 0.

    Cost: n k1 k2 per step, all sparse; a query touches k1^2 k2^3 entries at most. Memory about 16 k1 k2
    bytes per item; the rows of the last step, k2 times as wide, are never stored.

    Helps in dense groups, and is among the fastest methods. Hurts if k1 is larger than the groups.

    Example:
        >>> kinrank.rerank(queries, gallery, kinrank.methods.GNN(k1=26, k2=7))
    """

    name: ClassVar[str] = "gnn"
    paper: ClassVar[str] = (
        "Zhang, Jiang, Zheng, Yang: Understanding Image Retrieval Re-Ranking: A Graph Neural Network Perspective, 2020"
    )

    k1: int = parameter(26, "length of the neighbour list that describes an item, the item itself included", low=1)
    k2: int = parameter(
        7, "number of nearest items, the item itself included, whose descriptions are added to that of an item", low=1
    )
    alpha: float = parameter(2.0, "power of the similarities that weight the descriptions in that sum", low=0, high=100)
    lam: float = parameter(0.0, "share of the original similarity in the score", low=0, high=1)
    variant: str = parameter("corrected", VARIANT_MEANING, choices=("corrected", "published"))

    def weights(self, near: Neighbors) -> NDArray[np.float32]:
        """Return (n, k2) cosine^alpha; negative cosines count as 0 unless published, or if the power is fractional."""
        cosine = stages.affinity.similarity(near.distances)
        if self.variant == "corrected" or not self.alpha.is_integer():
            cosine = np.maximum(cosine, 0)
        weights = np.asarray(cosine**self.alpha, np.float32)
        if self.variant == "published":
            weights[:, 0] += 1
        return weights

    def distances(self, prepared: SmoothedLists, queries: NDArray[np.int64]) -> NDArray[np.float32]:
        if self.lam == 0:
            return super().distances(prepared, queries)
        raw = prepared.items.query_distances(queries)
        mixed = (1 - self.lam) * self.scores(prepared, queries) + self.lam * (1 - raw * raw / 2)
        return -mixed.astype(np.float32)

    def seconds(self, items: int, dimensions: int) -> float:
        return super().seconds(items, dimensions) + 6e-8 * items * self.k1 * self.k2
