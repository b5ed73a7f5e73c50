"""LPMT with its stages replaced one by one, as in the ablations of the paper (Tables 5 and 6). Joint graphs only."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.methods.capabilities import Capabilities, Limitation
from kinrank.methods.lpmt import LPMT, JointState
from kinrank.neighbors import Neighbors
from kinrank.parameters import parameter
from kinrank.problem import Items
from kinrank.progress import Progress

if TYPE_CHECKING:
    from kinrank.stages.csr import Rows
    from kinrank.stages.diffusion import DiffusedLists
    from kinrank.stages.sparse_rows import Pattern
    from kinrank.stages.states import ConfidentLists


@dataclass(frozen=True, kw_only=True)
class LPMTAblation(LPMT):
    """LPMT with one of its stages replaced by a simpler one, to measure the contribution of each.

    The defaults are LPMT(direct=0): chains alone, as in the paper, without LPMT's direct comparison of wide
    neighbourhoods. Each further parameter replaces one stage: the similarity that states are made of, the region that
    restricts it, the distance between states, the choice of neighbours and steps, the scale of the Gaussian, the
    mixture of the two distances, and the solver of the diffusion.

    Equation: that of LPMT, with

        F      bcd: several graphs, weighted; bsd: one graph; gaussian: Eq. 2; cosine: inner products
        region reciprocal: R(i, k1); knn: N(i, k1)
        d'     transport: chains; total_variation, jaccard, cosine, euclidean: between p_q and p_x, without chains

    Cost: as LPMT; solvers other than `resolvent` need n x n matrices and stop at 6000 items.

    Helps to find out which part of LPMT matters on your data. Hurts as a replacement of LPMT: every variant
    is weaker on most sets, and none can prepare a gallery for new queries.

    Example:
        >>> from kinrank_bench.paper.lpmt_ablation import LPMTAblation
        >>> ranking = kinrank.rerank(queries, gallery, LPMTAblation(similarity="cosine"))
    """

    name: ClassVar[str] = "lpmt-ablation"
    capabilities: ClassVar[Capabilities] = Capabilities(explain=True)  # joint graphs only
    limitations: ClassVar[tuple[Limitation, ...]] = (
        Limitation(
            capability="explain",
            parameter="distance",
            needed="transport",
            problem="has no chains to explain",
            remedy="use `distance=transport`, or LPMT()",
        ),
    )

    similarity: str = parameter(
        "bcd",
        "similarity that states are made of: diffused over several graphs (bcd) or one (bsd), or not diffused",
        choices=("bcd", "bsd", "gaussian", "cosine"),
    )
    region: str = parameter(
        "reciprocal",
        "items of a local region: those of the k1 nearest that list the item too, or all of them (knn)",
        choices=("reciprocal", "knn"),
    )
    distance: str = parameter(
        "transport",
        "distance between states: `transport` along chains, or one of the others directly, without chains",
        choices=("transport", "total_variation", "jaccard", "cosine", "euclidean"),
    )
    neighbors: str = parameter(
        "diffused",
        "order of neighbours for regions and steps: diffused similarity or Euclidean distance; "
        "the similarities gaussian and cosine always use the distance",
        choices=("diffused", "euclidean"),
    )
    steps: str = parameter(
        "union",
        "which neighbours a chain may step to: `union`, if either lists the other; `reciprocal`, only if both do",
        choices=("union", "reciprocal"),
    )
    scale: str = parameter(
        "local",
        "unit of sigma: the distance of the k-th neighbour (local), of the farthest item (row), the largest "
        "distance of all (global), or 1 (raw)",
        choices=("local", "row", "global", "raw"),
    )
    loops: bool = parameter(False, "true to make every item its own neighbour in the graphs")
    fusion: str = parameter(
        "local",
        "mixture of the two distances: scaled to the neighbourhood of the query first (local), or unscaled (plain)",
        choices=("local", "plain"),
    )
    solver: str = parameter(
        "resolvent",
        "solver of the diffusion equation; all but `resolvent` need n x n matrices",
        choices=("resolvent", "fixed_point", "conjugate_gradient", "dense"),
    )

    direct: float | None = parameter(
        0.0, "share of a direct comparison of wide states: none, as in the paper", low=0, high=0
    )

    def prepare(self, items: Items, progress: Progress) -> JointState:
        pipeline = stages.pipeline
        progress.stage("neighbours", 0, 4)
        lists = items.neighbors(max(self.k1, pipeline.ListSizes.of(self).kept))
        products = stages.step_costs.NO_PRODUCTS
        if len(items) <= stages.step_costs.MAX_TABLE_ITEMS:
            products = stages.kernels.nearest_search.multiply_pairs(items.vectors)
        contrast = pipeline.measure_contrast(lists, items.vectors, items.unit, products)
        powers = replace(pipeline.measure_powers(lists, self, contrast), direct=0.0)
        progress.stage("diffusion", 1, 4)
        diffused = self._similarity(items, lists)
        progress.stage("states", 2, 4)
        share = powers.share if diffused.nearest is not lists.indices else 0.0
        confident = stages.states.confident_lists(
            lists.indices, diffused.nearest, self.answer_values.k2, self.kappa, share
        )
        build_states = stages.states.locality_states if self.region == "reciprocal" else plain_states
        states = build_states(confident, diffused, self.k1, self.support)
        progress.stage("steps", 3, 4)
        steps = None
        if self.distance == "transport":
            build: Any = mutual_pattern if self.steps == "reciprocal" else stages.gaussian_graph.union_pattern
            pattern: Pattern = build(np.ascontiguousarray(diffused.nearest[:, 1 : self.path_k + 1]))
            pricing = pipeline.transport_settings(self, powers, items.unit)
            prices = stages.step_costs.price_steps(pattern, states, items.vectors, pricing)
            steps = stages.csr.Rows(*pattern, prices)
        progress.stage("steps", 4, 4)
        return JointState(items, states, steps, stages.states.empty_states(len(items)), powers, self.k)

    def _similarity(self, items: Items, lists: Neighbors) -> DiffusedLists:
        """Return the lists that determine regions and steps, and the similarity along them."""
        graph, diffusion = stages.gaussian_graph, stages.diffusion
        far = None
        if self.scale in ("row", "global"):
            far = np.sqrt(stages.reciprocal_sets.find_farthest_squared(items.vectors, items.unit))
        lengths = graph.kernel_lengths(lists, self.k, self.scale, far)
        if self.similarity in ("gaussian", "cosine"):
            weights = graph.gaussian_weights(lists, lengths, self.sigma, self.scale == "row")
            if self.similarity == "cosine":
                weights = np.maximum(1.0 - 0.5 * lists.distances**2, 1e-12)
            return diffusion.DiffusedLists(lists.indices, weights)
        scales = (1.0,) if self.similarity == "bsd" else graph.SCALES
        settings = graph.LayerSettings(self.k, self.sigma, scales, self.scale == "row", self.loops)
        layers = graph.build_layers(lists, lengths, settings)
        width = min(stages.pipeline.ListSizes.of(self).diffused, len(items))
        if self.solver != "resolvent":
            from kinrank_bench.paper import dense_diffusion  # on use: it imports numba

            smoothed, _ = dense_diffusion.diffuse_collaboratively(layers, self.mu, self.lam, self.cycles, self.solver)
            if self.neighbors == "diffused":
                return dense_diffusion.list_nearest(smoothed, lists.first(width))
            along = np.take_along_axis(smoothed, lists.indices, axis=1).astype(np.float32)
            return diffusion.DiffusedLists(lists.indices, along)
        beta = diffusion.fit_graph_weights(layers, self.mu, self.lam, self.cycles, self.tolerance)
        spread = diffusion.Spread.over(diffusion.build_diffusion_graph(layers, beta, self.mu), self.mu, self.tolerance)
        if self.neighbors == "diffused":
            return diffusion.list_nearest_by_diffusion(spread, lists.indices, width)
        n, width = lists.indices.shape
        pattern = stages.sparse_rows.Pattern(np.arange(n + 1, dtype=np.int64) * width, lists.indices.reshape(-1))
        values, _ = diffusion.compute_resolvent_values(spread, np.arange(n), pattern)
        return diffusion.DiffusedLists(lists.indices, values.reshape(n, width))

    def distances(self, prepared: JointState, queries: NDArray[np.int64]) -> NDArray[Any]:
        items = prepared.items
        numbers = items.queries[queries]
        gamma = prepared.powers.gamma
        if prepared.steps is not None:
            chained = stages.step_costs.find_chains(numbers, prepared.steps)[0][:, items.gallery]
        else:
            states = stages.csr.matrix_from_rows(prepared.states, len(items))
            chained = state_distances(states, numbers, items.gallery, self.distance)
            gamma = 1.0
        mixture = stages.distance_fusion.make_mixture(self.answer_values.theta, gamma, self.k, self.fusion)
        return stages.distance_fusion.fuse_distances(items.query_distances(queries), chained, mixture, items.self_query)

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        dense = 8 * items * items * 5 if self.solver != "resolvent" and items <= 6000 else 0
        return super().memory(items, queries, dimensions) + dense

    def seconds(self, items: int, dimensions: int) -> float:
        dense = 1e-9 * (self.cycles + 1) * items**3 if self.solver != "resolvent" else 0.0
        return super().seconds(items, dimensions) + dense


def plain_states(confident: ConfidentLists, diffused: DiffusedLists, k1: int, support: int) -> Rows:
    """Return states whose regions are the first k1 items, whether or not these list each other."""
    n, width = diffused.nearest.shape
    marked, totals = plain_regions(diffused.similar, k1)
    indptr = np.arange(n + 1, dtype=np.int64) * width
    regions = stages.csr.Rows(indptr, diffused.nearest.reshape(-1), marked.reshape(-1))
    most = min(n, support or confident.items.shape[1] * min(k1, width))
    return stages.states.average_regions(confident, totals, regions, most)


def plain_regions(similar: NDArray[np.float32], k1: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return F along the lists, negative beyond the first k1, and the sum of those."""
    return np.where(np.arange(similar.shape[1]) < k1, similar, -similar), similar[:, :k1].sum(axis=1)


def mutual_pattern(lists: NDArray[np.int32]) -> Pattern:
    """Return the graph in which both items list each other; rows ascend."""
    both = stages.gaussian_graph.find_mutual(lists)
    indptr = np.concatenate([[0], np.cumsum(both.sum(axis=1))]).astype(np.int64)
    indices = np.empty(int(indptr[-1]), np.int32)
    stages.gaussian_graph.transpose_rows(indptr, lists[both], indices)
    return stages.sparse_rows.Pattern(indptr, indices)


def state_distances(
    states: Any, queries: NDArray[np.int64], gallery: NDArray[np.int64], kind: str
) -> NDArray[np.float32]:
    """Return (queries, gallery) distances of the distributions themselves (Table 6); inf if two share nothing.

    total_variation 1 - m and jaccard 1 - m / (2 - m), with m = sum_c min(p_c, q_c); cosine 1 - <p, q> / |p||q|;
    euclidean |p - q|. If nothing is shared these are constant or depend only on the lengths, so the caller orders such
    items by the distance of the search. `states` is a csr_array.
    """
    if kind in ("total_variation", "jaccard"):
        distances = stages.csr.jaccard_distances(states, stages.csr.invert_rows(states, gallery), queries)
        disjoint = distances >= 1.0
        if kind == "total_variation":
            distances = distances / (2.0 - distances)
    else:
        inner = (states[queries] @ states[gallery].T).toarray()
        squares = np.asarray(states.multiply(states).sum(axis=1)).ravel()
        disjoint = inner <= 0
        if kind == "cosine":
            distances = 1.0 - inner / np.sqrt(np.outer(squares[queries], squares[gallery]))
        else:
            squared = squares[queries][:, None] + squares[gallery][None, :] - 2.0 * inner
            distances = np.sqrt(np.maximum(squared, 0.0))
    distances = np.maximum(distances, 0.0).astype(np.float32)
    distances[disjoint] = np.inf
    return distances
