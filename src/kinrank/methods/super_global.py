"""SuperGlobal: refine the top items of each query among themselves and reorder only these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.methods.base import list_seconds
from kinrank.methods.shortlist import Shortlist
from kinrank.parameters import parameter
from kinrank.vector_input import Vectors

K_MEANING = "number of nearest items to mix into each re-ranked item; the k + 1 best items form the second query (K)"
BETA_MEANING = "weight, times its similarity, of a neighbour that is mixed into an item, whose own weight is 1"


@dataclass(frozen=True, kw_only=True)
class SuperGlobal(Shortlist):
    """Re-rank the first items of each query by descriptors that are refined among these items only.

    Each of them is mixed with its nearest items inside the list, which smooths its descriptor. The
    query is compared with the refined items, and so is a second query, the element-wise maximum over the
    best of them; the two scores are averaged.

        x~_i = (x_i + beta sum_{j in N_k(i)} s_ij x_j) / (1 + beta sum_{j in N_k(i)} s_ij),  within the top
        m    = elementwise max of x~ over the k + 1 items with the largest q.x~
        distance(q, x_i) = -(q.x~_i + m.x~_i) / 2

    Refined items and m are not scaled back to length one, so a distance can be below 0. Items beyond the top
    follow in their original order: their distance is 1 + the largest of the above + their Euclidean distance.
    An item whose weights do not sum to a positive number (neighbours opposite to it) stays unchanged.

    Cost: one search and O(top^2 d) time per query, one query at a time; O(q top + top^2 + top d) memory,
    independent of the size of the gallery.

    Helps if right results are inside the top but scattered: neighbours support each other, and the rest
    of a large gallery costs nothing. Hurts little, but cannot help right results beyond the top. The
    maximum was designed for descriptors of GeM pooling, which are mostly positive; on centred ones it is less
    meaningful.

    Example:
        >>> ranking = kinrank.rerank(queries, gallery, kinrank.methods.SuperGlobal(top=400, k=9, beta=0.15))
    """

    name: ClassVar[str] = "super-global"
    paper: ClassVar[str] = (
        "Shao, Chen, Karpur, Cui, Araujo, Cao: Global Features are All You Need for Image Retrieval and "
        "Reranking, ICCV 2023"
    )

    top: int = parameter(400, "number of first items of a query to re-rank (M); the others keep their order", low=1)
    k: int = parameter(9, K_MEANING, low=0)
    beta: float = parameter(0.15, BETA_MEANING, low=0, high=10)

    def length(self, network: None) -> int:
        return self.top

    def scores(self, network: None, query: Vectors, items: Vectors, unit: bool) -> NDArray[np.float64]:
        """Return (m,) scores of the top items, which come nearest first, without computing x~ for all of them."""
        numbers, products = stages.vector_expansion.find_nearest_within(items, self.k, unit)
        weights = self.beta * products.astype(np.float64)
        weights[:, 0] = 1.0
        totals = weights.sum(axis=1)
        weights[totals < 1e-6, 1:] = 0.0
        totals[totals < 1e-6] = 1.0
        weights /= totals[:, None]
        to_query = (weights * _compute_similarities(items, query, unit)[numbers]).sum(axis=1)
        best = np.argsort(-to_query, kind="stable")[: self.k + 1]
        refined = np.einsum("ij,ijd->id", weights[best], items[numbers[best]])
        to_maximum = (weights * _compute_similarities(items, refined.max(axis=0), unit)[numbers]).sum(axis=1)
        scores: NDArray[np.float64] = 0.5 * (to_query + to_maximum)
        return scores

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        """Estimate the lists of all queries; inner products, lists and vectors of one query's top for each thread."""
        top = min(self.top, items)
        each = top * (top * 4 + (min(self.k, top) + 1) * (40 + dimensions * 8) + dimensions * 16)
        return self.memory_of_lists(items, queries, top, each)

    def seconds(self, items: int, dimensions: int) -> float:
        return list_seconds(items, dimensions, self.k)


def _compute_similarities(items: Vectors, vector: NDArray[Any], unit: bool) -> NDArray[Any]:
    """Return (m,) x.v, or 1 - |x - v|^2 / 2 if rows do not have length one."""
    if unit:
        return np.asarray(items @ vector)
    differences = items - vector
    return np.asarray(1.0 - 0.5 * np.einsum("ij,ij->i", differences, differences))
