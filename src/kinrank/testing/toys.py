"""A kind -> queries and gallery with known right answers, small enough for a test of any method."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]
KINDS = ("spread", "clusters", "duplicates", "islands", "moons", "rings", "turntable")


class Toy(NamedTuple):
    """Rows of two sides and the label of each; the right answers of a query are the items of its label.

    queries (q, d) and gallery (n, d) float64, read-only, not of unit length; labels int64.
    """

    queries: Rows
    gallery: Rows
    query_labels: NDArray[np.int64]
    gallery_labels: NDArray[np.int64]


def toy(kind: str, items: int = 80, dimensions: int = 12, seed: int = 0) -> Toy:
    """A set of about `items` gallery rows in `dimensions` dimensions whose right answers are known.

    Kinds, and what must come out:
        spread: overlapping groups in which no two distances from the same item are closer than 5e-6 (less
            from 150 items on), so that rounding changes no order; for what must not depend on
            order, rotation or scale.
        clusters: five tight groups far apart; the search itself is already right.
        duplicates: as clusters, but every row of a group is one of two, repeated.
        islands: two groups orthogonal to each other; no path leads from one to the other.
        moons: two interleaved half circles; nearest rows of the tips belong to the other one.
        rings: two concentric circles; the opposite side is farther away than the other circle.
        turntable: eight circles, like views of eight objects turned around, crossing at random;
            only the chain of views leads to the far side.
    In moons, rings and turntable the search fails where a method that follows neighbours, with lists of about
    5, does not. The same arguments give the same numbers.

    Example:
        >>> toy("rings").gallery.shape
        (80, 12)
    """
    if kind not in KINDS:
        raise ValueError(f"kind={kind!r} is not known; give one of: {', '.join(KINDS)}")
    if items < 10 or dimensions < 4:
        raise ValueError(f"items={items}, dimensions={dimensions}: give at least 10 items in at least 4 dimensions")
    return _made(kind, items, dimensions, seed)


@lru_cache(maxsize=64)
def _made(kind: str, items: int, dimensions: int, seed: int) -> Toy:
    rng = np.random.default_rng(seed)
    if kind == "spread":
        return _spread(items, dimensions, rng)
    rows, labels = (
        _on_curves(kind, items, dimensions, rng) if kind in CURVES else _grouped(kind, items, dimensions, rng)
    )
    return _split(rows, labels, rng)


def _split(rows: Rows, labels: NDArray[np.int64], rng: np.random.Generator) -> Toy:
    """Shuffle, and take the first row of every label as its query."""
    order = rng.permutation(len(rows))
    rows, labels = rows[order], labels[order]
    asks = np.zeros(len(rows), bool)
    asks[np.unique(labels, return_index=True)[1]] = True
    parts = (rows[asks], rows[~asks], labels[asks], labels[~asks])
    for part in parts:
        part.setflags(write=False)
    return Toy(*parts)


def _spread(items: int, dimensions: int, rng: np.random.Generator) -> Toy:
    """Draw until every item sees all others at clearly different distances."""
    for gap in np.repeat(5e-6 * 0.5 ** np.arange(20), 200):  # larger sets have to be content with less
        groups = 6
        labels = np.arange(items + groups) % groups
        centres = rng.normal(size=(groups, dimensions))
        rows = centres[labels] + rng.normal(size=(len(labels), dimensions))
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        seen = np.sort(np.sqrt(np.maximum(0, 2 - 2 * unit @ unit.T)), axis=1)[:, 1:]
        if np.diff(seen, axis=1).min() > gap:
            return _split(rows, labels, rng)
    raise ValueError(f"items={items} are too many for distances that all differ; give fewer")


def _grouped(kind: str, items: int, dimensions: int, rng: np.random.Generator) -> tuple[Rows, NDArray[np.int64]]:
    groups = 2 if kind == "islands" else min(5, dimensions)
    labels = np.arange(items + groups) % groups
    if kind == "islands":  # each in half of the dimensions, of which the other knows nothing
        half = dimensions // 2
        rows = np.zeros((len(labels), dimensions))
        for label, columns in ((0, slice(0, half)), (1, slice(half, None))):
            mine = np.zeros((int((labels == label).sum()), dimensions))
            mine[:, columns] = 1 + 0.2 * rng.normal(size=mine[:, columns].shape)
            rows[labels == label] = mine
        return rows, labels
    centres = _rotation(dimensions, rng)[:groups] * 3
    rows = centres[labels] + 0.1 * rng.normal(size=(len(labels), dimensions))
    if kind == "duplicates":
        copies = (np.arange(len(labels)) // groups) % 2 * groups + labels  # two different rows per label
        rows = rows[copies]
    return rows, labels


CURVES = {"moons": 2, "rings": 2, "turntable": 8}


def _on_curves(kind: str, items: int, dimensions: int, rng: np.random.Generator) -> tuple[Rows, NDArray[np.int64]]:
    """Points along plane curves, lifted by a constant so that directions keep the shape."""
    groups = CURVES[kind]
    labels = np.arange(items + groups) % groups
    place = (np.arange(items + groups) // groups) / (-(-(items + groups) // groups))  # 0 <= along the curve < 1
    if kind == "turntable":
        centres = 0.5 * rng.normal(size=(groups, dimensions))
        axes = np.stack([_rotation(dimensions, rng)[:2] for _ in range(groups)])
        circle = np.stack([np.cos(2 * np.pi * place), np.sin(2 * np.pi * place)], axis=1)
        rows = 1.0 + centres[labels] + np.einsum("na,nad->nd", circle, axes[labels])
        return rows, labels
    if kind == "moons":
        angle = np.pi * place
        x = np.where(labels == 0, np.cos(angle), 1 - np.cos(angle)) - 0.5
        y = np.where(labels == 0, np.sin(angle), 0.5 - np.sin(angle)) - 0.25
    else:
        angle, radius = 2 * np.pi * place, np.array([0.5, 1.2])[labels]
        x, y = radius * np.cos(angle), radius * np.sin(angle)
    flat = np.zeros((len(labels), dimensions))
    flat[:, 0], flat[:, 1], flat[:, 2] = x, y, 2.0
    return (flat + 0.01 * rng.normal(size=flat.shape)) @ _rotation(dimensions, rng), labels


def _rotation(dimensions: int, rng: np.random.Generator) -> Rows:
    """A random orthogonal matrix."""
    rotation: Rows = np.linalg.qr(rng.normal(size=(dimensions, dimensions)))[0]
    return rotation
