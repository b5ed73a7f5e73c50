"""BCD: diffusion over several graphs whose weights are learnt along -> the smoothed similarity itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.items import Items
from kinrank.methods.base import Method
from kinrank.parameters import parameter
from kinrank.progress import Progress

if TYPE_CHECKING:
    from kinrank.stages.csr import Rows
    from kinrank.stages.graph import Layers


@dataclass(frozen=True, eq=False)
class Diffused:
    """What the queries share: the items and the graph that similarity spreads over."""

    items: Items
    graph: Rows


@dataclass(frozen=True, kw_only=True)
class BCD(Method):
    """Similarity is spread over three neighbour graphs at once, in both directions, and their weights adapt.

    The graphs link every item to about 7, 10 and 14 neighbours, so that no single choice decides. Each round solves the
    diffusion for the present weights and then gives more weight to the graphs along which the result is smooth. It is
    the first stage of LPMT, here ranked by its own similarity.

    Equation, over queries and gallery together, with a = 1/(1 + mu):

        F    = (1 - a)(I - a sum_v beta_v S_v)^-1
        beta = projection of -H/lambda onto the simplex,  H_v = <F, F> - <F, S_v F>
        dist = -F_qx

    Cost: one local push per item for the weights, one per query for its row; no n x n matrix. Memory about 0.5 kB
    per item.

    Helps where classes are dense and k neighbours mostly right. Hurts where the graph has wrong links, which it follows
    as readily as right ones, and far from the query, where its signal fades.

    Example:
        >>> kinrank.rerank(queries, gallery, kinrank.BCD(k=10))
    """

    name: ClassVar[str] = "bcd"
    paper: ClassVar[str] = (
        "Luo, Wu, Yao, Yu, Xu: Locality Preserving Markovian Transition for Instance Retrieval, ICML 2025 (Sec. 4.1)"
    )

    k: int = parameter(
        10, "neighbours of an item in the middle one of three graphs; the others have k / sqrt 2 and k sqrt 2", low=1
    )
    sigma: float = parameter(
        0.3, "width of the Gaussian edge weights, in the unit that `scale` names", low=0.01, high=10_000
    )
    mu: float = parameter(
        0.23, "how strongly the diffusion stays at its start; smaller spreads similarity further", low=0.01, high=1000
    )
    lam: float = parameter(
        0.2, "lambda / n: how evenly the three graphs are weighted; 0 keeps only the smoothest one", low=0, high=1000
    )
    scale: str = parameter(
        "row",
        "unit of sigma: the distance of the k-th neighbour (local), of the farthest item (row), the largest "
        "distance of all (global), or 1 (raw)",
        choices=("local", "row", "global", "raw"),
    )
    cycles: int = parameter(
        3, "rounds in which diffusion and weights of the graphs are adapted to each other", low=0, high=50
    )
    tolerance: float = parameter(
        1e-5,
        "largest residual left unspread when a diffusion row is computed; smaller is more exact and slower",
        low=1e-9,
        high=1,
    )

    def prepare(self, items: Items, progress: Progress) -> Diffused:
        layers = graphs(items, self.k, self.sigma, self.scale, stages.graph.SCALES)
        tolerance = max(1e-3, self.tolerance)  # the weights need a few digits only
        beta = stages.diffusion.graph_weights(layers, self.mu, self.lam, self.cycles, tolerance)
        return Diffused(items, stages.diffusion.spreading_graph(layers, beta, self.mu))

    def distances(self, prepared: Diffused, queries: NDArray[np.int64]) -> NDArray[Any]:
        return by_diffusion(prepared, queries, self.mu, self.tolerance)

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        return items * (8 * 16 + 60 * 3 * self.k) + 32 * 2**20

    def seconds(self, items: int, dimensions: int) -> float:
        diffusion, degree = stages.diffusion, 2.8 * self.k  # edges to k sqrt 2 neighbours, both ways
        weighed = diffusion.weighing_seconds(items, degree, self.mu, self.cycles, max(1e-3, self.tolerance))
        answered = diffusion.spreading_seconds(1, items, degree, self.mu, self.tolerance)
        return super().seconds(items, dimensions) + weighed + answered


def graphs(items: Items, k: int, sigma: float, scale: str, scales: tuple[float, ...]) -> Layers:
    """The neighbour graphs of all items at these scales of k."""
    graph = stages.graph
    lists = items.neighbors(1 + max(graph.widths(k, (1.0, *scales))))
    far = np.sqrt(stages.context.farthest(items.vectors, items.unit)) if scale in ("row", "global") else None
    lengths = graph.kernel_lengths(lists, k, scale, far)
    return graph.layered_graphs(lists, lengths, k, sigma, scales, own_scale=scale == "row")


def by_diffusion(prepared: Diffused, queries: NDArray[np.int64], mu: float, tolerance: float) -> NDArray[Any]:
    """-F of some queries to the gallery; items the diffusion does not reach behind, in the order of d."""
    items = prepared.items
    scores = stages.diffusion.resolvent_block(prepared.graph, mu, items.queries[queries], items.gallery, tolerance)
    return stages.fallback.from_scores(scores.astype(np.float64), lambda: items.query_distances(queries))
