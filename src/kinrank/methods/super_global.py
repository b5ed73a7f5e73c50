"""SuperGlobal: the top items of each query, refined among themselves -> a new order of just these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.features import Vectors
from kinrank.methods.shortlist import Shortlist
from kinrank.parameters import parameter

K = "how many of its nearest are mixed into each re-ranked item; the k + 1 best items make the second query (K)"
BETA = "weight, times its similarity, of a neighbour that is mixed into an item, which itself weighs 1"


@dataclass(frozen=True, kw_only=True)
class SuperGlobal(Shortlist):
    """Re-rank the first items of each query by descriptors that are refined among these items only.

    Every one of them is mixed with its nearest ones inside the list, which smooths its descriptor. The
    query is compared with the refined items, and so is a second query, the element-wise maximum over the
    best of them; the two scores are averaged.

        x~_i = (x_i + beta sum_{j in N_k(i)} s_ij x_j) / (1 + beta sum_{j in N_k(i)} s_ij),  within the top
        m    = elementwise max of x~ over the k + 1 items with the largest q.x~
        distance(q, x_i) = -(q.x~_i + m.x~_i) / 2

    Refined items and m are not brought back to length one, so a distance can be below 0. Items beyond the top
    follow in their original order: their distance is 1 + the largest of the above + their Euclidean distance.
    An item whose weights do not sum to a positive number (neighbours opposite to it) stays as it is.

    Cost: one search and O(top^2 d) time per query, one query at a time; O(q top + top^2 + top d) memory,
    whatever the size of the gallery.

    Helps when right answers are inside the top but scattered: neighbours vouch for each other, and the rest
    of a large gallery costs nothing. Hurts, or rather cannot help, right answers beyond the top. The
    maximum was made for descriptors of GeM pooling, which are mostly positive; on centred ones it is less
    meaningful.

    Example:
        >>> ranking = kinrank.rerank(queries, gallery, kinrank.SuperGlobal(top=400, k=9, beta=0.15))
    """

    name: ClassVar[str] = "super-global"
    paper: ClassVar[str] = (
        "Shao, Chen, Karpur, Cui, Araujo, Cao: Global Features are All You Need for Image Retrieval and "
        "Reranking, ICCV 2023"
    )

    top: int = parameter(
        400, "how many of the first items of a query are re-ranked (M); the others keep their order", low=1
    )
    k: int = parameter(9, K, low=0)
    beta: float = parameter(0.15, BETA, low=0, high=10)

    def length(self, network: None) -> int:
        return self.top

    def scores(self, network: None, query: Vectors, items: Vectors, unit: bool) -> NDArray[np.float64]:
        """(m,) scores of the top items, nearest first on entry; x~ itself is never formed for all of them."""
        numbers, products = stages.expansion.nearest_within(items, self.k, unit)
        weights = self.beta * products.astype(np.float64)
        weights[:, 0] = 1.0
        totals = weights.sum(axis=1)
        weights[totals < 1e-6, 1:] = 0.0
        totals[totals < 1e-6] = 1.0
        weights /= totals[:, None]
        to_query = (weights * _similar(items, query, unit)[numbers]).sum(axis=1)
        best = np.argsort(-to_query, kind="stable")[: self.k + 1]
        refined = np.einsum("ij,ijd->id", weights[best], items[numbers[best]])
        to_maximum = (weights * _similar(items, refined.max(axis=0), unit)[numbers]).sum(axis=1)
        scores: NDArray[np.float64] = 0.5 * (to_query + to_maximum)
        return scores

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        """The lists of all queries; inner products, lists and vectors of one query's top for each thread."""
        top = min(self.top, items)
        each = top * (top * 4 + (min(self.k, top) + 1) * (40 + dimensions * 8) + dimensions * 16)
        return self.memory_of_lists(items, queries, top, each)

    def seconds(self, items: int, dimensions: int) -> float:
        return self._listed_seconds(items, dimensions, self.k)


def _similar(items: Vectors, vector: NDArray[Any], unit: bool) -> NDArray[Any]:
    """(m,) x.v; 1 - |x - v|^2 / 2 where rows are not of length one."""
    if unit:
        return np.asarray(items @ vector)
    differences = items - vector
    return np.asarray(1.0 - 0.5 * np.einsum("ij,ij->i", differences, differences))
