"""SuperGlobal: the top items of each query, refined among themselves -> a new order of just these."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.features import Vectors
from kinrank.items import Items
from kinrank.methods.base import Method
from kinrank.neighbors import Integers, first_equal
from kinrank.parameters import parameter
from kinrank.progress import Progress

K = "how many of its nearest are mixed into each re-ranked item; the k + 1 best items make the second query (K)"
BETA = "weight, times its similarity, of a neighbour that is mixed into an item, which itself weighs 1"


class TopItems(NamedTuple):
    """The items, the top positions of every query (q, top), and the first equal of every gallery item."""

    items: Items
    top: NDArray[np.int32]
    first: Integers


@dataclass(frozen=True, kw_only=True)
class SuperGlobal(Method):
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

    def prepare(self, items: Items, progress: Progress) -> TopItems:
        return TopItems(items, items.query_neighbors(self.top).indices, first_equal(items.gallery_vectors))

    def distances(self, prepared: TopItems, queries: NDArray[np.int64]) -> NDArray[np.float64]:
        items, first, compiled = prepared.items, prepared.first, stages.kernels.compiled
        shape = (len(queries), len(items.gallery))
        values, reached, last = np.zeros(shape), np.zeros(shape, np.bool_), np.zeros((len(queries), 1))

        def refine(row: int) -> None:
            query = queries[row]
            top = prepared.top[query]
            refined = -self._scores(items.query_vectors[query], items.gallery_vectors[top], items.unit)
            _, places, groups = np.unique(first[top], return_index=True, return_inverse=True)
            refined = refined[places][groups.reshape(-1)]  # equal items keep equal distances when rounded
            values[row, top], reached[row, top], last[row] = refined, True, 1.0 + refined.max()

        if len(queries) and prepared.top.shape[1]:
            # The products are small: threads over queries gain where threads inside each product only wait.
            with compiled.one_blas_thread(), ThreadPoolExecutor(compiled.threads()) as pool:
                refine(0)  # compiles before the threads start
                list(pool.map(refine, range(1, len(queries))))
        return stages.fallback.behind(values, reached, lambda: items.query_distances(queries)[:, first], last)

    def _scores(self, query: Vectors, items: Vectors, unit: bool) -> NDArray[np.float64]:
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
        lists = queries * (top + 9) * 24 + min(items, 1024) * min(items, 4096) * 4
        return lists + stages.kernels.compiled.threads() * each


def _similar(items: Vectors, vector: NDArray[Any], unit: bool) -> NDArray[Any]:
    """(m,) x.v; 1 - |x - v|^2 / 2 where rows are not of length one."""
    if unit:
        return np.asarray(items @ vector)
    differences = items - vector
    return np.asarray(1.0 - 0.5 * np.einsum("ij,ij->i", differences, differences))
