"""Overlap of reciprocal neighbourhoods, averaged over neighbours -> contextual similarity (STML)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.items import Items
from kinrank.methods.base import Method
from kinrank.parameters import parameter
from kinrank.progress import Progress

if TYPE_CHECKING:
    from scipy.sparse import csr_array

PAIR_SCALE = {"corrected": 0.1, "published": 0.1, "loss": 3.0}  # sigma of the pairwise part
VARIANT = (
    "what is made of the distance d: `corrected`, d^2; `published`, d^4, as in the re-ranking program; `loss`, the "
    "similarity of the training loss"
)


@dataclass(frozen=True)
class Overlaps:
    """What the queries share: sizes and overlaps of the reciprocal sets, half lists, each item's farthest."""

    items: Items
    sizes: NDArray[np.float32]
    overlaps: csr_array
    lists: NDArray[np.int32]
    farthest: NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class STML(Method):
    """Half the similarity of two items is how near they are, half how much their reciprocal neighbourhoods
    overlap.

    The overlap is the share of one item's reciprocal neighbours that are the other's too, averaged over the
    nearest k/2 of each side. It was made to teach a network without labels, and re-ranks as it is.

    Equation, over queries and gallery together, R_i the reciprocal set of the first k (itself included), N
    the first k/2, and D_ij = d_ij^2 / max_j d_ij^2:

        C_ij = |R_i & R_j| / |R_i|,   C2_i = mean_(j in N(i)) C_j
        dist = -( exp(-D_qx / 0.1) + (C2_qx + C2_xq) / 2 ) / 2

    Distances are negated scores and lie in [-1, 0]. `variant="published"` takes d^4 for d^2 in D, as the
    re-ranking program does; `variant="loss"` is the similarity of the original training loss: exp(-d^2 /
    3), and C_ij only for j in R_i.

    Cost: half a pass of inner products over all pairs, n k^2 sparse operations, n k / 2 per query. Memory
    about 8 k^2 bytes per item.

    Helps where groups have about k members. Hurts where groups are much smaller, or one item of a set is
    everybody's neighbour.

    Example:
        >>> kinrank.rerank(queries, gallery, kinrank.STML(k=20))
    """

    name: ClassVar[str] = "stml"
    paper: ClassVar[str] = "Kim, Kim, Cho, Kwak: Self-Taught Metric Learning without Labels, CVPR 2022"

    k: int = parameter(
        20, "length of the neighbour lists that are checked for mutual neighbours, the item itself included", low=1
    )
    variant: str = parameter("corrected", VARIANT, choices=("corrected", "published", "loss"))

    def prepare(self, items: Items, progress: Progress) -> Overlaps:
        lists = items.neighbors(self.k).indices
        sets = stages.mutual.reciprocal(lists, self.k)
        sizes = np.diff(sets.indptr).astype(np.float32)
        loss = self.variant == "loss"
        overlaps = stages.context.overlaps(sets, members_only=loss)
        half = round(self.k / 2) if loss else self.k // 2
        lists = np.ascontiguousarray(lists[:, : max(half, 1)])
        far = np.ones(len(items), np.float32) if loss else stages.context.farthest(items.vectors, items.unit)
        return Overlaps(items, sizes, overlaps, lists, far)

    def distances(self, prepared: Overlaps, queries: NDArray[np.int64]) -> NDArray[np.float64]:
        items = prepared.items
        power = 2 if self.variant == "published" else 1
        raw = stages.context.scaled_distances(items, queries, prepared.farthest, power)
        context = stages.context.shared_context(
            items.queries[queries], prepared.lists, prepared.overlaps, prepared.sizes, items.gallery
        )
        raw /= -PAIR_SCALE[self.variant]
        return np.asarray(-(np.exp(raw) + context) / 2, np.float64)

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        return items * (16 * self.k + 16 * min(items, self.k**2)) + 32 * 2**20
