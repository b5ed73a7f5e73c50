"""Measures of rankings: one number per query from its hits. They parse from text such as `nDCG@10`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import InputError
from kinrank.evaluation.hits import Hits, Values


@dataclass(frozen=True)
class MeasureKind:
    """Family of measures: its function of the hits and the cut k, whether it takes a cut, and its meaning."""

    function: Callable[[Hits, int], Values]
    cut: str  # "needed", "possible" or "none"
    meaning: str


@dataclass(frozen=True)
class Measure:
    """Measure with an optional cut. `Measure.parse("R@1")` prints as `R@1`; parsing ignores case."""

    name: str
    k: int | None = None

    @classmethod
    def parse(cls, text: str) -> Measure:
        match = re.fullmatch(r"\s*([A-Za-z]+)(?:@([1-9]\d{0,17}))?\s*", text) if isinstance(text, str) else None
        name = _NAMES.get(match[1].lower()) if match else None
        if match and name:
            k = int(match[2]) if match[2] else None
            if MEASURES[name].cut in ("possible", "none" if k is None else "needed"):
                return cls(name, k)
        raise InputError(
            f"measure {text!r} is unknown", remedy=f"give one of: {', '.join(_list_spellings())} with k a number >= 1"
        )

    def __str__(self) -> str:
        return self.name if self.k is None else f"{self.name}@{self.k}"

    def __call__(self, hits: Hits) -> Values:
        """Return (queries,) values between 0 and 1; NaN for queries without positives, which are left out."""
        values = MEASURES[self.name].function(hits, 2**62 if self.k is None else self.k)
        return np.where(hits.positives > 0, values, np.nan)


def _average_precision(hits: Hits, k: int) -> Values:
    """Sum the precision at each hit of the first k, and divide it by the number of all positives.

    The cut is that of map_cut_k in trec_eval: positives that do not fit into the first k count as not found, so a query
    with more than k of them stays below 1. Junk takes no rank, so k counts the remaining items. With j positives and r
    items before a hit, rectangle takes (j + 1) / (r + 1), the precision just after it; trapezoidal, as published with
    the revisited benchmarks, takes the mean of that and j / r (1 at the first rank).
    """
    after = (hits.before + 1) / (hits.rank + 1)
    if hits.truth.average_precision == "trapezoidal":
        ahead = np.where(hits.rank > 0, hits.before / np.maximum(hits.rank, 1), 1.0)
        after = (ahead + after) / 2
    return hits.total(np.where(hits.rank < k, after, 0.0)) / _count_positives(hits)


def _hit(hits: Hits, k: int) -> Values:
    return (hits.total(hits.rank < k) > 0).astype(np.float64)


def _recall(hits: Hits, k: int) -> Values:
    return hits.total(hits.rank < k) / _count_positives(hits)


def _precision(hits: Hits, k: int) -> Values:
    return hits.total(hits.rank < k) / k


def _revisited_precision(hits: Hits, k: int) -> Values:
    """Return the precision at min(k, rank of the last positive). A positive that was not found ranks after k."""
    complete, last = _last_positive(hits)
    cut = np.where(complete, np.clip(last, 1, k), k)
    return hits.total(hits.rank < cut[hits.query]) / cut


def _ndcg(hits: Hits, k: int) -> Values:
    """Return the sum of grade / log2(rank + 1), ranks from 1, divided by that of the best order, as trec_eval."""
    truth = hits.truth
    gains = np.where(hits.rank < k, hits.grade / np.log2(hits.rank + 2.0), 0.0)
    owners = truth.positives.owners
    grades = np.ones(len(owners)) if truth.grades is None else truth.grades
    best = np.lexsort((-grades, owners))  # owners are ascending, so this sorts grades within each query
    place = np.arange(len(owners)) - truth.positives.starts[owners]
    ideal_gains = np.where(place < k, grades[best] / np.log2(place + 2.0), 0.0)
    ideal = np.bincount(owners, weights=ideal_gains, minlength=len(truth))
    return hits.total(gains) / np.where(ideal > 0, ideal, 1.0)


def _reciprocal_rank(hits: Hits, k: int) -> Values:
    return hits.total(np.where((hits.before == 0) & (hits.rank < k), 1.0 / (hits.rank + 1), 0.0))


def _bullseye(hits: Hits, k: int) -> Values:
    """Return (1 + positives in the first k - 1) / (1 + positives): the query counts as found at the first rank."""
    return (1 + hits.total(hits.rank < k - 1)) / (1 + hits.positives)


def _inverse_negative_penalty(hits: Hits, k: int) -> Values:
    """Return the number of positives divided by the rank of the last one, from 1 and without junk; 0 if one is missing.

    A ranking that stops before the last positive does not tell its rank. It could be the last of all, so such a query
    gets the lowest value: the measure is meant for rankings of the whole gallery.
    """
    complete, last = _last_positive(hits)
    return np.where(complete, hits.positives / np.maximum(last, 1), 0.0)


def _last_positive(hits: Hits) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return per query whether all positives were found, and the rank of the last one, from 1; 0 for none."""
    last = np.zeros(len(hits.truth), np.int64)
    np.maximum.at(last, hits.query, hits.rank + 1)
    return np.bincount(hits.query, minlength=len(last)) == hits.positives, last


def _count_positives(hits: Hits) -> Values:
    return np.maximum(hits.positives, 1).astype(np.float64)  # queries without positives are left out afterwards


MEASURES: dict[str, MeasureKind] = {
    "mAP": MeasureKind(
        _average_precision,
        "possible",
        "mean average precision, by the protocol of the truth; with k only hits in the first k count, divided by the "
        "number of all positives, as trec_eval's map_cut_k does",
    ),
    "R": MeasureKind(
        _hit,
        "needed",
        "share of queries with at least one positive in the first k, as the retrieval field uses it",
    ),
    "recall": MeasureKind(_recall, "needed", "share of the positives in the first k"),
    "mP": MeasureKind(
        _revisited_precision,
        "needed",
        "precision at min(k, rank of the last positive): the revisited protocol",
    ),
    "P": MeasureKind(_precision, "needed", "share of positives among the first k"),
    "nDCG": MeasureKind(_ndcg, "possible", "discounted cumulative gain over the best possible, gain = grade"),
    "MRR": MeasureKind(_reciprocal_rank, "possible", "mean of 1 / rank of the first positive"),
    "bullseye": MeasureKind(
        _bullseye, "needed", "share of the query's class in the first k, with the query itself at the first rank"
    ),
    "CMC": MeasureKind(
        _hit,
        "needed",
        "share of queries whose first positive is in the first k, without junk: R@k by its name in person "
        "re-identification (cumulative matching characteristic)",
    ),
    "mINP": MeasureKind(
        _inverse_negative_penalty,
        "none",
        "mean of (number of positives) / (rank of the last one), without junk: how far one must look to find all of "
        "them; 0 for a query whose ranking does not list all",
    ),
}
_NAMES = {name.lower(): name for name in MEASURES}


def _list_spellings() -> list[str]:
    forms = {"needed": "{0}@k", "possible": "{0}, {0}@k", "none": "{0}"}
    return [forms[kind.cut].format(name) for name, kind in MEASURES.items()]
