"""Paired randomization tests between all methods of a comparison, with Holm's correction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.evaluation.hits import Values
from kinrank.evaluation.scores import bootstrap_intervals
from kinrank.evaluation.significance import Comparison, draw_signs

TEST_RESAMPLES = 10_000  # at least: with fewer, no p-value of hundreds of pairs could be small after the correction
CORRECTIONS = ("holm", "none")


class PairTests(NamedTuple):
    """Results for one measure; methods are numbered by row.

    Attributes:
        best: number of the method with the highest mean; the first of several.
        p_plain: (methods,) p-value of each method against no re-ranking; 1 for itself.
        to_best: comparison of each method with the best one; its difference is never above 0.
        beats: for each method, the numbers of the methods that it is significantly better than, of all pairs.
    """

    best: int
    p_plain: Values
    to_best: list[Comparison]
    beats: list[list[int]]


def run_pair_tests(
    values: Values, plain: int, measure: str, *, confidence: float, resamples: int, seed: int, correction: str
) -> PairTests:
    """Test all pairs of (methods, queries) values; NaN marks queries that do not count. `plain` is no re-ranking.

    Holm's method corrects three families of tests, each by its own size: every method against no re-ranking, every
    method against the best, and all pairs. Intervals are those of single comparisons.
    """
    values = values[:, ~np.isnan(values).any(axis=0)]
    count, queries = values.shape
    means = bootstrap_intervals(values, confidence, 0, seed)[0]
    best = int(np.argmax(means)) if queries else plain
    raw = compute_p_values(values, max(resamples, TEST_RESAMPLES) if resamples else 0, seed)

    def correct(p: Values) -> Values:
        return correct_by_holm(p) if correction == "holm" else p

    def test_against(row: int) -> Values:
        others = np.arange(count) != row
        p = np.ones(count)
        p[others] = correct(raw[row, others])
        return p

    gaps = values - values[best]
    differences, lows, highs = bootstrap_intervals(gaps, confidence, resamples, seed)
    p_best = test_against(best)
    to_best = [
        Comparison(
            measure=measure,
            mean_a=float(means[best]),
            mean_b=float(means[row]),
            difference=float(differences[row]),
            low=float(lows[row]),
            high=float(highs[row]),
            p=float(p_best[row]),
            better=int((gaps[row] > 0).sum()),
            worse=int((gaps[row] < 0).sum()),
            queries=queries,
            confidence=confidence,
        )
        for row in range(count)
    ]
    upper = np.triu_indices(count, 1)
    pairs = np.ones((count, count))
    pairs[upper] = correct(raw[upper])
    pairs = np.minimum(pairs, pairs.T)
    wins = (pairs < 1.0 - confidence) & (means[:, None] > means)
    return PairTests(best, test_against(plain), to_best, [np.flatnonzero(row).tolist() for row in wins])


def compute_p_values(values: Values, resamples: int, seed: int) -> Values:
    """Return the (methods, methods) p-values of paired randomization tests; NaN without queries or resamples.

    All pairs use the same random signs. The signed sum of a difference is the difference of two signed sums, so that
    the number of pairs costs little.
    """
    count, queries = values.shape
    if not queries or not resamples:
        return np.full((count, count), np.nan)
    totals, sizes = values.sum(axis=1), np.abs(values).sum(axis=1)
    slack = 1e-12 * (sizes[:, None] + sizes)  # tolerance: sums of the same numbers in another order are equal
    smallest = np.abs(totals[:, None] - totals) - slack
    as_large = np.zeros((count, count), np.int64)
    for signs in draw_signs(queries, resamples, seed):
        sums = signs @ values.T
        for row in range(count):
            as_large[row] += (np.abs(sums[:, row : row + 1] - sums) >= smallest[row]).sum(axis=0)
    return (1 + as_large) / (1 + resamples)


def correct_by_holm(p: NDArray[np.float64] | Sequence[float]) -> Values:
    """Correct p-values of one family of tests by Holm's step-down method.

    Example:
        >>> correct_by_holm([0.01, 0.04, 0.03]).round(6).tolist()
        [0.03, 0.06, 0.06]
    """
    given = np.asarray(p, np.float64)
    order = np.argsort(given)
    steps = given[order] * np.arange(len(given), 0, -1)
    corrected = np.empty(len(given))
    corrected[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return corrected
