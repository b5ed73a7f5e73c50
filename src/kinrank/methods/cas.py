"""Diffusion, guided by sure neighbours, then shortest paths of divergence -> cluster-aware distance (CAS)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.items import Items
from kinrank.methods.base import Method
from kinrank.parameters import parameter
from kinrank.progress import Progress

if TYPE_CHECKING:
    from scipy.sparse import csr_array

EDGES = 100  # nearest items, itself included, to which an item has an edge in the graph of divergences
NEVER = 50.0  # length of a path that does not exist
K1 = "length of the neighbour lists, the item itself included, that make the graph; mutual neighbours in them are sure"
K2 = "how many nearest others are checked for being mutual neighbours, which make the region an item is described on"
K3 = "length of the neighbour lists, the item itself included, of the random steps that weigh the members of a region"
K4 = "how many nearest items, the item itself included, the smoothed similarities are averaged over"
LV = "weight of the average over the sure neighbours, against 1 for the average over the k4 nearest"
SIGMA = "width of the Gaussian that turns distances, the farthest item's scaled to 1, into similarities"
MU = "strength of the tie to the item itself; smaller spreads similarities further"
BETA = "resistance of similarities to the weights that the sure neighbours give them; 0 applies the weights fully"


@dataclass(frozen=True)
class Divergences:
    """What the queries share: the graph of divergences, and each item's farthest."""

    items: Items
    graph: csr_array
    farthest: NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class CAS(Method):
    """Spreads every item's similarity over its cluster, and measures distances along chains of clusters.

    Bidirectional diffusion carries similarities along the neighbour graph; within a region of reciprocal
    neighbours they are smoothed towards what the surest of them say, and spread by a short random walk.
    Each item is then a probability distribution, and its distance to another the cheapest chain of
    Jensen-Shannon divergences between near items.

    Equation, over queries and gallery together, D_ij = d_ij^2 / max_j d_ij^2, Sim = exp(-D / sigma^2), N_k
    the first k and R_k the reciprocal sets, the item itself included in both:

        W  = Sim on the k1 - 1 nearest others, doubled on R_k1, made symmetric
        S  = W divided by the roots of its row sums on both sides
        F  = ten times F <- a/2 (F S + S F) + (1 - a) I from F = W,  a = 1 / (1 + mu)
        s  = F on the expanded R_(k2+1), item j weighed by the chance to get from j to R_k1
             in two steps of Sim on N_k3, shifted to keep the mean; rows sum to one
        m  = (mean of s over N_k4 + lv mean of s over R_k1) / (1 + lv)
        p  = M M,  M = the k5 largest of each row of m m;  rows of M sum to one
        dist = (1 - lambda_value) P_qx + lambda_value D_qx,
               P the shortest paths over edges JS(p_i, p_j), j in N_100(i)

    An item no path leads to lies at P = 50, and so follows the others in the order of D.

    Cost: a pass of inner products for the farthest items; the diffusion, about 30 k1 n^2 multiplications of
    vectors at worst; all else grows with n and the sets: n k2 k3, n k5^2, 100 n divergences. A query costs
    one shortest-path search over at most 200 n edges. Memory 8 k5^2 bytes per item at worst, a quarter of
    that where items have clusters; no n x n array.

    Helps where answers lie along chains (viewpoints, turntables, buildings from all sides): among the best
    there. Hurts little, but costs more than the others; with fewer than k2 right answers, lower k2 and k3.

    Example:
        >>> kinrank.rerank(queries, gallery, kinrank.CAS(k1=6, k2=60, k3=70, k4=7, k5=80))
    """

    name: ClassVar[str] = "cas"
    paper: ClassVar[str] = "Luo, Yao, Xu: Cluster-Aware Similarity Diffusion for Instance Retrieval, ICML 2024"

    k1: int = parameter(6, K1, low=1)
    k2: int = parameter(60, K2, low=1)
    k3: int = parameter(70, K3, low=1)
    k4: int = parameter(7, K4, low=1)
    k5: int = parameter(80, "how many of its largest entries each row of the random walk keeps; more is slower", low=1)
    lambda_value: float = parameter(0.3, "share of the original distance in the result", low=0, high=1)
    lv: float = parameter(2.0, LV, low=0, high=1000)
    sigma: float = parameter(0.3, SIGMA, low=0.01, high=10_000)
    mu: float = parameter(0.23, MU, low=0, above_low=True, high=1000)
    beta: float = parameter(0.0, BETA, low=0, high=1000)

    def prepare(self, items: Items, progress: Progress) -> Divergences:
        cas, context = stages.cas, stages.context
        near = items.neighbors(max(self.k1, self.k2 + 1, self.k3, self.k4, EDGES))
        lists = near.indices
        far = context.farthest(items.vectors, items.unit)
        similarity = np.exp(-(near.distances**2) / far[:, None] / np.float32(self.sigma**2))
        sure = stages.mutual.reciprocal(lists, self.k1)
        regions = context.expanded(lists, self.k2 + 1, self.k2 // 2 + 1)
        states = cas.diffused(cas.affinity(lists, similarity, self.k1), regions, self.mu)
        states = cas.smoothed(states, lists, similarity, sure, self.k3, self.beta)
        rows = cas.expanded_walk(states, lists, self.k1, self.k4, self.k5, self.lv)
        edges = near.first(EDGES).indices
        lengths = cas.divergences(edges, rows)
        del rows  # by far the largest array
        return Divergences(items, cas.both_ways(edges, lengths), far)

    def distances(self, prepared: Divergences, queries: NDArray[np.int64]) -> NDArray[np.float64]:
        items = prepared.items
        paths = stages.cas.path_lengths(prepared.graph, items.queries[queries], items.gallery, NEVER)
        raw = stages.context.scaled_distances(items, queries, prepared.farthest)
        if self.lambda_value == 0:  # else the raw distance is in the sum already
            return stages.fallback.behind(paths, paths < NEVER, lambda: raw, last=NEVER)
        return (1 - self.lambda_value) * paths.astype(np.float64) + self.lambda_value * raw

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        listed = 20 * max(self.k1, self.k2 + 1, self.k3, self.k4, EDGES)
        regions = 12 * min(items, 3 * self.k2) + 16 * self.k3
        walked = 16 * self.k5 + 8 * min(items, self.k5**2)  # p has at most k5^2 entries per row
        diffused = 1024 * stages.kernels.compiled.threads()
        return items * (listed + regions + max(walked, diffused, 60 * EDGES)) + 64 * 2**20

    def seconds(self, items: int, dimensions: int) -> float:
        spread = 30e-9 * self.k1 * items**2
        regions = items * (2.5e-6 * self.k2 + 1e-6 * self.k3)
        walked = 3e-9 * items * self.k5**2
        return super().seconds(items, dimensions) + spread + regions + walked
