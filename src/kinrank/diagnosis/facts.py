"""Vectors -> Facts: what their neighbourhoods look like, measured without labels."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.features import Vectors, evenly
from kinrank.items import Items
from kinrank.neighbors import Neighbors, nearest

LIMIT = 20_000  # items that are looked at, evenly taken; all of them up to here
WIDE = 60  # neighbours that are looked at
NEAR, TAIL = 3, 24  # the first neighbours, and those from which on a neighbourhood goes on as it does
TEN = 10
ASKED = 1_000  # items whose neighbours are searched in half of the directions
FLOOR = 0.05  # of the median 10th distance: nearer ones count as copies of the same thing


@dataclass(frozen=True)
class Facts:
    """What is measured.

    Attributes:
        items, dimensions: the size of the gallery.
        looked_at: how many of the items were looked at.
        contrast: log(d_60 / d_1), of median distances. Small: distances are concentrated (deep features, 0.1 to 0.4);
            large: they are spread (pixels, 0.7 to 1.4).
        local_dimension: in how many directions a neighbourhood extends, by maximum likelihood over 20 neighbours.
        hubness: skewness of how often items are among the 10 nearest of others. Above 2, a few items are everywhere.
        mutual: share of an item's 5 nearest that list it among theirs.
        common: share of its 5 nearest that an item and each of these have in common.
        stability: share of the 10 nearest that two halves of the directions agree on.
        drop: how much faster distances grow over the first neighbours than farther out. Near 1: a neighbourhood goes
            on as it begins. Above 2.5: an item has few kin, and everything else is far.
        kin: after how many neighbours that growth falls off; a guess at how many kin an item has, where drop is large.
        query_gap: how much farther the 10th nearest item of a query is than that of an item; None without queries.
            Above 1.05, queries are not like the items: questions and passages, for example.
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
        """mutual - common: how much data are like curves, along which chains lead far; see stages/trust.py."""
        return self.mutual - self.common

    @property
    def agreement(self) -> float:
        """The stability beyond what chance gives, three standard errors included: 0 for noise, 1 at most."""
        others = max(self.looked_at - 1, 1)
        chance = min(TEN, others) / others
        error = (chance * (1.0 - chance) / (TEN * min(self.looked_at, ASKED))) ** 0.5
        return 1.0 if chance == 1.0 else max(0.0, self.stability - chance - 3.0 * error) / (1.0 - chance)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers for JSON."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def facts_of(gallery: Vectors, queries: Vectors | None = None, unit_rows: bool = True) -> Facts:
    """The facts of rows that are ready to be compared (`unit_rows`: of length one); three of them at least."""
    rows = sampled(gallery)
    lists = Items.everyone(rows, unit_rows).neighbors(WIDE + 1)
    others = lists.distances[:, 1:].astype(np.float64)
    trust = stages.trust.trust_of(lists.indices)
    drop, kin = growth(others)
    gap = None
    if queries is not None and len(queries):
        tenth = min(TEN, lists.k - 1)
        found = nearest(sampled(queries, ASKED), rows, tenth, unit=unit_rows).distances[:, -1]
        gap = float(np.median(found) / max(float(np.median(others[:, tenth - 1])), 1e-12))
    return Facts(
        items=len(gallery),
        dimensions=gallery.shape[1],
        looked_at=len(rows),
        contrast=stages.pipeline.contrast(lists),
        local_dimension=local_dimension(others),
        hubness=hubness(lists),
        mutual=trust.mutual,
        common=trust.common,
        stability=stability(rows, unit_rows),
        drop=drop,
        kin=kin,
        query_gap=gap,
    )


def sampled(rows: Vectors, most: int = LIMIT) -> Vectors:
    """At most so many rows, evenly taken."""
    return rows if len(rows) <= most else rows[evenly(len(rows), most)]


def local_dimension(distances: NDArray[np.float64]) -> float:
    """The median over the items of (mean of log(d_20 / d_j), j < 20)^-1: Levina and Bickel's estimate."""
    last = min(20, distances.shape[1])
    if last < 2:
        return 0.0
    near = np.maximum(distances[:, :last], 1e-12)
    mean = np.log(near[:, -1:] / near[:, :-1]).mean(axis=1)
    copies = distances[:, last - 1] == 0.0  # 20 of the same extend in no direction
    return float(np.median(np.where(copies, 0.0, 1.0 / np.maximum(mean, 1e-6))))


def hubness(lists: Neighbors) -> float:
    """Skewness of how often each item is among the 10 nearest of the others; 0 where all are as often."""
    counts = np.bincount(lists.indices[:, 1 : TEN + 1].ravel(), minlength=len(lists.indices)).astype(np.float64)
    spread = counts.std()
    return 0.0 if spread == 0 else float(((counts - counts.mean()) ** 3).mean() / spread**3)


def stability(rows: Vectors, unit_rows: bool = True) -> float:
    """Share of the 10 nearest of an item that two halves of the directions, randomly turned, agree on.

    `unit_rows`: halves are brought to length one, too, unless each is a single direction, where only signs were left.
    """
    some, count = evenly(len(rows), ASKED), rows.shape[1]
    if count < 2 or len(rows) < 3:
        return 1.0
    generator = np.random.default_rng(0)
    turned = rows @ np.linalg.qr(generator.standard_normal((count, min(count, 512))))[0].astype(np.float32)
    half = turned.shape[1] // 2
    unit = unit_rows and half > 1
    k = min(TEN, len(rows) - 1)
    found = []
    for part in (turned[:, :half], turned[:, half : 2 * half]):
        lengths = np.maximum(np.linalg.norm(part, axis=1, keepdims=True), 1e-12) if unit else 1.0
        part = np.ascontiguousarray(part / lengths, np.float32)
        found.append(nearest(part[some], part, k, own=some, self_first=False, unit=unit).indices)
    same = (found[0][:, :, None] == found[1][:, None, :]).any(axis=2)
    return float(same.mean())


def growth(distances: NDArray[np.float64]) -> tuple[float, int]:
    """(drop, kin) of sorted distances (n, k) to others.

    g_k = mean over the items of k log(d_(k+1) / d_k) is the same for all k where items lie evenly in some number of
    directions: one over their number. An item with few kin, far from everything else, has large g for small k.
    """
    most = distances.shape[1]
    if most < 6:
        return 1.0, most
    floor = FLOOR * float(np.median(distances[:, min(TEN, most) - 1]))
    if floor == 0.0:
        return 1.0, most
    steps = np.log(np.maximum(distances[:, 1:], floor) / np.maximum(distances[:, :-1], floor)) * np.arange(1, most)
    steps = np.minimum(steps, np.quantile(steps, 0.99, axis=0)).mean(axis=0)  # one outlier is not a neighbourhood
    tail = float(steps[min(TAIL, most // 2) :].mean())
    start = float(steps[:NEAR].mean())
    if tail <= 0.0 or start <= 0.0:
        return 1.0, most
    halfway = np.sqrt(start * tail)
    smooth = np.convolve(steps, np.full(3, 1 / 3), "valid") if most > 8 else steps
    below = np.flatnonzero(smooth < halfway)
    kin = max(int(below[0]), 1) if start > tail and len(below) else most  # the last step before is to no kin
    return start / tail, kin
