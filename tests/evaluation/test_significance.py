"""Paired comparison: a true difference is seen, chance is not, and pairs have to be pairs."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest

import kinrank as kr


def scored(first_ranks: np.ndarray, seed: int = 0):
    """Scores of queries whose only positive stands at the given rank of ten."""
    order = np.array([np.insert(np.arange(1, 10), rank, 0) for rank in first_ranks])
    return kr.evaluate(order, kr.Truth.from_lists([[0]] * len(order)), ["mAP", "R@1"], seed=seed)


def test_a_clear_gain_is_significant_and_counts_from_a_to_b(rng) -> None:
    before, after = scored(rng.integers(2, 9, 60)), scored(rng.integers(0, 3, 60))
    found = kr.evaluation.compare_scores(before, after, "mAP")
    assert found.difference == pytest.approx(after["mAP"].mean - before["mAP"].mean)
    assert 0 < found.low < found.difference < found.high
    assert found.p < 0.001
    back = kr.evaluation.compare_scores(after, before, "mAP")
    assert back.difference == -found.difference
    assert back.better == found.worse
    assert json.loads(json.dumps(found.to_dict()))["queries"] == 60
    assert "->" in str(found)


def test_p_equals_the_count_over_all_sign_changes(rng) -> None:
    a, b = scored(rng.integers(0, 9, 10)), scored(rng.integers(0, 9, 10))
    gaps = b["mAP"].per_query - a["mAP"].per_query
    sums = [abs(np.dot(signs, gaps)) for signs in itertools.product([-1, 1], repeat=10)]
    exact = np.mean([total >= abs(gaps.sum()) - 1e-12 for total in sums])
    assert kr.evaluation.compare_scores(a, b, "mAP").p == pytest.approx(exact, abs=0.02)


def test_p_is_uniform_when_nothing_changed_but_chance() -> None:
    ps = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        ps.append(
            kr.evaluation.compare_scores(
                scored(rng.integers(0, 9, 30)), scored(rng.integers(0, 9, 30)), resamples=300
            ).p
        )
    assert 0.02 <= np.mean(np.array(ps) < 0.05) <= 0.10
    assert np.mean(ps) == pytest.approx(0.5, abs=0.08)


def test_equal_scores_have_p_one(rng) -> None:
    same = scored(rng.integers(0, 9, 20))
    found = kr.evaluation.compare_scores(same, same)
    assert (found.difference, found.p, found.better, found.worse) == (0.0, 1.0, 0, 0)


def test_scores_of_other_queries_are_refused(rng) -> None:
    with pytest.raises(ValueError, match=r"of 20 and of 10 queries"):
        kr.evaluation.compare_scores(scored(rng.integers(0, 9, 20)), scored(rng.integers(0, 9, 10)))
    a = kr.evaluate([[0], [0]], kr.Truth.from_lists([[0], []]))
    b = kr.evaluate([[0], [0]], kr.Truth.from_lists([[], [0]]))
    with pytest.raises(ValueError, match="same truth"):
        kr.evaluation.compare_scores(a, b)
    with pytest.raises(KeyError, match="was not evaluated"):
        kr.evaluation.compare_scores(a, a, "R@1")
