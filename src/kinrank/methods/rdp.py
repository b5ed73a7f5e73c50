"""RDP: regularised diffusion of pairwise affinities on the joint graph; only the rows of the queries are computed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.methods.base import Method, distances_from_scores
from kinrank.methods.dfs import graph_bytes, solver_bytes
from kinrank.parameters import parameter
from kinrank.problem import Items
from kinrank.progress import Progress

VARIANT_MEANING = (
    "`paper`: weights of d^2, diffused to the fixed point; `published`: weights of d^4 and a fixed number of steps, as "
    "in the published program"
)


@dataclass(frozen=True, kw_only=True)
class RDP(Method):
    """Diffuse affinities between pairs of items until they are smooth on both sides: similar items get similar rows.

    Queries and gallery form one kNN graph with Gaussian weights, so queries help
    each other too. Only the rows of the queries are computed, although the definition describes an n x n
    matrix.

    Equation: W_ij = exp(-(d_ij^2 / max d^2) / sigma^2) for j among the k nearest of i (itself included),
    averaged with its transpose; S = D^-1/2 W D^-1/2; A = alpha S A S' + (1 - alpha) I with alpha = 1 / (1
    + mu), whose fixed point is A = (1 - alpha) (I - alpha S^2)^-1. The distance is -A_qx.
    `variant="published"` is the form of the published tables: the scaled squared distance is squared once
    more, and `iterations` steps are taken from A = I instead of the fixed point. Items that are not
    connected to the query follow in search order.

    Cost: O(n^2 d) for the graph and for the largest distance, about 40 sparse products of O(n k) per query;
    memory O(n k).

    Helps on clusters of similar size, where it is one of the strongest diffusions. Hurts if the queries
    have another distribution than the gallery, and if hubs connect unrelated clusters, because lists need not be
    mutual: lower k. The published settings are k=30, sigma=0.5 and mu=0.3, which suit large classes.

    Example:
        >>> kinrank.rerank(queries, gallery, kinrank.methods.RDP(k=10))
    """

    name: ClassVar[str] = "rdp"
    paper: ClassVar[str] = (
        "Bai, Bai, Tian, Latecki: Regularized Diffusion Process on Bidirectional Context for Object "
        "Retrieval (TPAMI 2019)"
    )

    k: int = parameter(10, "length of the neighbour list of an item in the graph, the item itself included", low=1)
    sigma: float = parameter(
        0.3, "width of the Gaussian that turns distances, the largest scaled to 1, into weights", low=0.01, high=10_000
    )
    mu: float = parameter(
        0.1, "strength of the regulariser, alpha = 1 / (1 + mu); smaller spreads further", low=1e-4, high=1000
    )
    iterations: int = parameter(
        20, "number of diffusion steps of variant `published`; `paper` goes on to the fixed point", low=1, high=1000
    )
    variant: str = parameter("paper", VARIANT_MEANING, choices=("paper", "published"))

    def prepare(self, items: Items, progress: Progress) -> tuple[Items, Any]:
        """Return the items and the normalised affinity S over queries and gallery together."""
        power = 2 if self.variant == "published" else 1
        neighbors = items.neighbors(self.k)
        affinity = stages.affinity.gaussian_affinity(items.vectors, neighbors, self.sigma, power, items.unit)
        return items, stages.affinity.normalize_affinity(affinity)

    def distances(self, prepared: tuple[Items, Any], queries: NDArray[np.int64]) -> NDArray[np.float64]:
        items, affinity = prepared
        units = np.zeros((len(items), len(queries)))
        units[items.queries[queries], np.arange(len(queries))] = 1.0
        solve = self._steps if self.variant == "published" else self._fixed_point
        rows = stages.affinity.solve_in_blocks(lambda block: solve(affinity, block), units).T
        return distances_from_scores(rows[:, items.gallery], lambda: items.query_distances(queries))

    def _fixed_point(self, affinity: Any, units: NDArray[np.float64]) -> NDArray[np.float64]:
        """Apply (1 - alpha) (I - alpha S^2)^-1 to unit vectors; A is symmetric, so columns are rows."""
        alpha, times = 1.0 / (1.0 + self.mu), stages.affinity.multiply_block
        solution = stages.affinity.solve_columns(
            lambda block: block - alpha * times(affinity, times(affinity, block)), units, tol=1e-10, maxiter=2000
        )
        return (1.0 - alpha) * solution

    def _steps(self, affinity: Any, units: NDArray[np.float64]) -> NDArray[np.float64]:
        """Apply (1 - alpha) sum_{t<T} alpha^t S^2t + alpha^T S^2T to unit vectors, from the inside out."""
        alpha, times = 1.0 / (1.0 + self.mu), stages.affinity.multiply_block
        rows = units
        for _ in range(self.iterations):
            rows = alpha * times(affinity, times(affinity, rows)) + (1.0 - alpha) * units
        return rows

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        return 2 * graph_bytes(items, self.k) + solver_bytes(items) + 32_000_000
