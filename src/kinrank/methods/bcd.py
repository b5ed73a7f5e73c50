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
    from kinrank.stages.graph import Layers


@dataclass(frozen=True, eq=False)
class Diffused:
    """What the queries share: the graphs and their weights."""

    items: Items
    layers: Layers
    beta: NDArray[np.float64]


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

    k: int = parameter(10, "neighbours in the reference graph; the others have k / sqrt 2 and k sqrt 2", low=1)
    sigma: float = parameter(0.3, "width of the Gaussian, in units of `scale`", low=0, above_low=True)
    mu: float = parameter(0.23, "strength of the regulariser", low=0, above_low=True)
    lam: float = parameter(0.2, "lambda / n: how evenly the graphs are weighted", low=0)
    scale: str = parameter(
        "row",
        "unit of sigma: distance of the k-th neighbour, of the farthest item, the largest of all, or 1",
        choices=("local", "row", "global", "raw"),
    )
    cycles: int = parameter(3, "rounds in which graph weights and diffusion are adapted to each other", low=0, high=50)
    tolerance: float = parameter(1e-5, "mass the diffusion leaves where it lies", low=0, above_low=True, high=1)

    def prepare(self, items: Items, progress: Progress) -> Diffused:
        layers = graphs(items, self.k, self.sigma, self.scale, stages.graph.SCALES)
        beta = stages.diffusion.collaborative(layers, self.mu, self.lam, self.cycles, max(1e-3, self.tolerance))
        return Diffused(items, layers, beta)

    def distances(self, prepared: Diffused, queries: NDArray[np.int64]) -> NDArray[Any]:
        return by_diffusion(prepared, queries, self.mu, self.tolerance)

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        return items * (8 * 16 + 60 * 3 * self.k) + 32 * 2**20


def graphs(items: Items, k: int, sigma: float, scale: str, scales: tuple[float, ...]) -> Layers:
    """The neighbour graphs of all items at these scales of k."""
    lists = items.neighbors(1 + max(round(k * factor) for factor in (1.0, *scales)))
    far = np.sqrt(stages.context.farthest(items.vectors)) if scale in ("row", "global") else None
    return stages.graph.layered_graphs(lists, k, sigma, scale, scales, far)


def by_diffusion(prepared: Diffused, queries: NDArray[np.int64], mu: float, tolerance: float) -> NDArray[Any]:
    """-F of some queries to the gallery; items the diffusion does not reach behind, in the order of d."""
    items = prepared.items
    scores = stages.diffusion.resolvent_block(
        prepared.layers, prepared.beta, mu, items.queries[queries], items.gallery, tolerance
    )
    return stages.fallback.from_scores(scores.astype(np.float64), lambda: items.query_distances(queries))
