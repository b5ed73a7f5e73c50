"""The entry point: modes, all kinds of stores, progress, meta, ids, memory."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import kinrank
from kinrank.memory_limit import format_bytes, parse_bytes
from kinrank.progress import Progress
from kinrank.ranking import Ranking
from kinrank.testing import toy
from kinrank.testing.assertions import require_identical, require_valid

DATA = toy("spread", items=40)


class Untidy(kinrank.Store):
    """A store like a bad approximate index: padding in the middle, repeated items, no order."""

    def __init__(self, rows: NDArray[Any], seed: int = 0, finds: float = 0.8) -> None:
        self.store = kinrank.stores.ArrayStore(rows)
        self.rng = np.random.default_rng(seed)
        self.finds = finds
        self.asked: list[NDArray[np.int64]] = []

    def search(self, queries: Any, k: int) -> Ranking:
        found = self.store.search(queries, k)
        indices, distances = found.indices.copy(), found.distances.copy()
        missed = self.rng.random(indices.shape) > self.finds
        indices[missed], distances[missed] = -1, np.nan
        for row in range(len(indices)):
            order = self.rng.permutation(indices.shape[1])
            indices[row], distances[row] = indices[row, order], distances[row, order]
            if indices.shape[1] > 2:
                indices[row, 1], distances[row, 1] = indices[row, 0], distances[row, 0]
        return Ranking(indices, distances)

    def vectors(self, ids: Any) -> NDArray[np.float32]:
        numbers = np.asarray(ids)
        assert (numbers >= 0).all()
        assert len(np.unique(numbers)) == len(numbers)
        self.asked.append(numbers)
        return self.store.vectors(numbers)

    def __len__(self) -> int:
        return len(self.store)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    candidates=st.integers(1, 60),
    depth=st.none() | st.integers(1, 60),
    finds=st.sampled_from([0.0, 0.3, 0.9, 1.0]),
    method=st.sampled_from(["none", "aqe", "k-reciprocal"]),
)
def test_padding_and_disorder_of_a_store_are_masked(
    seed: int, candidates: int, depth: int | None, finds: float, method: str
) -> None:
    store = Untidy(DATA.gallery, seed, finds)
    ranking = kinrank.rerank(DATA.queries, store, method, candidates=candidates, k=depth)
    for numbers, gaps in zip(ranking.indices, ranking.distances, strict=True):
        listed = numbers[numbers >= 0]
        assert len(set(listed.tolist())) == len(listed)
        assert (numbers[len(listed) :] == -1).all()
        assert np.isfinite(gaps[: len(listed)]).all()
        assert np.isposinf(gaps[len(listed) :]).all()
        assert (np.diff(gaps[: len(listed)]) >= 0).all()
    assert all(len(numbers) <= candidates for numbers in store.asked)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    queries=st.none() | st.integers(0, 5),
    items=st.integers(0, 12),
    kinds=st.integers(1, 12),
    candidates=st.none() | st.integers(1, 20),
    depth=st.none() | st.integers(1, 20),
    method=st.sampled_from(["none", "aqe", "dfs", "knn"]),
)
def test_any_size_gives_each_item_once(
    seed: int,
    queries: int | None,
    items: int,
    kinds: int,
    candidates: int | None,
    depth: int | None,
    method: str,
) -> None:
    rng = np.random.default_rng(seed)
    different = rng.normal(size=(kinds, 4))
    gallery = different[rng.integers(0, kinds, items)]  # with duplicates
    asked = None if queries is None else different[rng.integers(0, kinds, queries)]
    ranking = kinrank.rerank(asked, gallery, method, candidates=candidates, k=depth)
    others = max(items - 1, 0) if asked is None else items
    width = others if candidates is None else min(others, max(candidates, depth or 0))
    width = width if depth is None else min(width, depth)
    assert ranking.indices.shape == (items if asked is None else len(asked), width)
    assert np.isfinite(ranking.distances).all()
    assert (np.diff(ranking.distances, axis=1) >= 0).all()
    for row, numbers in enumerate(ranking.indices.tolist()):
        assert len(set(numbers)) == width
        assert set(numbers) <= set(range(items))
        assert asked is not None or row not in numbers


def test_without_a_method_the_order_is_that_of_the_search() -> None:
    searched = kinrank.stores.ArrayStore(DATA.gallery).search(DATA.queries, 40)
    joint = kinrank.rerank(DATA.queries, DATA.gallery, "none")
    np.testing.assert_array_equal(joint.indices, searched.indices)
    np.testing.assert_allclose(joint.distances, searched.distances, atol=1e-6)
    some = kinrank.rerank(DATA.queries, DATA.gallery, "none", candidates=9, k=40)
    np.testing.assert_array_equal(some.indices, searched.indices)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    queries=st.integers(1, 9),
    items=st.integers(1, 90),
    dimensions=st.integers(2, 40),
)
def test_equal_items_are_at_equal_distances_in_order_of_number(
    seed: int, queries: int, items: int, dimensions: int
) -> None:
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, 3, items)
    gallery = rng.normal(size=(3, dimensions))[kinds]
    ranking = kinrank.rerank(rng.normal(size=(queries, dimensions)), gallery, "none")
    for numbers, gaps in zip(ranking.indices, ranking.distances, strict=True):
        for kind in range(3):
            mine = kinds[numbers] == kind
            assert len(np.unique(gaps[mine])) <= 1
            assert (np.diff(numbers[mine]) > 0).all()


def test_a_store_and_its_rows_give_the_same() -> None:
    store = kinrank.stores.ArrayStore(DATA.gallery)
    for options in ({}, {"candidates": 10}, {"k": 3}):
        left = kinrank.rerank(DATA.queries, DATA.gallery, "k-reciprocal", **options)  # type: ignore[arg-type]
        right = kinrank.rerank(DATA.queries, store, "k-reciprocal", **options)  # type: ignore[arg-type]
        np.testing.assert_array_equal(left.indices, right.indices)
        np.testing.assert_allclose(left.distances, right.distances, atol=1e-5)


def test_vectors_of_a_store_are_checked_too() -> None:
    class Broken(Untidy):
        def vectors(self, ids: Any) -> NDArray[np.float32]:
            return super().vectors(ids) * np.float32(np.nan)

    with pytest.raises(ValueError, match="vectors of the store row 0"):
        kinrank.rerank(DATA.queries, Broken(DATA.gallery, finds=1.0), "none", candidates=5)


def test_meta_says_how_it_came_about() -> None:
    joint = kinrank.rerank(DATA.queries, DATA.gallery, kinrank.methods.AQE(k=3)).meta
    assert joint["mode"] == "joint"
    assert joint["method"] == repr(kinrank.methods.AQE(k=3))
    assert joint["seconds"] >= 0
    some = kinrank.rerank(DATA.queries, DATA.gallery, "aqe", candidates=7).meta
    assert (some["mode"], some["candidates"]) == ("candidates", 7)


def test_a_method_goes_by_name_with_its_defaults() -> None:
    by_name = kinrank.rerank(DATA.queries, DATA.gallery, "aqe")
    require_identical(by_name, kinrank.rerank(DATA.queries, DATA.gallery, kinrank.methods.AQE()), "by name")


def test_the_default_is_lpmt() -> None:
    assert kinrank.rerank(DATA.queries, DATA.gallery).meta["method"].startswith("LPMT(")


@pytest.mark.parametrize("method", ["no such", 3, kinrank.methods.AQE])
def test_an_unknown_method_is_refused_with_the_known_ones(method: Any) -> None:
    with pytest.raises(ValueError, match=r"is not known; give .*none, aqe"):
        kinrank.rerank(DATA.queries, DATA.gallery, method)


@pytest.mark.parametrize("options", [{}, {"candidates": 5}])
def test_progress_is_told_to_a_callable(options: dict[str, int]) -> None:
    reports: list[tuple[str, int, int]] = []
    kinrank.rerank(
        DATA.queries,
        DATA.gallery,
        "aqe",
        progress=lambda *step: reports.append(step),
        **options,  # type: ignore[arg-type]
    )
    assert reports
    assert reports[-1][1] == reports[-1][2]
    assert all(0 <= done <= total for _, done, total in reports)


def test_progress_passes_every_step_through(capsys: pytest.CaptureFixture[str]) -> None:
    for show in (None, False, True, lambda label, done, total: None):
        assert list(Progress(show).each("steps", [3, 1, 2], 3)) == [3, 1, 2]
    assert capsys.readouterr().out == ""


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_torch_tensors_go_in() -> None:
    import torch

    expected = kinrank.rerank(DATA.queries, DATA.gallery, "aqe")
    queries = torch.tensor(DATA.queries, requires_grad=True)
    require_identical(expected, kinrank.rerank(queries, torch.tensor(DATA.gallery), "aqe"), "torch")


def test_anything_with_an_array_goes_in() -> None:
    class Wrapped:
        def __init__(self, rows: NDArray[Any]) -> None:
            self.rows = rows

        def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
            return np.array(self.rows, dtype=dtype)

    expected = kinrank.rerank(DATA.queries, DATA.gallery, "aqe")
    got = kinrank.rerank(Wrapped(DATA.queries), Wrapped(DATA.gallery), "aqe")  # type: ignore[arg-type]
    require_identical(expected, got, "__array__")


def test_little_memory_means_smaller_blocks_and_the_same_answer() -> None:
    gallery = toy("spread", items=150).gallery
    whole = kinrank.rerank(None, gallery, "none", k=10)
    small = kinrank.rerank(None, gallery, "none", k=10, max_memory=60_000)
    require_valid(kinrank.rerank(None, gallery, "none", max_memory="1MB"), 150, 150, "1 MB", own=True)
    np.testing.assert_array_equal(whole.indices, small.indices)
    np.testing.assert_allclose(whole.distances, small.distances, atol=1e-6)


def test_too_many_candidates_are_refused_before_the_store_is_asked() -> None:
    class Silent(Untidy):
        def search(self, queries: Any, k: int) -> Ranking:
            raise AssertionError("searched before the estimate")

        def __len__(self) -> int:
            return 10**9

    with pytest.raises(kinrank.errors.MemoryLimitError, match="give smaller `candidates`"):
        kinrank.rerank(DATA.queries, Silent(DATA.gallery), "none", candidates=10**9, max_memory="1GB")


@pytest.mark.parametrize(
    ("words", "count"),
    [("2GB", 2 * 10**9), ("1.5 MiB", 1572864), ("10", 10), ("3k", 3000), (7, 7), (np.int64(7), 7)],
)
def test_memory_is_said_in_words(words: Any, count: int) -> None:
    assert parse_bytes(words) == count


@pytest.mark.parametrize("words", ["", "two", "-1", "1XB", 0, -1, 1.5, True, None, "0"])
def test_other_words_for_memory_are_refused(words: Any) -> None:
    with pytest.raises(ValueError, match="max_memory="):
        parse_bytes(words)


def test_bytes_are_told_to_people() -> None:
    assert [format_bytes(count) for count in (0, 999, 1500, 2 * 10**9, 3 * 10**12)] == [
        "0 B",
        "999 B",
        "1.5 KB",
        "2 GB",
        "3 TB",
    ]
