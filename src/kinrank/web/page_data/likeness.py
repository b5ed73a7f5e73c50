"""How alike items are: thresholds measured on the gallery, the lengths of steps, and near-duplicates among results."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np

from kinrank.chain import Chain
from kinrank.manifold.snapshot import Snapshot
from kinrank.neighbors import pairwise_distances
from kinrank.vector_input import Vectors, sample_evenly
from kinrank.web.page_data.before_after import QUERY_ROW, Comparison

SAMPLED_ITEMS = 256
ALIKE_SHARE = 0.01  # of all pairs of items; these count as alike
COPY_RATIOS = (0.5, 1 / 3)  # of that distance, and of the median distance of all pairs; copies are nearer than both


class Likeness(NamedTuple):
    """Distances in the vector space of a gallery up to which two items are alike, or near-duplicates."""

    alike: float
    copy: float

    @classmethod
    def measure(cls, snapshot: Snapshot) -> Likeness:
        items = snapshot.remembered.items
        sample = snapshot.vectors[items[sample_evenly(len(items), SAMPLED_ITEMS)]]
        distances = pairwise_distances(sample, sample, snapshot.space.unit)[np.triu_indices(len(sample), 1)]
        quantiles = np.quantile(distances, (ALIKE_SHARE, 0.5)) if len(distances) else np.zeros(2)
        return cls(float(quantiles[0]), float((quantiles * COPY_RATIOS).min()))


def measure_steps(comparison: Comparison, chain: Chain) -> list[float]:
    """Return the distance between the two ends of each step of a chain of rows."""
    snapshot, rows = comparison.snapshot, chain.items if chain.reached else ()
    ends = [comparison.query[0] if row == QUERY_ROW else snapshot.vectors[row] for row in rows]
    return [float(np.linalg.norm(start - end)) for start, end in itertools.pairwise(ends)]


def find_copies(vectors: Vectors, farthest: float, unit: bool) -> list[int | None]:
    """Return for each row the first row that it nearly equals, if that one is not a copy itself; None without one."""
    near = pairwise_distances(vectors, vectors, unit) <= farthest
    first: list[int | None] = []
    is_original = np.zeros(len(vectors), np.bool_)
    for row in range(len(vectors)):
        originals = np.flatnonzero(near[row] & is_original)
        is_original[row] = not len(originals)
        first.append(int(originals[0]) if len(originals) else None)
    return first
