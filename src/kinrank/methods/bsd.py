"""BSD: diffusion of similarity over one graph, in both directions -> the smoothed similarity itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.items import Items
from kinrank.methods.base import Method
from kinrank.methods.bcd import Diffused, by_diffusion, graphs
from kinrank.parameters import parameter
from kinrank.progress import Progress


@dataclass(frozen=True, kw_only=True)
class BSD(Method):
    """Similarity is spread along one neighbour graph until it is smooth in both of its arguments.

    Two items become similar when their neighbours are similar to each other, whichever of the two asks. The regulariser
    ties the result to the identity, so that an item stays most similar to itself. It is the diffusion inside CAS and,
    with several graphs, inside LPMT.

    Equation, over queries and gallery together, with a = 1/(1 + mu):

        F = a/2 (F S + S F) + (1 - a) I   at convergence, which is   F = (1 - a)(I - a S)^-1
        dist = -F_qx

    Cost: one local push per query; no n x n matrix. Memory about 0.3 kB per item.

    Helps where k neighbours mostly belong together. Hurts with an unlucky k, and far from the query, where its signal
    fades.

    Example:
        >>> kinrank.rerank(queries, gallery, kinrank.BSD(k=10))
    """

    name: ClassVar[str] = "bsd"
    paper: ClassVar[str] = (
        "Luo, Yao, Xu: Cluster-Aware Similarity Diffusion for Instance Retrieval, ICML 2024 (its diffusion)"
    )

    k: int = parameter(10, "neighbours of an item in the graph, the item itself not counted", low=1)
    sigma: float = parameter(
        0.3, "width of the Gaussian edge weights, in the unit that `scale` names", low=0.01, high=10_000
    )
    mu: float = parameter(
        0.23, "how strongly the diffusion stays at its start; smaller spreads similarity further", low=0.01, high=1000
    )
    scale: str = parameter(
        "row",
        "unit of sigma: the distance of the k-th neighbour (local), of the farthest item (row), the largest "
        "distance of all (global), or 1 (raw)",
        choices=("local", "row", "global", "raw"),
    )
    tolerance: float = parameter(
        1e-5,
        "largest residual left unspread when a diffusion row is computed; smaller is more exact and slower",
        low=1e-9,
        high=1,
    )

    def prepare(self, items: Items, progress: Progress) -> Diffused:
        layers = graphs(items, self.k, self.sigma, self.scale, (1.0,))
        return Diffused(items, stages.diffusion.spreading_graph(layers, np.ones(1), self.mu))

    def distances(self, prepared: Diffused, queries: NDArray[np.int64]) -> NDArray[Any]:
        return by_diffusion(prepared, queries, self.mu, self.tolerance)

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        return items * (8 * 16 + 60 * self.k) + 32 * 2**20
