"""The expected candidate is kept unless another one is clearly better, and labels tell which one is expected."""

from __future__ import annotations

import numpy as np
import pytest

import kinrank as kr
from kinrank.evaluation.fold_choice import choose_by_folds, choose_candidate, count_right_answers

EXPECTED = np.array([0.5, 0.7, 0.2, 0.9, 0.4, 0.6, 0.8, 0.3, 0.5, 0.1])


def test_a_lucky_candidate_does_not_replace_the_expected_one() -> None:
    lucky = EXPECTED.copy()
    lucky[0] += 0.4  # a single query
    values = np.stack([lucky, EXPECTED])
    assert choose_candidate(values) == 0
    assert choose_candidate(values, 1) == 1
    assert choose_by_folds(values, 5, 0, 1)[0] == [1] * 5


def test_a_clearly_better_candidate_does() -> None:
    better = EXPECTED + np.linspace(0.05, 0.1, 10)
    assert choose_candidate(np.stack([EXPECTED, better]), 0) == 1
    assert choose_candidate(np.stack([EXPECTED, EXPECTED]), 1) == 1
    assert choose_candidate(np.array([[0.1], [0.9]]), 0) == 0  # a single query tells nothing


def test_right_answers_are_counted() -> None:
    assert count_right_answers(kr.Truth.from_lists([[0], [1, 2, 3, 4], []])) == pytest.approx(2.0)
    assert count_right_answers(kr.Truth.from_lists([[], []])) is None


def test_ten_labels_choose_by_the_number_of_right_answers() -> None:
    rng = np.random.default_rng(0)
    items = rng.standard_normal((200, 16)).astype(np.float32)
    queries = items[:10] + 0.4 * rng.standard_normal((10, 16)).astype(np.float32)
    found = kr.tune(queries, items, kr.Truth.from_lists([[place] for place in range(10)], gallery_size=200))
    assert found.method == kr.LPMT(answers="one")
    centres = rng.standard_normal((10, 16)).astype(np.float32)
    rows = np.repeat(centres, 20, axis=0) + 0.6 * rng.standard_normal((200, 16)).astype(np.float32)
    truth = kr.Truth.from_labels(np.arange(10), np.repeat(np.arange(10), 20))
    found = kr.tune(centres + 0.6 * rng.standard_normal((10, 16)).astype(np.float32), rows, truth)
    assert (found.diagnosis.right, found.method) == (20.0, kr.LPMT())
