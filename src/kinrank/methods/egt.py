"""EGT: an explore-exploit walk over the kNN graph of the gallery; the order of the walk is the ranking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.methods.base import Method, append_unreachable, list_seconds
from kinrank.methods.dfs import graph_bytes
from kinrank.neighbors import Neighbors
from kinrank.parameters import parameter
from kinrank.problem import Items
from kinrank.progress import Progress

TAU_MEANING = "similarity above which items are taken at once, before the neighbours of taken items are explored"
VARIANT_MEANING = (
    "edges of the graph: `paper`, in both directions; `published`, as in the published program, with one reverse edge "
    "per item at most and weights rounded to 3 decimals"
)


@dataclass(frozen=True, kw_only=True)
class EGT(Method):
    """Walk from the query over the kNN graph of the gallery, and rank items in the order of the walk.

    The walk always takes the item with the strongest edge seen so far, so a chain of strong
    edges overtakes a weak direct similarity. If edges are below tau, it explores after every single step;
    above tau it first takes all items.

    Algorithm: a heap holds items by the weight of the strongest edge to any explored item; edges are
    inner products. Repeat: add the edges of the newly taken items (explore); take the best item, and all
    further ones whose weight is above tau (exploit); until p items are taken or the heap is empty. The
    graph connects two items if either is among the k nearest of the other. The distance is the position of
    the item in the walk divided by the size of the gallery; the remaining items follow in search
    order. `variant="published"` follows the published program: only one reverse edge per item
    is kept, and weights are rounded to 3 decimals.

    Cost: O(n^2 d) for the graph; a query scans at most the edges of the p items it takes, O(p k log n);
    memory O(n k): 16 bytes per edge and direction while the graph is built.

    Helps if strong edges are reliable, such as near-duplicates or verified matches. Hurts if one
    strong edge leads into an unrelated dense cluster, which is then taken as a whole: raise tau, lower k.

    Example:
        >>> kinrank.rerank(queries, gallery, kinrank.methods.EGT(k=50, tau=0.42))
    """

    name: ClassVar[str] = "egt"
    paper: ClassVar[str] = "Chang, Yu, Wang, Volkovs: Explore-Exploit Graph Traversal for Image Retrieval (CVPR 2019)"

    k: int = parameter(
        250, "number of nearest items to which each item is connected in the graph, without itself", low=1
    )
    tau: float = parameter(0.42, TAU_MEANING, low=-1, high=1)
    p: int = parameter(5000, "largest number of items a walk takes; the others follow in search order", low=1)
    variant: str = parameter("paper", VARIANT_MEANING, choices=("paper", "published"))

    def prepare(self, items: Items, progress: Progress) -> tuple[Items, Neighbors, Any]:
        """Return the items, the entry points of each query, and the graph of the gallery."""
        lists = items.gallery_neighbors(self.k + 1)
        traversal = stages.graph_traversal
        build = traversal.build_published_graph if self.variant == "published" else traversal.build_union_graph
        return items, items.query_neighbors(self.k), build(lists)

    def distances(self, prepared: tuple[Items, Neighbors, Any], queries: NDArray[np.int64]) -> NDArray[np.float64]:
        items, nearest, graph = prepared
        distances = nearest.distances[queries]
        if self.variant == "published":
            weights = stages.graph_traversal.round_similarities(distances)
        else:
            weights = stages.affinity.similarity(distances).astype(np.float32)
        own = queries if items.self_query else np.full(len(queries), -1, np.int64)
        entries = nearest.indices[queries]
        position = stages.graph_traversal.walk_graph(graph, entries, weights, own, self.tau, self.p)
        when = position / len(items.gallery)
        return append_unreachable(when, position >= 0, lambda: items.query_distances(queries))

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        k = min(self.k, items)
        return graph_bytes(items, k) + items * k * 32 + queries * k * 16

    def seconds(self, items: int, dimensions: int) -> float:
        return list_seconds(items, dimensions, self.k) + 2e-7 * items * min(self.k, items)
