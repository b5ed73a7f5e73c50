"""k-NN re-ranking: the neighbours of a query vote with their own rankings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.methods.base import Method
from kinrank.parameters import parameter
from kinrank.problem import Items
from kinrank.progress import Progress


@dataclass(frozen=True, kw_only=True)
class KNN(Method):
    """Let the nearest neighbours of a query vote with their own rankings.

    Each of the k nearest, and the query itself, gives an item a vote that falls with the rank of the item in its
    list. The vote of a neighbour has more weight the higher it ranks in the query's list and the query in its own.

    Equation, over queries and gallery together, r_a(b) the rank of b among all items as seen from a
    (itself: 1), n_t the t-th neighbour of the query (n_0 itself):

        dist = -sum_(t = 0..k) 1 / ( (t + 1 + r_(n_t)(q)) r_(n_t)(x) )

    Distances are negated scores, all below 0: every item has a rank in every list, so none is out of reach.

    Cost: a whole ranking of all n items for each neighbour of each query, k n (d + log n) per query, nothing
    prepared; this is the slowest method if every item is a query. Memory: 64 MB of ranks at a time.

    Helps modestly nearly everywhere and is robust: a wrong neighbour has one vote. Hurts if most
    of the k nearest are wrong.

    Example:
        >>> kinrank.rerank(queries, gallery, kinrank.methods.KNN(k=50))
    """

    name: ClassVar[str] = "knn"
    paper: ClassVar[str] = (
        "Shen, Lin, Brandt, Avidan, Wu: Object Retrieval and Localization with Spatially-Constrained "
        "Similarity Measure and k-NN Re-ranking, CVPR 2012"
    )

    k: int = parameter(50, "number of nearest items that vote, besides the query itself", low=0)

    def prepare(self, items: Items, progress: Progress) -> Items:
        items.neighbors(self.k + 1)  # caches the lists
        return items

    def distances(self, prepared: Items, queries: NDArray[np.int64]) -> NDArray[np.float32]:
        lists = prepared.neighbors(self.k + 1).indices
        numbers = prepared.queries[queries]
        return -stages.reciprocal_sets.sum_rank_votes(prepared.vectors, numbers, lists, prepared.gallery, prepared.unit)

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        return items * 8 * (self.k + 1) + 6 * 64 * 2**20
