"""EGT: an explore-exploit walk over the gallery's kNN graph, whose order of items is the ranking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.items import Items
from kinrank.methods.base import Method
from kinrank.methods.dfs import graph_bytes
from kinrank.neighbors import Neighbors
from kinrank.parameters import parameter
from kinrank.progress import Progress

TAU = "similarity above which items are taken at once, before the neighbours of those already taken are looked at"
VARIANT = (
    "edges of the graph: `paper`, in both directions; `published`, as in the published program, with one reverse edge "
    "per item at most and weights rounded to 3 decimals"
)


@dataclass(frozen=True)
class Walks:
    """The items, where each query enters, and the gallery's graph."""

    items: Items
    nearest: Neighbors
    graph: Any


@dataclass(frozen=True, kw_only=True)
class EGT(Method):
    """Walks from the query over the gallery's kNN graph and ranks items in the order in which the walk
    takes them. It always takes the item with the strongest edge seen so far, so that a chain of strong
    edges outruns a weak direct similarity. Once edges fall below tau it explores after every single step,
    above tau it first takes all.

    Algorithm: a heap holds items by the weight of the strongest edge to anything explored, edges being
    inner products. Repeat: add the edges of the newly taken items (explore); take the best item, and all
    further ones whose weight is above tau (exploit); until p items are taken or the heap is empty. The
    graph joins two items when either is among the k nearest of the other. The distance is the position of
    the item in the walk divided by the size of the gallery; items not taken follow in the order of the
    search. `variant="published"` keeps what the published program does: only one reverse edge per item
    survives, and weights are rounded to 3 decimals.

    Cost: O(n^2 d) for the graph; a query scans at most the edges of the p items it takes, O(p k log n);
    memory O(n k): 16 bytes per edge and direction while it is built.

    Helps when strong edges are trustworthy, such as near-duplicates or verified matches. Hurts when one
    strong edge leads into an unrelated dense cluster, which is then taken whole: raise tau, lower k.

    Example:
        >>> kinrank.rerank(queries, gallery, kinrank.EGT(k=50, tau=0.42))
    """

    name: ClassVar[str] = "egt"
    paper: ClassVar[str] = "Chang, Yu, Wang, Volkovs: Explore-Exploit Graph Traversal for Image Retrieval (CVPR 2019)"

    k: int = parameter(250, "how many nearest items each item is joined to in the graph, itself not counted", low=1)
    tau: float = parameter(0.42, TAU, low=-1, high=1)
    p: int = parameter(
        5000, "largest number of items a walk takes; the others follow in the order of the search", low=1
    )
    variant: str = parameter("paper", VARIANT, choices=("paper", "published"))

    def prepare(self, items: Items, progress: Progress) -> Walks:
        lists = items.gallery_neighbors(self.k + 1)
        traversal = stages.traversal
        graph = traversal.published_graph(lists) if self.variant == "published" else traversal.union_graph(lists)
        return Walks(items, items.query_neighbors(self.k), graph)

    def distances(self, prepared: Walks, queries: NDArray[np.int64]) -> NDArray[np.float64]:
        items = prepared.items
        nearest = prepared.nearest.distances[queries]
        if self.variant == "published":
            weights = stages.traversal.rounded(nearest)
        else:
            weights = stages.affinity.similarity(nearest).astype(np.float32)
        own = queries if items.self_query else np.full(len(queries), -1, np.int64)
        entries = prepared.nearest.indices[queries]
        position = stages.traversal.walk(prepared.graph, entries, weights, own, self.tau, self.p)
        when = position / len(items.gallery)
        return stages.fallback.behind(when, position >= 0, lambda: items.query_distances(queries))

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        k = min(self.k, items)
        return graph_bytes(items, k) + items * k * 32 + queries * k * 16

    def seconds(self, items: int, dimensions: int) -> float:
        return self._listed_seconds(items, dimensions, self.k) + 2e-7 * items * min(self.k, items)
