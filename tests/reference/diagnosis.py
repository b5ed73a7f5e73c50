"""Statistics of a diagnosis by slow, literal transcriptions of their definitions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def lists(rows: Any, k: int, unit: bool = True) -> tuple[list[list[int]], list[list[float]]]:
    """Return the k nearest others of every item and their distances; ties go to the lower number."""
    rows = np.asarray(rows, np.float64)
    if unit:
        rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    numbers, far = [], []
    for i, row in enumerate(rows):
        pairs = sorted((math.dist(row, other), j) for j, other in enumerate(rows) if j != i)[:k]
        numbers.append([j for _, j in pairs])
        far.append([distance for distance, _ in pairs])
    return numbers, far


def hubness(numbers: list[list[int]]) -> float:
    """Return the skewness of how often an item is among the 10 nearest of others."""
    counts = [sum(item in row[:10] for row in numbers) for item in range(len(numbers))]
    mean = sum(counts) / len(counts)
    second = sum((count - mean) ** 2 for count in counts) / len(counts)
    third = sum((count - mean) ** 3 for count in counts) / len(counts)
    return third / second**1.5 if second else 0.0


def mutual_and_common(numbers: list[list[int]]) -> tuple[float, float]:
    """Return, for the 5 nearest, the share that list the item as well and the share of theirs that the item lists."""
    listed, shared = [], []
    for item, row in enumerate(numbers):
        for other in row[:5]:
            listed.append(item in numbers[other][:5])
            shared.append(len(set(row[:5]) & set(numbers[other][:5])) / len(row[:5]))
    return sum(listed) / len(listed), sum(shared) / len(shared)


def local_dimension(far: list[list[float]]) -> float:
    """Return the estimate of Levina and Bickel over 20 neighbours, the median of the items."""
    found = []
    for row in far:
        near = row[:20]
        logs = [math.log(near[-1] / distance) for distance in near[:-1]]
        found.append(len(logs) / sum(logs))
    return float(np.median(found))


def stability(rows: Any, unit: bool = True) -> float:
    """Return the share of the 10 nearest that two halves of the directions agree on, after the same random rotation."""
    rows = np.asarray(rows, np.float64)
    count = rows.shape[1]
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((count, min(count, 512))))[0]
    turned, half = rows @ turn, min(count, 512) // 2
    first, second = (lists(part, 10, unit and half > 1)[0] for part in (turned[:, :half], turned[:, half : 2 * half]))
    shares = [len(set(a) & set(b)) / len(a) for a, b in zip(first, second, strict=True)]
    return sum(shares) / len(shares)


def steps(far: list[list[float]]) -> list[float]:
    """Return g_k: the mean of k log(d_(k+1) / d_k), the largest hundredth cut, copies separated by a floor."""
    floor = 0.05 * float(np.median([row[min(10, len(row)) - 1] for row in far]))
    found = []
    for k in range(1, len(far[0])):
        values = [k * math.log(max(row[k], floor) / max(row[k - 1], floor)) for row in far]
        top = float(np.quantile(values, 0.99))
        found.append(sum(min(value, top) for value in values) / len(values))
    return found


def drop_and_kin(far: list[list[float]]) -> tuple[float, int]:
    """Return g over the first three neighbours divided by g from the 24th on, and where its running mean falls halfway.

    The running mean is over three values.
    """
    g, most = steps(far), len(far[0])
    start, rest = sum(g[:3]) / 3, g[min(24, most // 2) :]
    tail = sum(rest) / len(rest)
    halfway = math.sqrt(start * tail)
    smooth = [sum(g[place : place + 3]) / 3 for place in range(len(g) - 2)] if most > 8 else g
    kin = next((place for place, value in enumerate(smooth) if value < halfway), most)
    return start / tail, max(kin, 1) if start > tail else most


def nested(values: Matrix, folds: int, seed: int) -> tuple[list[float], list[int]]:
    """Return the value of every query by the candidate that is best on the other folds, and these candidates."""
    counted = [query for query in range(values.shape[1]) if not math.isnan(values[0, query])]
    dealt = np.random.default_rng(seed).permutation(len(counted)) % folds
    out, winners = [math.nan] * values.shape[1], []
    for fold in range(folds):
        best, best_mean = -1, -math.inf
        for candidate in range(len(values)):
            others = [values[candidate, query] for query, place in zip(counted, dealt, strict=True) if place != fold]
            if sum(others) / len(others) > best_mean + 1e-12:
                best, best_mean = candidate, sum(others) / len(others)
        winners.append(best)
        for query, place in zip(counted, dealt, strict=True):
            if place == fold:
                out[query] = float(values[best, query])
    return out, winners
