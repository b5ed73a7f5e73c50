"""Every quantity of LPMT by a dense, literal transcription of the paper's equations.

Slow counterparts of the LPMT modules in `kinrank.stages` and of `kinrank.methods.lpmt` and `lpmt_ablation`: n x n
arrays, loops and general solvers that share nothing with the library. Where the paper leaves a choice, an argument
names it. Item numbers are rows; N(i, k) contains i itself, "others" do not. The last section uses scipy's sparse
products, for a thousand items and more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import solve_sylvester
from scipy.optimize import linprog

from kinrank.stages import diffusion

Matrix = NDArray[np.float64]
Order = NDArray[np.int64]


# --- Section 3: distances and graphs -----------------------------------------------------------------------


def euclidean(rows: NDArray[np.float32]) -> Matrix:
    """Return d(i, j) = |f_i - f_j| of all pairs."""
    wide = rows.astype(np.float64)
    return np.array([[np.sqrt(((x - y) ** 2).sum()) for y in wide] for x in wide])


def nearest_first(d: Matrix) -> Order:
    """Return the items of each row by distance: itself first, ties by number."""
    shown = d.copy()
    np.fill_diagonal(shown, -1.0)
    return np.argsort(shown, axis=1, kind="stable")


def graph_sizes(k: int) -> list[int]:
    """k scaled by 1/sqrt 2, 1, sqrt 2 and rounded to the nearest integer."""
    return [int(np.floor(k * factor + 0.5)) for factor in (1 / np.sqrt(2), 1.0, np.sqrt(2))]


def gaussian(d: Matrix, rank: Order, sigma: float, scale: str, k: int) -> Matrix:
    """Return exp(-d^2 / sigma^2) of Eq. 2 for all pairs, d in the unit of `scale`."""
    n = len(d)
    out = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            if scale == "raw":
                unit = 1.0
            elif scale == "row":
                unit = d[i].max() ** 2
            elif scale == "global":
                unit = d.max() ** 2
            else:
                unit = d[i, rank[i, k]] * d[j, rank[j, k]]
            out[i, j] = np.exp(-(d[i, j] ** 2) / unit / sigma**2)
    return out


def adjacency(weights: Matrix, rank: Order, size: int, loops: bool = False) -> Matrix:
    """Return W_ij on the `size` nearest others of i, and on i itself with `loops`; then (W + W')/2."""
    n = len(weights)
    W = np.zeros((n, n))
    for i in range(n):
        for j in rank[i, 1 : size + 1]:
            W[i, j] = weights[i, j]
        if loops:
            W[i, i] = weights[i, i]
    return (W + W.T) / 2


def normalised(W: Matrix) -> Matrix:
    """Return S = D^-1/2 W D^-1/2, with an empty row if the degree is 0."""
    degree = W.sum(axis=1)
    half = np.array([1 / np.sqrt(x) if x > 0 else 0.0 for x in degree])
    return np.diag(half) @ W @ np.diag(half)


# --- Section 4.1, Appendix A: BCD --------------------------------------------------------------------------


def kronecker_solution(S: Sequence[Matrix], beta: Sequence[float], mu: float, E: Matrix) -> Matrix:
    """Eq. 8: F* = (1 - a) vec^-1((I - sum a_v (I x S_v + S_v x I)/2)^-1 vec(E)), a_v = beta_v / (1 + mu)."""
    n = len(E)
    alpha = 1 / (1 + mu)
    big = np.eye(n * n)
    for weight, matrix in zip(beta, S, strict=True):
        big -= weight / (1 + mu) * (np.kron(np.eye(n), matrix) + np.kron(matrix, np.eye(n))) / 2
    f = (1 - alpha) * np.linalg.solve(big, E.flatten(order="F"))
    return f.reshape((n, n), order="F")


def lyapunov_solution(S: Sequence[Matrix], beta: Sequence[float], mu: float, E: Matrix) -> Matrix:
    """Eq. A.13: (I - sum a_v S_v) F + F (I - sum a_v S_v) = 2 (1 - a) E, by scipy's general solver."""
    alpha = 1 / (1 + mu)
    A = np.eye(len(E)) - sum(weight / (1 + mu) * matrix for weight, matrix in zip(beta, S, strict=True))
    return np.asarray(solve_sylvester(A, A, 2 * (1 - alpha) * E))


def energy(W: Matrix, F: Matrix) -> float:
    """H_v of Eq. 4 without mu |F - E|^2: the sums over k, i, j of both bidirectional terms."""
    n = len(W)
    D = W.sum(axis=1)
    total = 0.0
    for i in range(n):
        for j in range(n):
            if W[i, j] > 0:  # the sums over k are those of whole columns and rows
                total += W[i, j] * ((F[:, i] / np.sqrt(D[i]) - F[:, j] / np.sqrt(D[j])) ** 2).sum()
                total += W[i, j] * ((F[i, :] / np.sqrt(D[i]) - F[j, :] / np.sqrt(D[j])) ** 2).sum()
    return total / 4


def iterate(F: Matrix, S: Sequence[Matrix], beta: Sequence[float], mu: float, E: Matrix) -> Matrix:
    """One step of Eq. 9."""
    alpha = 1 / (1 + mu)
    out = (1 - alpha) * E
    for weight, matrix in zip(beta, S, strict=True):
        out = out + 0.5 * weight / (1 + mu) * (F @ matrix.T + matrix @ F)
    return out


def algorithm_2(S: Matrix, mu: float, E: Matrix, steps: int, as_printed: bool) -> Matrix:
    """Run conjugate gradients; `as_printed` multiplies by a again although the matrix already contains it (line 1)."""
    n = len(E)
    alpha = 1 / (1 + mu)
    held = alpha * S  # line 1: sum_v alpha_v S_v
    once_more = alpha if as_printed else 1.0
    big = np.eye(n * n) - once_more * (np.kron(np.eye(n), held) + np.kron(held, np.eye(n))) / 2
    F = E.copy()
    R = 2 * (1 - alpha) * E - (np.eye(n) - held) @ F - F @ (np.eye(n) - once_more * held)
    f, r = F.flatten(order="F"), R.flatten(order="F")
    p = r.copy()
    for _ in range(steps):
        if r @ r < 1e-28:
            break
        length = (r @ r) / (2 * p @ big @ p)
        f = f + length * p
        after = r - 2 * length * big @ p
        p = after + (after @ after) / (r @ r) * p
        r = after
    return f.reshape((n, n), order="F")


def valid_set_weights(H: Sequence[float], lam: float) -> Matrix:
    """Eq. 11 and 13: sort H in descending order, drop what fails the condition, weight the rest."""
    kept = sorted(range(len(H)), key=lambda v: -H[v])
    while H[kept[0]] >= (sum(H[v] for v in kept) + lam) / len(kept):
        kept = kept[1:]
    beta = np.zeros(len(H))
    for v in kept:
        beta[v] = (sum(H[u] for u in kept) - len(kept) * H[v] + lam) / (lam * len(kept))
    return beta


def coordinate_descent_weights(H: Sequence[float], lam: float, rounds: int = 2000) -> Matrix:
    """Eq. A.22: update pairs of weights in turn, each truncated to the sum of the pair."""
    m = len(H)
    beta = np.full(m, 1 / m)
    for _ in range(rounds):
        for i in range(m):
            for j in range(m):
                if i != j:
                    both = beta[i] + beta[j]
                    wanted = (lam * both + (H[j] - H[i])) / (2 * lam)
                    beta[i] = min(max(wanted, 0.0), both)
                    beta[j] = both - beta[i]
    return beta


def algorithm_1(S: Sequence[Matrix], W: Sequence[Matrix], mu: float, lam: float, cycles: int) -> tuple[Matrix, Matrix]:
    """Return (F, beta) with E = I: F solved for fixed beta, beta for fixed F, `cycles` times, then F once more."""
    n, m = len(S[0]), len(S)
    beta = np.full(m, 1 / m)
    F = lyapunov_solution(S, list(beta), mu, np.eye(n))
    for _ in range(cycles):
        beta = valid_set_weights([energy(graph, F) for graph in W], lam)
        F = lyapunov_solution(S, list(beta), mu, np.eye(n))
    return F, beta


# --- Section 4.2: LSE --------------------------------------------------------------------------------------


def neighbourhood(rank: Order, k: int) -> list[set[int]]:
    """N(i, k), i itself included."""
    return [{int(j) for j in row[:k]} for row in rank]


def reciprocal(rank: Order, k: int) -> list[set[int]]:
    """R(i, k), Eq. 14."""
    near = neighbourhood(rank, k)
    return [{j for j in near[i] if i in near[j]} for i in range(len(rank))]


def by_similarity(F: Matrix, rank: Order) -> Order:
    """Return the items of each row by F: itself first, ties by number; those that F does not reach as in `rank`."""
    out = np.zeros_like(rank)
    for i in range(len(F)):
        reached = [j for j in range(len(F)) if j != i and F[i, j] > 1e-12]
        others = [j for j in rank[i] if j != i and F[i, j] <= 1e-12]
        out[i] = [i, *sorted(reached, key=lambda j: -F[i, j]), *others]
    return out


def confidence(rank: Order, k2: int, kappa: float) -> Matrix:
    """Return the weights of Eq. 16: (kappa 1[j in R(i, k2)] + 1) / (kappa |R(i, k2)| + k2) for j in N(i, k2)."""
    near, mutual = neighbourhood(rank, k2), reciprocal(rank, k2)
    weights = np.zeros(rank.shape)
    for i in range(len(rank)):
        for j in near[i]:
            weights[i, j] = (kappa * (j in mutual[i]) + 1) / (kappa * len(mutual[i]) + len(near[i]))
    return weights


def states(F: Matrix, regions: list[set[int]], weights: Matrix, support: int = 0) -> Matrix:
    """Eq. 15 on the given regions, then Eq. 16; a row keeps its `support` largest entries, summing to one."""
    n = len(F)
    hat = np.zeros((n, n))
    for i in range(n):
        total = sum(F[i, j] for j in regions[i])
        for j in regions[i]:
            hat[i, j] = F[i, j] / total
    p = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            p[i] += weights[i, j] * hat[j]
    if support:
        for i in range(n):
            dropped = np.argsort(-p[i], kind="stable")[support:]
            p[i, dropped] = 0.0
            p[i] /= p[i].sum()
    return p


def state_distances(p: Matrix, kind: str) -> Matrix:
    """Table 5: compare the distributions directly, each by its definition; inf if two share nothing."""
    n = len(p)
    out = np.full((n, n), np.inf)
    for i in range(n):
        for j in range(n):
            a, b = p[i], p[j]
            if a @ b == 0:
                continue
            if kind == "total_variation":
                out[i, j] = 0.5 * np.abs(a - b).sum()
            elif kind == "jaccard":
                out[i, j] = 1 - np.minimum(a, b).sum() / np.maximum(a, b).sum()
            elif kind == "cosine":
                out[i, j] = 1 - a @ b / np.sqrt((a @ a) * (b @ b))
            else:
                out[i, j] = np.sqrt(((a - b) ** 2).sum())
    return out


# --- Section 4.3, Appendix B: TMT and fusion ---------------------------------------------------------------


def wasserstein(p: Matrix, q: Matrix, C: Matrix) -> float:
    """Eq. B.2: return min <Q, C> over Q with margins p and q by linear programming."""
    m, k = C.shape
    margins = np.zeros((m + k, m * k))
    for x in range(m):
        margins[x, x * k : (x + 1) * k] = 1.0
    for y in range(k):
        margins[m + y, y::k] = 1.0
    unit = 1e4  # the solver treats 1e-7 as 0, and a mass may be that small
    solved = linprog(C.ravel(), A_eq=margins[:-1], b_eq=unit * np.concatenate([p, q])[:-1], method="highs")
    return float(solved.fun) / unit


def residual_wasserstein(p: Matrix, q: Matrix, C: Matrix) -> float:
    """Return the minimum for (p - q)+ and (q - p)+ only: shared mass stays in place."""
    gap = np.where(np.abs(p - q) > 1e-12, p - q, 0.0)  # less is rounding, which makes the solver fail
    away, towards = np.flatnonzero(gap > 0), np.flatnonzero(gap < 0)
    if not len(away) or not len(towards):
        return 0.0
    a, b = gap[away], -gap[towards]
    return wasserstein(a, b * (a.sum() / b.sum()), C[np.ix_(away, towards)])


def allowed_steps(rank: Order, k: int, steps: str) -> NDArray[np.bool_]:
    """Return the allowed transitions: one, or each, is among the k nearest others of the other."""
    near = np.zeros(rank.shape, bool)
    for i in range(len(rank)):
        near[i, rank[i, 1 : k + 1]] = True
    return near & near.T if steps == "reciprocal" else near | near.T


def step_costs(p: Matrix, d: Matrix, allowed: NDArray[np.bool_], rho: float, gamma: float) -> Matrix:
    """Return W(p_i, p_j; d^rho)^gamma for allowed steps, 0 on the diagonal, inf elsewhere."""
    n = len(p)
    costs = np.full((n, n), np.inf)
    for i in range(n):
        costs[i, i] = 0.0
        for j in range(i):
            if allowed[i, j]:
                costs[i, j] = costs[j, i] = residual_wasserstein(p[i], p[j], d**rho) ** gamma
    return costs


def floyd_warshall(costs: Matrix) -> Matrix:
    """Eq. 20: d'(i, j) = min over chains of the sum of their costs."""
    best = costs.copy()
    for middle in range(len(best)):
        for i in range(len(best)):
            best[i] = np.minimum(best[i], best[i, middle] + best[middle])
    return best


def fused(
    d: Matrix,
    chained: Matrix,
    theta: float,
    gamma: float,
    kind: str,
    k: int,
    own: bool,
    apart: Matrix | None = None,
    direct: float = 0.0,
) -> Matrix:
    """Return theta d + (1 - theta) ((1 - share) d' + share apart) if a chain exists; other items follow, by d.

    `direct` is the largest share (`share_of_wide_states`).

    `plain`: d and d' unchanged, Eq. 21, without `apart`. `local`: each in units of the row's k-th smallest value, d
    counted from 0.6 of its smallest on. `own`: the smallest value of a row is that of the query itself, and does not
    count.
    """
    out = np.zeros(d.shape)
    for row in range(len(d)):
        near, along = d[row].copy(), chained[row].copy()
        reached = np.isfinite(along)
        if kind == "local" and theta < 1:
            along = along ** (1 / gamma)
            along /= kth(along[reached], k + own)
            start = 0.6 * sorted(near)[own]
            ratios = [max(x - start, 0.0) / (kth(near, k + own) - start) for x in near]
            near = np.array([1 - np.exp(-(ratio**2)) for ratio in ratios])
            if apart is not None and direct > 0:
                unit = max(kth(apart[row], k + own), 1e-3 * max(apart[row]))
                wide = np.where(d[row] > 0, apart[row], 0.0) / unit  # a copy of the query has distance 0
                share = share_of_wide_states(direct, unit)
                along[reached] = (1 - share) * along[reached] + share * wide[reached]
        out[row, reached] = theta * near[reached] + (1 - theta) * along[reached]
        out[row, ~reached] = out[row, reached].max() + 1 + d[row, ~reached]
    return out


def share_of_wide_states(direct: float, unit: float) -> float:
    """Return the share of a query whose k-th nearest wide state is at the distance `unit`: overlap 1 - unit.

    All of `direct` from an overlap of 0.6 on, 0.1 (or `direct`, if smaller) up to 0.4, in between on a line, but not
    below that.
    """
    overlap = 1.0 - unit
    if overlap >= 0.6:
        return direct
    line = direct * (overlap - 0.4) / 0.2 if overlap > 0.4 else 0.0
    return max(line, min(direct, 0.1))


def kth(values: Sequence[float] | Matrix, k: int) -> float:
    """Return the k-th smallest of some values, or the largest if there are fewer."""
    return float(sorted(values)[min(k, len(values)) - 1])


class Parts(NamedTuple):
    """Results of Sections 4.1 and 4.2: d, the order by d, the order by F (or d), the states, and the mixed graph S."""

    d: Matrix
    rank: Order
    kin: Order
    p: Matrix
    S: Matrix


def embedded(
    rows: NDArray[np.float32],
    *,
    k1: int,
    k2: int,
    kappa: float,
    k: int,
    sigma: float,
    mu: float,
    lam: float,
    cycles: int = 1,
    support: int = 0,
    similarity: str = "bcd",
    region: str = "reciprocal",
    scale: str = "local",
    loops: bool = False,
    neighbors: str = "euclidean",
    share: float = 0.0,
) -> Parts:
    """Return the states of all items.

    `neighbors="diffused"` uses regions by F, and a `share` of the weights of the confident neighbours by F.
    """
    d = euclidean(rows)
    rank = nearest_first(d)
    weights = gaussian(d, rank, sigma, scale, k)
    S = np.zeros(d.shape)
    if similarity == "gaussian":
        F = weights
    elif similarity == "cosine":
        F = np.maximum(rows.astype(np.float64) @ rows.T.astype(np.float64), 0.0)
    else:
        sizes = [k] if similarity == "bsd" else graph_sizes(k)
        W = [adjacency(weights, rank, size, loops) for size in sizes]
        F, beta = algorithm_1([normalised(graph) for graph in W], W, mu, lam * len(rows), cycles)
        S = np.asarray(sum(weight * normalised(graph) for weight, graph in zip(beta, W, strict=True)))
    kin, weighted = rank, confidence(rank, k2, kappa)
    if neighbors == "diffused" and similarity in ("bcd", "bsd"):
        kin = by_similarity(F, rank)
        weighted = (1 - share) * weighted + share * confidence(kin, k2, kappa)
    regions = reciprocal(kin, k1) if region == "reciprocal" else neighbourhood(kin, k1)
    return Parts(d, rank, kin, states(F, regions, weighted, support), S)


def chained(
    rows: NDArray[np.float32],
    *,
    rho: float,
    gamma: float,
    path_k: int,
    steps: str = "union",
    distance: str = "transport",
    **others: Any,
) -> tuple[Matrix, Matrix]:
    """Return (d, d') of all items: all of Section 4 except the fusion; `others` as in `embedded`.

    Any `distance` except `transport` compares the states directly.
    """
    parts = embedded(rows, **others)
    if distance != "transport":
        return parts.d, state_distances(parts.p, distance)
    allowed = allowed_steps(parts.kin, path_k, steps)
    return parts.d, floyd_warshall(step_costs(parts.p, parts.d, allowed, rho, gamma))


# --- not in the paper: wide states, and their share --------------------------------------------------------


def wide_states(S: Matrix, p: Matrix, direct_k: int, direct_mu: float, direct_support: int) -> Matrix:
    """Return r_i: states averaged with the direct_k largest F of a wider diffusion over S; largest entries, sum one.

    Among few items the average is over all of them, and direct_mu is larger by half.
    """
    if len(p) <= diffusion.MAX_BLOCK_ITEMS:
        direct_k, direct_mu = len(p), 1.5 * direct_mu
    F = resolvent(S, direct_mu)
    r = np.zeros(p.shape)
    for i in range(len(p)):
        others = sorted((j for j in range(len(p)) if j != i), key=lambda j: -F[i, j])
        chosen = [i, *others][:direct_k]
        for j in chosen:
            r[i] += F[i, j] / sum(F[i, x] for x in chosen) * p[j]
        r[i, np.argsort(-r[i], kind="stable")[direct_support:]] = 0.0
        r[i] /= r[i].sum()
    return r


def total_variation(a: Matrix, b: Matrix) -> Matrix:
    """Return (rows of a, rows of b) half the sum of |a_i(c) - b_j(c)|, which is 1 - sum_c min(a_i(c), b_j(c))."""
    return np.array([[0.5 * sum(abs(x - y) for x, y in zip(one, other, strict=True)) for other in b] for one in a])


def trust_of(lists: NDArray[np.int32], items: Sequence[int] | None = None) -> tuple[float, float]:
    """Return (mutual, common) of the 5 nearest of some items, pair by pair; lists start with the item, -1 is padding.

    common: out of as many as a list can hold, up to 5.
    """
    pairs, mutual, common = 0, 0, 0.0
    holds = min(5, lists.shape[1] - 1)
    near = [{int(j) for j in row[1:6] if j >= 0} for row in lists]
    for i in range(len(lists)) if items is None else items:
        for j in near[i]:
            pairs += 1
            mutual += i in near[j]
            common += len(near[j] & near[i]) / holds
    return (mutual / pairs, common / pairs) if pairs else (0.0, 0.0)


# --- scipy's sparse products along given neighbour lists ---------------------------------------------------


def listed(lists: NDArray[np.int32], values: NDArray[Any]) -> Any:
    """(n, n) csr with values[i, t] at lists[i, t]."""
    n, k = lists.shape
    matrix = sparse.csr_array((values.ravel(), lists.ravel().copy(), np.arange(n + 1) * k), shape=(n, n))
    matrix.sort_indices()
    return matrix


def sparse_union(lists: NDArray[np.int32], both: bool = False) -> Any:
    """Return ones if either item lists the other, or each does (`both`)."""
    near = listed(lists, np.ones(lists.shape, np.int8))
    matrix = sparse.csr_array(near.multiply(near.T) if both else near.maximum(near.T))
    matrix.sort_indices()
    return matrix


def sparse_graph(
    lists: NDArray[np.int32],
    distances: NDArray[Any],
    lengths: Matrix,
    sigma: float,
    size: int,
    own_scale: bool = False,
    loops: bool = False,
) -> Any:
    """Return S of one graph: Eq. 2 on the `size` nearest others (lists start with the item), (W + W')/2, normalised."""
    n = len(lists)
    near, d = lists[:, 1 : size + 1], distances[:, 1 : size + 1].astype(np.float64)
    unit = lengths[:, None] ** 2 if own_scale else lengths[:, None] * lengths[near]
    directed = listed(near, np.maximum(np.exp(-(d**2) / (sigma**2 * unit)), 1e-30))
    W = (directed + directed.T) * 0.5 + (sparse.eye_array(n) if loops else sparse.csr_array((n, n)))
    degrees = np.asarray(W.sum(axis=1)).ravel()
    half = sparse.diags_array(np.where(degrees > 0, 1.0 / np.sqrt(np.maximum(degrees, 1e-300)), 0.0))
    return sparse.csr_array(half @ W @ half)


def resolvent(S: Any, mu: float) -> Matrix:
    """(1 - a)(I - a S)^-1, dense."""
    a = 1.0 / (1.0 + mu)
    dense = S.toarray() if hasattr(S, "toarray") else np.asarray(S)
    return np.asarray((1.0 - a) * np.linalg.inv(np.eye(len(dense)) - a * dense.astype(np.float64)))


def sparse_confidence(lists: NDArray[np.int32], kappa: float) -> Any:
    """Return the weights of Eq. 16 of all k2 listed items, rows summing to one."""
    near = listed(lists, np.ones(lists.shape))
    return to_one(near + kappa * near.multiply(near.T))


def sparse_states(nearest: NDArray[np.int32], similar: NDArray[Any], weights: Any, k1: int, support: int) -> Any:
    """Apply Eq. 15 on R(i, k1) by `nearest` where F reaches both ways, then Eq. 16, then keep the largest entries."""
    F = listed(nearest[:, :k1], similar[:, :k1].astype(np.float64))
    mixed = sparse.csr_array(weights @ to_one(F.multiply(F.T > 0)))
    mixed.sort_indices()
    return to_one(strongest(mixed, support)) if support else mixed


def strongest(matrix: Any, support: int) -> Any:
    """Return the `support` largest entries of every row, ties to the lower item number."""
    kept = sparse.lil_array(matrix.shape)
    for i in range(matrix.shape[0]):
        entries = slice(matrix.indptr[i], matrix.indptr[i + 1])
        items, values = matrix.indices[entries], matrix.data[entries]
        best = np.lexsort((items, -values))[:support]
        kept[i, items[best]] = values[best]
    return sparse.csr_array(kept)


def to_one(matrix: Any) -> Any:
    """Divide rows by their sums."""
    totals = np.asarray(matrix.sum(axis=1)).ravel()
    return sparse.csr_array(sparse.diags_array(1.0 / totals) @ matrix)
