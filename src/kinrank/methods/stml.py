"""STML: contextual similarity from the overlap of reciprocal neighbourhoods, averaged over neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.methods.base import Method
from kinrank.parameters import parameter
from kinrank.problem import Items
from kinrank.progress import Progress

if TYPE_CHECKING:
    from scipy.sparse import csr_array

PAIR_SCALE = {"corrected": 0.1, "published": 0.1, "loss": 3.0}  # sigma of the pairwise part
VARIANT_MEANING = (
    "power of the distance d: `corrected`, d^2; `published`, d^4, as in the re-ranking program; `loss`, the "
    "similarity of the training loss"
)


@dataclass(frozen=True)
class Overlaps:
    """Prepared data: sizes and overlaps of the reciprocal sets, half lists, distance of each item's farthest item."""

    items: Items
    sizes: NDArray[np.float32]
    overlaps: csr_array
    lists: NDArray[np.int32]
    farthest: NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class STML(Method):
    """Mix the similarity of two items, in equal parts, with the overlap of their reciprocal neighbourhoods.

    The overlap is the share of one item's reciprocal neighbours that are also the other's, averaged over the
    nearest k/2 of each side. It was designed to train a network without labels, and re-ranks without changes.

    Equation, over queries and gallery together, R_i the reciprocal set of the first k (itself included), N
    the first k/2, and D_ij = d_ij^2 / max_j d_ij^2:

        C_ij = |R_i & R_j| / |R_i|,   C2_i = mean_(j in N(i)) C_j
        dist = -( exp(-D_qx / 0.1) + (C2_qx + C2_xq) / 2 ) / 2

    Distances are negated scores and lie in [-1, 0]. `variant="published"` uses d^4 for d^2 in D, as the
    re-ranking program does; `variant="loss"` is the similarity of the original training loss: exp(-d^2 /
    3), and C_ij only for j in R_i.

    Cost: half a pass of inner products over all pairs, n k^2 sparse operations, n k / 2 per query. Memory
    about 8 k^2 bytes per item.

    Helps if groups have about k members. Hurts if groups are much smaller, or if one item of a set is
    a neighbour of all others.

    Example:
        >>> kinrank.rerank(queries, gallery, kinrank.methods.STML(k=20))
    """

    name: ClassVar[str] = "stml"
    paper: ClassVar[str] = "Kim, Kim, Cho, Kwak: Self-Taught Metric Learning without Labels, CVPR 2022"

    k: int = parameter(
        20, "length of the neighbour lists to check for mutual neighbours, the item itself included", low=1
    )
    variant: str = parameter("corrected", VARIANT_MEANING, choices=("corrected", "published", "loss"))

    def prepare(self, items: Items, progress: Progress) -> Overlaps:
        lists = items.neighbors(self.k).indices
        sets = stages.gaussian_graph.reciprocal_matrix(lists, self.k)
        sizes = np.diff(sets.indptr).astype(np.float32)
        loss = self.variant == "loss"
        overlaps = stages.reciprocal_sets.count_overlaps(sets, members_only=loss)
        half = round(self.k / 2) if loss else self.k // 2
        lists = np.ascontiguousarray(lists[:, : max(half, 1)])
        far = (
            np.ones(len(items), np.float32)
            if loss
            else stages.reciprocal_sets.find_farthest_squared(items.vectors, items.unit)
        )
        return Overlaps(items, sizes, overlaps, lists, far)

    def distances(self, prepared: Overlaps, queries: NDArray[np.int64]) -> NDArray[np.float64]:
        items = prepared.items
        power = 2 if self.variant == "published" else 1
        raw = stages.reciprocal_sets.scale_distances(items, queries, prepared.farthest, power)
        context = stages.reciprocal_sets.compute_shared_context(
            items.queries[queries], prepared.lists, prepared.overlaps, prepared.sizes, items.gallery
        )
        raw /= -PAIR_SCALE[self.variant]
        return np.asarray(-(np.exp(raw) + context) / 2, np.float64)

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        return items * (16 * self.k + 16 * min(items, self.k**2)) + 32 * 2**20
