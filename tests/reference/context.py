"""Matrices of the context methods by dense, literal transcriptions of their definitions.

Slow counterparts of `kinrank.methods.{knn,k_reciprocal,sca,ecn,gnn,stml}`: n x n arrays and loops that share nothing
with the library. Every function takes unit rows (q, d), (g, d) and returns (q, g); score matrices are not negated.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def joint(queries: NDArray[np.float32], gallery: NDArray[np.float32]) -> tuple[Matrix, NDArray[np.int64]]:
    """Return squared distances of all items and the order of each row: itself first, ties by number."""
    rows = np.concatenate([queries, gallery]).astype(np.float64)
    squared = ((rows[:, None, :] - rows[None, :, :]) ** 2).sum(axis=2)
    shown = squared.copy()
    np.fill_diagonal(shown, -1.0)
    return squared, np.argsort(shown, axis=1, kind="stable")


def answers(matrix: Matrix, queries: NDArray[np.float32]) -> Matrix:
    return matrix[: len(queries), len(queries) :]


def reciprocal(rank: NDArray[np.int64], k: int) -> NDArray[np.bool_]:
    """Return recip(k)[i, j]: each is among the first k of the other."""
    near = np.zeros((len(rank), len(rank)), bool)
    for i in range(len(rank)):
        near[i, rank[i, :k]] = True
    return near & near.T


def expanded(wide: NDArray[np.bool_], half: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the wide set of i united with the half set of every member of which more than two thirds lie inside."""
    out = wide.copy()
    for i in range(len(wide)):
        for j in np.flatnonzero(wide[i]):
            if 3 * (half[j] & wide[i]).sum() > 2 * half[j].sum():
                out[i] |= half[j]
    return out


def jaccard(features: Matrix) -> Matrix:
    """Return 1 - sum min / sum max of the rows, each of which sums to one."""
    shared = np.array([np.minimum(row, features).sum(axis=1) for row in features])
    return 1 - shared / (2 - shared)


def k_reciprocal(
    queries: NDArray[np.float32], gallery: NDArray[np.float32], k1: int, k2: int, lam: float, power: int = 1
) -> Matrix:
    squared, rank = joint(queries, gallery)
    scaled = squared**power
    scaled = scaled / scaled.max(axis=1, keepdims=True)
    sets = expanded(reciprocal(rank, k1 + 1), reciprocal(rank, int(np.round(k1 / 2)) + 1))
    features = np.where(sets, np.exp(-scaled), 0.0)
    features /= features.sum(axis=1, keepdims=True)
    features = np.array([features[row[:k2]].mean(axis=0) for row in rank])
    return answers((1 - lam) * jaccard(features) + lam * scaled, queries)


def sca(
    queries: NDArray[np.float32], gallery: NDArray[np.float32], k1: int, k2: int, weights: str = "kernel"
) -> Matrix:
    """If the contexts share nothing (distance 1), the Euclidean distance is added."""
    squared, rank = joint(queries, gallery)
    scaled = squared / squared.max(axis=1, keepdims=True)
    values = np.exp(-scaled) if weights == "kernel" else np.maximum(1 - squared / 2, 0)
    features = np.zeros_like(values)
    for i, row in enumerate(rank):
        features[i, row[:k1]] = values[i, row[:k1]]
    features /= features.sum(axis=1, keepdims=True)
    features = np.array([features[row[:k2]].mean(axis=0) for row in rank])
    out = jaccard(features)
    return answers(np.where(out >= 1, out + np.sqrt(squared), out), queries)


def gnn(
    queries: NDArray[np.float32],
    gallery: NDArray[np.float32],
    k1: int,
    k2: int,
    alpha: float,
    lam: float = 0.0,
    identity: bool = False,
) -> Matrix:
    squared, rank = joint(queries, gallery)
    similarity = 1 - squared / 2
    state = np.zeros_like(squared)
    for i, row in enumerate(rank):
        state[i, row[:k1]] = 1.0
    for _ in range(2):
        state = state + state.T
        passed = np.array([(similarity[i, r[:k2]] ** alpha) @ state[r[:k2]] for i, r in enumerate(rank)])
        state = passed + identity * state
        state /= np.linalg.norm(state, axis=1, keepdims=True)
    return answers((1 - lam) * state @ state.T + lam * similarity, queries)


def stml(
    queries: NDArray[np.float32],
    gallery: NDArray[np.float32],
    k: int,
    power: int,
    sigma: float,
    scale: bool = True,
    restrict: bool = False,
) -> Matrix:
    squared, rank = joint(queries, gallery)
    scaled = squared**power
    if scale:
        scaled = scaled / scaled.max(axis=1, keepdims=True)
    sets = reciprocal(rank, k).astype(float)
    context = sets @ sets.T / sets.sum(axis=1, keepdims=True)
    if restrict:
        context *= sets
    context = np.array([context[row[: max(k // 2, 1)]].mean(axis=0) for row in rank])
    return answers((np.exp(-scaled / sigma) + (context + context.T) / 2) / 2, queries)


def ecn(queries: NDArray[np.float32], gallery: NDArray[np.float32], k: int, t: int, q: int) -> Matrix:
    squared, rank = joint(queries, gallery)
    lists = np.zeros_like(squared)
    for i, row in enumerate(rank):
        for position, j in enumerate(row[:k]):
            lists[i, j] = k - position
    rank_distance = -(lists @ lists.T)
    family = [list(row[1 : t + 1]) for row in rank]
    family = [own + [m for j in own for m in rank[j, 1 : q + 1]] for own in family]
    out = np.zeros_like(squared)
    for i in range(len(rank)):
        for j in range(len(rank)):
            out[i, j] = np.mean([*rank_distance[family[i], j], *rank_distance[family[j], i]])
    return answers(np.where(out == 0, squared / 2, out), queries)


def knn(queries: NDArray[np.float32], gallery: NDArray[np.float32], k: int) -> Matrix:
    squared, rank = joint(queries, gallery)
    place = np.argsort(rank, axis=1) + 1
    out = np.zeros_like(squared)
    for i, row in enumerate(rank):
        for t, member in enumerate(row[: k + 1]):
            out[i] += 1 / ((t + 1 + place[member, i]) * place[member])
    return answers(out, queries)
