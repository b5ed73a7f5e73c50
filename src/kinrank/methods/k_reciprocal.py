"""k-reciprocal encoding -> Jaccard distance of reciprocal neighbourhoods, mixed with the distance itself."""

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

VARIANT = "what is made of the distance d: `corrected`, d^2; `published`, d^4, as programs have it that square it twice"


@dataclass(frozen=True)
class Contexts:
    """What the queries share: sparse rows over the items, the gallery's inverted, each item's farthest."""

    items: Items
    rows: csr_array
    postings: csr_array
    farthest: NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class KReciprocal(Method):
    """Two items are near when they appear in each other's neighbourhoods together with the same others.

    Each item is described by its k-reciprocal neighbours, those that also count it among their own nearest,
    enlarged by the sets of members that agree with it, and smoothed over its nearest few. The overlap of
    two such descriptions (Jaccard distance) is mixed with the distance itself.

    Equation, over queries and gallery together, with D_ij = d_ij^2 / max_j d_ij^2:

        R_i   = reciprocal set of the first k1 (and i), plus the round(k1/2) set of each j in R_i
                when more than 2/3 of that set lie in R_i
        V_i   = mean over the first k2 of rows exp(-D_ij) on R_i, each summing to one
        dist  = (1 - lam) (1 - m / (2 - m)) + lam D_qx,    m = sum_c min(V_qc, V_xc)

    `variant="published"` takes d^4 for d^2, as programs do that pass squared distances to the published one.
    With lam = 0, items that share nothing with the query follow in the order of d.

    Cost: half a pass of inner products over all pairs (n^2 d / 2) for the farthest items; all else is
    sparse, n k1 (k1 + d) operations, and each query visits only items that share a neighbour. Memory about
    1 kB per item.

    Helps where right answers form groups of at least a handful that know each other (people, products,
    buildings). Hurts where an item has one or two right answers only, fewer than k1: the sets then fill
    with strangers.

    Example:
        >>> kinrank.rerank(queries, gallery, kinrank.KReciprocal(k1=20, k2=6))
    """

    name: ClassVar[str] = "k-reciprocal"
    paper: ClassVar[str] = (
        "Zhong, Zheng, Cao, Li: Re-ranking Person Re-identification with k-reciprocal Encoding, CVPR 2017"
    )

    k1: int = parameter(20, "how many nearest others of an item are checked for being mutual neighbours", low=1)
    k2: int = parameter(
        6, "how many nearest items, the item itself included, the descriptions are averaged over", low=1
    )
    lam: float = parameter(0.3, "share of the original distance in the result", low=0, high=1)
    variant: str = parameter("corrected", VARIANT, choices=("corrected", "published"))

    @property
    def _power(self) -> int:
        return 2 if self.variant == "published" else 1

    def prepare(self, items: Items, progress: Progress) -> Contexts:
        context = stages.context
        lists = items.neighbors(max(self.k1 + 1, self.k2)).indices
        far = context.farthest(items.vectors, items.unit)
        sets = context.expanded(lists, self.k1 + 1, round(self.k1 / 2) + 1)
        rows = context.kernel_rows(sets, items.vectors, far, self._power)
        rows = context.row_means(np.ascontiguousarray(lists[:, : self.k2]), rows)
        return Contexts(items, rows, context.inverted(rows, items.gallery), far)

    def distances(self, prepared: Contexts, queries: NDArray[np.int64]) -> NDArray[np.float64]:
        items = prepared.items
        overlap = stages.context.jaccard(prepared.rows, prepared.postings, items.queries[queries])
        raw = stages.context.scaled_distances(items, queries, prepared.farthest, self._power)
        if self.lam == 0:
            return stages.fallback.behind(overlap, overlap < 1, lambda: raw, last=1.0)
        return (1 - self.lam) * overlap.astype(np.float64) + self.lam * raw

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        width = min(items, (self.k1 + 1) * 3)  # expanded sets are rarely wider than this
        smooth = min(items, width * self.k2)
        return items * (8 * max(self.k1 + 1, self.k2) + 8 * (self.k1 + 1) + 8 * width + 16 * smooth) + 32 * 2**20
