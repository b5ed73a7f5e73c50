"""Cluster-aware similarity diffusion (CAS): guided diffusion, then shortest paths of divergence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.methods.base import Method, append_unreachable
from kinrank.parameters import parameter
from kinrank.problem import Items
from kinrank.progress import Progress

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float32]

EDGES_PER_ITEM = 100  # to the nearest items, itself included, in the graph of divergences
NO_PATH_LENGTH = 50.0  # assigned to items without a path
K1_MEANING = (
    "length of the lists, the item itself included, that form the graph; mutual neighbours in them are reliable"
)
K2_MEANING = "number of nearest others to check for mutual neighbours, which form the region that describes an item"
K3_MEANING = (
    "length of the neighbour lists, the item itself included, of the random steps that weight the members of a region"
)
K4_MEANING = "number of nearest items, the item itself included, over which the smoothed similarities are averaged"
LV_MEANING = "weight of the average over the reliable neighbours, against 1 for the average over the k4 nearest"
SIGMA_MEANING = "width of the Gaussian that turns distances, the farthest item's scaled to 1, into similarities"
MU_MEANING = "strength of the tie to the item itself; smaller spreads similarities further"
BETA_MEANING = "resistance of similarities to the weights from the reliable neighbours; 0 applies the weights fully"


@dataclass(frozen=True, kw_only=True)
class CAS(Method):
    """Spread the similarity of every item over its cluster, and measure distances along chains of clusters.

    Bidirectional diffusion carries similarities along the neighbour graph. Within a region of reciprocal
    neighbours they are smoothed towards the most reliable neighbours, and spread by a short random walk.
    Each item is then a probability distribution, and its distance to another is the cheapest chain of
    Jensen-Shannon divergences between near items.

    Equation, over queries and gallery together, D_ij = d_ij^2 / max_j d_ij^2, Sim = exp(-D / sigma^2), N_k
    the first k and R_k the reciprocal sets, the item itself included in both:

        W  = Sim on the k1 - 1 nearest others, doubled on R_k1, made symmetric
        S  = W divided by the roots of its row sums on both sides
        F  = ten times F <- a/2 (F S + S F) + (1 - a) I from F = W,  a = 1 / (1 + mu)
        s  = F on the expanded R_(k2+1), item j weighted by the probability to get from j to R_k1
             in two steps of Sim on N_k3, shifted to keep the mean; rows sum to one
        m  = (mean of s over N_k4 + lv mean of s over R_k1) / (1 + lv)
        p  = M M,  M = the k5 largest of each row of m m;  rows of M sum to one
        dist = (1 - lambda_value) P_qx + lambda_value D_qx,
               P the shortest paths over edges JS(p_i, p_j), j in N_100(i)

    An item without any path has P = 50 and follows the others in the order of D.

    Cost: a pass of inner products for the farthest items; the diffusion, about 30 k1 n^2 multiplications of
    vectors at worst; everything else grows with n and the sets: n k2 k3, n k5^2, 100 n divergences. A query costs
    one shortest-path search over at most 200 n edges. Memory 8 k5^2 bytes per item at worst, a quarter of
    that if items form clusters; no n x n array.

    Helps if right results lie along chains (viewpoints, turntables, buildings from all sides): among the best
    there. Hurts little, but costs more than the others; with fewer than k2 right results, lower k2 and k3.

    Example:
        >>> kinrank.rerank(queries, gallery, kinrank.CAS(k1=6, k2=60, k3=70, k4=7, k5=80))
    """

    name: ClassVar[str] = "cas"
    paper: ClassVar[str] = "Luo, Yao, Xu: Cluster-Aware Similarity Diffusion for Instance Retrieval, ICML 2024"

    k1: int = parameter(6, K1_MEANING, low=1)
    k2: int = parameter(60, K2_MEANING, low=1)
    k3: int = parameter(70, K3_MEANING, low=1)
    k4: int = parameter(7, K4_MEANING, low=1)
    k5: int = parameter(80, "number of largest entries that each row of the random walk keeps; more is slower", low=1)
    lambda_value: float = parameter(0.3, "share of the original distance in the result", low=0, high=1)
    lv: float = parameter(2.0, LV_MEANING, low=0, high=1000)
    sigma: float = parameter(0.3, SIGMA_MEANING, low=0.01, high=10_000)
    mu: float = parameter(0.23, MU_MEANING, low=0, above_low=True, high=1000)
    beta: float = parameter(0.0, BETA_MEANING, low=0, high=1000)

    def prepare(self, items: Items, progress: Progress) -> tuple[Items, csr_array, Floats]:
        """Return the items, the graph of divergences, and the distance of each item's farthest item."""
        cas, context = stages.cas_diffusion, stages.reciprocal_sets
        near = items.neighbors(max(self.k1, self.k2 + 1, self.k3, self.k4, EDGES_PER_ITEM))
        lists = near.indices
        far = context.find_farthest_squared(items.vectors, items.unit)
        similarity = np.exp(-(near.distances**2) / far[:, None] / np.float32(self.sigma**2))
        sure = stages.gaussian_graph.reciprocal_matrix(lists, self.k1)
        regions = context.expand_reciprocal_sets(lists, self.k2 + 1, self.k2 // 2 + 1)
        states = cas.diffuse_on_regions(cas.build_affinity(lists, similarity, self.k1), regions, self.mu)
        states = cas.smooth_states(states, lists, similarity, sure, self.k3, self.beta)
        rows = cas.expand_walk(states, lists, self.k1, self.k4, self.k5, self.lv)
        edges = near.first(EDGES_PER_ITEM).indices
        lengths = cas.compute_divergences(edges, rows)
        del rows  # by far the largest array
        return items, cas.build_two_way_graph(edges, lengths), far

    def distances(self, prepared: tuple[Items, csr_array, Floats], queries: NDArray[np.int64]) -> NDArray[Any]:
        items, graph, farthest = prepared
        paths = stages.cas_diffusion.compute_path_lengths(graph, items.queries[queries], items.gallery, NO_PATH_LENGTH)
        raw = stages.reciprocal_sets.scale_distances(items, queries, farthest)
        if self.lambda_value == 0:  # else the sum already contains the raw distance
            return append_unreachable(paths, paths < NO_PATH_LENGTH, lambda: raw, last=NO_PATH_LENGTH)
        return (1 - self.lambda_value) * paths.astype(np.float64) + self.lambda_value * raw

    def memory(self, items: int, queries: int, dimensions: int) -> int:
        list_bytes = 20 * max(self.k1, self.k2 + 1, self.k3, self.k4, EDGES_PER_ITEM)
        regions = 12 * min(items, 3 * self.k2) + 16 * self.k3
        walk_bytes = 16 * self.k5 + 8 * min(items, self.k5**2)  # p has at most k5^2 entries per row
        diffusion_bytes = 1024 * stages.kernels.compiler.thread_count()
        return items * (list_bytes + regions + max(walk_bytes, diffusion_bytes, 60 * EDGES_PER_ITEM)) + 64 * 2**20

    def seconds(self, items: int, dimensions: int) -> float:
        spread = 30e-9 * self.k1 * items**2
        regions = items * (2.5e-6 * self.k2 + 1e-6 * self.k3)
        walked = 3e-9 * items * self.k5**2
        return super().seconds(items, dimensions) + spread + regions + walked
