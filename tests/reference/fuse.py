"""Reciprocal rank fusion, one item at a time, as the paper states it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any


def fused(lists: Sequence[Sequence[Any]], k: float, weights: Sequence[float]) -> list[tuple[Any, float]]:
    """Return the items of one query with their scores, best first; equal scores by id."""
    scores = {}
    for item in {item for listed in lists for item in listed}:
        gains = [
            weight / (k + listed.index(item) + 1)
            for listed, weight in zip(lists, weights, strict=True)
            if item in listed
        ]
        scores[item] = math.fsum(gains)
    return sorted(scores.items(), key=lambda entry: (-entry[1], entry[0]))
