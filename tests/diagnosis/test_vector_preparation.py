"""Vectors centred and half-whitened, and what that does to neighbourhoods."""

from __future__ import annotations

import numpy as np
import pytest

from kinrank.diagnosis import vector_preparation
from kinrank.diagnosis.neighborhood_facts import measure_facts
from kinrank.diagnosis.vector_preparation import WAYS, PreparationEffect, fit_preparation, measure_effects
from kinrank.vector_input import sample_evenly, to_unit_rows


def rows_of(items: int, dimensions: int, shift: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((items, dimensions)) * np.linspace(3, 0.5, dimensions) + shift
    return to_unit_rows(rows.astype(np.float32))


@pytest.mark.parametrize(("items", "dimensions"), [(300, 8), (12, 20)])
def test_half_whitening_brings_variances_to_their_roots(items: int, dimensions: int) -> None:
    rows = rows_of(items, dimensions)
    made = fit_preparation("half-whitened", rows)(rows)
    assert made.dtype == np.float32
    assert made.shape == (items, min(dimensions, items - 1))
    before = np.linalg.eigvalsh(np.cov(rows.T.astype(np.float64), bias=True))[::-1][: made.shape[1]]
    after = np.cov(made.T.astype(np.float64), bias=True)
    np.testing.assert_allclose(np.diag(after), np.sqrt(before), rtol=1e-3)
    np.testing.assert_allclose(after - np.diag(np.diag(after)), 0, atol=1e-4)


def test_centring_takes_the_mean_away() -> None:
    rows = rows_of(200, 8, shift=2.0)
    made = fit_preparation("centred", rows)(rows)
    np.testing.assert_allclose(made, rows - rows.mean(axis=0), atol=1e-6)
    others = rows_of(7, 8)
    np.testing.assert_allclose(fit_preparation("centred", rows)(others), others - rows.mean(axis=0), atol=1e-6)


def test_what_is_fitted_on_a_large_gallery_sees_some_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_preparation, "MAX_SAMPLE_ITEMS", 50)
    rows = rows_of(400, 6)
    np.testing.assert_allclose(
        fit_preparation("centred", rows).mean, rows[sample_evenly(400, 50)].mean(axis=0), atol=1e-6
    )


@pytest.mark.parametrize("way", WAYS)
def test_rows_without_a_direction_are_given_one(way: str) -> None:
    same = np.tile(to_unit_rows(np.array([[1.0, 2.0, 3.0]], np.float32)), (30, 1))
    made = fit_preparation(way, same)(same)
    np.testing.assert_array_equal(made, np.tile([1.0, *[0.0] * (made.shape[1] - 1)], (30, 1)))
    rows = np.concatenate([np.eye(4, dtype=np.float32), -np.eye(4, dtype=np.float32)] * 4)  # their mean is nothing
    made = fit_preparation(way, rows)(np.concatenate([rows, np.zeros((1, 4), np.float32)]))
    assert np.isfinite(made).all()
    assert made[-1].tolist() == [1, 0, 0, 0]
    assert made.any(axis=1).all()


def test_changes_are_after_minus_before() -> None:
    rows = rows_of(150, 10, shift=1.5)
    found = {change.way: change for change in measure_effects(rows)}
    assert list(found) == list(WAYS)
    before = measure_facts(rows)
    for way in WAYS:
        after = measure_facts(to_unit_rows(fit_preparation(way, rows)(rows)))
        for name in ("mutual", "common", "hubness"):
            expected = getattr(after, name) - getattr(before, name)
            assert getattr(found[way], name) == pytest.approx(expected, abs=0.02)
    assert measure_effects(rows) == list(found.values())


def test_promising_where_more_list_each_other_and_share_as_much() -> None:
    assert PreparationEffect("centred", 0.0, 0.05, 0.0).promising
    assert not PreparationEffect("centred", 0.0, 0.05, -0.02).promising
    assert not PreparationEffect("centred", -3.0, 0.01, 0.1).promising
    assert PreparationEffect("centred", 0.0, 0.05, 0.0).to_dict() == {
        "way": "centred", "hubness": 0.0, "mutual": 0.05, "common": 0.0, "promising": True,
    }  # fmt: skip


def test_hubs_of_an_uncentred_gallery_are_seen() -> None:
    rng = np.random.default_rng(1)
    rows = to_unit_rows(
        (rng.standard_normal((400, 60)) + 1.0).astype(np.float32)
    )  # far from the origin, one lies in the middle
    centred = measure_effects(rows)[0]
    assert centred.hubness < -1
    assert centred.mutual > 0.1


def test_an_unknown_way() -> None:
    with pytest.raises(ValueError, match="way='whiter' is not allowed; give one of: centred, half-whitened"):
        fit_preparation("whiter", rows_of(30, 4))


def test_nothing_is_changed() -> None:
    rows = rows_of(40, 6)
    before = rows.copy()
    rows.setflags(write=False)
    for way in WAYS:
        first, second = fit_preparation(way, rows)(rows), fit_preparation(way, rows)(rows)
        np.testing.assert_array_equal(first, second)
    measure_effects(rows)
    np.testing.assert_array_equal(rows, before)
