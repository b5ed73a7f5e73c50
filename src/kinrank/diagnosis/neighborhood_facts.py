"""Facts about the neighbourhoods of vectors, measured without labels."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.neighbors import Neighbors, find_nearest
from kinrank.problem import Items
from kinrank.vector_input import Vectors, sample_evenly

MAX_ITEMS = 20_000  # items to measure; larger galleries are sampled evenly
NEIGHBORS = 60  # neighbours of each item
FIRST_NEIGHBORS, TAIL_START = 3, 24  # growth of the distances is measured over the first ones and from this one on
TEN = 10
MAX_STABILITY_QUERIES = 1_000  # items whose neighbours are searched in half of the directions
COPY_SHARE = 0.05  # nearer than this share of the median 10th distance, items count as copies


@dataclass(frozen=True)
class Facts:
    """Measurements of the neighbourhoods of a gallery.

    Attributes:
        items, dimensions: size of the gallery.
        looked_at: number of items that were measured.
        contrast: log(d_60 / d_1) of the median distances. Small: distances are concentrated (deep features, 0.1 to
            0.4); large: they are spread (pixels, 0.7 to 1.4).
        local_dimension: number of directions in which a neighbourhood extends, by maximum likelihood over 20
            neighbours.
        hubness: skewness of how often items are among the 10 nearest of others. Above 2, a few items are neighbours of
            very many.
        mutual: share of an item's 5 nearest that list it among theirs.
        common: share of its 5 nearest that an item and each of these have in common.
        stability: share of the 10 nearest that two halves of the directions agree on.
        drop: how much faster distances grow over the first neighbours than farther out. Near 1: neighbourhoods are
            even. Above 2.5: an item has few similar ones, and all others are far away.
        kin: number of neighbours after which that growth slows down; an estimate of the number of similar items if
            drop is large.
        query_gap: distance of a query to its 10th nearest item, relative to that of an item; None without queries.
            Above 1.05, queries differ in kind from items, such as questions and passages.
    """

    items: int
    dimensions: int
    looked_at: int
    contrast: float
    local_dimension: float
    hubness: float
    mutual: float
    common: float
    stability: float
    drop: float
    kin: int
    query_gap: float | None = None

    @property
    def thin(self) -> float:
        """mutual - common: how much the data resemble curves, where chains reach far; see stages/pipeline.py."""
        return self.mutual - self.common

    @property
    def agreement(self) -> float:
        """Stability beyond chance plus three standard errors: 0 for noise, at most 1."""
        others = max(self.looked_at - 1, 1)
        chance = min(TEN, others) / others
        error = (chance * (1.0 - chance) / (TEN * min(self.looked_at, MAX_STABILITY_QUERIES))) ** 0.5
        return 1.0 if chance == 1.0 else max(0.0, self.stability - chance - 3.0 * error) / (1.0 - chance)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers for JSON."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def measure_facts(gallery: Vectors, queries: Vectors | None = None, unit_rows: bool = True) -> Facts:
    """Measure the facts of at least three comparable rows (`unit_rows`: of length one)."""
    rows = sample_rows(gallery)
    lists = Items.from_gallery(rows, unit_rows).neighbors(NEIGHBORS + 1)
    others = lists.distances[:, 1:].astype(np.float64)
    trust = stages.pipeline.measure_trust(lists.indices)
    drop, kin = measure_growth(others)
    gap = None
    if queries is not None and len(queries):
        tenth = min(TEN, lists.k - 1)
        tenths = find_nearest(sample_rows(queries, MAX_STABILITY_QUERIES), rows, tenth, unit=unit_rows).distances[:, -1]
        gap = float(np.median(tenths) / max(float(np.median(others[:, tenth - 1])), 1e-12))
    return Facts(
        items=len(gallery),
        dimensions=gallery.shape[1],
        looked_at=len(rows),
        contrast=stages.pipeline.distance_contrast(lists),
        local_dimension=local_dimension(others),
        hubness=hubness(lists),
        mutual=trust.mutual,
        common=trust.common,
        stability=stability(rows, unit_rows),
        drop=drop,
        kin=kin,
        query_gap=gap,
    )


def sample_rows(rows: Vectors, most: int = MAX_ITEMS) -> Vectors:
    """Return at most `most` rows, evenly sampled."""
    return rows if len(rows) <= most else rows[sample_evenly(len(rows), most)]


def local_dimension(distances: NDArray[np.float64]) -> float:
    """Return the median over the items of (mean of log(d_20 / d_j), j < 20)^-1: the estimate of Levina and Bickel."""
    last = min(20, distances.shape[1])
    if last < 2:
        return 0.0
    near = np.maximum(distances[:, :last], 1e-12)
    mean = np.log(near[:, -1:] / near[:, :-1]).mean(axis=1)
    copies = distances[:, last - 1] == 0.0  # copies extend in no direction
    return float(np.median(np.where(copies, 0.0, 1.0 / np.maximum(mean, 1e-6))))


def hubness(lists: Neighbors) -> float:
    """Return the skewness of how often items are among the 10 nearest of others; 0 if all are equally often."""
    counts = np.bincount(lists.indices[:, 1 : TEN + 1].ravel(), minlength=len(lists.indices)).astype(np.float64)
    spread = counts.std()
    return 0.0 if spread == 0 else float(((counts - counts.mean()) ** 3).mean() / spread**3)


def stability(rows: Vectors, unit_rows: bool = True) -> float:
    """Return the share of the 10 nearest of an item that two halves of randomly rotated directions agree on.

    `unit_rows`: halves are scaled to length one, too, unless each is a single direction, of which only the sign would
    remain.
    """
    queries, count = sample_evenly(len(rows), MAX_STABILITY_QUERIES), rows.shape[1]
    if count < 2 or len(rows) < 3:
        return 1.0
    generator = np.random.default_rng(0)
    turned = rows @ np.linalg.qr(generator.standard_normal((count, min(count, 512))))[0].astype(np.float32)
    half = turned.shape[1] // 2
    unit = unit_rows and half > 1
    k = min(TEN, len(rows) - 1)
    lists = []
    for part in (turned[:, :half], turned[:, half : 2 * half]):
        lengths = np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-12) if unit else 1.0
        part = np.ascontiguousarray(part / lengths, np.float32)
        lists.append(find_nearest(part[queries], part, k, own=queries, self_first=False, unit=unit).indices)
    same = (lists[0][:, :, None] == lists[1][:, None, :]).any(axis=2)
    return float(same.mean())


def measure_growth(distances: NDArray[np.float64]) -> tuple[float, int]:
    """Return (drop, kin) of sorted distances (n, k) to other items.

    g_k = mean over the items of k log(d_(k+1) / d_k) is constant, one over the dimension, if items are evenly
    distributed. An item with few similar ones, far from all others, has large g for small k.
    """
    most = distances.shape[1]
    if most < 6:
        return 1.0, most
    floor = COPY_SHARE * float(np.median(distances[:, min(TEN, most) - 1]))
    if floor == 0.0:
        return 1.0, most
    steps = np.log(np.maximum(distances[:, 1:], floor) / np.maximum(distances[:, :-1], floor)) * np.arange(1, most)
    steps = np.minimum(steps, np.quantile(steps, 0.99, axis=0)).mean(axis=0)  # limit the influence of outliers
    tail = float(steps[min(TAIL_START, most // 2) :].mean())
    start = float(steps[:FIRST_NEIGHBORS].mean())
    if tail <= 0.0 or start <= 0.0:
        return 1.0, most
    halfway = np.sqrt(start * tail)
    smooth = np.convolve(steps, np.full(3, 1 / 3), "valid") if most > 8 else steps
    below = np.flatnonzero(smooth < halfway)
    kin = max(int(below[0]), 1) if start > tail and len(below) else most  # the step before leads to a dissimilar item
    return start / tail, kin
