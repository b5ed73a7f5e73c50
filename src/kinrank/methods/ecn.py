"""Expanded cross neighbourhood (ECN): products of neighbour lists, averaged over the neighbourhoods of both sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.methods.base import Method, distances_from_scores
from kinrank.parameters import parameter
from kinrank.problem import Items
from kinrank.progress import Progress

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Lists = NDArray[np.int32]


@dataclass(frozen=True, kw_only=True)
class ECN(Method):
    """Compare each of two items with the expanded neighbourhood of the other, list against list.

    The lists of two items agree if the same items have high ranks in both. The distance of a query and an item
    averages this agreement over the neighbours, and neighbours of neighbours, of either with the other.

    Equation, over queries and gallery together, with F_ij = max(0, k - place of j in the list of i), place
    0 is i:

        r(i, j) = -sum_c F_ic F_jc
        E(i)    = the t nearest of i, and the q nearest of each of these (no item in its own list)
        dist    = mean of r(m, x) for m in E(q) and r(m, q) for m in E(x);   if that is 0: 1 - cosine

    Only the order has a meaning: items that share a list with the query have negative distances, the
    others follow with their cosine distance.

    Cost: per query, about k times the lists that share an item, and n (t + q); only the neighbour
    search is quadratic. Memory about 16 max(k, q) bytes per item.

    Helps with groups of k or more items; it uses ranks alone, so the distribution of distances does not matter. Hurts
    groups smaller than t.

    Example:
        >>> kinrank.rerank(queries, gallery, kinrank.methods.ECN(k=25, t=3, q=8))
    """

    name: ClassVar[str] = "ecn"
    paper: ClassVar[str] = (
        "Sarfraz, Schumann, Eberle, Stiefelhagen: A Pose-Sensitive Embedding for Person Re-Identification "
        "with Expanded Cross Neighborhood Re-Ranking, CVPR 2018"
    )

    k: int = parameter(25, "length of the neighbour lists that are compared, the item itself included", low=1)
    t: int = parameter(3, "number of nearest items, without the item itself, that form its neighbourhood", low=1)
    q: int = parameter(8, "number of nearest items of each of these t that join the neighbourhood", low=1)

    def prepare(self, items: Items, progress: Progress) -> tuple[Items, Lists, csr_array]:
        """Return the items, their lists, and for every item the lists that contain it with its position in them."""
        lists = items.neighbors(max(self.k, self.t + 1, self.q + 1)).indices
        near = np.ascontiguousarray(lists[:, : self.k])
        lead = np.broadcast_to(np.float32(self.k) - np.arange(near.shape[1], dtype=np.float32), near.shape)
        rows = stages.csr.matrix_from_lists(near, lead, len(items))
        return items, lists, stages.csr.invert_rows(rows, np.arange(len(items)))

    def distances(self, prepared: tuple[Items, Lists, csr_array], queries: NDArray[np.int64]) -> NDArray[np.float32]:
        items, lists, postings = prepared
        others = lists.shape[1] - 1
        t, q = min(self.t, others), min(self.q, others)
        products = stages.reciprocal_sets.compute_family_products(
            items.queries[queries], lists, postings, self.k, t, q, items.gallery
        )
        scores = products / max(2 * t * (q + 1), 1)
        ranked = distances_from_scores(scores, lambda: items.query_distances(queries) ** 2 / 2, last=0.0)
        return ranked.astype(np.float32)

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        return items * (8 * max(self.k, self.t + 1, self.q + 1) + 32 * min(self.k, items))
