"""FaissStore: the contract of every Store, for every kind of index."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from numpy.typing import NDArray

import kinrank as kr
from kinrank.stores import Store
from kinrank.vector_input import to_unit_rows

faiss = pytest.importorskip("faiss", reason="install kinrank[faiss]")

from kinrank.stores.faiss import FaissStore, IndexOptions  # noqa: E402

KINDS = ["flat", "ivf", "hnsw"]


def rows_of(seed: int, items: int) -> NDArray[np.float32]:
    centres = np.random.default_rng(0).normal(size=(8, 12))
    rng = np.random.default_rng(seed)
    return (centres[rng.integers(0, 8, items)] + 0.4 * rng.normal(size=(items, 12))).astype(np.float32)


@pytest.mark.parametrize("kind", KINDS)
def test_finds_what_an_exact_search_finds(kind: str) -> None:
    rows, queries = rows_of(1, 600), rows_of(2, 20)
    store = FaissStore(rows, kind)
    assert isinstance(store, Store)
    assert len(store) == 600
    exact, found = kr.stores.ArrayStore(rows).search(queries, 10), store.search(queries, 10)
    same = [len(set(a) & set(b)) for a, b in zip(exact.indices, found.indices, strict=True)]
    assert np.mean(same) >= (10 if kind == "flat" else 9)
    assert (np.diff(found.distances, axis=1) >= 0).all()
    if kind == "flat":
        np.testing.assert_array_equal(found.indices, exact.indices)
        np.testing.assert_allclose(found.distances, exact.distances, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_vectors_give_the_same_answers(kind: str) -> None:
    rows, queries = rows_of(3, 900), rows_of(4, 30)
    one, two = (FaissStore(rows, kind).search(queries, 30) for _ in range(2))
    np.testing.assert_array_equal(one.indices, two.indices)
    np.testing.assert_array_equal(one.distances, two.distances)


@pytest.mark.parametrize("kind", KINDS)
def test_duplicates_are_at_zero_and_in_order(kind: str) -> None:
    rows = np.tile(rows_of(5, 1), (7, 1))
    found = FaissStore(rows, kind).search(rows[:1] * 3, 7)
    assert found.distances[0].tolist() == pytest.approx([0.0] * 7, abs=1e-6)
    assert found.indices[0].tolist() == list(range(7))


@pytest.mark.parametrize("kind", KINDS)
def test_more_than_there_are_and_none_at_all(kind: str) -> None:
    rows = rows_of(6, 5)
    assert FaissStore(rows, kind, options=IndexOptions(probes=8)).search(rows, 50).indices.shape == (5, 5)
    assert FaissStore(rows, kind).search(rows[:0], 3).indices.shape == (0, 3)
    assert FaissStore(rows[:0], kind).search(rows, 3).indices.shape == (5, 0)


def test_padding_is_passed_on() -> None:
    """A single cell contains fewer items than requested."""
    rows = np.repeat(np.eye(12, dtype=np.float32), 4, axis=0)
    found = FaissStore(rows, "ivf", options=IndexOptions(lists=12, probes=1)).search(rows[:1], 20)
    assert found.indices[0, :4].tolist() == [0, 1, 2, 3]
    assert (found.indices[0, 4:] == -1).all()
    assert np.isinf(found.distances[0, 4:]).all()


def test_existing_index() -> None:
    rows, queries = rows_of(7, 300), rows_of(8, 9)
    index = faiss.IndexFlatIP(12)
    index.add(to_unit_rows(rows))
    found = FaissStore.from_index(index, rows).search(queries, 15)
    np.testing.assert_array_equal(found.indices, kr.stores.ArrayStore(rows).search(queries, 15).indices)
    with pytest.raises(ValueError, match="index has 300 items, but there are 10 vectors"):
        FaissStore.from_index(index, rows[:10])
    with pytest.raises(ValueError, match=r"\(300, 11\) but 12 dimensions"):
        FaissStore.from_index(index, rows[:, :11])
    with pytest.raises(ValueError, match=r"must be a faiss.Index; got list"):
        FaissStore.from_index([], rows)
    with pytest.raises(ValueError, match="not trained"):
        FaissStore.from_index(faiss.IndexIVFFlat(faiss.IndexFlatL2(12), 12, 4), rows[:0])


def test_bad_input_is_refused_before_the_native_call() -> None:
    rows = rows_of(9, 50)
    store = FaissStore(rows)
    with pytest.raises(ValueError, match=r"queries has shape \(2, 3\) but 12 dimensions"):
        store.search(np.ones((2, 3)), 5)
    broken = rows.copy()
    broken[7, 1] = np.nan
    with pytest.raises(ValueError, match="queries row 7 contains NaN"):
        store.search(broken, 5)
    with pytest.raises(ValueError, match="vectors row 7 contains NaN"):
        FaissStore(broken)
    with pytest.raises(ValueError, match="k=0"):
        store.search(rows, 0)
    with pytest.raises(ValueError, match="from 0 to 49"):
        store.vectors([50])
    with pytest.raises(ValueError, match="kind='tree' is not allowed; give one of: flat, ivf, hnsw"):
        FaissStore(rows, "tree")
    np.testing.assert_allclose(store.vectors([3, 1]), to_unit_rows(rows)[[3, 1]])


def test_without_faiss_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[faiss\]'"):
        FaissStore(np.eye(3))


@pytest.mark.parametrize("kind", KINDS)
def test_a_manifold_is_built_from_it(kind: str) -> None:
    rows, queries = rows_of(10, 400), rows_of(11, 12)
    exact = kr.Manifold.build(rows).search(queries, 10)
    found = kr.Manifold.build(FaissStore(rows, kind)).search(queries, 10)
    same = [len(set(a) & set(b)) for a, b in zip(exact.indices, found.indices, strict=True)]
    assert np.mean(same) >= 9
    assert found.meta["certain"] == 1.0
