"""k-reciprocal encoding: the Jaccard distance of reciprocal neighbourhoods, mixed with the original distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.methods.base import Method, append_unreachable
from kinrank.parameters import parameter
from kinrank.problem import Items
from kinrank.progress import Progress

if TYPE_CHECKING:
    from scipy.sparse import csr_array

VARIANT_MEANING = "power of the distance d: `corrected`, d^2; `published`, d^4, as in programs that square it twice"


@dataclass(frozen=True)
class Contexts:
    """Prepared data: sparse rows over the items, inverted rows of the gallery, distances of the farthest items."""

    items: Items
    rows: csr_array
    postings: csr_array
    farthest: NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class KReciprocal(Method):
    """Two items are near if they appear in each other's neighbourhoods together with the same other items.

    Each item is described by its k-reciprocal neighbours, which have it among their own nearest items too. This set is
    enlarged by the sets of members that agree with it, and smoothed over its nearest few. The overlap of
    two such descriptions (Jaccard distance) is mixed with the original distance.

    Equation, over queries and gallery together, with D_ij = d_ij^2 / max_j d_ij^2:

        R_i   = reciprocal set of the first k1 (and i), plus the round(k1/2) set of each j in R_i
                if more than 2/3 of that set lie in R_i
        V_i   = mean over the first k2 of rows exp(-D_ij) on R_i, each summing to one
        dist  = (1 - lam) (1 - m / (2 - m)) + lam D_qx,    m = sum_c min(V_qc, V_xc)

    `variant="published"` uses d^4 for d^2, as programs do that pass squared distances to the published one.
    With lam = 0, items that share nothing with the query follow in the order of d.

    Cost: half a pass of inner products over all pairs (n^2 d / 2) for the farthest items; everything else is
    sparse, n k1 (k1 + d) operations, and each query visits only items that share a neighbour. Memory about
    1 kB per item.

    Helps if right results form groups of at least a handful of mutual neighbours (people, products,
    buildings). Hurts if an item has only one or two right results, fewer than k1: the sets then fill
    with unrelated items.

    Example:
        >>> kinrank.rerank(queries, gallery, kinrank.KReciprocal(k1=20, k2=6))
    """

    name: ClassVar[str] = "k-reciprocal"
    paper: ClassVar[str] = (
        "Zhong, Zheng, Cao, Li: Re-ranking Person Re-identification with k-reciprocal Encoding, CVPR 2017"
    )

    k1: int = parameter(20, "number of nearest others of an item to check for mutual neighbours", low=1)
    k2: int = parameter(
        6, "number of nearest items, the item itself included, over which the descriptions are averaged", low=1
    )
    lam: float = parameter(0.3, "share of the original distance in the result", low=0, high=1)
    variant: str = parameter("corrected", VARIANT_MEANING, choices=("corrected", "published"))

    @property
    def _power(self) -> int:
        return 2 if self.variant == "published" else 1

    def prepare(self, items: Items, progress: Progress) -> Contexts:
        context = stages.reciprocal_sets
        lists = items.neighbors(max(self.k1 + 1, self.k2)).indices
        far = context.find_farthest_squared(items.vectors, items.unit)
        sets = context.expand_reciprocal_sets(lists, self.k1 + 1, round(self.k1 / 2) + 1)
        rows = context.build_kernel_rows(sets, items.vectors, far, self._power)
        rows = context.average_rows(np.ascontiguousarray(lists[:, : self.k2]), rows)
        return Contexts(items, rows, stages.csr.invert_rows(rows, items.gallery), far)

    def distances(self, prepared: Contexts, queries: NDArray[np.int64]) -> NDArray[np.float64]:
        items = prepared.items
        overlap = stages.csr.jaccard_distances(prepared.rows, prepared.postings, items.queries[queries])
        raw = stages.reciprocal_sets.scale_distances(items, queries, prepared.farthest, self._power)
        if self.lam == 0:
            return append_unreachable(overlap, overlap < 1, lambda: raw, last=1.0)
        return (1 - self.lam) * overlap.astype(np.float64) + self.lam * raw

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        width = min(items, (self.k1 + 1) * 3)  # expanded sets are rarely wider than this
        smooth = min(items, width * self.k2)
        return items * (8 * max(self.k1 + 1, self.k2) + 8 * (self.k1 + 1) + 8 * width + 16 * smooth) + 32 * 2**20
