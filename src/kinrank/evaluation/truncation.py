"""Measures that need more items than a ranking lists, and the warning about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinrank.evaluation.hits import Hits
from kinrank.evaluation.measures import MEASURES, Measure

FIRST_POSITIVE_ONLY = ("R", "CMC", "MRR")  # later positives change nothing


@dataclass(frozen=True)
class Truncation:
    """Values that are too low because a ranking stops before they are complete.

    A value is incomplete if the list of its query stops before the cut of the measure and before the end of the
    gallery, and does not have all relevant items (for R@k, CMC@k and MRR@k: has none). MRR without a cut is that of
    the listed items, by convention.

    Attributes:
        measures: names of the incomplete measures.
        depth, shortest: most and fewest items that the ranking lists for one of these queries, without ignored ones.
        needed: number of items that would be enough: the largest cut or the whole gallery; None if its size is unknown.
        unlisted, relevant: number of relevant items that are not listed, and of all, of these queries.
        queries: number of queries with incomplete values.
        alternative: a measure that the ranking does support, such as mAP@5; None if there is none.
    """

    measures: list[str]
    depth: int
    shortest: int
    needed: int | None
    unlisted: int
    relevant: int
    queries: int
    alternative: str | None

    def describe(self, remedy: str = "rank more items") -> str:
        """Return a sentence that says what is missing, and what to do."""
        several = len(self.measures) > 1
        names = f"{', '.join(self.measures[:-1])} and {self.measures[-1]}" if several else self.measures[0]
        listed = " to ".join(map(str, sorted({self.shortest, self.depth})))
        other = "" if self.alternative is None else f", or use {self.alternative}"
        return (
            f"{names} {'are' if several else 'is'} incomplete and may be too low: the ranking lists {listed} items per "
            f"query, but {'they need' if several else 'it needs'} {self.needed or 'all items'}, or all relevant ones; "
            f"{self.unlisted} of {self.relevant} relevant items of {self.queries} queries are not listed and count as "
            f"not found; {remedy}{other}"
        )


def find_truncation(hits: Hits, measures: Sequence[Measure]) -> Truncation | None:
    """Find the measures and queries whose values are too low because the ranking stops early; None without any."""
    size = hits.truth.gallery_size
    available = np.full(len(hits.truth), np.inf) if size is None else size - hits.truth.junk.counts
    found = np.bincount(hits.query, minlength=len(hits.truth))
    short: dict[Measure, Any] = {}
    for measure in measures:
        first_only = measure.name in FIRST_POSITIVE_ONLY
        incomplete = (hits.listed >= 0) & (hits.listed < np.minimum(_count_needed(measure), available))
        incomplete &= (found == 0) & (hits.positives > 0) if first_only else found < hits.positives
        if incomplete.any() and measure != Measure("MRR"):
            short[measure] = incomplete
    if not short:
        return None
    queries = np.logical_or.reduce(list(short.values()))
    shortest, needed = int(hits.listed[queries].min()), max(map(_count_needed, short))
    if size is not None:
        needed = min(needed, int(available[queries].max()))
    cuts = (measure for measure in short if MEASURES[measure.name].cut != "none" and measure.name != "bullseye")
    return Truncation(
        measures=list(map(str, short)),
        depth=int(hits.listed[queries].max()),
        shortest=shortest,
        needed=None if needed == np.inf else int(needed),
        unlisted=int((hits.positives - found)[queries].sum()),
        relevant=int(hits.positives[queries].sum()),
        queries=int(queries.sum()),
        alternative=next((str(Measure(measure.name, shortest)) for measure in cuts if shortest), None),
    )


def _count_needed(measure: Measure) -> float:
    """Return the number of items after which nothing changes the measure; infinity without a cut."""
    own = measure.name == "bullseye"  # the query itself counts as the first
    return np.inf if measure.k is None else measure.k - own
