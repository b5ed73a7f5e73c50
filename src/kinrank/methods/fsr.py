"""FSR: the diffusion of DFS through a few leading eigenvectors of the gallery's graph, computed once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.features import Vectors
from kinrank.items import Items
from kinrank.methods.base import Method
from kinrank.methods.dfs import ALPHA, graph_bytes, solver_bytes
from kinrank.methods.served import Answer, Gallery, Kept, best_scored
from kinrank.neighbors import Neighbors
from kinrank.parameters import parameter
from kinrank.progress import Progress
from kinrank.stages.masks import EVERYONE, Masks

if TYPE_CHECKING:
    from kinrank.stages.spectrum import Part

ROUNDING = 1e-7  # by which an eigenvalue, or an entry of a unit vector, may exceed 1
LIMIT = 8000  # items in one dense decomposition: 1.5 GB and about two minutes
VARIANT = "`paper`: the leading eigenvectors only; `published`: all of them, which only small galleries allow"


@dataclass(frozen=True)
class Spectrum:
    """The items, the gallery nearest to each query, the eigenpairs per component, and the items of none."""

    items: Items
    nearest: Neighbors
    parts: list[Part]
    isolated: NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class FSR(Method):
    """Ranks by the same diffusion as DFS, but through the leading eigenvectors of the graph instead of a
    solver per query. The eigenvectors are computed once for the gallery; a query then costs two small
    matrix products. Keeping only `rank` of them also smooths: what differs within a tight cluster is
    forgotten.

    Equation: with S = U diag(lambda) U' the normalised mutual kNN affinity and y the query's
    similarity^gamma at its kq nearest items (see DFS), f = U_r diag(1 / (1 - alpha lambda_r)) U_r' y over
    the `rank` largest eigenvalues. The distance is -f. Decomposed per connected component, each of which
    keeps at least one eigenvector; an isolated item keeps f = y, which is exact. `variant="published"` is
    the form behind published tables: all eigenvectors, which equals DFS solved exactly. Items out of
    reach follow in the order of the search.

    Cost: O(n^2 d) for the graph, about 8 n rank^2 for the eigenvectors, O(n rank) per query; memory about
    4 n rank numbers. Components of more than 1200 items are decomposed iteratively, and eigenvectors near the
    cut may not have converged: at rank 1000 of 4993 images this moved scores by 0.7 % of their range, at rank
    500 and below by less than 0.01 %. Full rank needs a dense decomposition: O(m^3) time for a component of m
    items, refused beyond 8000.

    Helps when very many queries meet one gallery that fits in memory. Hurts when `rank` is small for the
    gallery: on 4993 images rank 300 lost most of the gain that rank 1000 kept, with exact eigenvectors too.
    DFS needs no rank and is cheaper for few queries.

    Example:
        >>> kinrank.rerank(queries, gallery, kinrank.FSR(rank=500))
    """

    name: ClassVar[str] = "fsr"
    paper: ClassVar[str] = (
        "Iscen, Avrithis, Tolias, Furon, Chum: Fast Spectral Ranking for Similarity Search (CVPR 2018)"
    )

    k: int = parameter(
        50, "length of the neighbour list of a gallery item in the graph, the item itself included", low=1
    )
    kq: int = parameter(10, "how many of the nearest gallery items a query spreads its similarity from", low=1)
    gamma: float = parameter(
        3.0,
        "power to which similarities are raised; larger favours the nearest neighbours",
        low=0,
        above_low=True,
        high=100,
    )
    alpha: float = parameter(0.99, ALPHA, low=0, high=0.999999)
    rank: int = parameter(1000, "how many eigenvectors are kept; variant `published` keeps all of them", low=1)
    variant: str = parameter("paper", VARIANT, choices=("paper", "published"))

    def prepare(self, items: Items, progress: Progress) -> Spectrum:
        parts, isolated = self.spectrum(items.gallery_neighbors(self.k))
        return Spectrum(items, items.query_neighbors(self.kq), parts, isolated)

    def spectrum(self, lists: Neighbors) -> tuple[list[Part], NDArray[np.int64]]:
        """Eigenpairs per component of the gallery's graph, and the items of none; no query is needed."""
        affinity = stages.affinity.normalised(stages.affinity.mutual_affinity(lists, self.gamma))
        parts = stages.spectrum.leading(affinity, None if self.variant == "published" else self.rank, LIMIT)
        return parts, np.flatnonzero(np.diff(affinity.indptr) == 0)

    def distances(self, prepared: Spectrum, queries: NDArray[np.int64]) -> NDArray[np.float64]:
        count = len(prepared.items.gallery)
        scores = self.scores(prepared.parts, prepared.isolated, count, prepared.nearest, queries)
        return stages.fallback.from_scores(scores, lambda: prepared.items.query_distances(queries))

    def scores(
        self,
        parts: list[Part],
        isolated: NDArray[np.int64],
        count: int,
        nearest: Neighbors,
        queries: NDArray[np.int64],
    ) -> NDArray[np.float64]:
        """(len(queries), count) f of these rows of `nearest`, exactly 0 in components none of them is in."""
        sources = stages.affinity.seeds(nearest, queries, count, self.gamma)
        scores = np.zeros_like(sources)
        scores[isolated] = sources[isolated]
        for part in parts:
            inside = sources[part.items]
            asked = np.flatnonzero(inside.any(axis=0))  # other queries stay exactly zero here
            filtered = part.vectors.T @ inside[:, asked]
            filtered /= (1.0 - self.alpha * part.values)[:, None]
            scores[np.ix_(part.items, asked)] = part.vectors @ filtered
        return np.asarray(scores.T)

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        columns = stages.spectrum.basis_size(self.rank)
        if self.variant == "published" or columns > 0.7 * items or items <= stages.spectrum.DENSE:
            decomposition = min(items, LIMIT) ** 2 * 8 * 3
        else:
            decomposition = items * (columns + self.rank) * 8 + columns**2 * 8 * 4
        return graph_bytes(items, self.k) + solver_bytes(items) + decomposition

    def seconds(self, items: int, dimensions: int) -> float:
        eigenvectors = 3e-10 * items**3  # of parts, one of which may hold all items
        return self._listed_seconds(items, dimensions, self.k) + eigenvectors

    def memory_kept(self, items: int, dimensions: int, changes: bool) -> int:
        rank = items if self.variant == "published" else min(items, self.rank)
        joined = 8 * items * rank  # into one array while the parts are still there
        return super().memory_kept(items, dimensions, changes) + joined

    def keep(self, gallery: Gallery, progress: Progress, changes: bool = True) -> Kept:
        """Per item its entry in each eigenvector of its component, up to `rank` of them; 8 bytes each.

        Components lie one behind the other: their items, their eigenvalues, and their vectors row by row.
        """
        parts, _ = self.spectrum(gallery.lists(self.k))
        sizes = [(len(part.items), len(part.values)) for part in parts]
        return Kept(
            {
                "part_sizes": np.array(sizes, np.int64).reshape(-1, 2),
                "part_items": np.concatenate([np.empty(0, np.int64), *(part.items for part in parts)]),
                "part_values": np.concatenate([np.empty(0), *(part.values for part in parts)]),
                "part_vectors": np.concatenate([np.empty(0), *(part.vectors.ravel() for part in parts)]),
            }
        )

    def opened(self, vectors: Vectors, kept: Kept, checked: bool = False) -> tuple[list[Part], NDArray[np.int64]]:
        """Eigenpairs per component, and the items of none."""
        if not checked:
            self._check_parts(len(vectors), kept.arrays)
        sizes, items, values, entries = (
            kept.arrays[f"part_{name}"] for name in ("sizes", "items", "values", "vectors")
        )
        parts, item, rank, entry = [], 0, 0, 0
        for size, count in sizes.tolist():
            block = entries[entry : entry + size * count].reshape(size, count)
            parts.append(stages.spectrum.Part(items[item : item + size], values[rank : rank + count], block))
            item, rank, entry = item + size, rank + count, entry + size * count
        return parts, np.setdiff1d(np.arange(len(vectors)), items)

    @staticmethod
    def _check_parts(count: int, arrays: dict[str, NDArray[Any]]) -> None:
        """An error if these arrays cannot be what `keep` makes of so many items."""
        checks, limit = stages.checks, 1.0 + ROUNDING
        sizes = checks.array_in(arrays, "part_sizes", np.int64, (None, 2))
        checks.check_range("part_sizes", sizes, 1, count)  # items and eigenvectors of each component
        many, ranks = int(sizes[:, 0].sum()), int(sizes[:, 1].sum())
        items = checks.array_in(arrays, "part_items", np.int64, (many,))
        checks.check_items("part_items", items, count)
        checks.check_distinct("part_items", items[None])
        # an eigenvalue of S is at most 1, which keeps 1 - alpha lambda above 0
        checks.check_range("part_values", checks.array_in(arrays, "part_values", np.float64, (ranks,)), -limit, limit)
        entries = checks.array_in(arrays, "part_vectors", np.float64, (int(sizes.prod(axis=1).sum()),))
        checks.check_range("part_vectors", entries, -limit, limit)

    def reach(self, depth: int) -> int:
        return max(self.kq, depth)

    def answer(
        self, gallery: Gallery, opened: Any, queries: Vectors, found: Neighbors, k: int, depth: int, budget: int | None,
        masks: Masks = EVERYONE,
    ) -> Answer:  # fmt: skip
        parts, isolated = opened

        def scores(nearest: Neighbors) -> NDArray[np.float64]:
            return self.scores(parts, isolated, len(gallery), nearest, np.arange(len(nearest.indices)))

        return best_scored(found, len(gallery), self.kq, depth, scores, masks)
