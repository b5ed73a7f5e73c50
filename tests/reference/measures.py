"""Measures of rankings, one query at a time, to the letter of their definitions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence


def ranks_without_junk(row: Sequence[int], positives: Sequence[int], junk: Sequence[int]) -> list[int]:
    """Return 0-based ranks of the positives after junk and padding are removed from the list."""
    kept = [item for item in row if item >= 0 and item not in set(junk)]
    return [rank for rank, item in enumerate(kept) if item in set(positives)]


def trapezoidal_ap(ranks: Sequence[int], positives: int) -> float:
    """The revisited protocol: recall grows by 1 / positives at each hit; the area under it is a trapezium."""
    area = 0.0
    for found, rank in enumerate(ranks):
        precision_before = 1.0 if rank == 0 else found / rank
        precision_after = (found + 1) / (rank + 1)
        area += (precision_before + precision_after) / 2 * (1 / positives)
    return area


def rectangle_ap(ranks: Sequence[int], positives: int) -> float:
    return sum((found + 1) / (rank + 1) for found, rank in enumerate(ranks)) / positives


def revisited_precision(ranks: Sequence[int], positives: int, k: int) -> float:
    """Return the precision at min(k, rank of the last positive), ranks from 1; a missing positive is beyond k."""
    last = max(ranks) + 1 if len(ranks) == positives else math.inf
    cut = min(last, k)
    return sum(rank + 1 <= cut for rank in ranks) / cut


def ndcg(row: Sequence[int], grades: Mapping[int, float], k: int) -> float:
    gained = sum(grades.get(item, 0.0) / math.log2(rank + 2) for rank, item in enumerate(row[:k]))
    best = sorted(grades.values(), reverse=True)[:k]
    return gained / sum(grade / math.log2(rank + 2) for rank, grade in enumerate(best))
