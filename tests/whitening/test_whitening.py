"""Whitening against published programs and a slow reference, and its documented properties."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinrank import whitening
from kinrank.vector_input import to_unit_rows
from kinrank.whitening import Whitening, factor_with_jitter, whiten
from reference import whitening as slow
from reference.whitening import pairs_of, rows_of

POWERS = (0.0, 0.1, 0.25, 0.5)


def covariance(rows: np.ndarray) -> np.ndarray:
    return np.cov(np.asarray(rows, np.float64).T, bias=True)


@pytest.fixture(scope="module")
def golden(shared_dir: Path) -> Any:
    return np.load(shared_dir / "golden" / "encoders" / "pooling.npz")


@pytest.mark.parametrize("kind", ["pca", "lw"])
def test_published_whitening(golden: Any, kind: str) -> None:
    rows, asked = golden["wh_X"].T, golden["wh_test"].T
    pairs = np.stack([golden["wh_qidx"], golden["wh_pidx"]], axis=1)
    found = Whitening.fit(rows, pairs=pairs if kind == "lw" else None)
    np.testing.assert_allclose(found.mean, golden[f"wh_{kind}_m"][:, 0], atol=1e-12)
    theirs = golden[f"wh_{kind}_PtP"]
    np.testing.assert_allclose(found.projection @ found.projection.T, theirs, atol=1e-9 * np.abs(theirs).max())
    for size, ending in ((16, ""), (8, "8")):
        made = found.project(asked)[:, :size]
        made /= np.linalg.norm(made, axis=1, keepdims=True) + 1e-6  # as the published program divides
        np.testing.assert_allclose(made @ made.T, golden[f"wh_{kind}_gram{ending}"], atol=1e-9)
        reduced = Whitening.fit(rows, dimensions=size, pairs=pairs if kind == "lw" else None).apply(asked)
        np.testing.assert_allclose(reduced @ reduced.T, golden[f"wh_{kind}_gram{ending}"], atol=1e-6)
    signs = np.sign((found.projection * golden[f"wh_{kind}_P"].T).sum(axis=0))
    np.testing.assert_allclose(found.projection * signs, golden[f"wh_{kind}_P"].T, rtol=1e-7, atol=1e-7)


def test_published_whitening_of_float32(golden: Any) -> None:
    pairs = np.stack([golden["wh_qidx"], golden["wh_pidx"]], axis=1)
    made = Whitening.fit(golden["wh_X"].T.astype(np.float32), pairs=pairs).apply(golden["wh_test"].T)
    np.testing.assert_allclose(made @ made.T, golden["wh_lw32_gram"], atol=1e-3)


def test_published_cholesky(golden: Any) -> None:
    for name in ("chol", "chol0"):
        np.testing.assert_allclose(factor_with_jitter(golden[f"{name}_in"])[0], golden[f"{name}_out"], atol=1e-12)


def test_cholesky_adds_as_little_as_it_can() -> None:
    assert factor_with_jitter(np.eye(3))[1] == 0
    assert factor_with_jitter(np.zeros((3, 3)))[1] == 1e-10
    lower, jitter = factor_with_jitter(np.diag([1.0, -1e-6]))
    assert jitter == pytest.approx(1e-5)
    np.testing.assert_allclose(lower @ lower.T, np.diag([1.0, -1e-6]) + jitter * np.eye(2))


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("learned", [False, True])
def test_slow_twin(power: float, learned: bool) -> None:
    rows, asked, pairs = rows_of(60, 6), rows_of(9, 6, seed=3), pairs_of(60, 25)
    found = Whitening.fit(rows, power=power, pairs=pairs if learned else None)
    mean, projection = slow.by_pairs(rows, pairs.tolist(), power) if learned else slow.by_variance(rows, power)
    np.testing.assert_allclose(found.mean, mean, atol=1e-12)
    np.testing.assert_allclose(found.projection @ found.projection.T, projection.T @ projection, rtol=1e-9, atol=1e-9)
    for size in (6, 3):
        ours = Whitening.fit(rows, dimensions=size, power=power, pairs=pairs if learned else None).apply(asked)
        theirs = slow.applied(asked, mean, projection[:size])
        np.testing.assert_allclose(ours @ ours.T, theirs @ theirs.T, atol=1e-6)


@pytest.mark.parametrize("power", POWERS)
def test_variances_of_the_fitted_rows(power: float) -> None:
    rows = to_unit_rows(rows_of().astype(np.float32))
    variances = np.linalg.eigvalsh(covariance(rows))[::-1]
    made = covariance(Whitening.fit(rows, power=power).project(rows))
    np.testing.assert_allclose(made, np.diag(variances ** (1 - 2 * power)), atol=1e-6)  # the identity at 0.5


def test_differences_of_pairs_are_white() -> None:
    rows, pairs = rows_of(), pairs_of()
    made = Whitening.fit(rows, pairs=pairs).project(np.array([slow.unit(row) for row in rows]))
    difference = made[pairs[:, 0]] - made[pairs[:, 1]]
    np.testing.assert_allclose(difference.T @ difference / len(pairs), np.eye(8), atol=1e-8)
    assert (np.diff((made**2).mean(axis=0)) < 1e-9).all()  # directions by descending variance


def test_power_zero_only_rotates() -> None:
    rows = np.array([slow.unit(row) for row in rows_of()])
    made = Whitening.fit(rows, power=0).project(rows)
    centred = rows - rows.mean(axis=0)
    np.testing.assert_allclose(made @ made.T, centred @ centred.T, atol=1e-12)


def test_whiten_is_fit_and_apply() -> None:
    rows, others, pairs = rows_of(), rows_of(5, seed=2), pairs_of()
    np.testing.assert_array_equal(whiten(rows), Whitening.fit(rows).apply(rows))
    expected = Whitening.fit(rows, dimensions=3, power=0.25, pairs=pairs).apply(others)
    np.testing.assert_array_equal(whiten(others, on=rows, dimensions=3, power=0.25, pairs=pairs), expected)
    assert expected.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(expected, axis=1), 1, atol=1e-6)


def test_lengths_do_not_matter() -> None:
    rows = rows_of()
    scaled = rows * np.random.default_rng(5).uniform(1e-20, 1e20, (len(rows), 1))
    np.testing.assert_allclose(whiten(scaled), whiten(rows), atol=1e-6)
    np.testing.assert_allclose(whiten(rows * 1e30), whiten(rows), atol=1e-6)


def test_bits_are_the_same_twice() -> None:
    rows, pairs = rows_of(), pairs_of()
    for given in (None, pairs):
        first, second = Whitening.fit(rows, pairs=given), Whitening.fit(rows.copy(), pairs=given)
        assert first.projection.tobytes() == second.projection.tobytes()
        assert first.apply(rows).tobytes() == second.apply(rows).tobytes()
        largest = np.abs(first.projection).argmax(axis=0)
        assert (first.projection[largest, np.arange(8)] > 0).all()


@pytest.mark.parametrize(
    "kind", ["float16", "float32", "float64", "big endian", "strided", "columns", "memmap", "list"]
)
def test_all_kinds_of_arrays(kind: str, tmp_path: Path) -> None:
    rows = rows_of().astype(np.float16)  # the same numbers in every dtype
    if kind == "memmap":
        np.save(tmp_path / "rows.npy", rows)
    given: Any = {
        "big endian": lambda: rows.astype(">f4"),
        "strided": lambda: np.repeat(rows, 2, axis=0)[::2],
        "columns": lambda: np.asfortranarray(rows),
        "memmap": lambda: np.load(tmp_path / "rows.npy", mmap_mode="r"),
        "list": lambda: rows.tolist(),
    }.get(kind, lambda: rows.astype(kind))()
    before = np.array(given)
    if isinstance(given, np.ndarray):
        given.setflags(write=False)
    assert whiten(given).tobytes() == whiten(rows).tobytes()
    np.testing.assert_array_equal(given, before)


def test_blocks_change_nothing_but_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, pairs = rows_of(), pairs_of()
    for given in (None, pairs):
        whole = Whitening.fit(rows, pairs=given)
        monkeypatch.setattr(whitening, "BLOCK_NUMBERS", 56)
        parts = Whitening.fit(rows, pairs=given)
        np.testing.assert_allclose(parts.projection, whole.projection, rtol=1e-6, atol=1e-9)
        assert [len(part) for part in parts.blocks(rows[:10])] == [7, 3]
        np.testing.assert_array_equal(np.concatenate(list(whole.blocks(rows))), whole.apply(rows))
        monkeypatch.undo()
        np.testing.assert_allclose(whole.apply(rows), parts.apply(rows), atol=1e-6)


def test_a_memory_map_stays_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whitening, "BLOCK_NUMBERS", 2**16)
    np.save(tmp_path / "many.npy", np.random.default_rng(0).standard_normal((100_000, 32)).astype(np.float32))
    rows = np.load(tmp_path / "many.npy", mmap_mode="r")
    tracemalloc.start()
    try:
        found = Whitening.fit(rows)
        list(map(len, found.blocks(rows)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6 * 8 * whitening.BLOCK_NUMBERS < rows.nbytes / 4
