"""The number of right answers sets theta, k2 and the sizes of wide states, unless they are given."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import kinrank as kr
from kinrank.stages.lpmt_settings import BY_ANSWERS, MOST_RIGHT, choose_answers


def curve(count: int = 80) -> np.ndarray:
    angles = np.linspace(0, 3, count)
    noise = 0.02 * np.random.default_rng(0).standard_normal((count, 6))
    return (np.stack([np.cos(angles), np.sin(angles), *[angles / 9] * 4], axis=1) + noise).astype(np.float32)


@pytest.mark.parametrize("answers", BY_ANSWERS)
def test_answers_set_what_is_not_given(answers: str) -> None:
    method = kr.LPMT(answers=answers)
    assert method.answer_values == BY_ANSWERS[answers]
    given = replace(method, theta=0.5, k2=7, direct_k=50)
    assert given.answer_values == BY_ANSWERS[answers]._replace(theta=0.5, k2=7, direct_k=50)
    assert [given.value_in_use(name) for name in ("theta", "k2", "direct_k", "k1")] == [0.5, 7, 50, 60]
    assert repr(kr.LPMT()) == "LPMT()"


def test_zero_is_a_given_value() -> None:
    assert kr.LPMT(answers="one", theta=0).answer_values.theta == 0.0


def test_one_answer_stays_closest_to_the_search() -> None:
    thetas = [values.theta for values in BY_ANSWERS.values()]
    assert thetas == sorted(thetas, reverse=True)
    with pytest.raises(ValueError, match=r"answers='two' is not allowed; give one \| few \| some \| many"):
        kr.LPMT(answers="two")


def test_the_number_of_right_answers_chooses() -> None:
    assert [choose_answers(right) for right in (1, 1.4, 2, 4, 5, 100, 101, 5000)] == [
        "one", "one", "few", "few", "some", "some", "many", "many",
    ]  # fmt: skip
    assert list(BY_ANSWERS)[: len(MOST_RIGHT)] == list(MOST_RIGHT)


@pytest.mark.parametrize("answers", BY_ANSWERS)
def test_rankings_are_those_of_the_values(answers: str) -> None:
    rows = curve()
    given = kr.LPMT(**BY_ANSWERS[answers]._asdict())
    for queries, gallery in ((None, rows), (rows[:9], rows[9:])):
        one, other = (kr.rerank(queries, gallery, method) for method in (kr.LPMT(answers=answers), given))
        np.testing.assert_array_equal(one.indices, other.indices)
        np.testing.assert_array_equal(one.distances, other.distances)
    one, other = (
        kr.Manifold.build(rows[9:], method).search(rows[:9], k=20) for method in (kr.LPMT(answers=answers), given)
    )
    np.testing.assert_array_equal(one.indices, other.indices)


def test_answers_and_given_values_are_saved(tmp_path: Path) -> None:
    rows = curve()
    for place, method in enumerate(
        (kr.LPMT(answers="one"), kr.LPMT(theta=0.4, k2=5, direct_k=160, direct_support=128))
    ):
        manifold = kr.Manifold.build(rows, method)
        manifold.save(tmp_path / str(place))
        loaded = kr.Manifold.load(tmp_path / str(place))
        assert loaded.method == method
        assert loaded.method.answer_values == method.answer_values
        np.testing.assert_array_equal(loaded.search(rows[:5], k=9).indices, manifold.search(rows[:5], k=9).indices)
