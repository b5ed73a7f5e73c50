"""Whitening of vectors that are few, equal or damaged, and with invalid settings."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from kinrank.whitening import Whitening, whiten
from reference.whitening import pairs_of, rows_of, unit


def test_fewer_rows_than_dimensions() -> None:
    rows = np.random.default_rng(0).standard_normal((12, 20))
    found = Whitening.fit(rows, power=0.25)
    assert found.projection.shape == (20, 11)
    with pytest.warns(UserWarning, match="vectors has 12 rows for 11 directions: at power 0.5 all rows are nearly"):
        full = Whitening.fit(rows)
    made = full.project(np.array([unit(row) for row in rows]))
    np.testing.assert_allclose(np.cov(made.T, bias=True), np.eye(11), atol=1e-9)
    apart = full.apply(rows) @ full.apply(rows).T
    np.testing.assert_allclose(apart[~np.eye(12, dtype=bool)], -1 / 11, atol=1e-5)  # all equally far
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Whitening.fit(rows, dimensions=5).projection.shape == (20, 5)


def test_columns_that_say_nothing_are_left_out() -> None:
    rows = np.concatenate([rows_of(100, 5), np.zeros((100, 2)), rows_of(100, 5)[:, :1]], axis=1)
    found = Whitening.fit(rows)
    assert found.projection.shape == (8, 5)
    np.testing.assert_allclose(found.projection[5:7], 0, atol=1e-9)
    asked = rows[:3].copy()
    asked[:, 5] = 7.0  # a query may have another direction
    assert np.isfinite(found.apply(asked)).all()
    with pytest.raises(
        ValueError, match="dimensions=6 is not allowed, because the 100 rows of vectors differ in only 5 directions"
    ):
        Whitening.fit(rows, dimensions=6)
    with pytest.raises(ValueError, match="dimensions=9 is not allowed; give at most 8, the number of columns"):
        Whitening.fit(rows, dimensions=9)


def test_duplicates_count_every_time() -> None:
    rows = rows_of()
    twice = Whitening.fit(np.concatenate([rows, rows]))
    np.testing.assert_allclose(twice.projection, Whitening.fit(rows).projection, rtol=1e-6)
    made = twice.apply(np.concatenate([rows[:2], rows[:2]]))
    np.testing.assert_array_equal(made[:2], made[2:])


@pytest.mark.parametrize("count", [1, 30])
def test_rows_that_do_not_differ(count: int) -> None:
    words = "one row" if count == 1 else "rows that are all the same"
    for power in (0, 0.5):
        with pytest.raises(ValueError, match=f"vectors has {words}, but a whitening is learned from rows that differ"):
            Whitening.fit(np.tile([[1.0, 2.0, 3.0]], (count, 1)), power=power)
    with pytest.raises(ValueError, match="on has no rows; give rows that differ"):
        whiten(rows_of(), on=np.empty((0, 8)))


def test_the_mean_is_given_the_first_direction() -> None:
    cross = np.concatenate([np.eye(4) * np.array([4, 3, 2, 1.0])[:, None] + 0.5, 0.5 - np.eye(4)])
    found = Whitening.fit(cross)
    made = found.apply([found.mean / np.linalg.norm(found.mean)])
    assert np.isfinite(made).all()
    given = Whitening([1.0, 0.0, 0.0], [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])  # type: ignore[arg-type]
    np.testing.assert_array_equal(given.apply([[3.0, 0, 0], [0, 2.0, 0]])[0], [1, 0])
    along = given.apply([[0.6, 0, 0.8], [1.0, 0, 1e-3]])  # the rest lies along the dropped directions
    np.testing.assert_allclose(np.linalg.norm(along, axis=1), 1, atol=1e-6)


def test_no_rows_to_apply_it_to() -> None:
    assert Whitening.fit(rows_of()).apply(np.empty((0, 8), np.float32)).shape == (0, 8)


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ([[1.0, 2], [np.nan, 1]], "vectors row 1 contains NaN or Inf"),
        (np.array([[1.0, 2], [3, 4], [np.inf, 1]]), "vectors row 2 contains NaN or Inf"),
        (np.array([[1.0, 2], [3, 1e300]]), "vectors row 1 contains NaN or Inf (or a number beyond float32)"),
        (np.array([[1.0, 2], [3, 4], [0, 0]]), "vectors row 2 is a zero vector and has no direction; drop it"),
        (np.arange(4.0), "vectors must be 2-d, one row per item; got shape (4,)"),
        (np.empty((3, 0)), "vectors has shape (3, 0): rows without columns"),
        (np.array([["a", "b"]]), "vectors must hold real numbers; got dtype"),
        (np.ma.masked_array(np.ones((2, 2)), [[0, 0], [0, 1]]), "vectors has 1 masked entries"),
        (None, "vectors must be rows of numbers"),
    ],
)
def test_vectors_that_cannot_be_whitened(vectors: Any, message: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        Whitening.fit(vectors)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"power": 0.6}, "power=0.6 is not allowed; give a number from 0 (none) through 0.25 (half) to 0.5 (full)"),
        ({"power": -0.1}, "power=-0.1 is not allowed"),
        ({"power": np.nan}, "power=nan is not allowed"),
        ({"power": True}, "power=True is not allowed"),
        ({"power": "half"}, "power='half' is not allowed"),
        ({"dimensions": 0}, "dimensions=0 is not allowed; give a whole number >= 1"),
        ({"dimensions": 2.0}, "dimensions=2.0 is not allowed"),
        ({"dimensions": True}, "dimensions=True is not allowed"),
        ({"pairs": [[0, 1, 2]]}, "pairs has shape (1, 3) and dtype int64; give (m, 2) whole numbers, rows of vectors"),
        ({"pairs": []}, "pairs has shape (0,)"),
        ({"pairs": [[0], [1, 2]]}, "pairs has shape (0,)"),
        ({"pairs": [[0.0, 1.0]]}, "pairs has shape (1, 2) and dtype float64"),
        ({"pairs": [[0, 120]]}, "pairs contains row 120, but vectors has the rows 0 to 119; check the numbers"),
        ({"pairs": [[-1, 0]]}, "pairs contains row -1"),
    ],
)
def test_settings_that_are_not_allowed(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        Whitening.fit(rows_of(), **settings)
    assert str(refused.value).startswith(message)


def test_vectors_of_other_dimensions() -> None:
    found = Whitening.fit(rows_of())
    for wrong in (np.ones((4, 7)), [[1.0] * 7]):
        with pytest.raises(ValueError, match=r"queries has shape \(\d, 7\) but 8 dimensions are needed"):
            found.apply(wrong, name="queries")
    with pytest.raises(ValueError, match="queries row 1 contains NaN"):
        found.apply(np.array([[1.0] * 8, [np.nan] * 8]), name="queries")


def test_few_pairs_give_a_warning() -> None:
    with pytest.warns(UserWarning, match="pairs has 4 rows for 8 dimensions: directions in which no pair differs"):
        found = Whitening.fit(rows_of(), pairs=pairs_of(many=4))
    assert found.facts["jitter"] >= 1e-10
    made = found.apply(rows_of())
    np.testing.assert_allclose(np.linalg.norm(made, axis=1), 1, atol=1e-6)


def test_pairs_of_the_same_rows_only_turn() -> None:
    rows = rows_of()
    found = Whitening.fit(rows, pairs=np.repeat(np.arange(120), 2).reshape(-1, 2))
    unscaled = np.array([unit(row) for row in rows])
    centred = unscaled - unscaled.mean(axis=0)
    np.testing.assert_allclose(
        1e-10 * found.project(unscaled) @ found.project(unscaled).T, centred @ centred.T, atol=1e-9
    )


def test_too_large_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kinrank.whitening.default_limit_bytes", lambda: 1000)
    with pytest.raises(
        MemoryError, match=r"learning a whitening of 8 dimensions takes 2.56 KB, but only 1 KB are free"
    ):
        Whitening.fit(rows_of())
