"""Small data sets for tests of any method: toys with known answers, and galleries that resemble real data.

Random noise hides many bugs: every item has its own distance, and no cluster is so tight that a weight underflows. The
realistic galleries have clusters, copies, long tails, outliers and few distinct values.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import InputError

Rows = NDArray[np.float64]
GalleryRows = NDArray[Any]
DIMENSIONS = 12  # of realistic galleries
TOY_KINDS = ("spread", "clusters", "duplicates", "islands", "moons", "rings", "turntable")
CURVE_COUNTS = {"moons": 2, "rings": 2, "turntable": 8}  # curves of each kind


class Toy(NamedTuple):
    """Queries and gallery with labels. The relevant items of a query are those with its label.

    queries (q, d) and gallery (n, d) are float64, read-only and not of unit length; labels are int64.
    """

    queries: Rows
    gallery: Rows
    query_labels: NDArray[np.int64]
    gallery_labels: NDArray[np.int64]


def toy(kind: str, items: int = 80, *, dimensions: int = 12, seed: int = 0) -> Toy:
    """Return a set of about `items` gallery rows in `dimensions` dimensions with known relevant items.

    Kinds and expected results:
        spread: overlapping groups in which no two distances from the same item are closer than 5e-6 (less
            from 150 items on), so that rounding changes no order; for tests of invariance to
            order, rotation or scale.
        clusters: five tight groups far apart; the search itself is already correct.
        duplicates: as clusters, but every row of a group is one of two, repeated.
        islands: two groups orthogonal to each other; no path connects them.
        moons: two interleaved half circles; the nearest rows of the tips belong to the other one.
        rings: two concentric circles; the opposite side is farther away than the other circle.
        turntable: eight circles, like views of eight objects turned around, crossing at random;
            only the chain of views leads to the far side.
    On moons, rings and turntable the search fails, but a method that follows neighbours, with lists of about 5,
    succeeds. The same arguments give the same numbers.

    Example:
        >>> toy("rings").gallery.shape
        (80, 12)
    """
    if kind not in TOY_KINDS:
        raise InputError(parameter="kind", given=kind, allowed=f"one of: {', '.join(TOY_KINDS)}")
    if items < 10 or dimensions < 4:
        raise InputError(
            f"`items={items}` and `dimensions={dimensions}` are too small",
            remedy="give at least 10 items and 4 dimensions",
        )
    return _draw_toy(kind, items, dimensions, seed)


@lru_cache(maxsize=64)
def _draw_toy(kind: str, items: int, dimensions: int, seed: int) -> Toy:
    rng = np.random.default_rng(seed)
    if kind == "spread":
        return _draw_spread(items, dimensions, rng)
    rows, labels = (
        _draw_curves(kind, items, dimensions, rng)
        if kind in CURVE_COUNTS
        else _draw_groups(kind, items, dimensions, rng)
    )
    return _split_queries(rows, labels, rng)


def _split_queries(rows: Rows, labels: NDArray[np.int64], rng: np.random.Generator) -> Toy:
    """Shuffle, and take the first row of every label as a query."""
    order = rng.permutation(len(rows))
    rows, labels = rows[order], labels[order]
    is_query = np.zeros(len(rows), bool)
    is_query[np.unique(labels, return_index=True)[1]] = True
    parts = (rows[is_query], rows[~is_query], labels[is_query], labels[~is_query])
    for part in parts:
        part.setflags(write=False)
    return Toy(*parts)


def _draw_spread(items: int, dimensions: int, rng: np.random.Generator) -> Toy:
    """Draw until the distances of every item to all others differ clearly."""
    for gap in np.repeat(5e-6 * 0.5 ** np.arange(20), 200):  # larger sets need smaller gaps
        groups = 6
        labels = np.arange(items + groups) % groups
        centres = rng.normal(size=(groups, dimensions))
        rows = centres[labels] + rng.normal(size=(len(labels), dimensions))
        unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        seen = np.sort(np.sqrt(np.maximum(0, 2 - 2 * unit @ unit.T)), axis=1)[:, 1:]
        if np.diff(seen, axis=1).min() > gap:
            return _split_queries(rows, labels, rng)
    raise InputError("is too large for distances that all differ", parameter="items", given=items, remedy="give fewer")


def _draw_groups(kind: str, items: int, dimensions: int, rng: np.random.Generator) -> tuple[Rows, NDArray[np.int64]]:
    groups = 2 if kind == "islands" else min(5, dimensions)
    labels = np.arange(items + groups) % groups
    if kind == "islands":  # each in its own half of the dimensions
        half = dimensions // 2
        rows = np.zeros((len(labels), dimensions))
        for label, columns in ((0, slice(0, half)), (1, slice(half, None))):
            group = np.zeros((int((labels == label).sum()), dimensions))
            group[:, columns] = 1 + 0.2 * rng.normal(size=group[:, columns].shape)
            rows[labels == label] = group
        return rows, labels
    centres = _draw_rotation(dimensions, rng)[:groups] * 3
    rows = centres[labels] + 0.1 * rng.normal(size=(len(labels), dimensions))
    if kind == "duplicates":
        copies = (np.arange(len(labels)) // groups) % 2 * groups + labels  # two different rows per label
        rows = rows[copies]
    return rows, labels


def _draw_curves(kind: str, items: int, dimensions: int, rng: np.random.Generator) -> tuple[Rows, NDArray[np.int64]]:
    """Draw points along plane curves, shifted by a constant so that their directions keep the shape."""
    groups = CURVE_COUNTS[kind]
    labels = np.arange(items + groups) % groups
    place = (np.arange(items + groups) // groups) / (-(-(items + groups) // groups))  # 0 <= along the curve < 1
    if kind == "turntable":
        centres = 0.5 * rng.normal(size=(groups, dimensions))
        axes = np.stack([_draw_rotation(dimensions, rng)[:2] for _ in range(groups)])
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
    return (flat + 0.01 * rng.normal(size=flat.shape)) @ _draw_rotation(dimensions, rng), labels


def _draw_rotation(dimensions: int, rng: np.random.Generator) -> Rows:
    """Draw a random orthogonal matrix."""
    rotation: Rows = np.linalg.qr(rng.normal(size=(dimensions, dimensions)))[0]
    return rotation


class RealisticGallery(NamedTuple):
    """Read-only rows: queries (q, 12), gallery (n, 12), and (m, 12) additions for tests of changes."""

    queries: GalleryRows
    gallery: GalleryRows
    additions: GalleryRows


def realistic_gallery(kind: str) -> RealisticGallery:
    """Return the gallery of a kind in GALLERY_KINDS, always with the same rows.

    Queries are an item, a copy of an item with small noise, a mean of two items, and a random direction. Additions are
    two further rows of the same kind, a copy of an item, and a random direction.

    Example:
        >>> realistic_gallery("tight clusters").gallery.shape
        (400, 12)
    """
    if kind not in GALLERY_KINDS:
        raise InputError(parameter="kind", given=kind, allowed=f"one of: {', '.join(GALLERY_KINDS)}")
    return _draw_gallery(kind)


@cache
def _draw_gallery(kind: str) -> RealisticGallery:
    rng = np.random.default_rng(5)
    rows = GALLERY_KINDS[kind](rng)
    order = rng.permutation(len(rows))
    gallery, more = rows[order[2:]], rows[order[:2]]
    first, second, other = gallery[0], gallery[len(gallery) // 2], rng.normal(size=DIMENSIONS)
    spread = np.abs(gallery).mean()
    noise = 0.01 * spread * rng.normal(size=DIMENSIONS)
    queries = np.stack([first, second + noise, 0.6 * first + 0.4 * second, spread * other])
    additions = np.stack([*more, gallery[3], -spread * other])
    for part in (queries, gallery, additions):
        part.setflags(write=False)
    return RealisticGallery(queries, gallery, additions)


def _clusters(rng: np.random.Generator, sizes: list[int], noise: float) -> GalleryRows:
    centres = rng.normal(size=(len(sizes), DIMENSIONS))
    rows = np.repeat(centres, sizes, axis=0)
    return rows + noise * rng.normal(size=rows.shape)


def _blob_and_outliers(rng: np.random.Generator) -> GalleryRows:
    blob = rng.normal(size=DIMENSIONS) + 1e-3 * rng.normal(size=(160, DIMENSIONS))
    return np.concatenate([blob, 3.0 * rng.normal(size=(30, DIMENSIONS))])


def _equal_but_one(rng: np.random.Generator) -> GalleryRows:
    rows = np.repeat(rng.normal(size=(1, DIMENSIONS)), 122, axis=0)
    rows[40] = rng.normal(size=DIMENSIONS)
    return rows


def _integers(rng: np.random.Generator) -> GalleryRows:
    """Draw ratings from 0 to 2, with many equal distances and some equal rows."""
    rows = rng.integers(0, 3, size=(182, DIMENSIONS))
    rows[:, 0] += ~rows.any(axis=1)
    return rows


def _sparse(rng: np.random.Generator) -> GalleryRows:
    """Draw word counts with one to three of twelve words, so that most pairs are orthogonal."""
    rows = np.zeros((182, DIMENSIONS))
    for row in rows:
        row[rng.choice(DIMENSIONS, rng.integers(1, 4), replace=False)] = rng.integers(1, 9)
    return rows


def _hundreds_of_copies(rng: np.random.Generator) -> GalleryRows:
    """Draw a default image that occurs 250 times among 60 others."""
    copies = np.repeat(rng.normal(size=(1, DIMENSIONS)), 250, axis=0)
    return np.concatenate([copies, _clusters(rng, [6] * 10, 0.2)])


GALLERY_KINDS: dict[str, Callable[[np.random.Generator], GalleryRows]] = {
    # about 20 rows each, so far apart that weights between them underflow in float32
    "tight clusters": lambda rng: _clusters(rng, np.bincount(rng.integers(0, 20, 402), minlength=20).tolist(), 0.05),
    "few huge clusters": lambda rng: _clusters(rng, [110, 110, 22], 0.05),
    "long tail": lambda rng: _clusters(rng, [max(1, 90 // rank) for rank in range(1, 60)], 0.1),  # 90, 45, 30, ..., 1
    "exact duplicates": lambda rng: np.repeat(rng.normal(size=(62, DIMENSIONS)), 3, axis=0),
    "near duplicates": lambda rng: _clusters(rng, [3] * 62, 1e-6),
    "blob and outliers": _blob_and_outliers,
    "low rank": lambda rng: rng.normal(size=(202, 2)) @ rng.normal(size=(2, DIMENSIONS)),
    "all equal but one": _equal_but_one,
    "integers": _integers,
    "sparse": _sparse,
    "hundreds of copies": _hundreds_of_copies,
}
