"""CAS distances by a dense, literal transcription of the definition."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reference.context import Matrix, answers, expanded, joint, reciprocal

NEVER = 50.0


def l1(rows: Matrix) -> Matrix:
    total = rows.sum(axis=1, keepdims=True)
    return rows / np.where(total > 0, total, 1)


def on_lists(values: Matrix, rank: NDArray[np.int64], first: int, last: int) -> Matrix:
    out = np.zeros_like(values)
    for i, row in enumerate(rank):
        out[i, row[first:last]] = values[i, row[first:last]]
    return out


def diffused(similarity: Matrix, rank: NDArray[np.int64], k1: int, mu: float) -> Matrix:
    """Run ten steps of the bidirectional diffusion, starting at the affinity itself."""
    affinity = on_lists(similarity, rank, 1, k1)
    affinity += reciprocal(rank, k1) * affinity
    affinity = (affinity + affinity.T) / 2
    degree = affinity.sum(axis=1)
    root = np.where(degree > 0, degree, 1) ** -0.5
    smooth = root[:, None] * affinity * root[None, :]
    alpha = 1 / (1 + mu)
    state = affinity
    for _ in range(10):
        state = alpha / 2 * (state @ smooth + smooth @ state) + (1 - alpha) * np.eye(len(rank))
    return state


def smoothed(
    state: Matrix, transition: Matrix, sure: NDArray[np.bool_], candidates: NDArray[np.bool_], beta: float
) -> Matrix:
    """Pull the state on the candidates of each item towards the weight that its sure neighbours give them."""
    out = np.zeros_like(state)
    for i in range(len(state)):
        core, region = np.flatnonzero(sure[i]), np.flatnonzero(candidates[i])
        semi = np.setdiff1d(region, core)
        values = state[i, region]
        if len(core) > 1 and len(semi) > 1:
            a = np.mean([transition[c, c] for c in core])
            weight = np.array([a if sure[i, j] else min(transition[j, core].mean(), a) for j in region])
            shift = a**2 * values.mean() - a * (values * weight).mean()
            values = (values * (a * weight + 2 * beta) + shift) / (a**2 + 2 * beta)
        out[i, region] = values
    return l1(out)


def divergence(p: Matrix) -> Matrix:
    """Return the Jensen-Shannon divergence of all pairs of rows, in bits."""

    def entropy(rows: Matrix) -> Matrix:
        return -(rows * np.log2(np.where(rows > 0, rows, 1))).sum(axis=-1)

    own = entropy(p)
    return np.array([entropy((p + row) / 2) - (own + own[i]) / 2 for i, row in enumerate(p)])


def cas(
    queries: NDArray[np.float32],
    gallery: NDArray[np.float32],
    k1: int,
    k2: int,
    k3: int,
    k4: int,
    k5: int,
    lambda_value: float = 0.3,
    lv: float = 2,
    sigma: float = 0.3,
    mu: float = 0.23,
    beta: float = 0,
    edges: int = 100,
) -> Matrix:
    squared, rank = joint(queries, gallery)
    distance = squared / squared.max(axis=1, keepdims=True)
    similarity = np.exp(-distance / sigma**2)
    sure = reciprocal(rank, k1)
    candidates = expanded(reciprocal(rank, k2 + 1), reciprocal(rank, k2 // 2 + 1))
    state = diffused(similarity, rank, k1, mu)
    transition = l1(on_lists(similarity, rank, 1, k3))
    state = smoothed(state, transition @ transition, sure, candidates, beta)
    mean = np.array([state[row[:k4]].mean(axis=0) for row in rank])
    mixed = l1((mean + lv * l1(sure.astype(float)) @ state) / (1 + lv))
    step = mixed @ mixed
    for row in step:
        row[np.argsort(-row, kind="stable")[k5:]] = 0
    step = l1(step)
    bits = divergence(l1(step @ step))
    cost = np.full_like(bits, NEVER)
    for i, row in enumerate(rank):
        cost[i, row[:edges]] = bits[i, row[:edges]]
    np.fill_diagonal(cost, 0)
    cost = np.clip(np.minimum(cost, cost.T), 0, NEVER)
    for k in range(len(cost)):
        cost = np.minimum(cost, cost[:, k : k + 1] + cost[k : k + 1])
    return answers((1 - lambda_value) * np.minimum(cost, NEVER) + lambda_value * distance, queries)
