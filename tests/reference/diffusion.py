"""Scores of the diffusion methods by dense, literal transcriptions.

Slow counterparts of `kinrank.methods.{dfs,fsr,rdp,eir,egt}`: n x n arrays and loops that share nothing with them.
Every function takes unit rows (q, d), (g, d); scores (q, g) are larger for nearer items, as in the papers.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Rows = NDArray[np.float32]


def squared_distances(left: Rows, right: Rows) -> Matrix:
    wide, other = left.astype(np.float64), right.astype(np.float64)
    return ((wide[:, None, :] - other[None, :, :]) ** 2).sum(axis=2)


def ranks(rows: Rows) -> NDArray[np.int64]:
    """Return the order of every row: itself first, ties by number."""
    squared = squared_distances(rows, rows)
    np.fill_diagonal(squared, -1.0)
    return np.argsort(squared, axis=1, kind="stable")


def affinity(rows: Rows, k: int, gamma: float) -> Matrix:
    """Return S = D^-1/2 A D^-1/2 of the mutual kNN graph; zero rows for isolated items."""
    count = len(rows)
    order = ranks(rows)
    similarity = 1 - squared_distances(rows, rows) / 2
    weights = np.zeros((count, count))
    for i in range(count):
        for j in order[i, :k]:
            if i != j and i in order[j, :k]:
                weights[i, j] = max(similarity[i, j], 0.0) ** gamma
    degrees = weights.sum(axis=1)
    scale = np.array([1 / np.sqrt(degree) if degree > 0 else 0.0 for degree in degrees])
    return scale[:, None] * weights * scale[None, :]


def sources(queries: Rows, gallery: Rows, kq: int, gamma: float) -> Matrix:
    squared = squared_distances(queries, gallery)
    result = np.zeros_like(squared)
    for q, row in enumerate(squared):
        for j in np.argsort(row, kind="stable")[:kq]:
            result[q, j] = max(1 - row[j] / 2, 0.0) ** gamma
    return result


def conjugate_gradients(matrix: Matrix, right: Matrix, tol: float, maxiter: int) -> Matrix:
    """Run the textbook loop for one right-hand side."""
    x, r = np.zeros_like(right), right.copy()
    p = r.copy()
    for _ in range(maxiter):
        if np.linalg.norm(r) <= tol * np.linalg.norm(right):
            break
        image = matrix @ p
        step = (r @ r) / (p @ image)
        x = x + step * p
        fresh = r - step * image
        p = fresh + (fresh @ fresh) / (r @ r) * p
        r = fresh
    return x


def dfs(queries: Rows, gallery: Rows, k: int, kq: int, gamma: float, alpha: float, tol: float, maxiter: int) -> Matrix:
    laplacian = np.eye(len(gallery)) - alpha * affinity(gallery, k, gamma)
    right = sources(queries, gallery, kq, gamma)
    return np.array([conjugate_gradients(laplacian, row, tol, maxiter) for row in right])


def fsr(queries: Rows, gallery: Rows, k: int, kq: int, gamma: float, alpha: float, rank: int | None) -> Matrix:
    """For the whole matrix at once: equal to the result per component unless the cut separates a tie."""
    values, vectors = np.linalg.eigh(affinity(gallery, k, gamma))
    keep = np.argsort(-values)[:rank]
    kept = vectors[:, keep]
    return sources(queries, gallery, kq, gamma) @ (kept / (1 - alpha * values[keep])) @ kept.T


def rdp_affinity(queries: Rows, gallery: Rows, k: int, sigma: float, power: int) -> Matrix:
    rows = np.concatenate([queries, gallery])
    squared = squared_distances(rows, rows)
    similarity = np.exp(-((squared / squared.max()) ** power) / sigma**2)
    weights = np.zeros_like(similarity)
    for i, order in enumerate(ranks(rows)):
        weights[i, order[:k]] = similarity[i, order[:k]]
    weights = (weights + weights.T) / 2
    scale = 1 / np.sqrt(weights.sum(axis=1))
    return scale[:, None] * weights * scale[None, :]


def rdp(queries: Rows, gallery: Rows, k: int, sigma: float, mu: float, iterations: int | None, power: int) -> Matrix:
    """Run `iterations` steps of A = alpha S A S' + (1 - alpha) I from A = I; None: the fixed point."""
    smooth = rdp_affinity(queries, gallery, k, sigma, power)
    alpha = 1 / (1 + mu)
    if iterations is None:
        values, vectors = np.linalg.eigh(smooth)
        result = vectors @ np.diag((1 - alpha) / (1 - alpha * values**2)) @ vectors.T
    else:
        result = np.eye(len(smooth))
        for _ in range(iterations):
            result = alpha * smooth @ result @ smooth.T + (1 - alpha) * np.eye(len(smooth))
    return result[: len(queries), len(queries) :]


def eir_rows(rows: Rows, kd: int, gamma: float, alpha: float, truncation: int, tol: float, maxiter: int) -> Matrix:
    laplacian = np.eye(len(rows)) - alpha * affinity(rows, kd, gamma)
    result = np.zeros_like(laplacian)
    for i, order in enumerate(ranks(rows)):
        ids = order[:truncation]
        first = np.zeros(len(ids))
        first[0] = 1.0
        result[i, ids] = conjugate_gradients(laplacian[np.ix_(ids, ids)], first, tol, maxiter)
    return result


def eir(queries: Rows, gallery: Rows, kq: int, gamma: float, **others: float) -> Matrix:
    return sources(queries, gallery, kq, gamma) @ eir_rows(gallery, gamma=gamma, **others)


def eir_joint(queries: Rows, gallery: Rows, **others: float) -> Matrix:
    rows = eir_rows(np.concatenate([queries, gallery]), **others)
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return rows[: len(queries)] @ rows[len(queries) :].T


def egt_graph(gallery: Rows, k: int, published: bool) -> list[list[tuple[int, float]]]:
    """Return the edges of every gallery item. Published: reverse edges overwrite each other, and the last one stays."""
    similarity = 1 - squared_distances(gallery, gallery) / 2
    lists = [[int(j) for j in order[1 : k + 1]] for order in ranks(gallery)]
    if published:
        reverse: dict[int, int] = {}
        for i, others in enumerate(lists):
            for j in others:
                reverse[j] = i
        edges = [others + ([reverse[i]] if i in reverse else []) for i, others in enumerate(lists)]
        return [[(j, round(similarity[i, j], 3)) for j in others] for i, others in enumerate(edges)]
    joined = [sorted(j for j in range(len(lists)) if j in lists[i] or i in lists[j]) for i in range(len(lists))]
    return [[(j, similarity[i, j]) for j in others] for i, others in enumerate(joined)]


def egt(queries: Rows, gallery: Rows, k: int, tau: float, p: int, published: bool = False) -> list[list[int]]:
    """Return the items that each walk takes, in order; the heap keeps outdated entries and skips them later."""
    graph = egt_graph(gallery, k, published)
    similarity = 1 - squared_distances(queries, gallery) / 2
    walks = []
    for row in similarity:
        entries = [(int(j), float(row[j])) for j in np.argsort(-row, kind="stable")[:k]]
        if published:
            entries = [(j, round(weight, 3)) for j, weight in entries]
        walks.append(_walk(graph, entries, tau, p))
    return walks


def _walk(graph: list[list[tuple[int, float]]], entries: list[tuple[int, float]], tau: float, p: int) -> list[int]:
    heap: list[tuple[float, int, int]] = []
    best = [-np.inf] * len(graph)
    visited: set[int] = set()
    out: list[int] = []
    pushed = 0
    to_explore = [entries]
    while True:
        for edges in to_explore:
            for u, weight in edges:
                if u not in visited and best[u] < weight:
                    heapq.heappush(heap, (-weight, pushed, u))
                    best[u] = weight
                    pushed += 1
        to_explore = []
        if not heap:
            return out
        while True:
            v = heapq.heappop(heap)[2]
            if v not in out:
                out.append(v)
            if v not in visited:
                to_explore.append(graph[v])
                visited.add(v)
            if not (len(out) < p and heap and -heap[0][0] > tau):
                break
        if len(out) >= p:
            return out
