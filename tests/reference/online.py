"""d* of every gallery item for one query outside the gallery, by a dense transcription of online_query.py.

The gallery's states, wide states and step costs are those of `reference/lpmt.py`; the transport is the linear program.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reference import lpmt as twin

Matrix = NDArray[np.float64]


class Source(NamedTuple):
    """A query outside the graph: (n,) its distances, prices of first steps (inf for none), distances of wide states."""

    gaps: Matrix
    first: Matrix
    apart: Matrix


class Graph(NamedTuple):
    """(n, n) distances, prices of steps, and distances of wide states."""

    d: Matrix
    costs: Matrix
    apart: Matrix


def answered(
    rows: NDArray[np.float32],
    query: NDArray[np.float32],
    *,
    k: int,
    gamma: float,
    theta: float,
    counted: NDArray[np.bool_] | None = None,
    direct: float = 0.0,
    **others: float,
) -> Matrix:
    """Return (n,) d* of all items; items that no chain reaches follow the others.

    With `counted` (n,) the other items are stepping stones: d* is inf there, and they do not affect units.
    """
    counts = np.ones(len(rows), bool) if counted is None else counted
    source, graph = attached(rows, query, counts, k=k, gamma=gamma, **others)  # type: ignore[arg-type]
    reach = chains(source.first, graph.costs)
    result = np.full(len(rows), np.inf)
    result[counts] = twin.fused(
        source.gaps[None, counts],
        reach[None, counts],
        theta,
        gamma,
        "local",
        k,
        False,
        source.apart[None, counts],
        direct,
    )[0]
    return result


def marked(
    rows: NDArray[np.float32],
    query: NDArray[np.float32],
    positives: list[int],
    negatives: list[int],
    *,
    k: int,
    gamma: float,
    theta: float,
    direct: float = 0.0,
    **others: float,
) -> Matrix:
    """Return (n,) the score of all items with positive and negative marks, inf without a chain."""
    everyone = np.ones(len(rows), bool)
    source, graph = attached(rows, query, everyone, k=k, gamma=gamma, **others)  # type: ignore[arg-type]
    return by_the_rule(source, graph, np.arange(len(rows)), positives, negatives, k, gamma, theta, direct)


def jointly_marked(
    rows: NDArray[np.float32],
    queries: int,
    query: int,
    positives: list[int],
    negatives: list[int],
    *,
    k: int,
    gamma: float,
    theta: float,
    direct: float = 0.0,
    **others: float,
) -> Matrix:
    """Return the scores for a query inside the graph: the first rows are queries, marks number the others from 0."""
    graph, _, _, _ = prepared(rows, k=k, gamma=gamma, **others)  # type: ignore[arg-type]
    first = np.full(len(rows), np.inf)
    first[query] = 0.0
    source = Source(graph.d[query], first, graph.apart[query])
    gallery = np.arange(queries, len(rows))
    right, wrong = ([queries + item for item in items] for items in (positives, negatives))
    return by_the_rule(source, graph, gallery, right, wrong, k, gamma, theta, direct)[gallery]


def by_the_rule(
    source: Source,
    graph: Graph,
    gallery: NDArray[np.int64],
    positives: list[int],
    negatives: list[int],
    k: int,
    gamma: float,
    theta: float,
    direct: float,
) -> Matrix:
    """Apply the rule of the design notes, section 6.4, source by source and item by item; return (n,)."""
    n = len(graph.d)
    begin = 0.6 * source.gaps[gallery].min()
    d10 = np.sort(source.gaps[gallery])[k - 1] - begin
    r10 = np.sort(chains(source.first, graph.costs)[gallery] ** (1 / gamma))[k - 1]
    t10 = np.sort(source.apart[gallery])[k - 1]
    share = twin.share_of_wide_states(direct, t10)
    closed = graph.costs.copy()
    closed[negatives] = np.inf  # no step leads on from a negative mark

    def mixed(gaps: Matrix, chained: Matrix, apart: Matrix) -> Matrix:
        near = 1 - np.exp(-((np.maximum(gaps - begin, 0) / d10) ** 2))
        reached = np.isfinite(chained)
        along = np.full(n, np.inf)
        along[reached] = (1 - share) * chained[reached] ** (1 / gamma) / r10
        along[gaps > 0] += share * apart[gaps > 0] / t10
        return np.asarray(theta * near + (1 - theta) * along)

    def from_item(item: int, prices: Matrix) -> Matrix:
        start = np.full(n, np.inf)
        start[item] = 0.0
        return mixed(graph.d[item], chains(start, prices), graph.apart[item])

    plus = [mixed(source.gaps, chains(source.first, closed), source.apart)]
    plus += [from_item(item, closed) for item in positives]
    minus = [from_item(item, graph.costs) for item in negatives]
    scores = np.empty(n)
    for x in range(n):
        right = -np.log(np.mean([np.exp(-4 * values[x]) for values in plus])) / 4
        wrong = min((values[x] for values in minus), default=np.inf)
        scores[x] = right + (max(0.0, right - wrong) if positives and np.isfinite(right) else 0.0)
    return scores


def chains(first: Matrix, costs: Matrix) -> Matrix:
    """Return (n,) d' from a source with first steps at these prices, inf for none, step by step."""
    best = first.copy()
    for _ in range(len(best)):
        best = np.minimum(best, (best[:, None] + costs).min(axis=0))
    return best


def attached(
    rows: NDArray[np.float32],
    query: NDArray[np.float32],
    counts: NDArray[np.bool_],
    *,
    k2: int,
    rho: float,
    gamma: float,
    k: int,
    sigma: float,
    path_k: int,
    support: int,
    direct_support: int = 140,
    **others: float,
) -> tuple[Source, Graph]:
    """Return the query and the graph that it enters."""
    sizes = {"k2": k2, "k": k, "path_k": path_k, "support": support, "direct_support": direct_support}
    powers = {"rho": rho, "gamma": gamma, "sigma": sigma}
    graph, rank, p, r = prepared(rows, **sizes, **powers, **others)  # type: ignore[arg-type]
    p, r = packed(p), packed(r)
    graph = graph._replace(apart=twin.total_variation(r, r))
    gaps = np.sqrt(((rows.astype(np.float64) - query) ** 2).sum(axis=1))
    near = np.argsort(gaps, kind="stable")
    own, wide = (
        state(one, graph.d, rank, gaps, near, counts, k2, k, sigma, size)
        for one, size in ((p, support), (r, direct_support))
    )
    first = np.full(len(rows), np.inf)
    for j in near[: 2 * path_k]:
        first[j] = twin.residual_wasserstein(own, p[j], graph.d**rho) ** gamma
    return Source(gaps, first, twin.total_variation(wide[None], r)[0]), graph


def packed(p: Matrix) -> Matrix:
    """Return the states as a prepared gallery keeps them, once they are priced: squares of whole numbers up to 255."""
    roots = 255 * np.sqrt(p / p.max(axis=1, keepdims=True))
    squares = np.where(roots < 7.5, 0.0, np.maximum(np.floor(roots + 0.5), 8.0)) ** 2
    return np.asarray(squares / squares.sum(axis=1, keepdims=True))


def prepared(
    rows: NDArray[np.float32],
    *,
    rho: float,
    gamma: float,
    path_k: int,
    direct_k: int = 180,
    direct_mu: float = 0.02,
    direct_support: int = 140,
    **others: float,
) -> tuple[Graph, twin.Order, Matrix, Matrix]:
    """Return the graph, the order of neighbours, the states and the wide states."""
    parts = twin.embedded(rows, neighbors="diffused", **others)  # type: ignore[arg-type]
    r = twin.wide_states(parts.S, parts.p, direct_k, direct_mu, direct_support)
    costs = twin.step_costs(parts.p, parts.d, twin.allowed_steps(parts.kin, path_k, "union"), rho, gamma)
    return Graph(parts.d, costs, twin.total_variation(r, r)), parts.rank, parts.p, r


def state(
    p: Matrix,
    d: Matrix,
    rank: twin.Order,
    gaps: Matrix,
    near: NDArray[np.int64],
    counts: NDArray[np.bool_],
    k2: int,
    k: int,
    sigma: float,
    support: int,
) -> Matrix:
    """Return p_q or r_q: the states p or r of the k2 nearest, weighted by the Gaussian of the graphs."""
    own = np.zeros(len(p))
    length = gaps[near[counts[near]][k - 1]]
    for j in near[:k2]:
        own += np.exp(-(gaps[j] ** 2) / (sigma**2 * length * d[j, rank[j, k]])) * p[j]
    own[np.argsort(-own, kind="stable")[support:]] = 0.0
    return own / own.sum()
