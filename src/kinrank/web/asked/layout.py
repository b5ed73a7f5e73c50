"""How far apart things are, as two matrices -> two layouts in the plane in which they move as little as needed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ROUNDS = 60  # of stress minimisation
WEIGHT = 20.0  # of pairs with the first one, the query: how far others are from it is what people look at
EDGE = 0.04  # of the unit square is left free on all sides


def ranks_within(distances: Floats) -> Floats:
    """(m, m) how many others are nearer, along each row, + 1; 0 on the diagonal. Equal distances, equal ranks.

    Distances of one row mean nothing in another one; ranks do.
    """
    rows = np.array(distances, np.float64)
    np.fill_diagonal(rows, -np.inf)
    return np.asarray((rows[:, None, :] < rows[:, :, None]).sum(axis=2), np.float64)


def mutual(ranks: Floats) -> Floats:
    """(m, m) how far two are apart, from 0 to 1: the worse of the two ranks that they have for each other."""
    return np.asarray(np.maximum(ranks, ranks.T) / max(1, len(ranks) - 1))


def laid_out(before: Floats, after: Floats) -> tuple[Floats, Floats]:
    """Two layouts (m, 2) within the unit square, of two matrices (m, m) of how far the same things are apart.

    Each minimises stress, the squared differences between wanted distances and those in the plane; those of the first
    thing count more. The second layout is turned and mirrored onto the first, so that what moves is what changed.
    """
    first, second = _of_one_size(_flat(before)), _of_one_size(_flat(after))
    left, _, right = np.linalg.svd(second.T @ first)
    both = np.concatenate([first, second @ (left @ right)])
    low, high = both.min(axis=0, initial=0.0), both.max(axis=0, initial=0.0)
    room = (1.0 - 2.0 * EDGE) / max(float((high - low).max()), 1e-12)
    inside = np.clip((both - (low + high) / 2.0) * room + 0.5, EDGE, 1.0 - EDGE)
    return inside[: len(first)], inside[len(first) :]


def _flat(apart: Floats) -> Floats:
    """(m, 2) coordinates by weighted SMACOF, started from classical scaling."""
    count = len(apart)
    if count < 2:
        return np.zeros((count, 2))
    places = _classical(apart)
    weights = np.ones_like(apart)
    weights[0, :], weights[:, 0] = WEIGHT, WEIGHT
    np.fill_diagonal(weights, 0.0)
    inverse = np.linalg.pinv(np.diag(weights.sum(axis=1)) - weights)
    for _ in range(ROUNDS):
        gaps = np.sqrt(np.square(places[:, None] - places[None]).sum(axis=2))
        pull = -np.divide(weights * apart, gaps, out=np.zeros_like(gaps), where=gaps > 1e-9)
        pull[np.arange(count), np.arange(count)] = -pull.sum(axis=1)
        places = inverse @ (pull @ places)
    return places


def _classical(apart: Floats) -> Floats:
    """The two largest axes of the centred squared distances; signs are fixed, so that a layout is always the same."""
    squared = np.square(apart)
    centred = squared - squared.mean(axis=0) - squared.mean(axis=1, keepdims=True) + squared.mean()
    values, axes = np.linalg.eigh(-0.5 * (centred + centred.T) / 2.0)
    values, axes = values[::-1][:2], axes[:, ::-1][:, :2]
    axes = axes * np.where(axes[np.abs(axes).argmax(axis=0), np.arange(2)] < 0, -1.0, 1.0)
    return np.asarray(axes * np.sqrt(np.maximum(values, 0.0)))


def _of_one_size(places: Floats) -> Floats:
    """Around their mean, at a root mean square distance of 1 from it, unless all are in one place."""
    centred = places - places.mean(axis=0, keepdims=True) if len(places) else places
    size = float(np.sqrt(np.square(centred).sum(axis=1).mean())) if len(places) else 0.0
    return centred / size if size > 1e-12 else np.zeros_like(centred)
