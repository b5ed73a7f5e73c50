"""Hits -> one number per query: measures that parse from text and print as they parse (`nDCG@10`)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kinrank.evaluation.hits import Hits, Values


@dataclass(frozen=True)
class Kind:
    """One family of measures: its function of the hits and the cut k, whether it takes a cut, its meaning."""

    function: Callable[[Hits, int], Values]
    cut: str  # "needed", "possible" or "none"
    meaning: str


@dataclass(frozen=True)
class Measure:
    """A measure and its cut. `Measure.parse("R@1")` prints as `R@1`; capitals do not matter when parsing."""

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
        raise ValueError(f"measure {text!r} is not known; give one of: {', '.join(_spelled())} with k a number >= 1")

    def __str__(self) -> str:
        return self.name if self.k is None else f"{self.name}@{self.k}"

    def __call__(self, hits: Hits) -> Values:
        """(queries,) values between 0 and 1; NaN for queries without positives, which are left out."""
        values = MEASURES[self.name].function(hits, 2**62 if self.k is None else self.k)
        return np.where(hits.positives > 0, values, np.nan)


def _average_precision(hits: Hits, k: int) -> Values:
    """Sum over the hits of the first k, divided by the number of all positives, of the precision at each.

    The cut is that of trec_eval's map_cut_k: positives that cannot fit into the first k count as not found, so a query
    with more than k of them stays below 1. Junk takes no rank, so k counts the items that are left without it.
    With j positives and r items before a hit: rectangle takes (j + 1) / (r + 1), that just after it;
    trapezoidal, as published with the revisited benchmarks, the mean of it and j / r (1 at the very top).
    """
    after = (hits.before + 1) / (hits.rank + 1)
    if hits.truth.average_precision == "trapezoidal":
        ahead = np.where(hits.rank > 0, hits.before / np.maximum(hits.rank, 1), 1.0)
        after = (ahead + after) / 2
    return hits.total(np.where(hits.rank < k, after, 0.0)) / _positives(hits)


def _hit(hits: Hits, k: int) -> Values:
    return (hits.total(hits.rank < k) > 0).astype(np.float64)


def _recall(hits: Hits, k: int) -> Values:
    return hits.total(hits.rank < k) / _positives(hits)


def _precision(hits: Hits, k: int) -> Values:
    return hits.total(hits.rank < k) / k


def _revisited_precision(hits: Hits, k: int) -> Values:
    """Precision at min(k, rank of the last positive); a positive that was not found has its rank beyond k."""
    complete, last = _last(hits)
    cut = np.where(complete, np.clip(last, 1, k), k)
    return hits.total(hits.rank < cut[hits.query]) / cut


def _ndcg(hits: Hits, k: int) -> Values:
    """Sum of grade / log2(rank + 1), ranks from 1, over that of the best order: trec_eval's definition."""
    truth = hits.truth
    gains = np.where(hits.rank < k, hits.grade / np.log2(hits.rank + 2.0), 0.0)
    owners = truth.positives.owners
    grades = np.ones(len(owners)) if truth.grades is None else truth.grades
    best = np.lexsort((-grades, owners))  # owners ascend already: this sorts grades within each query
    place = np.arange(len(owners)) - truth.positives.starts[owners]
    ideal_gains = np.where(place < k, grades[best] / np.log2(place + 2.0), 0.0)
    ideal = np.bincount(owners, weights=ideal_gains, minlength=len(truth))
    return hits.total(gains) / np.where(ideal > 0, ideal, 1.0)


def _reciprocal_rank(hits: Hits, k: int) -> Values:
    return hits.total(np.where((hits.before == 0) & (hits.rank < k), 1.0 / (hits.rank + 1), 0.0))


def _bullseye(hits: Hits, k: int) -> Values:
    """(1 + positives in the first k - 1) / (1 + positives): the query counts as found, at the very top."""
    return (1 + hits.total(hits.rank < k - 1)) / (1 + hits.positives)


def _inverse_negative_penalty(hits: Hits, k: int) -> Values:
    """Positives / rank of the last of them, ranks from 1 and without junk; 0 where one was not found.

    A ranking that stops before the last positive does not say where it stands. It could be anywhere behind, so such a
    query counts as the worst there is: the measure is meant for rankings of the whole gallery.
    """
    complete, last = _last(hits)
    return np.where(complete, hits.positives / np.maximum(last, 1), 0.0)


def _last(hits: Hits) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Whether every positive of a query was found, and the rank of the last one found, from 1; 0 for none."""
    last = np.zeros(len(hits.truth), np.int64)
    np.maximum.at(last, hits.query, hits.rank + 1)
    return np.bincount(hits.query, minlength=len(last)) == hits.positives, last


def _positives(hits: Hits) -> Values:
    return np.maximum(hits.positives, 1).astype(np.float64)  # those of 0 are left out afterwards


MEASURES: dict[str, Kind] = {
    "mAP": Kind(
        _average_precision,
        "possible",
        "mean average precision, by the protocol of the truth; with k only hits in the first k count, divided by the "
        "number of all positives, as trec_eval's map_cut_k does",
    ),
    "R": Kind(
        _hit,
        "needed",
        "share of queries with at least one positive in the first k, as the retrieval field uses it",
    ),
    "recall": Kind(_recall, "needed", "share of the positives that stand in the first k"),
    "mP": Kind(
        _revisited_precision,
        "needed",
        "precision at min(k, rank of the last positive): the revisited protocol",
    ),
    "P": Kind(_precision, "needed", "share of positives among the first k"),
    "nDCG": Kind(_ndcg, "possible", "discounted cumulative gain over the best possible, gain = grade"),
    "MRR": Kind(_reciprocal_rank, "possible", "mean of 1 / rank of the first positive"),
    "bullseye": Kind(_bullseye, "needed", "share of the query's class, itself included, in the first k, itself first"),
    "CMC": Kind(
        _hit,
        "needed",
        "share of queries whose first positive stands in the first k, junk taken out: the same number as R@k, under "
        "the name that person re-identification uses (cumulative matching characteristic)",
    ),
    "mINP": Kind(
        _inverse_negative_penalty,
        "none",
        "mean of (number of positives) / (rank of the last one), junk taken out: how far one must look to find all of "
        "them; 0 for a query whose ranking does not list all",
    ),
}
_NAMES = {name.lower(): name for name in MEASURES}


def _spelled() -> list[str]:
    forms = {"needed": "{0}@k", "possible": "{0}, {0}@k", "none": "{0}"}
    return [forms[kind.cut].format(name) for name, kind in MEASURES.items()]
