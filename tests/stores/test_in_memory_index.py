"""InMemoryIndexStore: filters, vectors that are not comparable, large labels, threads."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import kinrank as kr
from engines.harness import Harness
from kinrank.stores.in_memory_index import find_labels, to_labels

PACKAGES = {"usearch": "usearch", "faiss_index": "faiss"}
RNG = np.random.default_rng(11)
ROWS = RNG.normal(size=(180, 8)).astype(np.float32)
QUERIES = RNG.normal(size=(6, 8)).astype(np.float32)
IDS = [5 * place + 2 for place in range(180)]


@pytest.fixture(params=PACKAGES, scope="module")
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    pytest.importorskip(PACKAGES[request.param], reason=f"install kinrank[{request.param}]")
    harness: Harness = importlib.import_module(f"engines.{request.param}").Engine(tmp_path_factory.mktemp("index"))
    yield harness
    harness.close()


def truth(k: int, places: Any, metric: str = "cosine") -> list[list[int]]:
    found = kr.stores.ArrayStore(ROWS, metric).search(QUERIES, k, where=list(places)).indices
    return [[IDS[place] for place in row] for row in found]


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
@pytest.mark.parametrize("step", [1, 2, 3, 30, 90])
def test_filters_find_what_an_exact_search_finds(engine: Harness, step: int, metric: str) -> None:
    """Small filters are searched exactly; for large ones the results of the index are filtered."""
    store: Any = engine.make(ROWS, IDS, metric=metric)
    places, expected = range(1, 180, step), truth(2, range(1, 180, step), metric)
    some = [IDS[place] for place in places]
    mask = np.isin(IDS, some)
    for where in (some, np.array(some), np.array(some[::-1], np.uint64), mask, mask.tolist(), [*some, 10**6, -3]):
        assert store.search(QUERIES, 2, where=where).ids.tolist() == expected
        plain = store.nearest_ids(QUERIES, 2, where=where)
        assert plain.ids.tolist() == expected
        assert sorted(store.ids_where(where).tolist()) == some
    np.testing.assert_allclose(plain.distances, store.search(QUERIES, 2, where=some).distances, atol=1e-3)


def test_invalid_filters(engine: Harness) -> None:
    store: Any = engine.make(ROWS, IDS)
    with pytest.raises(
        ValueError, match=r"where contains 'kind', a str, but .* has no fields and its ids are integers"
    ):
        store.search(QUERIES, 3, where={"kind": "cat"})
    with pytest.raises(ValueError, match="where contains 'cat'"):
        store.search(QUERIES, 3, where="cat")
    with pytest.raises(ValueError, match=r"where contains 2\.5, a float"):
        store.ids_where([2, 2.5])
    with pytest.raises(ValueError, match="where has 3 entries but there are 180 items"):
        store.search(QUERIES, 3, where=[True, False, True])
    with pytest.raises(ValueError, match="looks like a mask of 0 and 1"):
        store.search(QUERIES, 3, where=np.zeros(180, np.int64))
    with pytest.raises(ValueError, match="looks like a mask of 0 and 1"):
        store.search(QUERIES, 3, where=[1, 0] * 90)
    for nothing in ([], np.zeros(180, np.bool_), np.empty(0, np.int64)):
        with pytest.raises(ValueError, match=r"where .* no item"):
            store.search(QUERIES, 3, where=nothing)
    assert store.search(QUERIES, 3, where=[1, 3, -7, 10**30]).depth == 0
    assert store.ids_where([1, 3]).tolist() == []
    assert store.search(QUERIES, 300, where=IDS[:4]).depth == 4


def test_a_filter_over_nothing(engine: Harness) -> None:
    store: Any = engine.make(ROWS[:0], [])
    assert store.search(QUERIES, 3, where=[2, 7]).depth == 0
    assert store.find_vectors(np.array([2, 7]))[1].shape == (0, 8)


def test_incomparable_vectors_do_not_hide_others(engine: Harness) -> None:
    """usearch puts NaN first: more than k of them would hide all other items."""
    store: Any = engine.make(ROWS[:100], IDS[:100])
    expected = store.search(QUERIES, 5).ids.tolist()
    broken = np.zeros((60, 8), np.float32)
    broken[::2] = np.nan
    _put_as_they_are(engine, list(range(5000, 5060)), broken)
    found, full = store.search(QUERIES, 5), store.search(QUERIES, 100)
    assert found.depth == 5
    assert found.ids.tolist() == expected
    assert all(sorted(row) == IDS[:100] for row in full.ids.tolist())
    assert store.search(QUERIES, 5, where=[*IDS[:100], *range(5000, 5060)]).ids.tolist() == expected
    with pytest.warns(UserWarning, match="60 items are left out because"):
        ids, rows = store.everything()
    assert ids.tolist() == IDS[:100]
    assert np.isfinite(rows).all()
    assert not store.find_vectors(np.arange(5000, 5060))[0].any()


def _put_as_they_are(engine: Harness, ids: list[int], rows: Any) -> None:
    index: Any = engine.index  # type: ignore[attr-defined]
    if engine.name == "faiss_index":
        index.add_with_ids(rows, np.array(ids, np.int64))
    else:
        index.add(np.array(ids, np.uint64), rows)


def test_queries_are_checked_before_the_native_call(engine: Harness) -> None:
    """A native index may read past the end of a query that is too short."""
    rows = RNG.normal(size=(20, 128)).astype(np.float32)
    store: Any = engine.make(rows, IDS[:20])
    for call in (store.search, store.nearest_ids, store.search_lists):
        with pytest.raises(ValueError, match=r"queries has shape \(1, 64\) but 128 dimensions are needed"):
            call(rows[:1, :64], 3)
        with pytest.raises(ValueError, match="NaN"):
            call(np.full((1, 128), np.nan), 3)
        with pytest.raises(ValueError, match="zero vector"):
            call(np.zeros((1, 128)), 3)
        with pytest.raises(ValueError, match="k=0"):
            call(rows, 0)


def test_many_threads_search_at_once(engine: Harness) -> None:
    store: Any = engine.make(ROWS, IDS)
    alone = [store.search(QUERIES, k).ids.tolist() for k in range(1, 9)]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            assert [one.ids.tolist() for one in pool.map(lambda k: store.search(QUERIES, k), range(1, 9))] == alone
            filtered = pool.map(lambda k: store.search(QUERIES, k, where=IDS[:90]), range(1, 9))
            assert all(set(one.ids.ravel().tolist()) <= set(IDS[:90]) for one in filtered)


def test_labels_above_2_to_the_63_come_back_right(tmp_path: Any) -> None:
    pytest.importorskip("usearch", reason="install kinrank[usearch]")
    harness: Any = importlib.import_module("engines.usearch").Engine(tmp_path)
    ids = [2**63 + 3 * place for place in range(90)] + [2**64 - 2, 4]
    store = harness.make(ROWS[:92], ids)
    expected = kr.stores.ArrayStore(ROWS[:92]).search(QUERIES, 6).indices
    assert store.search(QUERIES, 6).ids.tolist() == [[ids[place] for place in row] for row in expected]
    assert store.nearest_ids(QUERIES, 6).ids.tolist() == [[ids[place] for place in row] for row in expected]
    np.testing.assert_allclose(store.vectors([2**64 - 2]), store.vectors(ids)[90:91])
    assert store.search(ROWS[90:91], 3, where=[2**64 - 2, 2**63]).ids.tolist() == [[2**64 - 2, 2**63]]
    assert sorted(store.ids_where([2**63, 4]).tolist()) == [4, 2**63]
    assert set(store.everything()[0].tolist()) == set(ids)
    with pytest.raises(ValueError, match="does not hold"):
        store.vectors([-2])


def test_number_as_text_is_that_number(engine: Harness) -> None:
    store: Any = engine.make(ROWS, IDS)
    np.testing.assert_array_equal(store.vectors(["7"]), store.vectors([7]))
    with pytest.raises(ValueError, match="'seven'"):
        store.vectors(["seven"])


def test_labels_of_any_kind_of_numbers() -> None:
    assert to_labels(np.array([-1, 3, 3]), np.uint64).tolist() == [3]
    assert to_labels(np.array([2**63 + 1, 3], np.uint64), np.int64).tolist() == [3]
    assert to_labels([2**64, 2**63, -5, 1], np.uint64).tolist() == [1, 2**63]
    assert find_labels(np.empty(0, np.int64), np.array([4]))[1].tolist() == [False]


def test_url_without_a_file(engine: Harness, tmp_path: Any) -> None:
    scheme = "faiss" if engine.name == "faiss_index" else engine.name
    with pytest.raises(FileNotFoundError, match="does not exist or is not a file"):
        kr.open_store(f"{scheme}:{tmp_path}/nothing")  # type: ignore[attr-defined]
    with pytest.raises(FileNotFoundError, match="does not exist or is not a file"):
        kr.open_store(f"{scheme}:{tmp_path}")  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="is a server; give a file"):
        kr.open_store(f"{scheme}://localhost/index")  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=f"{scheme}: needs a file"):
        kr.open_store(f"{scheme}:")  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="has no option 'colour'"):
        kr.open_store(f"{scheme}:{tmp_path}/nothing?colour=red")  # type: ignore[attr-defined]


def test_invalid_file_raises_one_sentence(engine: Harness, tmp_path: Any) -> None:
    """Truncated files, and files of another type."""
    engine.make(ROWS[:40], IDS[:40])
    url = str(engine.url())
    path = url.split("//")[1].split("?")[0]
    with open(path, "rb") as file:
        whole = file.read()
    cut = [whole[:size] for size in [*range(200), *range(200, len(whole), 97), len(whole) - 1]]
    for content in (*cut, b"text, not an index\n" * 300, b"\0" * 5000, b"\xff" * 5000):
        with open(path, "wb") as file:
            file.write(content)
        with pytest.raises(ValueError, match=r"is not an? .* index, or is truncated"):
            kr.open_store(url)  # type: ignore[attr-defined]
