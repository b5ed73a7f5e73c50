"""Expansion of candidates to the letter: lists fused by reciprocal rank, one item at a time."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray


def grown(query: NDArray[np.float64], gallery: NDArray[np.float64], count: int, rounds: int) -> set[int]:
    """Return the items that `rerank(query, gallery, candidates=count, expand=rounds)` puts in its graph; unit rows."""

    def nearest(row: NDArray[np.float64], k: int) -> list[int]:
        gaps = [(float(((row - other) ** 2).sum()), item) for item, other in enumerate(gallery)]
        return [item for _, item in sorted(gaps)[:k]]

    near = nearest(query, count)
    members = near[: math.ceil(count / 2)]
    first = len(members)
    asked: set[int] = set()
    sums: dict[int, float] = {}
    for turn in range(1, rounds + 1):
        by_distance = sorted(members, key=lambda item: float(((query - gallery[item]) ** 2).sum()))
        best = [item for item in by_distance if item not in asked][:50]
        asked |= set(best)
        for member in best:
            for place, item in enumerate(nearest(gallery[member], 101)):
                sums[item] = sums.get(item, 0.0) + 1.0 / (60 + place)
        others = sorted((item for item in sums if item not in members), key=lambda item: (-sums[item], item))
        members += others[: max(0, first + round((count - first) * turn / rounds) - len(members))]
    members += [item for item in near if item not in members][: count - len(members)]
    return set(members)
