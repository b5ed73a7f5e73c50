"""Shortlist, what methods share that re-rank the first items of each query among themselves -> distances."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.features import Vectors
from kinrank.items import Items
from kinrank.methods.base import Method
from kinrank.neighbors import Integers, first_equal
from kinrank.progress import Progress


class FirstItems(NamedTuple):
    """The items, the first positions of every query (q, top), the first equal of every gallery item; network."""

    items: Items
    top: NDArray[np.int32]
    first: Integers
    network: Any


@dataclass(frozen=True, kw_only=True)
class Shortlist(Method):
    """Re-rank the first items of each query among themselves; the others keep the order of the search.

    A subclass says in `scores` how, and in `length` how many. Distances are negated scores. Items behind the list lie
    at 1 + the largest of these + their Euclidean distance.
    """

    def length(self, network: Any) -> int:
        """How many of the first items of a query are re-ranked."""
        raise NotImplementedError

    def network(self) -> Any:
        """What `scores` needs beside the vectors, read once for all queries."""
        return None

    def scores(self, network: Any, query: Vectors, items: Vectors, unit: bool) -> NDArray[Any]:
        """(m,) scores of the first items (m, d) of a query (d,), nearest first; larger is better."""
        raise NotImplementedError

    def prepare(self, items: Items, progress: Progress) -> FirstItems:
        network = self.network()
        top = items.query_neighbors(self.length(network)).indices
        return FirstItems(items, top, first_equal(items.gallery_vectors), network)

    def distances(self, prepared: FirstItems, queries: NDArray[np.int64]) -> NDArray[np.float64]:
        items, first, compiled = prepared.items, prepared.first, stages.kernels.compiled
        shape = (len(queries), len(items.gallery))
        values, reached, last = np.zeros(shape), np.zeros(shape, np.bool_), np.zeros((len(queries), 1))

        def refine(row: int) -> None:
            query = queries[row]
            top = prepared.top[query]
            vectors = items.query_vectors[query], items.gallery_vectors[top]
            refined = -self.scores(prepared.network, *vectors, items.unit)
            _, places, groups = np.unique(first[top], return_index=True, return_inverse=True)
            refined = refined[places][groups.reshape(-1)]  # equal items keep equal distances when rounded
            values[row, top], reached[row, top], last[row] = refined, True, 1.0 + refined.max()

        if len(queries) and prepared.top.shape[1]:
            # The products are small: threads over queries gain where threads inside each product only wait.
            with compiled.one_blas_thread(), ThreadPoolExecutor(compiled.threads()) as pool:
                refine(0)  # compiles before the threads start
                list(pool.map(refine, range(1, len(queries))))
        return stages.fallback.behind(values, reached, lambda: items.query_distances(queries)[:, first], last)

    def memory_of_lists(self, items: int, queries: int, top: int, each: int) -> int:
        """Bytes for the lists of all queries, and `each` for the one that every thread works on."""
        lists = queries * (min(top, items) + 9) * 24 + min(items, 1024) * min(items, 4096) * 4
        return lists + stages.kernels.compiled.threads() * each
