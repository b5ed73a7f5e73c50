"""SuperGlobal: the top items of each query, refined among themselves -> a new order of just these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.features import Vectors
from kinrank.items import Items
from kinrank.methods.base import Method
from kinrank.neighbors import Integers, first_equal
from kinrank.parameters import parameter
from kinrank.progress import Progress


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

    top: int = parameter(400, "items of each query that are re-ranked (M); the rest keeps its order", low=1)
    k: int = parameter(9, "neighbours mixed into an item; k + 1 best items make the second query (K)", low=0)
    beta: float = parameter(
        0.15, "weight of a neighbour, times its similarity; an item itself weighs 1", low=0, high=10
    )

    def prepare(self, items: Items, progress: Progress) -> TopItems:
        return TopItems(items, items.query_neighbors(self.top).indices, first_equal(items.gallery_vectors))

    def distances(self, prepared: TopItems, queries: NDArray[np.int64]) -> NDArray[np.float64]:
        from concurrent.futures import ThreadPoolExecutor

        items, first = prepared.items, prepared.first
        values = items.query_distances(queries).astype(np.float64)[:, first]

        def refine(row: int) -> None:
            query = queries[row]
            top = prepared.top[query]
            refined = -self._scores(items.query_vectors[query], items.gallery_vectors[top])
            _, places, groups = np.unique(first[top], return_index=True, return_inverse=True)
            refined = refined[places][groups.reshape(-1)]  # equal items keep equal distances when rounded
            values[row] += 1.0 + refined.max()
            values[row, top] = refined

        if len(queries) and prepared.top.shape[1]:
            # The products are small: threads over queries gain where threads inside each product only wait.
            compiled = stages.kernels.compiled
            with compiled.one_blas_thread(), ThreadPoolExecutor(compiled.threads()) as pool:
                refine(0)  # compiles before the threads start
                list(pool.map(refine, range(1, len(queries))))
        return values

    def _scores(self, query: Vectors, items: Vectors) -> NDArray[np.float64]:
        """(m,) scores of the top items, nearest first on entry; x~ itself is never formed for all of them."""
        shape = (len(items), 1 + min(self.k, len(items) - 1))
        numbers, values = np.empty(shape, np.int64), np.empty(shape, np.float32)
        stages.kernels.compiled.in_chunks(
            stages.kernels.within.nearest_within, len(items), items @ items.T, numbers, values, chunk=len(items)
        )
        weights = self.beta * values.astype(np.float64)
        weights[:, 0] = 1.0
        totals = weights.sum(axis=1)
        weights[totals < 1e-6, 1:] = 0.0
        totals[totals < 1e-6] = 1.0
        weights /= totals[:, None]
        to_query = (weights * (items @ query)[numbers]).sum(axis=1)
        best = np.argsort(-to_query, kind="stable")[: self.k + 1]
        refined = np.einsum("ij,ijd->id", weights[best], items[numbers[best]])
        to_maximum = (weights * (items @ refined.max(axis=0))[numbers]).sum(axis=1)
        scores: NDArray[np.float64] = 0.5 * (to_query + to_maximum)
        return scores

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        """The lists of all queries; inner products, lists and vectors of one query's top for each thread."""
        top = min(self.top, items)
        each = top * (top * 4 + (min(self.k, top) + 1) * (40 + dimensions * 8) + dimensions * 16)
        lists = queries * (top + 9) * 24 + min(items, 1024) * min(items, 4096) * 4
        return lists + stages.kernels.compiled.threads() * each
