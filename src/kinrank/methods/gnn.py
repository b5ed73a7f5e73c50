"""Neighbour lists, passed along the graph twice -> similarity of the smoothed lists (GNN re-ranking)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.items import Items
from kinrank.methods.base import Method
from kinrank.neighbors import Neighbors
from kinrank.parameters import parameter
from kinrank.progress import Progress

if TYPE_CHECKING:
    from scipy.sparse import csr_array

BEHIND = 1e-5  # of the Euclidean distance: where items lie that share nothing with the query, at a score of 0
VARIANT = (
    "`corrected`: the sum has an item's own description once; `published`: once more, as a widespread program has it"
)


@dataclass(frozen=True)
class Passed:
    """What the queries share: lists and weights of the last step, the rows it sums, the norms of the sums."""

    items: Items
    lists: NDArray[np.int32]
    weights: NDArray[np.float32]
    rows: csr_array
    norms: NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class GNN(Method):
    """Describes every item by its neighbour list and passes these descriptions along the graph twice.

    An item starts as the 0/1 list of its k1 nearest; twice the lists are made symmetric and each becomes
    the sum of those of its k2 nearest, weighted by similarity. Items whose lists then point the same way
    are near.

    Equation, over queries and gallery together, with cosine s_ij and N_k the first k, the item itself
    included:

        A_ij = 1 for j in N_k1(i), else 0
        twice: A <- A + A',   A_i <- sum_(j in N_k2(i)) s_ij^alpha A_j,   A_i <- A_i / |A_i|
        dist = -( (1 - lam) A_q . A_x + lam s_qx )

    Distances are negated scores, so they lie in [-1, 0]; items that share nothing with the query lie at
    1e-5 of their Euclidean distance, behind the others in its order. `variant="published"` adds the item's
    own row once more to the sum, as a widespread program does; similarities below 0 count as 0 otherwise.

    Cost: n k1 k2 per step, all sparse; a query touches k1^2 k2^3 entries at most. Memory about 16 k1 k2
    bytes per item; the rows of the last step, k2 times as wide, are never kept.

    Helps in dense groups, and is among the fastest. Hurts when k1 is larger than the groups are.

    Example:
        >>> kinrank.rerank(queries, gallery, kinrank.GNN(k1=26, k2=7))
    """

    name: ClassVar[str] = "gnn"
    paper: ClassVar[str] = (
        "Zhang, Jiang, Zheng, Yang: Understanding Image Retrieval Re-Ranking: A Graph Neural Network Perspective, 2020"
    )

    k1: int = parameter(26, "length of the neighbour list that describes an item, the item itself included", low=1)
    k2: int = parameter(
        7, "how many nearest items, the item itself included, add their descriptions to that of an item", low=1
    )
    alpha: float = parameter(
        2.0, "power to which similarities are raised to weigh the descriptions in that sum", low=0, high=100
    )
    lam: float = parameter(0.0, "share of the original similarity in the score", low=0, high=1)
    variant: str = parameter("corrected", VARIANT, choices=("corrected", "published"))

    def prepare(self, items: Items, progress: Progress) -> Passed:
        near = items.neighbors(max(self.k1, self.k2))
        weights = similarity_weights(near.first(self.k2), self.alpha, clip=self.variant == "corrected")
        if self.variant == "published":
            weights[:, 0] += 1
        return pass_lists(items, near, self.k1, weights)

    def distances(self, prepared: Passed, queries: NDArray[np.int64]) -> NDArray[np.float32]:
        return passed_distances(prepared, queries, self.lam)

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        return passed_memory(items, self.k1, self.k2)

    def seconds(self, items: int, dimensions: int) -> float:
        return super().seconds(items, dimensions) + 1.2e-7 * items * self.k1 * self.k2


def similarity_weights(near: Neighbors, alpha: float, clip: bool = True) -> NDArray[np.float32]:
    """(n, k) cosine^alpha of each list; negative ones count as 0 if `clip`, or if the power is not whole."""
    cosine = stages.affinity.similarity(near.distances)
    if clip or not float(alpha).is_integer():
        cosine = np.maximum(cosine, 0)
    return np.asarray(cosine**alpha, np.float32)


def pass_lists(items: Items, near: Neighbors, k1: int, weights: NDArray[np.float32]) -> Passed:
    """One whole step of passing, and of the second all but the rows themselves."""
    context, plus_transpose = stages.context, stages.csr.plus_transpose
    listed = near.first(k1).indices
    adjacent = stages.csr.from_lists(listed, np.ones(listed.shape, np.float32), len(items))
    lists = np.ascontiguousarray(near.indices[:, : weights.shape[1]])
    rows = plus_transpose(context.unit_rows(context.row_sums(lists, weights, plus_transpose(adjacent))))
    return Passed(items, lists, weights, rows, context.row_norms(lists, weights, rows))


def passed_distances(prepared: Passed, queries: NDArray[np.int64], lam: float) -> NDArray[np.float32]:
    """(len(queries), g) negated scores; what is out of reach follows in the order of the distance."""
    items = prepared.items
    score = stages.context.smoothed_products(
        items.queries[queries], prepared.lists, prepared.weights, prepared.rows, prepared.norms, items.gallery
    )
    if lam > 0:
        raw = items.query_distances(queries)
        return -((1 - lam) * score + lam * (1 - raw * raw / 2)).astype(np.float32)
    found = stages.fallback.from_scores(score, lambda: np.float32(BEHIND) * items.query_distances(queries), last=0.0)
    return found.astype(np.float32)


def passed_memory(items: int, k1: int, k2: int) -> int:
    """Bytes for the symmetric rows of the second step, while they are added up."""
    width = min(items, 2 * k1 * k2)
    return items * (8 * max(k1, k2) + 4 * k2 + 24 * width) + 32 * 2**20
