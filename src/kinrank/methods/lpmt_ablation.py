"""LPMT with its stages exchanged one by one, as in the ablations of the paper (Tables 5 and 6). Joint only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.items import Items
from kinrank.methods.lpmt import LPMT, Joint
from kinrank.neighbors import Neighbors
from kinrank.parameters import parameter
from kinrank.progress import Progress


@dataclass(frozen=True, kw_only=True)
class LPMTAblation(LPMT):
    """LPMT with one of its stages replaced by a plainer one, to see what each of them is worth.

    At its defaults it is LPMT(direct=0): chains alone, as in the paper, without LPMT's direct comparison of wide
    neighbourhoods. Each further parameter exchanges one stage: the similarity that states are made of, the region it is
    read on, the distance between states, how neighbours and steps are chosen, the Gaussian's scale, the mixture of the
    two distances, and the solver of the diffusion.

    Equation: that of LPMT, with

        F      bcd: several graphs, weighted; bsd: one graph; gaussian: Eq. 2; cosine: inner products
        region reciprocal: R(i, k1); knn: N(i, k1)
        d'     transport: chains; total_variation, jaccard, cosine, euclidean: between p_q and p_x, without chains

    Cost: as LPMT; solvers other than `resolvent` need n x n matrices and stop at 6000 items.

    Helps when you want to know which part of LPMT matters on your data. Hurts as a replacement of LPMT: every variant
    is weaker on most sets, and none can be prepared for queries to come.

    Example:
        >>> kinrank.rerank(queries, gallery, kinrank.LPMTAblation(similarity="cosine"))
    """

    name: ClassVar[str] = "lpmt-ablation"

    similarity: str = parameter(
        "bcd", "similarity that states are made of: diffused over several graphs (bcd) or one (bsd), or not at all",
        choices=("bcd", "bsd", "gaussian", "cosine"),
    )  # fmt: skip
    region: str = parameter(
        "reciprocal", "items of a local region: those of the k1 nearest that list the item too, or all of them (knn)",
        choices=("reciprocal", "knn"),
    )  # fmt: skip
    distance: str = parameter(
        "transport", "distance between states: `transport` along chains, or one of the others directly, without chains",
        choices=("transport", "total_variation", "jaccard", "cosine", "euclidean"),
    )  # fmt: skip
    neighbors: str = parameter(
        "diffused", "whether regions and steps go to the nearest by diffused similarity or by Euclidean distance; "
        "similarities gaussian and cosine always go by distance",
        choices=("diffused", "euclidean"),
    )  # fmt: skip
    steps: str = parameter(
        "union",
        "which neighbours a chain may step to: `union`, if either lists the other; `reciprocal`, only if both do",
        choices=("union", "reciprocal"),
    )  # fmt: skip
    scale: str = parameter(
        "local", "unit of sigma: the distance of the k-th neighbour (local), of the farthest item (row), the largest "
        "distance of all (global), or 1 (raw)",
        choices=("local", "row", "global", "raw"),
    )  # fmt: skip
    loops: bool = parameter(False, "whether an item is its own neighbour in the graphs")
    fusion: str = parameter(
        "local", "whether the two distances are brought to the scale of the query's neighbourhood before they are "
        "mixed (local) or mixed as they are (plain)",
        choices=("local", "plain"),
    )  # fmt: skip
    solver: str = parameter(
        "resolvent", "solver of the diffusion equation; all but `resolvent` need n x n matrices",
        choices=("resolvent", "fixed_point", "conjugate_gradient", "dense"),
    )  # fmt: skip

    direct: float | None = parameter(
        0.0, "share of a direct comparison of wide states: none, as in the paper", low=0, high=0
    )

    def prepare(self, items: Items, progress: Progress) -> Joint:
        pipeline = stages.pipeline
        progress.stage("neighbours", 0, 4)
        lists = items.neighbors(pipeline.Widths.of(self).searched)
        powers = replace(pipeline.measured(lists, self), direct=0.0)
        progress.stage("diffusion", 1, 4)
        nearest, similar = self._similarity(items, lists)
        progress.stage("states", 2, 4)
        share = powers.share if nearest is not lists.indices else 0.0
        confident = stages.states.confident_lists(lists.indices, nearest, self.k2, self.kappa, share)
        reciprocal = self.region == "reciprocal"
        states = stages.states.locality_states(
            *confident, nearest, similar, self.k1, self.support, reciprocal=reciprocal
        )
        progress.stage("steps", 3, 4)
        steps = None
        if self.distance == "transport":
            pattern = stages.costs.step_pattern(nearest, self.path_k, self.steps == "reciprocal")
            pricing = pipeline.pricing(self, powers, items.unit)
            prices = stages.costs.step_costs(*pattern, states, items.vectors, pricing)
            steps = stages.csr.Rows(*pattern, prices)
        progress.stage("steps", 4, 4)
        return Joint(items, states, steps, stages.direct.no_states(len(items)), powers)

    def _similarity(self, items: Items, lists: Neighbors) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The lists that regions and steps go by, and the similarity along them."""
        graph, diffusion = stages.graph, stages.diffusion
        far = np.sqrt(stages.context.farthest(items.vectors, items.unit)) if self.scale in ("row", "global") else None
        lengths = graph.kernel_lengths(lists, self.k, self.scale, far)
        if self.similarity in ("gaussian", "cosine"):
            weights = graph.gaussian_weights(lists, lengths, self.sigma, self.scale == "row")
            if self.similarity == "cosine":
                weights = np.maximum(1.0 - 0.5 * lists.distances**2, 1e-12)
            return lists.indices, weights
        scales = (1.0,) if self.similarity == "bsd" else graph.SCALES
        layers = graph.layered_graphs(lists, lengths, self.k, self.sigma, scales, self.scale == "row", self.loops)
        width = min(stages.pipeline.Widths.of(self).diffused, len(items))
        if self.solver != "resolvent":
            smoothed, _ = stages.dense.collaborative(layers, self.mu, self.lam, self.cycles, self.solver)
            if self.neighbors == "diffused":
                return stages.dense.nearest_in(smoothed, lists.first(width))
            return lists.indices, np.take_along_axis(smoothed, lists.indices, axis=1).astype(np.float32)
        beta = diffusion.graph_weights(layers, self.mu, self.lam, self.cycles, self.tolerance)
        spreading = diffusion.spreading_graph(layers, beta, self.mu)
        if self.neighbors == "diffused":
            return diffusion.nearest_by_diffusion(spreading, self.mu, self.tolerance, lists.indices, width)
        n, width = lists.indices.shape
        indptr = np.arange(n + 1, dtype=np.int64) * width
        values, _ = diffusion.resolvent_on(
            spreading, self.mu, self.tolerance, np.arange(n), indptr, lists.indices.reshape(-1)
        )
        return lists.indices, values.reshape(n, width)

    def distances(self, prepared: Joint, queries: NDArray[np.int64]) -> NDArray[Any]:
        items = prepared.items
        asked = items.queries[queries]
        gamma = prepared.powers.gamma
        if prepared.steps is not None:
            chained = stages.chains.chains_from(asked, prepared.steps)[0][:, items.gallery]
        else:
            states = stages.csr.matrix_of(prepared.states, len(items))
            chained = stages.states.state_distances(states, asked, items.gallery, self.distance)
            gamma = 1.0
        mixture = stages.fusion.mixture_of(self.theta, gamma, self.k, self.fusion)
        return stages.fusion.fused(items.query_distances(queries), chained, mixture, items.self_query)

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        dense = 8 * items * items * 5 if self.solver != "resolvent" and items <= 6000 else 0
        return super().memory(items, queries, dimensions) + dense

    def seconds(self, items: int, dimensions: int) -> float:
        dense = 1e-9 * (self.cycles + 1) * items**3 if self.solver != "resolvent" else 0.0
        return super().seconds(items, dimensions) + dense

    # joint only: nothing is prepared for queries to come

    def check_served(self) -> None:
        raise ValueError("LPMTAblation compares variants in one joint graph, and a Manifold cannot serve it; use LPMT")

    def check_explained(self) -> None:
        if self.distance != "transport":
            raise ValueError(f"distance={self.distance!r} has no chains to show; use distance='transport', or LPMT()")

    def check_marked(self) -> None:
        raise ValueError("LPMTAblation cannot use positives= and negatives=; use LPMT, or leave them out")
