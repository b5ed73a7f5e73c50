"""ArrayStore: the contract of every Store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kinrank
from kinrank.stores import ArrayStore, Store
from kinrank.vector_input import to_unit_rows
from reference import neighbors as twin


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    queries=st.integers(0, 6),
    items=st.integers(0, 30),
    k=st.integers(1, 40),
    kind=st.sampled_from(["f2", "f4", "f8", ">f4", ">f8", "i2"]),
    order=st.sampled_from("CF"),
)
def test_search_is_brute_force_by_direction(seed: int, queries: int, items: int, k: int, kind: str, order: str) -> None:
    rng = np.random.default_rng(seed)
    asked = np.array(rng.integers(1, 99, (queries, 5)), dtype=kind, order=order)  # type: ignore[call-overload]
    gallery = np.array(rng.integers(1, 99, (items, 5)), dtype=kind, order=order)  # type: ignore[call-overload]
    ranking = ArrayStore(gallery).search(asked, k)
    assert ranking.indices.shape == (queries, min(k, items))
    expected = twin.nearest(to_unit_rows(asked.astype(np.float32)), to_unit_rows(gallery.astype(np.float32)), k)
    for row in range(queries):
        np.testing.assert_allclose(ranking.distances[row], [gap for gap, _ in expected[row]], atol=1e-6)
    assert (np.diff(ranking.distances, axis=1) >= 0).all()


def test_an_array_store_is_a_store_and_keeps_its_rows() -> None:
    rows = np.array([[3.0, 4.0], [0.0, 2.0]])
    store = ArrayStore(rows)
    assert isinstance(store, Store)
    assert len(store) == 2
    np.testing.assert_allclose(store.vectors([1, 0, 1]), [[0, 1], [0.6, 0.8], [0, 1]], rtol=1e-6)
    assert store.vectors([]).shape == (0, 2)
    rows[:] = 7  # the store does not change the caller's array
    np.testing.assert_allclose(store.vectors([0]), [[0.6, 0.8]], rtol=1e-6)


@pytest.mark.parametrize("numbers", [[-1], [2], [0, 5]])
def test_vectors_outside_are_refused_with_the_range(numbers: list[int]) -> None:
    with pytest.raises(ValueError, match="from 0 to 1"):
        ArrayStore(np.eye(2)).vectors(numbers)


def test_another_dimension_is_refused_with_both() -> None:
    with pytest.raises(ValueError, match=r"queries has shape \(1, 3\) but 2 dimensions"):
        ArrayStore(np.eye(2)).search(np.ones((1, 3)), 1)


@pytest.mark.parametrize("k", [0, -3, 1.5, True, "2"])
def test_k_outside_is_refused(k: object) -> None:
    with pytest.raises(ValueError, match="k="):
        ArrayStore(np.eye(2)).search(np.eye(2), k)  # type: ignore[arg-type]


def test_a_memory_map_is_searched_without_being_changed(tmp_path: Path) -> None:
    path = tmp_path / "rows.npy"
    np.save(path, np.arange(1.0, 13.0).reshape(4, 3))
    before = path.read_bytes()
    ranking = kinrank.rerank(np.ones((1, 3)), np.load(path, mmap_mode="r"), "none")
    assert sorted(ranking.indices[0]) == [0, 1, 2, 3]
    assert path.read_bytes() == before


def test_store_class_must_extend_the_base_class() -> None:
    class Searchable:
        def search(self, queries: Any, k: int) -> kinrank.Ranking:
            raise AssertionError

        def vectors(self, ids: Any) -> Any:
            raise AssertionError

    for call in (kinrank.Manifold.build, lambda store: kinrank.rerank([[1.0, 0.0]], store, candidates=1)):
        with pytest.raises(kinrank.errors.InputError, match="Searchable is not a Store; let its class"):
            call(Searchable())


def test_store_declares_its_capabilities() -> None:
    store = ArrayStore([[1.0, 0.0], [0.0, 1.0]], "euclidean")
    assert (store.metric, store.exact, store.filters, store.in_units) == ("euclidean", True, True, False)
    assert (store.how, store.engine) == (None, None)
    assert isinstance(store.rebuild(np.eye(2, dtype=np.float32)), ArrayStore)
    with pytest.raises(TypeError, match="abstract"):
        kinrank.Store()  # type: ignore[abstract]
