"""Losses of the learned methods, one item at a time in float64, as the papers state them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def dot(a: Floats, b: Floats) -> float:
    return math.fsum(float(x) * float(y) for x, y in zip(a, b, strict=True))


def unit(row: Floats) -> Floats:
    return np.asarray(row / math.sqrt(dot(row, row)))


def cosine(a: Floats, b: Floats) -> float:
    return dot(unit(a), unit(b))


def csa_contrast(states: Floats, signs: Sequence[int], temperature: float = 2.0) -> float:
    """Return -log(relevant / all) of one list: states of the query and its items; the query is in both sums."""
    relevant = everything = 0.0
    for state, sign in zip(states, [1, *signs], strict=True):
        if sign >= 0:
            share = math.exp(cosine(states[0], state) / temperature)
            everything += share
            relevant += share if sign == 1 else 0.0
    return -math.log(relevant / everything)


def csa_apart(affinities: Floats, back: Floats) -> float:
    """Return the mean length of l2(a) - l2(b), rows of one list; squares from 1e-4 to 1e4."""
    lengths = []
    for seen, made in zip(affinities, back, strict=True):
        difference = unit(seen) - unit(made)
        lengths.append(math.sqrt(min(max(dot(difference, difference), 1e-4), 1e4)))
    return math.fsum(lengths) / len(lengths)


def ssr_loss(scores: Sequence[float], signs: Sequence[int], scale: float) -> float:
    """Return the mean over relevant items of -log(e^(c s+) / (e^(c s+) + the sum over irrelevant ones))."""
    others = math.fsum(math.exp(scale * score) for score, sign in zip(scores, signs, strict=True) if sign == 0)
    each = [
        -math.log(math.exp(scale * score) / (math.exp(scale * score) + others))
        for score, sign in zip(scores, signs, strict=True)
        if sign == 1
    ]
    return math.fsum(each) / len(each)


def lattqe_contrast(
    query: Floats, items: Floats, signs: Sequence[int], margin: float = 1.0, negatives: int = 5
) -> float:
    """Return the mean d^2 over relevant items plus the sum of max(0, margin - d)^2 over the first irrelevant ones."""
    pull, push = [], []
    for item, sign in zip(items, signs, strict=True):
        distance = math.sqrt(dot(query - item, query - item))
        if sign == 1:
            pull.append(distance**2)
        elif sign == 0 and len(push) < negatives:
            push.append(max(0.0, margin - distance) ** 2)
    return math.fsum(pull) / len(pull) + math.fsum(push)


def average_precision(signs: Sequence[int]) -> float:
    """Return the mean precision at the relevant items, nearest first; unknown ones are left out."""
    known = [sign for sign in signs if sign >= 0]
    at = [known[: place + 1].count(1) / (place + 1) for place, sign in enumerate(known) if sign == 1]
    return math.fsum(at) / len(at)
