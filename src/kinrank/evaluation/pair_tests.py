"""Paired randomization tests between all methods of a comparison, with Holm's correction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.evaluation.hits import Values
from kinrank.evaluation.significance import draw_signs

TEST_RESAMPLES = 10_000  # at least: with fewer, no p-value of hundreds of pairs could be small after the correction
CORRECTIONS = ("holm", "none")


class PairTests(NamedTuple):
    """Results for one measure; methods are numbered by row.

    Attributes:
        p_plain: p-value of each method against no re-ranking; 1 for itself.
        p_to_best: p-value of each method against the one with the highest mean; 1 for itself.
        beats: for each method, the numbers of the methods that it is significantly better than, of all pairs.
    """

    p_plain: Values
    p_to_best: Values
    beats: list[list[int]]


def run_pair_tests(
    values: Values, plain: int, correction: str, *, confidence: float, resamples: int, seed: int
) -> PairTests:
    """Test all pairs of (methods, queries) values; NaN: does not count. `plain` is the number of no re-ranking.

    Holm's method corrects three families of tests, each by its own size: every method against no re-ranking, every
    method against the best, and all pairs.
    """
    values = values[:, ~np.isnan(values).any(axis=0)]
    raw = compute_p_values(values, max(resamples, TEST_RESAMPLES) if resamples else 0, seed)
    means, rows = values.sum(axis=1), np.arange(len(values))

    def correct(first: Any, second: Any) -> Values:
        p = np.ones(raw.shape)
        p[first, second] = correct_by_holm(raw[first, second]) if correction == "holm" else raw[first, second]
        return p

    def test_against(row: int) -> Any:
        return correct(row, rows[rows != row])[row]

    pairs = correct(*np.triu_indices(len(values), 1))
    wins = (np.minimum(pairs, pairs.T) < 1.0 - confidence) & (means[:, None] > means)
    return PairTests(
        test_against(plain), test_against(int(means.argmax())), [np.flatnonzero(row).tolist() for row in wins]
    )


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
