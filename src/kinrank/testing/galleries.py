"""Small galleries shaped like real data: clusters, copies, long tails, outliers, few distinct values.

Random noise hides many bugs: every item then has its own distance, and no cluster is so tight that a weight underflows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[Any]
DIMENSIONS = 12


class RealisticGallery(NamedTuple):
    """Read-only rows: queries (q, 12), gallery (n, 12), and (m, 12) rows that a test can add."""

    queries: Rows
    gallery: Rows
    additions: Rows


def realistic_gallery(kind: str) -> RealisticGallery:
    """The gallery of a kind in GALLERY_KINDS; the same rows every time.

    Queries are an item, a copy of an item with small noise, a mean of two items, and a random direction. Additions are
    two further rows of the same kind, a copy of an item, and a random direction.

    Example:
        >>> realistic_gallery("tight clusters").gallery.shape
        (400, 12)
    """
    if kind not in GALLERY_KINDS:
        raise ValueError(f"kind={kind!r} is not known; give one of: {', '.join(GALLERY_KINDS)}")
    return _make(kind)


@cache
def _make(kind: str) -> RealisticGallery:
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


def _clusters(rng: np.random.Generator, sizes: list[int], noise: float) -> Rows:
    centres = rng.normal(size=(len(sizes), DIMENSIONS))
    rows = np.repeat(centres, sizes, axis=0)
    return rows + noise * rng.normal(size=rows.shape)


def _tight_clusters(rng: np.random.Generator) -> Rows:
    """Clusters of about 20, so far apart that weights between them underflow in float32."""
    return _clusters(rng, np.bincount(rng.integers(0, 20, 402), minlength=20).tolist(), 0.05)


def _huge_clusters(rng: np.random.Generator) -> Rows:
    return _clusters(rng, [110, 110, 22], 0.05)


def _long_tail(rng: np.random.Generator) -> Rows:
    """Cluster sizes 90, 45, 30, 22, ..., 1."""
    return _clusters(rng, [max(1, 90 // rank) for rank in range(1, 60)], 0.1)


def _exact_duplicates(rng: np.random.Generator) -> Rows:
    return np.repeat(rng.normal(size=(62, DIMENSIONS)), 3, axis=0)


def _near_duplicates(rng: np.random.Generator) -> Rows:
    return _clusters(rng, [3] * 62, 1e-6)


def _blob_and_outliers(rng: np.random.Generator) -> Rows:
    blob = rng.normal(size=DIMENSIONS) + 1e-3 * rng.normal(size=(160, DIMENSIONS))
    return np.concatenate([blob, 3.0 * rng.normal(size=(30, DIMENSIONS))])


def _low_rank(rng: np.random.Generator) -> Rows:
    return rng.normal(size=(202, 2)) @ rng.normal(size=(2, DIMENSIONS))


def _equal_but_one(rng: np.random.Generator) -> Rows:
    rows = np.repeat(rng.normal(size=(1, DIMENSIONS)), 122, axis=0)
    rows[40] = rng.normal(size=DIMENSIONS)
    return rows


def _integers(rng: np.random.Generator) -> Rows:
    """Ratings from 0 to 2: many equal distances, some equal rows."""
    rows = rng.integers(0, 3, size=(182, DIMENSIONS))
    rows[:, 0] += ~rows.any(axis=1)
    return rows


def _sparse(rng: np.random.Generator) -> Rows:
    """Word counts: one to three of twelve words, so that most pairs are orthogonal."""
    rows = np.zeros((182, DIMENSIONS))
    for row in rows:
        row[rng.choice(DIMENSIONS, rng.integers(1, 4), replace=False)] = rng.integers(1, 9)
    return rows


def _hundreds_of_copies(rng: np.random.Generator) -> Rows:
    """A default picture that occurs 250 times among 60 others."""
    copies = np.repeat(rng.normal(size=(1, DIMENSIONS)), 250, axis=0)
    return np.concatenate([copies, _clusters(rng, [6] * 10, 0.2)])


GALLERY_KINDS: dict[str, Callable[[np.random.Generator], Rows]] = {
    "tight clusters": _tight_clusters,
    "few huge clusters": _huge_clusters,
    "long tail": _long_tail,
    "exact duplicates": _exact_duplicates,
    "near duplicates": _near_duplicates,
    "blob and outliers": _blob_and_outliers,
    "low rank": _low_rank,
    "all equal but one": _equal_but_one,
    "integers": _integers,
    "sparse": _sparse,
    "hundreds of copies": _hundreds_of_copies,
}
