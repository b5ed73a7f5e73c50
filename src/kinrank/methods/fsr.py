"""FSR: the diffusion of DFS through a few leading eigenvectors of the graph of the gallery, computed once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.methods.base import Arrays, Facts, MethodState, list_seconds
from kinrank.methods.dfs import GraphDiffusion, graph_bytes, solver_bytes
from kinrank.parameters import parameter
from kinrank.vector_input import Vectors

if TYPE_CHECKING:
    from kinrank.stages.affinity import ComponentSpectrum

ROUNDING = 1e-7  # an eigenvalue, or an entry of a unit vector, may exceed 1 by this
MAX_DENSE_ITEMS = 8000  # of one dense decomposition: 1.5 GB and about two minutes
VARIANT_MEANING = "`paper`: the leading eigenvectors only; `published`: all of them, which only small galleries allow"


@dataclass(frozen=True, eq=False, kw_only=True)
class GallerySpectrum(MethodState):
    """Prepared gallery: eigenpairs of the components of its graph, one component after the other.

    Attributes:
        count: number of items.
        part_sizes: (c, 2) numbers of items and of eigenvectors of each component.
        part_items, part_values: items and eigenvalues.
        part_vectors: eigenvectors, row by row.
    """

    count: int
    part_sizes: NDArray[np.int64]
    part_items: NDArray[np.int64]
    part_values: NDArray[np.float64]
    part_vectors: NDArray[np.float64]

    @cached_property
    def parts(self) -> list[ComponentSpectrum]:
        """Eigenpairs per component."""
        parts, item, rank, entry = [], 0, 0, 0
        for size, count in self.part_sizes.tolist():
            items, values = self.part_items[item : item + size], self.part_values[rank : rank + count]
            block = self.part_vectors[entry : entry + size * count].reshape(size, count)
            parts.append(stages.affinity.ComponentSpectrum(items, values, block))
            item, rank, entry = item + size, rank + count, entry + size * count
        return parts

    @cached_property
    def isolated(self) -> NDArray[np.int64]:
        """Items in no component."""
        return np.setdiff1d(np.arange(self.count), self.part_items)

    @classmethod
    def from_arrays(cls, method: FSR, vectors: Vectors, arrays: Arrays, facts: Facts) -> GallerySpectrum:
        count = len(vectors)
        checks, limit = stages.array_storage, 1.0 + ROUNDING
        sizes = checks.require_array(arrays, "part_sizes", np.int64, (None, 2))
        checks.check_range("part_sizes", sizes, 1, count)  # items and eigenvectors of each component
        many, ranks = int(sizes[:, 0].sum()), int(sizes[:, 1].sum())
        items = checks.require_array(arrays, "part_items", np.int64, (many,))
        checks.check_items("part_items", items, count)
        checks.check_distinct("part_items", items[None])
        # an eigenvalue of S is at most 1, which keeps 1 - alpha lambda above 0
        checks.check_range(
            "part_values", checks.require_array(arrays, "part_values", np.float64, (ranks,)), -limit, limit
        )
        entries = checks.require_array(arrays, "part_vectors", np.float64, (int(sizes.prod(axis=1).sum()),))
        checks.check_range("part_vectors", entries, -limit, limit)
        names = ("part_sizes", "part_items", "part_values", "part_vectors")
        return cls(count=count, facts=facts, **{name: arrays[name] for name in names})


@dataclass(frozen=True, kw_only=True)
class FSR(GraphDiffusion):
    """Rank by the diffusion of DFS, but through the leading eigenvectors of the graph instead of a solver per query.

    The eigenvectors are computed once for the gallery; a query then costs two small
    matrix products. Keeping only `rank` of them also smooths: differences within a tight cluster
    disappear.

    Equation: with S = U diag(lambda) U' the normalised mutual kNN affinity and y the query's
    similarity^gamma at its kq nearest items (see DFS), f = U_r diag(1 / (1 - alpha lambda_r)) U_r' y over
    the `rank` largest eigenvalues. The distance is -f. Each connected component is decomposed separately and
    keeps at least one eigenvector; an isolated item keeps f = y, which is exact. `variant="published"` is
    the form of the published tables: all eigenvectors, which equals DFS solved exactly. Items out of
    reach follow in search order.

    Cost: O(n^2 d) for the graph, about 8 n rank^2 for the eigenvectors, O(n rank) per query; memory about
    4 n rank numbers. Components of more than 1200 items are decomposed iteratively, and eigenvectors near the
    cut may not have converged: at rank 1000 of 4993 images this moved scores by 0.7 % of their range, at rank
    500 and below by less than 0.01 %. Full rank needs a dense decomposition: O(m^3) time for a component of m
    items, refused beyond 8000.

    Helps if very many queries meet one gallery that fits in memory. Hurts if `rank` is small for the
    gallery: on 4993 images rank 300 lost most of the gain of rank 1000, with exact eigenvectors too.
    DFS needs no rank and is cheaper for few queries.

    Example:
        >>> kinrank.rerank(queries, gallery, kinrank.methods.FSR(rank=500))
    """

    name: ClassVar[str] = "fsr"
    paper: ClassVar[str] = (
        "Iscen, Avrithis, Tolias, Furon, Chum: Fast Spectral Ranking for Similarity Search (CVPR 2018)"
    )
    state: ClassVar[type[MethodState]] = GallerySpectrum

    rank: int = parameter(1000, "number of eigenvectors to keep; variant `published` keeps all of them", low=1)
    variant: str = parameter("paper", VARIANT_MEANING, choices=("paper", "published"))

    def make_state(self, affinity: Any) -> GallerySpectrum:
        """Return per item its entry in each eigenvector of its component, up to `rank` of them; 8 bytes each.

        Components are stored one after the other: their items, their eigenvalues, and their vectors row by row.
        """
        rank = None if self.variant == "published" else self.rank
        parts = stages.affinity.leading_eigenpairs(affinity, rank, MAX_DENSE_ITEMS)
        sizes = [(len(part.items), len(part.values)) for part in parts]
        return GallerySpectrum(
            count=affinity.shape[0],
            part_sizes=np.array(sizes, np.int64).reshape(-1, 2),
            part_items=np.concatenate([np.empty(0, np.int64), *(part.items for part in parts)]),
            part_values=np.concatenate([np.empty(0), *(part.values for part in parts)]),
            part_vectors=np.concatenate([np.empty(0), *(part.vectors.ravel() for part in parts)]),
        )

    def scores(self, state: GallerySpectrum, sources: NDArray[np.float64]) -> NDArray[np.float64]:
        scores = np.zeros_like(sources)
        scores[state.isolated] = sources[state.isolated]
        for part in state.parts:
            inside = sources[part.items]
            active = np.flatnonzero(inside.any(axis=0))  # other queries stay exactly zero here
            filtered = part.vectors.T @ inside[:, active]
            filtered /= (1.0 - self.alpha * part.values)[:, None]
            scores[np.ix_(part.items, active)] = part.vectors @ filtered
        return scores

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        columns = stages.affinity.basis_size(self.rank)
        if self.variant == "published" or columns > 0.7 * items or items <= stages.affinity.MAX_DENSE_ITEMS:
            decomposition = min(items, MAX_DENSE_ITEMS) ** 2 * 8 * 3
        else:
            decomposition = items * (columns + self.rank) * 8 + columns**2 * 8 * 4
        return graph_bytes(items, self.k) + solver_bytes(items) + decomposition

    def seconds(self, items: int, dimensions: int) -> float:
        eigenvectors = 3e-10 * items**3  # of components, one of which may hold all items
        return list_seconds(items, dimensions, self.k) + eigenvectors

    def prepared_bytes(self, items: int, dimensions: int, changes: bool) -> int:
        rank = items if self.variant == "published" else min(items, self.rank)
        joined = 8 * items * rank  # joined into one array while the parts still exist
        return super().prepared_bytes(items, dimensions, changes) + joined
