"""LPMT: neighbours -> graphs -> BCD -> LSE -> TMT -> fusion, as in the paper's Section 4."""

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
    from kinrank.stages.pipeline import Prepared


@dataclass(frozen=True, eq=False)
class Joint:
    """Queries and gallery in one graph, and what their chains run over."""

    items: Items
    prepared: Prepared


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
        d*   = theta d + (1 - theta) d'                                (on the scales of stages/fusion.py)

    R is taken by F, N by distance, and where distances are spread (pixels) a share of N by F too. That share, rho and
    gamma are measured from the data, without labels, unless given; see stages/pipeline.py. Variants of each stage, as
    in the paper's ablations: `LPMTAblation`.

    Cost: the neighbour search, then O(n) small problems: about 6 transports of `support` x `support` and one local
    diffusion per item; a search over 12 steps per item for each query. Memory about 1 kB per item beside the vectors,
    twice.

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

    k1: int = parameter(60, "how many items the local region of an item may hold, the item itself included", low=1)
    k2: int = parameter(
        5, "how many nearest items are averaged into the state of an item, the item itself included", low=1
    )
    kappa: float = parameter(
        3.0, "extra weight, in that average, of neighbours that list each other among their k2 nearest", low=0
    )
    theta: float = parameter(
        0.4, "share of the original distance in the result; the rest is the cost of the chain", low=0, high=1
    )
    rho: float | None = parameter(
        None, "power of the distance when mass is moved between items; large powers punish far moves", low=0,
        above_low=True, high=16,
    )  # fmt: skip
    gamma: float | None = parameter(
        None, "power of the cost of one step; above 1, many small steps are cheaper than a large one", low=0,
        above_low=True, high=16,
    )  # fmt: skip
    share: float | None = parameter(
        None, "share of the k2 averaged neighbours chosen by diffused similarity instead of distance", low=0, high=1
    )
    k: int = parameter(
        10, "neighbours of an item in the middle one of three graphs; the others have k / sqrt 2 and k sqrt 2", low=1
    )
    sigma: float = parameter(
        0.5, "width of the Gaussian edge weights, in units of the distance of the k-th neighbour", low=0, above_low=True
    )
    mu: float = parameter(
        0.23, "how strongly the diffusion stays at its start; smaller spreads similarity further", low=0, above_low=True
    )
    lam: float = parameter(
        0.2, "lambda / n: how evenly the three graphs are weighted; 0 keeps only the smoothest one", low=0
    )
    path_k: int = parameter(10, "how many nearest items of an item, by diffused similarity, a chain may step to", low=1)
    support: int = parameter(40, "how many of the largest entries of a state are kept; 0 keeps all", low=0)
    cycles: int = parameter(
        1, "rounds in which diffusion and weights of the graphs are adapted to each other", low=0, high=50
    )
    tolerance: float = parameter(
        2e-3, "largest residual left unspread when a diffusion row is computed; smaller is more exact and slower",
        low=0, above_low=True, high=1,
    )  # fmt: skip
    transport: str = parameter(
        "sinkhorn", "how a step is priced: by a few rounds of `sinkhorn`, or `exact`, many times slower",
        choices=("sinkhorn", "exact"),
    )  # fmt: skip
    epsilon: float = parameter(
        0.05, "Sinkhorn's regularisation as a share of the mean cost; smaller is nearer to exact transport", low=0.02
    )
    iterations: int = parameter(5, "rounds of Sinkhorn per step; more are nearer to exact transport", low=1)

    def prepare(self, items: Items, progress: Progress) -> Joint:
        prepared = stages.pipeline.prepare(items.neighbors, items.vectors, self, progress=progress)
        return Joint(items, prepared)

    def distances(self, prepared: Joint, queries: NDArray[np.int64]) -> NDArray[Any]:
        items, graph = prepared.items, prepared.prepared
        chained = stages.chains.chains_from(items.queries[queries], graph.steps)[0][:, items.gallery]
        mixture = stages.fusion.mixture_of(self.theta, graph.powers.gamma, self.k)
        return stages.fusion.fused(items.query_distances(queries), chained, mixture, items.self_query)

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        width = max(self.k1, 61)
        support = self.support or self.k2 * self.k1
        small = 12 * items * items if items <= 1024 else 0
        per_item = 8 * width * 4 + 12 * support * 3 + 4 * dimensions + 60 * self.path_k + 40 * self.k
        return items * per_item + 64 * 2**20 + small
