"""Base class of methods that re-rank the first items of each query among themselves."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.methods.base import Method, append_unreachable
from kinrank.neighbors import Integers, find_first_equal
from kinrank.problem import Items
from kinrank.progress import Progress
from kinrank.vector_input import Vectors


class FirstItems(NamedTuple):
    """Prepared data: items, first positions of every query (q, top), first equal gallery items, and the network."""

    items: Items
    top: NDArray[np.int32]
    first: Integers
    network: Any


@dataclass(frozen=True, kw_only=True)
class Shortlist(Method):
    """Re-rank the first items of each query among themselves; the others keep their search order.

    Subclasses implement `scores` and `length`. Distances are negated scores. Items beyond the list have the distance
    1 + the largest of these + their Euclidean distance.
    """

    def length(self, network: Any) -> int:
        """Return the number of first items of a query that are re-ranked."""
        raise NotImplementedError

    def network(self) -> Any:
        """Load the data that `scores` needs in addition to the vectors, once for all queries."""
        return None

    def scores(self, network: Any, query: Vectors, items: Vectors, unit: bool) -> NDArray[Any]:
        """Return (m,) scores of the first items (m, d) of a query (d,), which come nearest first; larger is better."""
        raise NotImplementedError

    def prepare(self, items: Items, progress: Progress) -> FirstItems:
        network = self.network()
        top = items.query_neighbors(self.length(network)).indices
        return FirstItems(items, top, find_first_equal(items.gallery_vectors), network)

    def distances(self, prepared: FirstItems, queries: NDArray[np.int64]) -> NDArray[np.float64]:
        items, first, compiled = prepared.items, prepared.first, stages.kernels.compiler
        shape = (len(queries), len(items.gallery))
        values, reached, last = np.zeros(shape), np.zeros(shape, np.bool_), np.zeros((len(queries), 1))

        def refine(row: int) -> None:
            query = queries[row]
            top = prepared.top[query]
            vectors = items.query_vectors[query], items.gallery_vectors[top]
            refined = -self.scores(prepared.network, *vectors, items.unit)
            _, places, groups = np.unique(first[top], return_index=True, return_inverse=True)
            refined = refined[places][groups.reshape(-1)]  # equal items keep equal distances despite rounding
            values[row, top], reached[row, top], last[row] = refined, True, 1.0 + refined.max()

        if len(queries) and prepared.top.shape[1]:
            # The products are small: threads over queries are faster than threads inside each product.
            with compiled.single_blas_thread(), ThreadPoolExecutor(compiled.thread_count()) as pool:
                refine(0)  # compiles before the threads start
                list(pool.map(refine, range(1, len(queries))))
        return append_unreachable(values, reached, lambda: items.query_distances(queries)[:, first], last)

    def memory_of_lists(self, items: int, queries: int, top: int, each: int) -> int:
        """Estimate the bytes of the lists of all queries, plus `each` per thread for the list it works on."""
        lists = queries * (min(top, items) + 9) * 24 + min(items, 1024) * min(items, 4096) * 4
        return lists + stages.kernels.compiler.thread_count() * each
