"""Paired comparison of two scores: difference, confidence interval and randomization test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import InputError
from kinrank.evaluation.scores import MAX_DRAWS_IN_MEMORY, Scores, bootstrap_intervals


@dataclass(frozen=True)
class Comparison:
    """Comparison of b with a.

    Attributes:
        measure: name of the measure.
        mean_a, mean_b: its means; `difference` = mean_b - mean_a is positive if b is better.
        low, high: interval of the difference, by paired bootstrap over queries.
        p: share of random swaps of a and b per query that give a difference at least as large in either direction.
        better, worse: number of queries on which b is better and worse than a; on the others they are equal.
        queries: number of queries with relevant items.
    """

    measure: str
    mean_a: float
    mean_b: float
    difference: float
    low: float
    high: float
    p: float
    better: int
    worse: int
    queries: int
    confidence: float

    def __str__(self) -> str:
        a, b, gap, low, high = (100 * x for x in (self.mean_a, self.mean_b, self.difference, self.low, self.high))
        return (
            f"{self.measure} {a:.2f} -> {b:.2f}: {gap:+.2f} "
            f"({100 * self.confidence:g} % interval {low:+.2f} to {high:+.2f}, p = {self.p:.4f}); "
            f"better on {self.better}, worse on {self.worse} of {self.queries} queries"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers for JSON; None for a number that does not exist."""
        return {key: None if value != value else value for key, value in asdict(self).items()}


def compare_scores(
    scores_a: Scores,
    scores_b: Scores,
    measure: str = "mAP",
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Compare one measure of two scores query by query: paired bootstrap interval and randomization test of b - a.

    p counts the observed assignment among the random ones: (1 + as large) / (1 + resamples), never 0.

    Example:
        >>> truth = Truth.from_lists([[0], [1]])
        >>> compare_scores(evaluate([[1, 0], [1, 0]], truth), evaluate([[0, 1], [1, 0]], truth)).difference
        0.25
    """
    a, b = scores_a[measure], scores_b[measure]
    chance: dict[str, Any] = {"confidence": confidence, "resamples": resamples, "seed": seed}
    return compare_pairs(a.per_query, b.per_query, a.measure, **chance)


def compare_pairs(
    before: NDArray[np.float64],
    after: NDArray[np.float64],
    measure: str,
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Compare two arrays with one value per query; NaN for a query that does not count."""
    if len(before) != len(after):
        raise InputError(
            f"scores of {len(before)} and of {len(after)} queries cannot be compared",
            remedy="evaluate the same queries",
        )
    counted = ~np.isnan(before)
    if (counted != ~np.isnan(after)).any():
        raise InputError("the two scores leave out different queries", remedy="evaluate both with the same truth")
    values = np.stack([before[counted], after[counted], after[counted] - before[counted]])
    (mean_a, mean_b, _), _, _ = bootstrap_intervals(values, confidence, 0, seed)
    mean, low, high = bootstrap_intervals(values[2:], confidence, resamples, seed)
    return Comparison(
        measure=measure,
        mean_a=float(mean_a),
        mean_b=float(mean_b),
        difference=float(mean[0]),
        low=float(low[0]),
        high=float(high[0]),
        p=_randomization_p(values[2], resamples, seed),
        better=int((values[2] > 0).sum()),
        worse=int((values[2] < 0).sum()),
        queries=values.shape[1],
        confidence=confidence,
    )


def _randomization_p(differences: NDArray[np.float64], resamples: int, seed: int) -> float:
    if not differences.size:
        return float("nan")
    observed = abs(differences.sum())
    slack = 1e-12 * np.abs(differences).sum()  # tolerance: sums of the same numbers in another order are equal
    as_large = sum(
        int((np.abs(signs @ differences) >= observed - slack).sum())
        for signs in draw_signs(differences.size, resamples, seed)
    )
    return (1 + as_large) / (1 + resamples)


def draw_signs(count: int, resamples: int, seed: int) -> Iterator[NDArray[np.float64]]:
    """Yield blocks of (resamples, count) random signs."""
    generator = np.random.default_rng([seed, 1])  # independent of the bootstrap
    step = max(1, MAX_DRAWS_IN_MEMORY // count)
    for start in range(0, resamples, step):
        size = (min(step, resamples - start), count)
        yield generator.integers(0, 2, size, dtype=np.int8).astype(np.float64) * 2 - 1
