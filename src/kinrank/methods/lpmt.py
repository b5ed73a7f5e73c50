"""LPMT: neighbours -> graphs -> BCD -> LSE -> TMT -> fusion, as in the paper's Section 4."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank.methods.base import Method
from kinrank.neighbors import Items, Neighbors
from kinrank.parameters import parameter
from kinrank.progress import Progress

if TYPE_CHECKING:
    from kinrank.stages.paths import Chains


@dataclass(frozen=True, eq=False)
class Prepared:
    """What all queries share: the states p_i, the powers in force, and the chains between states (or none)."""

    items: Items
    states: Any
    powers: tuple[float, float]
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

    rho and gamma are measured from the data, without labels, where they are 0: concentrated distances (deep features)
    get a larger rho, spread ones (pixels) a larger gamma; see `powers_for`.

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
    kappa: float = parameter(2.0, "extra weight of reciprocal neighbours in that average", low=0)
    theta: float = parameter(0.4, "share of the distance of the search in the result", low=0, high=1)
    rho: float = parameter(0.0, "power of the distance in the transport cost; 0: measured from the data", low=0, high=16)
    gamma: float = parameter(0.0, "power of the cost of one transition; 0: measured from the data", low=0, high=16)
    k: int = parameter(10, "neighbours in the reference graph; the others have k / sqrt 2 and k sqrt 2", low=1)
    sigma: float = parameter(0.5, "width of the Gaussian, in units of `scale`", low=0, above_low=True)
    mu: float = parameter(0.23, "strength of the regulariser of the diffusion", low=0, above_low=True)
    lam: float = parameter(0.2, "lambda / n: how evenly the graphs are weighted", low=0)
    path_k: int = parameter(10, "nearest others of an item to which a chain may go on", low=1)
    support: int = parameter(32, "largest entries of a state that are kept; 0: all", low=0)
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
        "euclidean", "neighbours in states and chains; diffused: by F", choices=("euclidean", "diffused")
    )
    steps: str = parameter(
        "union", "a chain may go on if one, or each, is among the other's nearest", choices=("union", "reciprocal")
    )
    scale: str = parameter(
        "local",
        "unit of sigma: distance of the k-th neighbour, of the farthest item, or 1",
        choices=("local", "row", "raw"),
    )
    fusion: str = parameter("local", "scales on which d and d' are mixed; plain: as they are", choices=("local", "plain"))
    solver: str = parameter(
        "resolvent",
        "of the diffusion; all but resolvent with dense matrices",
        choices=("resolvent", "fixed_point", "conjugate_gradient", "dense"),
    )
    cycles: int = parameter(1, "rounds in which graph weights and diffusion are adapted to each other", low=0, high=50)
    tolerance: float = parameter(1e-3, "mass the diffusion leaves where it lies", low=0, above_low=True, high=1)
    transport: str = parameter("sinkhorn", "solver of a transition", choices=("sinkhorn", "exact"))
    epsilon: float = parameter(0.05, "Sinkhorn's regularisation, in units of the mean cost", low=0.001)
    iterations: int = parameter(5, "Sinkhorn's steps", low=1)

    def prepare(self, items: Items, progress: Progress) -> Prepared:
        from kinrank.stages import graph, paths, states

        widest = max(round(self.k * scale) for scale in graph.SCALES)
        progress.stage("neighbours", 0, 3)
        lists = items.neighbors(max(self.k1, self.k2, widest + 1, self.path_k + 1, CONTRAST_FAR + 1))
        progress.stage("diffusion", 1, 3)
        similarity, beta, lists = self._similarity(items, lists)
        progress.stage("states", 2, 3)
        embedded = states.locality_states(similarity, lists, self.k2, self.kappa, self.support)
        rho, gamma = powers_for(items.neighbors(CONTRAST_FAR + 1), self.rho, self.gamma)
        progress.stage("chains", 3, 3)
        chains = None
        if self.distance == "transport":
            local = paths.local_steps(lists, self.path_k, self.steps)
            iterations = self.iterations if self.transport == "sinkhorn" else 0
            chains = paths.Chains(local, embedded, items.vectors, rho, gamma, self.epsilon, iterations)
        return Prepared(items, embedded, (rho, gamma), beta, chains)

    def _similarity(self, items: Items, lists: Neighbors) -> tuple[Any, NDArray[np.float64], Neighbors]:
        """F on the local regions, the weights of the graphs, and the neighbour lists the rest goes by."""
        from kinrank.stages import diffusion, graph, states

        direct = self.similarity in ("gaussian", "cosine")
        beta, smoothed, plain = np.zeros(0), None, lists
        if not direct or self.neighbors == "diffused":
            scales = (1.0,) if self.similarity == "bsd" else graph.SCALES
            layers = graph.layered_graphs(lists, self.k, self.sigma, self.scale, scales, self._farthest(items))
            if self.solver == "resolvent":
                beta = diffusion.collaborative(layers, self.mu, self.lam, self.cycles, 3.0 * self.tolerance)
            else:
                smoothed, beta = diffusion.collaborative_dense(layers, self.mu, self.lam, self.cycles, self.solver)
        if self.neighbors == "diffused":
            lists = diffusion.diffused_neighbors(layers, beta, self.mu, self.tolerance, lists, items.vectors)
        region = states.region_pattern(lists, self.k1, self.region)
        if direct:
            return states.similarity_from_distances(lists, region, self._weights(items, lists, plain)), beta, lists
        if smoothed is not None:
            return diffusion.on_region(smoothed, region), beta, lists
        return diffusion.resolvent(layers, beta, self.mu, region, self.tolerance).similarity, beta, lists

    def _weights(self, items: Items, lists: Neighbors, plain: Neighbors) -> NDArray[np.float64]:
        """(n, k) similarity of the listed neighbours by distance alone; `plain` knows the k-th nearest."""
        from kinrank.stages import graph

        if self.similarity == "cosine":
            return np.maximum(1.0 - 0.5 * lists.distances.astype(np.float64) ** 2, 1e-12)
        length = graph.kernel_scale(plain, self.scale, self.k, self._farthest(items))
        return graph.gaussian_weights(lists, self.sigma, length, self.scale)

    def _farthest(self, items: Items) -> NDArray[np.float32] | None:
        if self.scale != "row":
            return None
        from kinrank.stages.context import farthest

        return np.sqrt(farthest(items.vectors))

    def distances(self, prepared: Prepared, queries: NDArray[np.int64]) -> NDArray[Any]:
        from kinrank.stages import fusion, states

        items = prepared.items
        asked = items.queries[queries]
        if prepared.chains is not None:
            chained = prepared.chains.from_items(asked)[0][:, items.gallery]
            gamma = prepared.powers[1]
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


CONTRAST_NEAR, CONTRAST_FAR = 1, 60


def powers_for(lists: Neighbors, rho: float, gamma: float) -> tuple[float, float]:
    """(rho, gamma) in force: those given, or where 0, from the contrast of the distances.

    The contrast is log(d_60 / d_1), the median distance of the 60th and of the first neighbour. Where distances are
    concentrated (deep features: 0.1 to 0.4) a larger rho tells near from far within one transition; where they are
    spread (pixels: 0.7 to 1.4) a larger gamma makes chains keep to small steps. docs/decisions/ has the measurements.
    """
    far, near = min(CONTRAST_FAR, lists.k - 1), min(CONTRAST_NEAR, lists.k - 1)
    wide, close = (float(np.median(lists.distances[:, column])) for column in (far, near))
    contrast = float(np.log(wide / close)) if 0.0 < close < wide else 1.0
    if rho == 0:
        rho = float(np.clip(0.55 / contrast, 1.0, 4.0))
    if gamma == 0:
        gamma = float(np.clip(2.0 + 1.4 * contrast, 2.0, 4.0))
    return rho, gamma
