"""A gallery and one query outside it -> d* of every item, by dense transcription of stages/attach.py.

The gallery's states, wide states and step costs are those of `reference/lpmt.py`; the transport is the linear program.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reference import lpmt as twin

Matrix = NDArray[np.float64]


class Source(NamedTuple):
    """A query outside the graph: (n,) its distances, the prices of its first steps (inf where there is none), and how
    far its wide state is from those of all items."""

    gaps: Matrix
    first: Matrix
    apart: Matrix


class Graph(NamedTuple):
    """(n, n) distances, prices of steps, and how far apart wide states are."""

    d: Matrix
    costs: Matrix
    apart: Matrix


def answered(
    rows: NDArray[np.float32], query: NDArray[np.float32], *, k: int, gamma: float, theta: float,
    counted: NDArray[np.bool_] | None = None, direct: float = 0.0, **others: float,
) -> Matrix:  # fmt: skip
    """(n,) d* of all items: those no chain reaches behind the others.

    With `counted` (n,) the others are stepping stones: d* is inf there, and no scale is read from them.
    """
    counts = np.ones(len(rows), bool) if counted is None else counted
    source, graph = attached(rows, query, counts, k=k, gamma=gamma, **others)  # type: ignore[arg-type]
    reach = chains(source.first, graph.costs)
    result = np.full(len(rows), np.inf)
    result[counts] = twin.fused(
        source.gaps[None, counts], reach[None, counts], theta, gamma, "local", k, False, source.apart[None, counts],
        direct,
    )[0]  # fmt: skip
    return result


def marked(
    rows: NDArray[np.float32], query: NDArray[np.float32], positives: list[int], negatives: list[int], *, k: int,
    gamma: float, theta: float, direct: float = 0.0, **others: float,
) -> Matrix:  # fmt: skip
    """(n,) the score of all items with some marked right and wrong, inf where no chain leads."""
    everyone = np.ones(len(rows), bool)
    source, graph = attached(rows, query, everyone, k=k, gamma=gamma, **others)  # type: ignore[arg-type]
    return by_the_rule(source, graph, np.arange(len(rows)), positives, negatives, k, gamma, theta, direct)


def jointly_marked(
    rows: NDArray[np.float32], queries: int, query: int, positives: list[int], negatives: list[int], *, k: int,
    gamma: float, theta: float, direct: float = 0.0, **others: float,
) -> Matrix:  # fmt: skip
    """The same for a query that is in the graph: the first rows are the queries, marks count the others from 0."""
    graph, _, _, _ = prepared(rows, k=k, gamma=gamma, **others)  # type: ignore[arg-type]
    first = np.full(len(rows), np.inf)
    first[query] = 0.0
    source = Source(graph.d[query], first, graph.apart[query])
    gallery = np.arange(queries, len(rows))
    right, wrong = ([queries + item for item in items] for items in (positives, negatives))
    return by_the_rule(source, graph, gallery, right, wrong, k, gamma, theta, direct)[gallery]


def by_the_rule(
    source: Source, graph: Graph, gallery: NDArray[np.int64], positives: list[int], negatives: list[int], k: int,
    gamma: float, theta: float, direct: float,
) -> Matrix:  # fmt: skip
    """(n,) the rule of the design notes, section 6.4, source by source and item by item."""
    n = len(graph.d)
    begin = 0.6 * source.gaps[gallery].min()
    d10 = np.sort(source.gaps[gallery])[k - 1] - begin
    r10 = np.sort(chains(source.first, graph.costs)[gallery] ** (1 / gamma))[k - 1]
    t10 = np.sort(source.apart[gallery])[k - 1]
    closed = graph.costs.copy()
    closed[negatives] = np.inf  # no step leads on from a wrong one

    def mixed(gaps: Matrix, chained: Matrix, apart: Matrix) -> Matrix:
        near = 1 - np.exp(-((np.maximum(gaps - begin, 0) / d10) ** 2))
        reached = np.isfinite(chained)
        along = np.full(n, np.inf)
        along[reached] = (1 - direct) * chained[reached] ** (1 / gamma) / r10
        along[gaps > 0] += direct * apart[gaps > 0] / t10
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
    """(n,) d' from a source with first steps at these prices, inf where there are none: step after step."""
    best = first.copy()
    for _ in range(len(best)):
        best = np.minimum(best, (best[:, None] + costs).min(axis=0))
    return best


def attached(
    rows: NDArray[np.float32], query: NDArray[np.float32], counts: NDArray[np.bool_], *, k2: int, rho: float,
    gamma: float, k: int, sigma: float, path_k: int, support: int, direct_support: int = 128, **others: float,
) -> tuple[Source, Graph]:  # fmt: skip
    """The query, and the graph it enters."""
    sizes = {"k2": k2, "k": k, "path_k": path_k, "support": support, "direct_support": direct_support}
    powers = {"rho": rho, "gamma": gamma, "sigma": sigma}
    graph, rank, p, r = prepared(rows, **sizes, **powers, **others)  # type: ignore[arg-type]
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


def prepared(
    rows: NDArray[np.float32], *, rho: float, gamma: float, path_k: int, direct_k: int = 160, direct_mu: float = 0.02,
    direct_support: int = 128, **others: float,
) -> tuple[Graph, twin.Order, Matrix, Matrix]:  # fmt: skip
    """The graph, the order of neighbours, the states, the wide states."""
    parts = twin.embedded(rows, neighbors="diffused", **others)  # type: ignore[arg-type]
    r = twin.wide_states(parts.S, parts.p, direct_k, direct_mu, direct_support)
    costs = twin.step_costs(parts.p, parts.d, twin.allowed_steps(parts.kin, path_k, "union"), rho, gamma)
    return Graph(parts.d, costs, twin.total_variation(r, r)), parts.rank, parts.p, r


def state(
    p: Matrix, d: Matrix, rank: twin.Order, gaps: Matrix, near: NDArray[np.int64], counts: NDArray[np.bool_], k2: int,
    k: int, sigma: float, support: int,
) -> Matrix:  # fmt: skip
    """p_q, or r_q: the states p, or r, of the k2 nearest, weighted by the Gaussian of the graphs."""
    own = np.zeros(len(p))
    length = gaps[near[counts[near]][k - 1]]
    for j in near[:k2]:
        own += np.exp(-(gaps[j] ** 2) / (sigma**2 * length * d[j, rank[j, k]])) * p[j]
    own[np.argsort(-own, kind="stable")[support:]] = 0.0
    return own / own.sum()
