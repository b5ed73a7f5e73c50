"""LPMT: neighbours -> graphs -> BCD -> LSE -> TMT -> fusion, as in the paper's Section 4."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.items import Items
from kinrank.methods import lpmt_served
from kinrank.methods.base import Method
from kinrank.methods.served import Answer, Chain, Gallery, Kept, Turnover
from kinrank.neighbors import Neighbors
from kinrank.parameters import parameter
from kinrank.progress import Progress

if TYPE_CHECKING:
    from kinrank.stages.paths import Chains


@dataclass(frozen=True, eq=False)
class Prepared:
    """What all queries share: states p_i, powers in force, weights of the graphs, chains between states (or none)."""

    items: Items
    states: Any
    rho: float
    gamma: float
    beta: NDArray[np.float64]
    chains: Chains | None


@dataclass(frozen=True, kw_only=True)
class LPMT(Method):
    """An item is near when a chain of small transitions between neighbourhoods leads to it.

    A similarity smoothed over several neighbour graphs (BCD) turns every item into a probability distribution over its
    neighbourhood (LSE). The cost of one transition is the optimal transport between two such distributions. The
    distance is the cost of the cheapest chain of local transitions (TMT), mixed with the distance of the search.

    Equation, over queries and gallery together:

        F    = (1 - a)(I - a sum_v beta_v S_v)^-1,  a = 1/(1 + mu)     S_v: Gaussian graph on 7, 10, 14 neighbours
        p^_i = F_i on the reciprocal region R(i, k1), summing to one
        p_i  = sum over j in N(i, k2) of (1 + kappa [j in R(i, k2)]) p^_j, summing to one
        d'   = min over chains i_0 .. i_K of sum_k W1(p_{i_k}, p_{i_k+1}; d^rho)^gamma
        d*   = theta d + (1 - theta) d'                                (see `fusion` for the scales)

    R is taken by F, N by distance, and where distances are spread (pixels) a share of N by F too. That share, rho and
    gamma are measured from the data, without labels, unless given; see `fit_to`.

    Cost: the neighbour search, then O(n) small problems: about 8 transports of `support` x `support` and one local
    push per item; a search over 10 links per item for each query. Memory about 1 kB per item beside the vectors, twice.

    Helps where right answers hang together, however far from the query: views of an object, photographs of a place,
    classes. Hurts where an item has one or two right answers only, and gains little where distances carry no more than
    topics (text).

    Example:
        >>> kinrank.rerank(queries, gallery, kinrank.LPMT(k2=7, theta=0.3))
    """

    name: ClassVar[str] = "lpmt"
    paper: ClassVar[str] = (
        "Luo, Wu, Yao, Yu, Xu: Locality Preserving Markovian Transition for Instance Retrieval, ICML 2025"
    )

    k1: int = parameter(60, "size of the local region, the item itself included", low=1)
    k2: int = parameter(5, "confident neighbours whose states are averaged, the item itself included", low=1)
    kappa: float = parameter(3.0, "extra weight of reciprocal neighbours in that average", low=0)
    theta: float = parameter(0.4, "share of the distance of the search in the result", low=0, high=1)
    rho: float = parameter(
        0.0, "power of the distance in the transport cost; 0: measured from the data", low=0, high=16
    )
    gamma: float = parameter(0.0, "power of the cost of one transition; 0: measured from the data", low=0, high=16)
    share: float = parameter(
        -1.0, "share of neighbours by F among the confident ones; -1: measured from the data", low=-1, high=1
    )
    k: int = parameter(10, "neighbours in the reference graph; the others have k / sqrt 2 and k sqrt 2", low=1)
    sigma: float = parameter(0.5, "width of the Gaussian, in units of `scale`", low=0, above_low=True)
    mu: float = parameter(0.23, "strength of the regulariser of the diffusion", low=0, above_low=True)
    lam: float = parameter(0.2, "lambda / n: how evenly the graphs are weighted", low=0)
    path_k: int = parameter(10, "nearest others of an item to which a chain may go on", low=1)
    support: int = parameter(40, "largest entries of a state that are kept; 0: all", low=0)
    similarity: str = parameter(
        "bcd", "weights of the states; bsd: one graph only", choices=("bcd", "bsd", "gaussian", "cosine")
    )
    region: str = parameter("reciprocal", "local region of a state", choices=("reciprocal", "knn"))
    distance: str = parameter(
        "transport",
        "between states; all but transport without chains",
        choices=("transport", "total_variation", "jaccard", "cosine", "euclidean"),
    )
    neighbors: str = parameter(
        "diffused",
        "regions and steps by F, or by distance; gaussian and cosine: always by distance",
        choices=("diffused", "euclidean"),
    )
    steps: str = parameter(
        "union",
        "a chain may go on if one, or each, is among the other's nearest",
        choices=("union", "reciprocal"),
    )
    scale: str = parameter(
        "local",
        "unit of sigma: distance of the k-th neighbour, of the farthest item, the largest of all, or 1",
        choices=("local", "row", "global", "raw"),
    )
    loops: bool = parameter(False, "whether an item neighbours itself in the graphs")
    fusion: str = parameter(
        "local", "scales on which d and d' are mixed; plain: as they are", choices=("local", "plain")
    )
    solver: str = parameter(
        "resolvent",
        "of the diffusion; all but resolvent with dense matrices",
        choices=("resolvent", "fixed_point", "conjugate_gradient", "dense"),
    )
    cycles: int = parameter(1, "rounds in which graph weights and diffusion are adapted to each other", low=0, high=50)
    tolerance: float = parameter(2e-3, "mass the diffusion leaves where it lies", low=0, above_low=True, high=1)
    transport: str = parameter("sinkhorn", "solver of a transition", choices=("sinkhorn", "exact"))
    epsilon: float = parameter(0.05, "Sinkhorn's regularisation, in units of the mean cost", low=0.02)
    iterations: int = parameter(5, "Sinkhorn's steps", low=1)

    def prepare(self, items: Items, progress: Progress) -> Prepared:
        from kinrank.stages import graph, paths, states

        progress.stage("neighbours", 0, 3)
        widest = max(round(self.k * scale) for scale in graph.SCALES)
        lists = items.neighbors(max(self.k1, self.k2, widest + 1, self.path_k + 1, FAR + 1))
        fitted = fit_to(lists, self.rho, self.gamma, self.share)
        progress.stage("diffusion", 1, 3)
        similarity, kin, beta = self._similarity(items, lists)
        progress.stage("states", 2, 3)
        weights = states.confidence(lists, self.k2, self.kappa)
        if kin is not lists and fitted.share > 0:
            by_similarity = states.confidence(kin, self.k2, self.kappa)
            weights = (1.0 - fitted.share) * weights + fitted.share * by_similarity
        embedded = states.locality_states(similarity, weights, self.support)
        progress.stage("chains", 3, 3)
        chains = None
        if self.distance == "transport":
            local = paths.local_steps(kin, self.path_k, self.steps)
            iterations = self.iterations if self.transport == "sinkhorn" else 0
            chains = paths.Chains(local, embedded, items.vectors, fitted.rho, fitted.gamma, self.epsilon, iterations)
        return Prepared(items, embedded, fitted.rho, fitted.gamma, beta, chains)

    def _similarity(self, items: Items, lists: Neighbors) -> tuple[Any, Neighbors, NDArray[np.float64]]:
        """F on the local regions (csr), the lists that regions and steps go by, and the weights of the graphs."""
        from kinrank.stages import diffusion, graph, states

        far = self._farthest(items)
        if self.similarity in ("gaussian", "cosine"):
            if self.similarity == "cosine":
                weights = np.maximum(1.0 - 0.5 * lists.distances.astype(np.float64) ** 2, 1e-12)
            else:
                length = graph.kernel_scale(lists, self.scale, self.k, far)
                weights = graph.gaussian_weights(lists, self.sigma, length, self.scale)
            region = states.region_pattern(lists, self.k1, self.region)
            return states.similarity_on(region, lists, weights), lists, np.zeros(0)
        scales = (1.0,) if self.similarity == "bsd" else graph.SCALES
        layers = graph.layered_graphs(lists, self.k, self.sigma, self.scale, scales, far, self.loops)
        if self.solver != "resolvent":
            smoothed, beta = diffusion.collaborative_dense(layers, self.mu, self.lam, self.cycles, self.solver)
            kin = diffusion.neighbors_in(smoothed, lists) if self.neighbors == "diffused" else lists
            return diffusion.on_region(smoothed, states.region_pattern(kin, self.k1, self.region)), kin, beta
        beta = diffusion.collaborative(layers, self.mu, self.lam, self.cycles, self.tolerance)
        if self.neighbors == "diffused":
            kin, similar = diffusion.diffused_neighbors(layers, beta, self.mu, self.tolerance, lists)
            region = states.region_pattern(kin, self.k1, self.region)
            reached = states.similarity_on(region, kin, similar)
            return (states.mutual(reached) if self.region == "reciprocal" else reached), kin, beta
        region = states.region_pattern(lists, self.k1, self.region)
        return diffusion.resolvent(layers, beta, self.mu, region, self.tolerance).similarity, lists, beta

    def _farthest(self, items: Items) -> NDArray[np.float32] | None:
        if self.scale not in ("row", "global"):
            return None
        from kinrank.stages.context import farthest

        return np.sqrt(farthest(items.vectors))

    def distances(self, prepared: Prepared, queries: NDArray[np.int64]) -> NDArray[Any]:
        from kinrank.stages import fusion, states

        items = prepared.items
        asked = items.queries[queries]
        if prepared.chains is not None:
            chained = prepared.chains.from_items(asked)[0][:, items.gallery]
            gamma = prepared.gamma
        else:
            chained = states.state_distances(prepared.states, asked, items.gallery, self.distance)
            gamma = 1.0
        direct = items.query_distances(queries)
        return fusion.fused(direct, chained, self.theta, gamma, self.fusion, self.k, items.self_query)

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        width = max(self.k1, 61)
        dense = 8 * items * items * 5 if self.solver != "resolvent" and items <= 6000 else 0
        per_item = 8 * width * 4 + 12 * self.support * 3 + 4 * dimensions + 60 * self.path_k + 40 * self.k
        return items * per_item + 64 * 2**20 + dense

    def check_served(self) -> None:
        if self.distance != "transport":
            raise ValueError(
                f"a Manifold searches along chains, and distance={self.distance!r} has none; "
                "use LPMT(distance='transport')"
            )

    def memory_kept(self, items: int, dimensions: int, changes: bool) -> int:
        return lpmt_served.serving.memory(self, items, dimensions, changes)

    def keep(self, gallery: Gallery, progress: Progress, changes: bool = True) -> Kept:
        """States, steps and their costs; with `changes` also lists and graph, so that a change can stay local."""
        return lpmt_served.serving.keep(self, gallery, progress, changes)

    def opened(self, vectors: Vectors, kept: Kept, checked: bool = False) -> Any:
        return lpmt_served.serving.opened(vectors, kept, checked)

    def reach(self, depth: int) -> int:
        return lpmt_served.serving.reach(self, depth)

    def answer(
        self, gallery: Gallery, opened: Any, queries: Vectors, found: Neighbors, k: int, depth: int, budget: int | None
    ) -> Answer:
        return lpmt_served.serving.answer(self, opened, queries, found, k, depth, budget)

    def explain_answer(
        self, gallery: Gallery, opened: Any, query: Vectors, found: Neighbors, item: int, flows: int
    ) -> Chain:
        return lpmt_served.serving.explain(self, opened, query, found, item, flows)

    def check_explained(self) -> None:
        if self.distance != "transport":
            super().check_explained()

    def check_changes(self, kept: Kept, verb: str) -> None:
        lpmt_served.serving.check_changes(kept, verb)

    def change(self, before: Kept, gallery: Gallery, turnover: Turnover, tolerance: float | None) -> Kept:
        return lpmt_served.serving.change(self, before, gallery, turnover, tolerance)

    def stale(self, kept: Kept, items: int) -> float:
        return lpmt_served.serving.stale(kept, items)


NEAR, FAR = 1, 60


@dataclass(frozen=True)
class Fitted:
    """What is measured from the data where it is not given."""

    rho: float
    gamma: float
    share: float


def fit_to(lists: Neighbors, rho: float = 0.0, gamma: float = 0.0, share: float = -1.0) -> Fitted:
    """rho, gamma and share in force: those given, or else from the contrast of the distances, without labels.

    The contrast is log(d_60 / d_1) of the median distances of the 60th and the first neighbour. Where distances are
    concentrated (deep features: 0.1 to 0.4), a larger rho tells near from far within one transition. Where they are
    spread (pixels: 0.7 to 1.4), a larger gamma keeps chains to small steps, and the similarity F is a better judge of
    confident neighbours than the distance. docs/decisions/ has the measurements.
    """
    far, near = min(FAR, lists.k - 1), min(NEAR, lists.k - 1)
    wide, close = (float(np.median(lists.distances[:, column])) for column in (far, near))
    contrast = float(np.log(wide / close)) if 0.0 < close <= wide else 1.0  # many duplicates: as if spread
    contrast = max(contrast, 1e-3)
    return Fitted(
        rho=rho if rho > 0 else float(np.clip(0.55 / contrast, 0.4, 4.0)),
        gamma=gamma if gamma > 0 else float(np.clip(2.0 + 1.4 * contrast, 2.0, 4.0)),
        share=share if share >= 0 else float(np.clip((contrast - 0.4) / 0.3, 0.0, 1.0)),
    )
