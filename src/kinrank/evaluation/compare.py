"""Two Scores of the same queries -> the difference, its interval, and how easily chance gives it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.evaluation.evaluate import CHUNK, Scores, intervals


@dataclass(frozen=True)
class Comparison:
    """What going from a to b brings.

    Attributes:
        measure: which measure was compared.
        mean_a, mean_b: its two means; `difference` = mean_b - mean_a, above 0 where b is better.
        low, high: the interval of the difference, by paired bootstrap over queries.
        p: share of random swaps of a and b, query by query, with a difference at least as large either way.
        better, worse: on how many queries b is better and worse than a; the others tie.
        queries: how many queries count.
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
        """Plain numbers for JSON; None where there is none."""
        return {key: None if value != value else value for key, value in asdict(self).items()}


def compare(
    scores_a: Scores,
    scores_b: Scores,
    measure: str = "mAP",
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """The difference b - a of one measure, query by query: paired bootstrap interval and randomisation test.

    p counts the observed assignment among the random ones: (1 + as large) / (1 + resamples), never 0.

    Example:
        >>> truth = Truth.from_lists([[0], [1]])
        >>> compare(evaluate([[1, 0], [1, 0]], truth), evaluate([[0, 1], [1, 0]], truth)).difference
        0.25
    """
    a, b = scores_a[measure], scores_b[measure]
    chance: dict[str, Any] = {"confidence": confidence, "resamples": resamples, "seed": seed}
    return paired(a.per_query, b.per_query, a.measure, **chance)


def paired(
    before: NDArray[np.float64],
    after: NDArray[np.float64],
    measure: str,
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """`compare` of the values themselves, one per query; NaN where a query does not count."""
    if len(before) != len(after):
        raise ValueError(
            f"scores of {len(before)} and of {len(after)} queries cannot be paired; evaluate the same queries"
        )
    counted = ~np.isnan(before)
    if (counted != ~np.isnan(after)).any():
        raise ValueError("the two scores leave out different queries; evaluate both against the same truth")
    values = np.stack([before[counted], after[counted], after[counted] - before[counted]])
    (mean_a, mean_b, _), _, _ = intervals(values, confidence, 0, seed)
    mean, low, high = intervals(values[2:], confidence, resamples, seed)
    return Comparison(
        measure=measure,
        mean_a=float(mean_a),
        mean_b=float(mean_b),
        difference=float(mean[0]),
        low=float(low[0]),
        high=float(high[0]),
        p=_randomisation(values[2], resamples, seed),
        better=int((values[2] > 0).sum()),
        worse=int((values[2] < 0).sum()),
        queries=values.shape[1],
        confidence=confidence,
    )


def _randomisation(differences: NDArray[np.float64], resamples: int, seed: int) -> float:
    if not differences.size:
        return float("nan")
    observed = abs(differences.sum())
    slack = 1e-12 * np.abs(differences).sum()  # sums of the same numbers in another order are equal
    as_large = sum(
        int((np.abs(signs @ differences) >= observed - slack).sum())
        for signs in _signs(differences.size, resamples, seed)
    )
    return (1 + as_large) / (1 + resamples)


def _signs(count: int, resamples: int, seed: int) -> Iterator[NDArray[np.float64]]:
    """Blocks of (resamples, count) random signs."""
    generator = np.random.default_rng([seed, 1])  # not the draws of the bootstrap
    step = max(1, CHUNK // count)
    for start in range(0, resamples, step):
        size = (min(step, resamples - start), count)
        yield generator.integers(0, 2, size, dtype=np.int8).astype(np.float64) * 2 - 1
