"""EIR: the diffusion of items among their nearest, solved beforehand; a query adds up a few of these rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.features import Vectors
from kinrank.items import Items
from kinrank.methods.base import Method
from kinrank.methods.dfs import ALPHA, graph_bytes
from kinrank.methods.served import Answer, Gallery, Kept, best_scored
from kinrank.neighbors import Neighbors
from kinrank.parameters import parameter
from kinrank.progress import Progress
from kinrank.stages.masks import EVERYONE, Masks

KQ = "how many of the nearest gallery items a query spreads its similarity from; not used by variant `joint`"
VARIANT = (
    "`paper`: the graph of the gallery, of which a query adds up stored rows; `joint`: a graph of queries and gallery, "
    "whose rows are compared"
)


@dataclass(frozen=True)
class Rows:
    """The items, what each query weighs (q, r), and the rows (g, r) that it is multiplied with."""

    items: Items
    queries: Any
    gallery: Any


@dataclass(frozen=True, kw_only=True)
class EIR(Method):
    """Solves the diffusion beforehand, for every gallery item among its own nearest, and stores the short
    solutions. A query then only adds up the stored rows of its kq nearest items, so that searching costs
    next to nothing. The graph is the one of DFS, normalised as a whole before it is cut (late truncation).

    Equation: with S the normalised mutual kNN affinity of the gallery (see DFS, with kd neighbours) and T_i
    the `truncation` items nearest to i: (I - alpha S)[T_i, T_i] x_i = e_i; score(q, x) = sum over the kq
    nearest j of max(s_qj, 0)^gamma x_j(x). The distance is -score. `variant="joint"` puts the queries into
    the graph and compares whole rows instead: score(q, x) = cosine(x_q, x_x); better, but every set of
    queries has to be solved anew. Items in none of the rows follow in the order of the search.

    Cost: O(n^2 d) for lists, about 20 `truncation` kd operations per row, of which only those that the
    queries use are solved (all of them in variant joint); memory 8 bytes per item of each row: 1000 items
    times 1000 are 8 MB.

    Helps where DFS helps, when answers have to be quick. Hurts when relevant items lie further than the
    `truncation` nearest, as nothing beyond them is reached.

    Example:
        >>> kinrank.rerank(queries, gallery, kinrank.EIR(truncation=1000))
    """

    name: ClassVar[str] = "eir"
    paper: ClassVar[str] = (
        "Yang, Hinami, Matsui, Ly, Satoh: Efficient Image Retrieval via Decoupling Diffusion into Online and "
        "Offline Processing (AAAI 2019)"
    )

    truncation: int = parameter(1000, "how many nearest items the diffusion of an item is confined to", low=1)
    kd: int = parameter(50, "length of the neighbour list of an item in the graph, the item itself included", low=1)
    kq: int = parameter(10, KQ, low=1)
    gamma: float = parameter(
        3.0,
        "power to which similarities are raised; larger favours the nearest neighbours",
        low=0,
        above_low=True,
        high=100,
    )
    alpha: float = parameter(0.99, ALPHA, low=0, high=0.999999)
    tol: float = parameter(
        1e-6, "relative residual at which the linear solver stops; smaller is more exact and slower", low=0, high=1
    )
    maxiter: int = parameter(20, "largest number of steps of the linear solver", low=1, high=10_000)
    variant: str = parameter("paper", VARIANT, choices=("paper", "joint"))

    def prepare(self, items: Items, progress: Progress) -> Rows:
        return self._joint(items, progress) if self.variant == "joint" else self._online(items, progress)

    def _online(self, items: Items, progress: Progress) -> Rows:
        """The rows of those gallery items that some query has among its kq nearest."""
        used, queries = self.weigh(items.query_neighbors(self.kq))
        lists = items.gallery_neighbors(self.kd)
        rows = self._rows(lists, items.gallery_vectors, used, progress, items.unit)
        return Rows(items, queries, rows.T.tocsr())

    def weigh(self, nearest: Neighbors) -> tuple[NDArray[np.int64], Any]:
        """Which gallery items the queries enter through (r,), and what they weigh there (q, r)."""
        return stages.truncation.entry_weights(nearest, self.gamma)

    def _joint(self, items: Items, progress: Progress) -> Rows:
        rows = self._rows(items.neighbors(self.kd), items.vectors, np.arange(len(items)), progress, items.unit)
        rows = stages.truncation.unit_rows(rows)
        first, count = len(items) - len(items.gallery), len(items)
        between = stages.truncation.between
        return Rows(items, between(rows, 0, len(items.queries)), between(rows, first, count))

    def _rows(self, lists: Any, vectors: Any, wanted: NDArray[np.int64], progress: Progress, unit: bool) -> Any:
        affinity = stages.affinity.normalised(stages.affinity.mutual_affinity(lists, self.gamma))
        return stages.truncation.truncated_rows(
            affinity, vectors, wanted, self.truncation, self.alpha, self.tol, self.maxiter, progress, unit
        )

    def all_rows(self, lists: Neighbors, progress: Progress) -> NDArray[np.float32]:
        """(g, truncation) every x_i over its `truncation` nearest, in their order; `lists` hold kd and these."""
        affinity = stages.affinity.normalised(stages.affinity.mutual_affinity(lists.first(self.kd), self.gamma))
        nearest = lists.indices[:, : self.truncation]
        return stages.truncation.local_rows(affinity, nearest, self.alpha, self.tol, self.maxiter, progress)

    def distances(self, prepared: Rows, queries: NDArray[np.int64]) -> NDArray[np.float64]:
        scores = self.scores(prepared.queries[queries], prepared.gallery)
        return stages.fallback.from_scores(scores, lambda: prepared.items.query_distances(queries))

    def scores(self, asked: Any, gallery: Any) -> NDArray[np.float64]:
        """(q, g) of sparse (q, r) and (g, r), exactly 0 for items in none of the rows."""
        scores = np.empty((asked.shape[0], gallery.shape[0]))
        for start in range(0, len(scores), 64):
            block = slice(start, start + 64)
            scores[block] = stages.linear.times(gallery, asked[block].toarray().T.astype(np.float64)).T
        return scores

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        length = min(self.truncation, items)
        rows = items if self.variant == "joint" else min(items, queries * self.kq)
        kept = rows * length * 24  # scaled in variant joint, transposed otherwise: twice, with what scaling needs
        return graph_bytes(items, self.kd) + kept + 2048 * (length + 8) * 24 + items * 64 * 24 + 64_000_000

    def seconds(self, items: int, dimensions: int) -> float:
        rows = items if self.variant == "joint" else min(items, self.kq)
        solved = 2e-9 * rows * self.maxiter * min(self.truncation, items) * self.kd
        return self._listed_seconds(items, dimensions, self.kd) + solved

    def check_served(self) -> None:
        if self.variant != "paper":
            raise ValueError(
                f"EIR(variant={self.variant!r}) puts the queries into the graph, so nothing can be prepared "
                "without them and a Manifold cannot serve it; use EIR(variant='paper'), DFS, FSR or LPMT"
            )

    def memory_kept(self, items: int, dimensions: int, changes: bool) -> int:
        lists = min(max(self.truncation, self.kd), items) * 8
        rows = min(self.truncation, items) * 8
        return super().memory_kept(items, dimensions, changes) + items * (lists + rows)

    def keep(self, gallery: Gallery, progress: Progress, changes: bool = True) -> Kept:
        """Per item `truncation` items and what they get from it; 8 bytes each, 8 KB an item by default."""
        lists = gallery.lists(max(self.truncation, self.kd))
        values = self.all_rows(lists, progress)
        return Kept({"row_items": np.ascontiguousarray(lists.indices[:, : self.truncation]), "row_values": values})

    def opened(
        self, vectors: Vectors, kept: Kept, checked: bool = False
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The items of every row, and the values."""
        if not checked:
            checks, shape = stages.checks, (len(vectors), min(self.truncation, len(vectors)))
            items = checks.array_in(kept.arrays, "row_items", np.int32, shape)
            checks.check_items("row_items", items, len(vectors))
            checks.check_own_first("row_items", items)
            largest = 1.001 / (1.0 - self.alpha)  # the norm of the inverse of I - alpha S, and rounding
            checks.check_range(
                "row_values", checks.array_in(kept.arrays, "row_values", np.float32, shape), -largest, largest
            )
        return kept.arrays["row_items"], kept.arrays["row_values"]

    def reach(self, depth: int) -> int:
        return max(self.kq, depth)

    def answer(
        self, gallery: Gallery, opened: Any, queries: Vectors, found: Neighbors, k: int, depth: int, budget: int | None,
        masks: Masks = EVERYONE,
    ) -> Answer:  # fmt: skip
        items, values = opened

        def scores(nearest: Neighbors) -> NDArray[np.float64]:
            used, weights = self.weigh(nearest)
            rows = stages.csr.from_lists(items[used], values[used], len(gallery))
            return self.scores(weights, rows.T.tocsr())

        return best_scored(found, len(gallery), self.kq, depth, scores, masks)
