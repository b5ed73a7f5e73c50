"""Tests of all pairs: they equal tests of single pairs; Holm's correction equals its definition."""

from __future__ import annotations

import numpy as np
import pytest

from kinrank.evaluation.pair_tests import compute_p_values, correct_by_holm, run_pair_tests
from kinrank.evaluation.significance import compare_pairs

CHANCE = {"confidence": 0.95, "resamples": 2000, "seed": 0}


def test_all_pairs_equal_single_pairs(rng: np.random.Generator) -> None:
    values = rng.random((5, 40)).round(2)
    values[3] = values[2]
    values[4] = values[0]
    values[4, 7] += 1e-6  # differs on one query only: every random sign gives the same difference
    found = compute_p_values(values, 2000, seed=3)
    for a in range(5):
        for b in range(5):
            single = compare_pairs(values[a], values[b], "mAP", resamples=2000, seed=3)
            assert found[a, b] == pytest.approx(single.p, abs=2 / 2001)
    np.testing.assert_array_equal(found, found.T)
    assert found[2, 3] == found[0, 4] == 1.0


def test_blocks_of_draws_do_not_matter(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    values = rng.random((3, 30))
    expected = compute_p_values(values, 500, seed=0)
    monkeypatch.setattr("kinrank.evaluation.significance.MAX_DRAWS_IN_MEMORY", 30 * 500)
    np.testing.assert_array_equal(compute_p_values(values, 500, seed=0), expected)


@pytest.mark.parametrize("size", [0, 1, 2, 7])
def test_holm_by_its_definition(size: int, rng: np.random.Generator) -> None:
    p = rng.random(size) ** 3
    for alpha in np.linspace(0.001, 0.999, 60):
        rejected = np.zeros(size, bool)
        for step, position in enumerate(np.argsort(p)):  # stop at the first p-value that is too large
            if p[position] > alpha / (size - step):
                break
            rejected[position] = True
        np.testing.assert_array_equal(correct_by_holm(p) <= alpha, rejected)
    assert (correct_by_holm(p) <= 1).all()


def test_a_correction_of_nothing_real_finds_nothing() -> None:
    hits = {"holm": 0, "none": 0}
    for seed in range(30):
        values = np.random.default_rng(seed).random((10, 30))
        for correction in hits:
            found = run_pair_tests(values, 0, correction, **{**CHANCE, "resamples": 200})  # type: ignore[arg-type]
            hits[correction] += any(found.beats)
    assert hits["holm"] <= 4  # about one in twenty
    assert hits["none"] >= 20


def test_each_family_is_corrected_by_its_own_size(rng: np.random.Generator) -> None:
    values = np.cumsum(0.02 * rng.random((4, 60)), axis=0) + rng.random((4, 60))
    values[:, :4] = np.nan
    raw = compute_p_values(values[:, 4:], 10_000, seed=0)
    found = run_pair_tests(values, 0, "holm", **CHANCE)  # type: ignore[arg-type]
    best = int(values[:, 4:].mean(axis=1).argmax())
    for row, p in ((0, found.p_plain), (best, found.p_to_best)):
        others = np.arange(4) != row
        np.testing.assert_array_equal(p[others], correct_by_holm(raw[row][others]))
        assert p[row] == 1.0
    single = run_pair_tests(values, 0, "none", **CHANCE)  # type: ignore[arg-type]
    np.testing.assert_array_equal(single.p_plain[1:], raw[0, 1:])


def test_a_clear_difference_is_found(rng: np.random.Generator) -> None:
    base = rng.random(50)
    found = run_pair_tests(np.stack([base, base + 0.1, base - 0.1]), 0, "holm", **CHANCE)  # type: ignore[arg-type]
    assert found.beats == [[2], [0, 2], []]


@pytest.mark.parametrize("shape", [(1, 20), (3, 0), (1, 0)])
def test_few_methods_and_no_queries(shape: tuple[int, int], rng: np.random.Generator) -> None:
    found = run_pair_tests(rng.random(shape), 0, "holm", **CHANCE)  # type: ignore[arg-type]
    assert found.beats == [[] for _ in range(shape[0])]
