"""A gallery and one query outside it -> d* of every item, by dense transcription of stages/attach.py.

The gallery's states and step costs are those of `reference/lpmt.py`; the transport is the linear program.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reference import lpmt as twin

Matrix = NDArray[np.float64]


def answered(
    rows: NDArray[np.float32], query: NDArray[np.float32], *, k: int, gamma: float, theta: float,
    counted: NDArray[np.bool_] | None = None, **others: float,
) -> Matrix:  # fmt: skip
    """(n,) d* of all items: those no chain reaches behind the others.

    With `counted` (n,) the others are stepping stones: d* is inf there, and no scale is read from them.
    """
    counts = np.ones(len(rows), bool) if counted is None else counted
    gaps, first, costs = attached(rows, query, counts, k=k, gamma=gamma, **others)  # type: ignore[arg-type]
    reach = chains(first, costs)
    result = np.full(len(rows), np.inf)
    result[counts] = twin.fused(gaps[None, counts], reach[None, counts], theta, gamma, "local", k, False)[0]
    return result


def marked(
    rows: NDArray[np.float32], query: NDArray[np.float32], positives: list[int], negatives: list[int], *, k: int,
    gamma: float, theta: float, **others: float,
) -> Matrix:  # fmt: skip
    """(n,) the score of all items with some marked right and wrong, inf where no chain leads."""
    everyone = np.ones(len(rows), bool)
    gaps, first, costs = attached(rows, query, everyone, k=k, gamma=gamma, **others)  # type: ignore[arg-type]
    d = twin.euclidean(rows)
    return by_the_rule(gaps, first, d, costs, np.arange(len(rows)), positives, negatives, k, gamma, theta)


def jointly_marked(
    rows: NDArray[np.float32], queries: int, query: int, positives: list[int], negatives: list[int], *, k: int,
    gamma: float, theta: float, **others: float,
) -> Matrix:  # fmt: skip
    """The same for a query that is in the graph: the first rows are the queries, marks count the others from 0."""
    d, _, _, costs = prepared(rows, k=k, gamma=gamma, **others)  # type: ignore[arg-type]
    first = np.full(len(rows), np.inf)
    first[query] = 0.0
    gallery = np.arange(queries, len(rows))
    right, wrong = ([queries + item for item in items] for items in (positives, negatives))
    return by_the_rule(d[query], first, d, costs, gallery, right, wrong, k, gamma, theta)[gallery]


def by_the_rule(
    gaps: Matrix, first: Matrix, d: Matrix, costs: Matrix, gallery: NDArray[np.int64], positives: list[int],
    negatives: list[int], k: int, gamma: float, theta: float,
) -> Matrix:  # fmt: skip
    """(n,) the rule of the design notes, section 6.4, source by source and item by item."""
    n = len(costs)
    d10 = np.sort(gaps[gallery])[k - 1]
    r10 = np.sort(chains(first, costs)[gallery] ** (1 / gamma))[k - 1]
    closed = costs.copy()
    closed[negatives] = np.inf  # no step leads on from a wrong one

    def mixed(direct: Matrix, chained: Matrix) -> Matrix:
        near = 1 - np.exp(-((direct / d10) ** 2))
        return np.asarray(theta * near + (1 - theta) * chained ** (1 / gamma) / r10)

    def from_item(item: int, prices: Matrix) -> Matrix:
        start = np.full(n, np.inf)
        start[item] = 0.0
        return mixed(d[item], chains(start, prices))

    plus = [mixed(gaps, chains(first, closed)), *(from_item(item, closed) for item in positives)]
    minus = [from_item(item, costs) for item in negatives]
    scores = np.empty(n)
    for x in range(n):
        right = -np.log(np.mean([np.exp(-4 * values[x]) for values in plus])) / 4
        wrong = min((values[x] for values in minus), default=np.inf)
        scores[x] = right + (max(0.0, right - wrong) if positives and np.isfinite(right) else 0.0)
    return scores


def chains(first: Matrix, costs: Matrix) -> Matrix:
    """(n,) d' from a source with first steps at these prices, inf where there are none: step after step."""
    best = first.copy()
    for _ in range(len(best)):
        best = np.minimum(best, (best[:, None] + costs).min(axis=0))
    return best


def attached(
    rows: NDArray[np.float32], query: NDArray[np.float32], counts: NDArray[np.bool_], *, k2: int, rho: float,
    gamma: float, k: int, sigma: float, path_k: int, support: int, **others: float,
) -> tuple[Matrix, Matrix, Matrix]:  # fmt: skip
    """(n,) distances of the query, (n,) the prices of its first steps, inf where there is none, (n, n) those of all."""
    sizes = {"k2": k2, "k": k, "path_k": path_k, "support": support}
    powers = {"rho": rho, "gamma": gamma, "sigma": sigma}
    d, rank, p, costs = prepared(rows, **sizes, **powers, **others)  # type: ignore[arg-type]
    gaps = np.sqrt(((rows.astype(np.float64) - query) ** 2).sum(axis=1))
    near = np.argsort(gaps, kind="stable")
    own = state(p, d, rank, gaps, near, counts, k2, k, sigma, support)
    first = np.full(len(rows), np.inf)
    for j in near[: 2 * path_k]:
        first[j] = twin.residual_wasserstein(own, p[j], d**rho) ** gamma
    return gaps, first, costs


def prepared(
    rows: NDArray[np.float32], *, k2: int, kappa: float, k1: int, rho: float, gamma: float, k: int, sigma: float,
    mu: float, lam: float, path_k: int, support: int, share: float,
) -> tuple[Matrix, twin.Order, Matrix, Matrix]:  # fmt: skip
    """(n, n) distances, the order of neighbours, the states, the prices of steps."""
    n = len(rows)
    d = twin.euclidean(rows)
    rank = twin.nearest_first(d)
    weights = twin.gaussian(d, rank, sigma, "local", k)
    W = [twin.adjacency(weights, rank, size) for size in twin.graph_sizes(k)]
    F, _ = twin.algorithm_1([twin.normalised(graph) for graph in W], W, mu, lam * n, 1)
    kin = twin.by_similarity(F, rank)
    confident = (1 - share) * twin.confidence(rank, k2, kappa) + share * twin.confidence(kin, k2, kappa)
    p = twin.states(F, twin.reciprocal(kin, k1), confident, support)
    return d, rank, p, twin.step_costs(p, d, twin.allowed_steps(kin, path_k, "union"), rho, gamma)


def state(
    p: Matrix, d: Matrix, rank: twin.Order, gaps: Matrix, near: NDArray[np.int64], counts: NDArray[np.bool_], k2: int,
    k: int, sigma: float, support: int,
) -> Matrix:  # fmt: skip
    """p_q: the states of the k2 nearest, weighted by the Gaussian of the graphs."""
    own = np.zeros(len(p))
    length = gaps[near[counts[near]][k - 1]]
    for j in near[:k2]:
        own += np.exp(-(gaps[j] ** 2) / (sigma**2 * length * d[j, rank[j, k]])) * p[j]
    own[np.argsort(-own, kind="stable")[support:]] = 0.0
    return own / own.sum()
