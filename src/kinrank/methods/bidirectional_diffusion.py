"""Bidirectional diffusion of similarity: over three weighted graphs (BCD) and over one graph (BSD)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.methods.base import Method, distances_from_scores
from kinrank.parameters import parameter
from kinrank.problem import Items
from kinrank.progress import Progress

if TYPE_CHECKING:
    from kinrank.stages.csr import Rows
    from kinrank.stages.gaussian_graph import GraphLayers

MU_MEANING = "strength of the tie to the starting item; smaller spreads similarity further"
SCALE_MEANING = (
    "unit of sigma: the distance of the k-th neighbour (local), of the farthest item (row), the largest distance of "
    "all (global), or 1 (raw)"
)
TOLERANCE_MEANING = "largest residual left unspread when a diffusion row is computed; smaller is more exact and slower"


@dataclass(frozen=True, kw_only=True)
class BSD(Method):
    """Spread similarity along one neighbour graph until it is smooth in both of its arguments.

    Two items become similar if their neighbours are similar to each other, in either direction. The regulariser
    ties the result to the identity, so an item remains most similar to itself. It is the diffusion inside CAS and,
    with several graphs, inside LPMT.

    Equation, over queries and gallery together, with a = 1/(1 + mu):

        F = a/2 (F S + S F) + (1 - a) I   at convergence, which is   F = (1 - a)(I - a S)^-1
        dist = -F_qx

    Cost: one local push per query; no n x n matrix. Memory about 0.3 kB per item.

    Helps if k neighbours mostly belong together. Hurts with an unsuitable k, and far from the query, where its signal
    fades.

    Example:
        >>> kinrank.rerank(queries, gallery, kinrank.methods.BSD(k=10))
    """

    name: ClassVar[str] = "bsd"
    paper: ClassVar[str] = (
        "Luo, Yao, Xu: Cluster-Aware Similarity Diffusion for Instance Retrieval, ICML 2024 (its diffusion)"
    )

    k: int = parameter(10, "neighbours of an item in the graph, the item itself not counted", low=1)
    sigma: float = parameter(
        0.3, "width of the Gaussian edge weights, in the unit that `scale` names", low=0.01, high=10_000
    )
    mu: float = parameter(0.23, MU_MEANING, low=0.01, high=1000)
    scale: str = parameter("row", SCALE_MEANING, choices=("local", "row", "global", "raw"))
    tolerance: float = parameter(1e-5, TOLERANCE_MEANING, low=1e-9, high=1)

    def prepare(self, items: Items, progress: Progress) -> tuple[Items, Rows]:
        """Return the items and the graph over which similarity spreads."""
        layers = self._build_layers(items, (1.0,))
        return items, stages.diffusion.build_diffusion_graph(layers, np.ones(1), self.mu)

    def _build_layers(self, items: Items, scales: tuple[float, ...]) -> GraphLayers:
        """Build the neighbour graphs of all items at these scales of k."""
        graph = stages.gaussian_graph
        lists = items.neighbors(1 + max(graph.neighbors_per_layer(self.k, (1.0, *scales))))
        far = None
        if self.scale in ("row", "global"):
            far = np.sqrt(stages.reciprocal_sets.find_farthest_squared(items.vectors, items.unit))
        lengths = graph.kernel_lengths(lists, self.k, self.scale, far)
        settings = graph.LayerSettings(self.k, self.sigma, scales, own_scale=self.scale == "row")
        return graph.build_layers(lists, lengths, settings)

    def distances(self, prepared: tuple[Items, Rows], queries: NDArray[np.int64]) -> NDArray[Any]:
        """Return -F from some queries to the gallery; items out of reach follow in the order of d."""
        items, graph = prepared
        spread = stages.diffusion.Spread.over(graph, self.mu, self.tolerance)
        scores = stages.diffusion.compute_resolvent_block(spread, items.queries[queries], items.gallery)
        return distances_from_scores(scores.astype(np.float64), lambda: items.query_distances(queries))

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        return items * (8 * 16 + 60 * self.k) + 32 * 2**20


@dataclass(frozen=True, kw_only=True)
class BCD(BSD):
    """Spread similarity over three neighbour graphs at once, in both directions, with adaptive weights.

    The graphs link every item to about 7, 10 and 14 neighbours, so no single choice decides. Each round solves the
    diffusion for the current weights and then gives more weight to the graphs along which the result is smooth. It is
    the first stage of LPMT, ranked here by its own similarity.

    Equation, over queries and gallery together, with a = 1/(1 + mu):

        F    = (1 - a)(I - a sum_v beta_v S_v)^-1
        beta = projection of -H/lambda onto the simplex,  H_v = <F, F> - <F, S_v F>
        dist = -F_qx

    Cost: one local push per item for the weights, one per query for its row; no n x n matrix. Memory about 0.5 kB
    per item.

    Helps if classes are dense and k neighbours mostly right. Hurts if the graph has wrong links, which it follows
    as readily as right ones, and far from the query, where its signal fades.

    Example:
        >>> kinrank.rerank(queries, gallery, kinrank.methods.BCD(k=10))
    """

    name: ClassVar[str] = "bcd"
    paper: ClassVar[str] = (
        "Luo, Wu, Yao, Yu, Xu: Locality Preserving Markovian Transition for Instance Retrieval, ICML 2025 (Sec. 4.1)"
    )

    k: int = parameter(
        10, "neighbours of an item in the middle one of three graphs; the others have k / sqrt 2 and k sqrt 2", low=1
    )
    lam: float = parameter(
        0.2, "lambda / n: evenness of the weights of the three graphs; 0 keeps only the smoothest one", low=0, high=1000
    )
    cycles: int = parameter(
        3, "rounds of adapting the diffusion and the weights of the graphs to each other", low=0, high=50
    )

    def prepare(self, items: Items, progress: Progress) -> tuple[Items, Rows]:
        layers = self._build_layers(items, stages.gaussian_graph.SCALES)
        tolerance = max(1e-3, self.tolerance)  # the weights need only a few digits
        beta = stages.diffusion.fit_graph_weights(layers, self.mu, self.lam, self.cycles, tolerance)
        return items, stages.diffusion.build_diffusion_graph(layers, beta, self.mu)

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        return items * (8 * 16 + 60 * 3 * self.k) + 32 * 2**20

    def seconds(self, items: int, dimensions: int) -> float:
        diffusion, degree = stages.diffusion, 2.8 * self.k  # edges to k sqrt 2 neighbours, in both directions
        weight_seconds = diffusion.estimate_weighing_seconds(
            items, degree, self.mu, self.cycles, max(1e-3, self.tolerance)
        )
        query_seconds = diffusion.estimate_diffusion_seconds(1, items, degree, self.mu, self.tolerance)
        return super().seconds(items, dimensions) + weight_seconds + query_seconds
