"""Measurements without labels, compared with slow reference code and on synthetic data with known answers."""

from __future__ import annotations

import numpy as np
import pytest

from kinrank.diagnosis import neighborhood_facts as measured
from kinrank.diagnosis.neighborhood_facts import Facts, measure_facts, measure_growth, sample_rows
from kinrank.testing.sample_data import toy
from kinrank.vector_input import to_unit_rows
from kinrank_bench.synthetic import curves
from reference import diagnosis as slow

Rows = np.ndarray


def rows_of(kind: str, items: int = 90) -> Rows:
    made = toy(kind, items)
    return to_unit_rows(np.concatenate([made.queries, made.gallery]).astype(np.float32))


def noise(items: int, dimensions: int) -> Rows:
    return np.asarray(np.random.default_rng(0).standard_normal((items, dimensions)), np.float32)


def groups(size: int, noisy: float) -> Rows:
    """Forty groups of so many items: each has size - 1 kin."""
    rng = np.random.default_rng(0)
    rows = np.repeat(rng.standard_normal((40, 40)), size, axis=0)
    return to_unit_rows((rows + noisy * rng.standard_normal(rows.shape)).astype(np.float32))


@pytest.mark.parametrize("kind", ["spread", "moons", "turntable"])
def test_facts_are_what_their_definitions_say(kind: str) -> None:
    rows = rows_of(kind)
    found = measure_facts(rows)
    numbers, far = slow.lists(rows, 60)
    assert found.hubness == pytest.approx(slow.hubness(numbers))
    assert (found.mutual, found.common) == pytest.approx(slow.mutual_and_common(numbers))
    assert found.local_dimension == pytest.approx(slow.local_dimension(far), rel=1e-3)
    drop, kin = slow.drop_and_kin(far)
    assert found.drop == pytest.approx(drop, rel=1e-3)
    assert found.kin == kin
    assert found.stability == pytest.approx(slow.stability(rows), abs=0.002)  # a near tie may fall either way
    assert found.contrast == pytest.approx(np.log(np.median(far, axis=0)[59] / np.median(far, axis=0)[0]), rel=1e-4)
    assert (found.items, found.dimensions, found.looked_at) == (*rows.shape, len(rows))
    assert found.query_gap is None
    assert found.thin == found.mutual - found.common


def test_lengths_count_where_they_matter() -> None:
    rows = noise(60, 5)
    found = measure_facts(rows, unit_rows=False)
    numbers, far = slow.lists(rows, 59, unit=False)
    assert found.hubness == pytest.approx(slow.hubness(numbers))
    assert found.drop == pytest.approx(slow.drop_and_kin(far)[0], rel=1e-3)
    assert found.stability == pytest.approx(slow.stability(rows, unit=False), abs=0.002)
    assert found != measure_facts(to_unit_rows(rows))


def test_two_directions_are_compared_one_by_one_by_where_items_lie() -> None:
    rows = to_unit_rows(noise(60, 2))
    assert measure_facts(rows).stability == pytest.approx(slow.stability(rows), abs=0.002)
    assert measured.stability(rows[:, :1]) == 1.0  # one direction has no halves


@pytest.mark.parametrize("dimensions", [1, 3, 10])
def test_evenly_spread_items_extend_in_as_many_directions_as_they_have(dimensions: int) -> None:
    rows = np.random.default_rng(1).uniform(size=(3000, dimensions)).astype(np.float32)
    found = measure_facts(rows, unit_rows=False)
    assert found.local_dimension == pytest.approx(dimensions, rel=0.3)
    assert found.drop == pytest.approx(1.0, abs=0.3)


def test_growth_of_even_distances_is_flat() -> None:
    distances = np.tile((np.arange(1, 61) / 60.0) ** (1 / 4), (5, 1))  # the k-th of items evenly in four directions
    g = [k * np.log((k + 1) / k) / 4 for k in range(1, 60)]
    assert measure_growth(distances) == (pytest.approx(np.mean(g[:3]) / np.mean(g[24:])), 60)
    assert measure_growth(distances[:, :5]) == (1.0, 5)  # too few to say


@pytest.mark.parametrize("kin", [1, 2, 3])
@pytest.mark.parametrize("noisy", [0.1, 0.3])
def test_distances_drop_off_after_few_kin(kin: int, noisy: float) -> None:
    found = measure_facts(groups(kin + 1, noisy))
    assert found.drop > 3
    assert found.kin == kin


@pytest.mark.parametrize("kin", [4, 9])
def test_more_kin_are_no_drop_at_the_first(kin: int) -> None:
    assert measure_facts(groups(kin + 1, 0.1)).drop < 2  # `kin` means nothing then


def test_noise_agrees_on_nothing_and_curves_on_nearly_all() -> None:
    for items, dimensions in ((60, 8), (300, 64), (2000, 16)):
        found = measure_facts(to_unit_rows(noise(items, dimensions)))
        assert found.agreement < 0.02
        assert found.mutual > 0.5  # so that noise looks thin, if its agreement is not looked at
    assert measure_facts(to_unit_rows(noise(1000, 100))).common < 0.05
    found = measure_facts(curves(300, 32))
    assert found.agreement > 0.5
    assert found.thin > 0.2
    assert found.local_dimension < 3


def test_agreement_is_zero_at_chance_and_one_at_most() -> None:
    about = {**measure_facts(to_unit_rows(noise(101, 8))).to_dict(), "looked_at": 101}
    assert Facts(**{**about, "stability": 0.1}).agreement == 0.0
    assert Facts(**{**about, "stability": 0.0}).agreement == 0.0
    assert 0.9 < Facts(**{**about, "stability": 1.0}).agreement <= 1.0
    assert Facts(**{**about, "looked_at": 11, "stability": 1.0}).agreement == 1.0  # all others are the 10 nearest


def test_copies_of_the_same_are_no_drop() -> None:
    same = np.tile(np.eye(1, 8, dtype=np.float32), (40, 1))
    found = measure_facts(same)
    assert (found.drop, found.local_dimension, found.contrast) == (1.0, 0.0, 1.0)
    pairs = np.repeat(to_unit_rows(noise(40, 16)), 2, axis=0)
    assert np.isfinite(list(measure_facts(pairs).to_dict().values())[:-1]).all()
    assert measure_facts(pairs).drop > 2.5


@pytest.mark.parametrize("items", [3, 5, 7, 20])
def test_few_items_give_finite_facts(items: int) -> None:
    found = measure_facts(to_unit_rows(noise(items, 4)))
    assert np.isfinite(list(found.to_dict().values())[:-1]).all()
    assert 1 <= found.kin <= max(items, 6)


def test_queries_that_lie_apart_are_seen() -> None:
    rows = curves(300, 32)
    apart = to_unit_rows(np.random.default_rng(3).standard_normal((20, 32)).astype(np.float32))
    gap = measure_facts(rows, apart).query_gap
    far = np.sort(np.linalg.norm(apart[:, None] - rows[None], axis=2), axis=1)[:, 9]
    own = np.median([row[9] for row in slow.lists(rows, 10)[1]])
    assert gap == pytest.approx(np.median(far) / own, rel=1e-3)
    assert gap is not None
    assert gap > 1.05
    among = measure_facts(rows, rows[:20]).query_gap
    assert among is not None
    assert among <= 1.05
    assert measure_facts(rows, rows[:0]).query_gap is None


def test_large_galleries_are_looked_at_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = to_unit_rows(noise(100, 4))
    assert len(sample_rows(rows, 30)) == 30
    assert sample_rows(rows, 100) is rows
    monkeypatch.setattr(measured.sample_rows, "__defaults__", (50,))
    found = measure_facts(rows)
    assert (found.items, found.looked_at) == (100, 50)


def test_the_same_bits_twice_and_nothing_is_changed() -> None:
    rows = rows_of("rings")
    rows.setflags(write=False)
    before = rows.copy()
    assert measure_facts(rows, rows[:5]) == measure_facts(rows, rows[:5])
    np.testing.assert_array_equal(rows, before)
