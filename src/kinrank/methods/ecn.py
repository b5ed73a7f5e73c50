"""Products of neighbour lists, averaged over expanded neighbourhoods of both sides -> ECN distance."""

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


@dataclass(frozen=True)
class Listed:
    """What the queries share: the lists, and for every item which lists hold it, and how high."""

    items: Items
    lists: NDArray[np.int32]
    postings: csr_array


@dataclass(frozen=True, kw_only=True)
class ECN(Method):
    """Compares not two items but each of them with the other's expanded neighbourhood, list against list.

    The lists of two items agree when the same items stand high in both. The distance of a query and an item
    averages this agreement over the neighbours, and neighbours' neighbours, of either with the other.

    Equation, over queries and gallery together, with F_ij = max(0, k - place of j in the list of i), place
    0 is i:

        r(i, j) = -sum_c F_ic F_jc
        E(i)    = the t nearest of i, and the q nearest of each of these (nobody in its own list)
        dist    = mean of r(m, x) for m in E(q) and r(m, q) for m in E(x);   where that is 0: 1 - cosine

    Only the order means something: items that share a list with the query have negative distances, the
    others follow with their cosine distance.

    Cost: per query, about k times the lists that share an item, and n (t + q); nothing but the neighbour
    search is quadratic. Memory about 16 max(k, q) bytes per item.

    Helps with groups of k or more; being made of ranks alone it does not care how distances are spread. Hurts
    groups smaller than t.

    Example:
        >>> kinrank.rerank(queries, gallery, kinrank.ECN(k=25, t=3, q=8))
    """

    name: ClassVar[str] = "ecn"
    paper: ClassVar[str] = (
        "Sarfraz, Schumann, Eberle, Stiefelhagen: A Pose-Sensitive Embedding for Person Re-Identification "
        "with Expanded Cross Neighborhood Re-Ranking, CVPR 2018"
    )

    k: int = parameter(25, "length of the neighbour lists that are compared, the item itself included", low=1)
    t: int = parameter(3, "how many nearest items, the item itself left out, form its neighbourhood", low=1)
    q: int = parameter(8, "how many nearest items of each of these t join the neighbourhood", low=1)

    def prepare(self, items: Items, progress: Progress) -> Listed:
        lists = items.neighbors(max(self.k, self.t + 1, self.q + 1)).indices
        near = np.ascontiguousarray(lists[:, : self.k])
        lead = np.broadcast_to(np.float32(self.k) - np.arange(near.shape[1], dtype=np.float32), near.shape)
        rows = stages.csr.from_lists(near, lead, len(items))
        return Listed(items, lists, stages.context.inverted(rows, np.arange(len(items))))

    def distances(self, prepared: Listed, queries: NDArray[np.int64]) -> NDArray[np.float32]:
        items, lists = prepared.items, prepared.lists
        others = lists.shape[1] - 1
        t, q = min(self.t, others), min(self.q, others)
        products = stages.context.family_products(
            items.queries[queries], lists, prepared.postings, self.k, t, q, items.gallery
        )
        scores = products / max(2 * t * (q + 1), 1)
        found = stages.fallback.from_scores(scores, lambda: items.query_distances(queries) ** 2 / 2, last=0.0)
        return found.astype(np.float32)

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        return items * (8 * max(self.k, self.t + 1, self.q + 1) + 32 * min(self.k, items))
