"""Query expansion written out: loops, float64, dense matrices. Deliberately slow, for comparison."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize


def normalized(row: np.ndarray) -> np.ndarray:
    return row / np.sqrt((row * row).sum())


def ranking(query: np.ndarray, gallery: np.ndarray, own: int | None) -> list[int]:
    """Return all gallery items by distance, equal ones by number, without the query's own."""
    gaps = [np.sqrt(((query - item) ** 2).sum()) for item in gallery]
    order = sorted(range(len(gallery)), key=lambda number: (round(gaps[number], 6), number))
    return [number for number in order if number != own]


def similarity(left: np.ndarray, right: np.ndarray) -> float:
    """Return 1 - d^2 / 2: the cosine of unit rows, and its replacement for rows of any length."""
    return 1.0 - float(((left - right) ** 2).sum()) / 2.0


def length(row: np.ndarray) -> float:
    return float(np.sqrt((row * row).sum()))


def mixture(
    query: np.ndarray, gallery: np.ndarray, own: int | None, k: int, kind: str, **settings: float
) -> np.ndarray:
    """Return the expanded query of each method, from its equation; its length is the mean length of the summands."""
    order = ranking(query, gallery, own)
    total = query.copy()
    lengths, weights = length(query), 1.0
    for i, number in enumerate(order[:k], start=1):
        item = gallery[number]
        if kind == "average":
            weight = 1.0
        elif kind == "decay":
            weight = (k + 1 - i) / (k + 1)
        elif kind == "alpha":
            weight = max(similarity(query, item), 0.0) ** settings["alpha"]
        else:
            weight = 1.0
        lengths, weights = lengths + weight * length(item), weights + weight
        total = total + weight * item if kind != "discriminative" else total
    if kind != "discriminative":
        return normalized(total) * lengths / weights
    negatives = min(int(settings["negatives"]), max(len(order) - k, 0), len(order) // 2)
    if negatives == 0:
        return mixture(query, gallery, own, k, "average")
    right = [query] + [gallery[number] for number in order[:k]]
    wrong = [gallery[number] for number in order[len(order) - negatives :]]
    return separate(np.array(right), np.array(wrong)) * lengths / weights


def separate(right: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """Solve the dual of a hard-margin linear support vector machine with a general solver; return the unit normal."""
    points = np.concatenate([right, wrong])
    signs = np.concatenate([np.ones(len(right)), -np.ones(len(wrong))])
    signed = points * signs[:, None]
    hessian = signed @ signed.T
    answer = minimize(
        lambda a: 0.5 * a @ hessian @ a - a.sum(),
        np.full(len(points), 1.0) / np.where(signs > 0, len(right), len(wrong)),
        jac=lambda a: hessian @ a - 1.0,
        bounds=[(0.0, None)] * len(points),
        constraints={"type": "eq", "fun": lambda a: signs @ a, "jac": lambda a: signs},
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 2000},
    )
    return normalized(answer.x @ signed)


def expansion_distances(
    queries: np.ndarray | None,
    gallery: np.ndarray,
    kind: str,
    k: int,
    kdba: int = 0,
    negatives_dba: int = 20,
    **settings: float,
) -> np.ndarray:
    """Return -q'.x' of unit rows, |q' - x'|^2 / 2 - 1 of any; q' from the original gallery.

    Without queries the items are the queries.
    """
    gallery = gallery.astype(np.float64)
    asked = gallery if queries is None else queries.astype(np.float64)
    expanded = [
        mixture(row, gallery, number if queries is None else None, k, kind, **settings)
        for number, row in enumerate(asked)
    ]
    answers = gallery
    if kdba:
        settings = {**settings, "negatives": negatives_dba}
        answers = np.array(
            [mixture(row, gallery, number, kdba - 1, kind, **settings) for number, row in enumerate(gallery)]
        )
    return np.array([[-similarity(query, answer) for answer in answers] for query in expanded])


def super_global_order(
    query: np.ndarray, gallery: np.ndarray, own: int | None, top: int, k: int, beta: float
) -> tuple[list[int], list[float], list[int]]:
    """Return the top items, their final scores, and the other items in order."""
    query, gallery = query.astype(np.float64), gallery.astype(np.float64)
    order = ranking(query, gallery, own)
    numbers, rest = order[:top], order[top:]
    refined = []
    for place, number in enumerate(numbers):
        similar = [float(gallery[number] @ gallery[other]) for other in numbers]
        near = sorted((p for p in range(len(numbers)) if p != place), key=lambda p: (-round(similar[p], 6), p))
        weights, total = 1.0, gallery[number].copy()
        for p in near[:k]:
            weights += beta * similar[p]
            total += beta * similar[p] * gallery[numbers[p]]
        refined.append(total / weights)
    first = [float(query @ row) for row in refined]
    best = sorted(range(len(numbers)), key=lambda p: (-round(first[p], 9), p))[: k + 1]
    maximum = np.max([refined[p] for p in best], axis=0)
    return numbers, [(first[p] + float(maximum @ refined[p])) / 2 for p in range(len(numbers))], rest
