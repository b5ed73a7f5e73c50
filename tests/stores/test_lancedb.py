"""LanceDBStore: versions, indexes of any metric, missing vectors, conditions in SQL."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("lancedb", reason="lancedb is not installed: make test-stores installs every engine")

import lancedb
import pyarrow as pa
from lancedb.index import HnswSq, IvfFlat, IvfPq

import kinrank as kr
from engines.lancedb import vectors
from kinrank.stores.lancedb import LanceDBStore
from kinrank.vector_input import to_unit_rows

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(5)
ROWS = (RNG.normal(size=(600, 8)) * RNG.uniform(0.5, 2.0, size=(600, 1))).astype(np.float32)
QUERIES = RNG.normal(size=(4, 8)).astype(np.float32)


def made(folder: Path, rows: Any = ROWS, ids: Any = None, kind: Any = None, **fields: Any) -> Any:
    content = {"id": np.arange(len(rows)) if ids is None else ids, "vector": vectors(rows, kind), **fields}
    return lancedb.connect(folder).create_table("pictures", pa.table(content))


def reopened(folder: Path) -> Any:
    return lancedb.connect(folder).open_table("pictures")


def test_tables_that_cannot_be_searched(tmp_path: Path) -> None:
    table = made(tmp_path, ROWS[:3], price=[0.5, 1.0, 2.0], parts=pa.array([[1.0], [2.0, 3.0], []]))
    for words, change in {
        "vector='embedding' is not a column of .*; give one of: id, vector, price, parts": {"vector": "embedding"},
        "key='name' is not a column of .*; give one of": {"key": "name"},
        "LanceDBStore.pictures.: vector='price' is a column of double, not of vectors": {"vector": "price"},
        "LanceDBStore.pictures.: vector='parts' is a column of list.*, not of vectors": {"vector": "parts"},
        "LanceDBStore.pictures.: key='price' is a column of double; give a column of integers": {"key": "price"},
        "metric='dot' is not allowed; give cosine or euclidean": {"metric": "dot"},
        "settings contains the unknown 'probes'; give nprobes, refine_factor": {"settings": {"probes": 3}},
        r"nprobes.* is not allowed; give a whole number": {"settings": {"nprobes": True}},
        r"settings has a wrong bypass_vector_index; set it to True": {"settings": {"bypass_vector_index": 1}},
        "timeout=0 is not allowed": {"timeout": 0},
    }.items():
        with pytest.raises(ValueError, match=words):
            LanceDBStore(table, **change)
    with pytest.raises(ValueError, match=r"table must be a LanceDB table, such as .* got a str"):
        LanceDBStore("pictures")


def test_items_without_comparable_vector_are_ignored(tmp_path: Path) -> None:
    rows = ROWS[:40].copy()
    rows[3], rows[9] = 0.0, np.inf
    table = made(tmp_path, rows, pa.array([None if place == 5 else place for place in range(40)]))
    table.add(pa.table({"id": [100], "vector": pa.array([None], pa.list_(pa.float32(), 8))}))
    for metric, gone in (("cosine", {3, 5, 9, 100}), ("euclidean", {5, 9, 100})):
        store = LanceDBStore(table, metric=metric)
        for queries in (QUERIES, QUERIES[:1]):
            for found in (store.search(queries, 100), store.nearest_ids(queries, 100)):
                assert set(found.ids[0].tolist()) == set(range(40)) - gone
        with pytest.warns(UserWarning, match="items are left out because their vector is missing"):
            assert set(store.everything()[0].tolist()) == set(range(40)) - gone
        assert store.find_vectors(np.array([4, 9, 100]))[0].tolist() == [True, False, False]


@pytest.mark.parametrize("kind", [pa.float16(), pa.float64()])
def test_other_kinds_of_numbers(tmp_path: Path, kind: Any) -> None:
    rows = ROWS.astype(kind.to_pandas_dtype())
    store = LanceDBStore(made(tmp_path, rows, kind=kind))
    truth = kr.stores.ArrayStore(rows.astype(np.float32)).search(QUERIES, 9)
    assert store.search(QUERIES, 9).ids.tolist() == truth.indices.tolist()
    near = store.nearest_ids(QUERIES, 9)
    np.testing.assert_allclose(near.distances, truth.distances, rtol=1e-3)


def test_ids_of_all_sizes(tmp_path: Path) -> None:
    store = LanceDBStore(made(tmp_path, ROWS[:3], pa.array([0, 7, 2**64 - 3], pa.uint64())))
    assert sorted(store.search(QUERIES[:1], 3).ids[0].tolist()) == [0, 7, 2**64 - 3]
    np.testing.assert_allclose(store.vectors([2**64 - 3, 0]), to_unit_rows(ROWS[[2, 0]]), atol=1e-6)
    for stranger in ("nobody", "7.5", "²", "9" * 30):
        with pytest.raises(ValueError, match="does not hold"):
            store.vectors([stranger])


def test_without_an_index_searches_are_exact_and_stay_so(tmp_path: Path) -> None:
    store = LanceDBStore(made(tmp_path))
    truth = kr.stores.ArrayStore(ROWS).search(QUERIES, 100).indices.tolist()
    assert store.exact
    reopened(tmp_path).create_index(
        "vector", config=IvfPq(distance_type="cosine", num_partitions=20, num_sub_vectors=2)
    )
    assert store.search(QUERIES, 100).ids.tolist() == truth
    assert not LanceDBStore(reopened(tmp_path)).exact
    store = LanceDBStore(reopened(tmp_path), settings={"bypass_vector_index": True})
    assert store.exact
    assert store.search(QUERIES, 100).ids.tolist() == truth


def test_an_index_gives_the_metric_and_enough_items(tmp_path: Path) -> None:
    table = made(tmp_path, kind=None, shape=["round" if place % 20 else "square" for place in range(600)])
    table.create_index("vector", config=IvfFlat(distance_type="l2", num_partitions=24))
    store = LanceDBStore(table, settings={"nprobes": 1})
    assert (store.metric, store.exact) == ("euclidean", False)
    found = store.search(QUERIES, 25, where={"shape": "square"})  # fewer partitions contain too few items
    truth = kr.stores.ArrayStore(ROWS, "euclidean").search(QUERIES, 25, where=list(range(0, 600, 20)))
    assert found.ids.shape == (4, 25)
    assert np.mean([len({*one} & {*other}) for one, other in zip(found.ids, truth.indices, strict=True)]) > 20
    table.add(pa.table({"id": [1000], "vector": vectors(QUERIES[:1]), "shape": ["new"]}))
    assert store.search(QUERIES, 1).ids[0, 0] == 1000  # not in the index yet
    with pytest.warns(UserWarning, match="its index compares by l2, not by cosine; searches compare every row"):
        store = LanceDBStore(table, metric="cosine")
    assert store.exact
    truth = kr.stores.ArrayStore(np.vstack([ROWS, QUERIES[:1]])).search(QUERIES, 9)
    assert np.where(truth.indices == 600, 1000, truth.indices).tolist() == store.search(QUERIES, 9).ids.tolist()


def test_an_hnsw_index_finds_nearly_all(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.create_index("vector", config=HnswSq(distance_type="cosine", num_partitions=2))
    store, truth = LanceDBStore(table, settings={"ef": 300}), kr.stores.ArrayStore(ROWS).search(QUERIES, 100)
    for found in (store.search(QUERIES, 100), store.search(QUERIES[:1], 100), store.nearest_ids(QUERIES, 100)):
        assert np.mean(np.isin(found.ids[0], truth.indices[0])) > 0.95
        np.testing.assert_allclose(found.distances[0, :5], truth.distances[0, :5], atol=1e-3)


def test_an_inner_product_is_cosine_only_where_lengths_are_one(tmp_path: Path) -> None:
    rows = to_unit_rows(ROWS)
    rows[7] = 0.0
    table = made(tmp_path, rows)
    table.create_index("vector", config=IvfFlat(distance_type="dot", num_partitions=1))
    store, truth = LanceDBStore(table), kr.stores.ArrayStore(np.delete(ROWS, 7, 0)).search(QUERIES, 599)
    for found in (store.search(QUERIES, 600), store.nearest_ids(QUERIES, 600), store.nearest_ids(QUERIES[:1], 600)):
        assert 7 not in found.ids
        np.testing.assert_allclose(found.distances[0], truth.distances[0], atol=1e-3)
    table.add(pa.table({"id": [1000], "vector": vectors(ROWS[:1] * 3)}))
    for ask in (store.search, store.nearest_ids):
        with pytest.raises(ValueError, match="compares by inner product, but not all of its vectors have length one"):
            ask(ROWS[:2], 5)


def test_changes_are_visible_unless_a_version_is_pinned(tmp_path: Path) -> None:
    store, new = LanceDBStore(made(tmp_path)), pa.table({"id": [1000], "vector": vectors(QUERIES[:1])})
    manifold = kr.Manifold.build(store)
    reopened(tmp_path).add(new)
    assert store.search(QUERIES, 1).ids[0, 0] == 1000
    assert len(store) == 601
    assert manifold.sync() == (1, 0, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = reopened(tmp_path)
        table.checkout(1)
        kept = LanceDBStore(table, latest=False)
    assert len(kept) == 600
    assert kept.search(QUERIES, 1).ids[0, 0] != 1000
    with pytest.warns(UserWarning, match=r"version 1 was checked out, but the newest, 2, is read; give latest=False"):
        assert len(LanceDBStore(table)) == 601


def test_a_scan_is_of_one_version(tmp_path: Path) -> None:
    store = LanceDBStore(made(tmp_path, np.tile(ROWS, (20, 1))))
    blocks = store.blocks()
    first = next(blocks)
    reopened(tmp_path).delete("id >= 100")
    assert len(first[0]) + sum(len(ids) for ids, _ in blocks) == 12_000
    assert len(first[0]) <= 4096
    assert len(store) == 100


def test_filters_in_every_form(tmp_path: Path) -> None:
    kinds = [None if place % 4 == 0 else ["cat", "dog's", 'a"b', "\\"][place % 4] for place in range(600)]
    store = LanceDBStore(made(tmp_path, **{"Kind": kinds, "a name": np.arange(600) / 2, "on": [True] * 600}))
    some = [place for place in range(600) if place % 4 in (0, 1)]
    for where in (
        {"Kind": [None, "dog's"]},
        "Kind IS NULL OR Kind = 'dog''s'",
        lancedb.col("id").isin(some),
        {"id": np.array(some), "on": True},
        {"a name": [place / 2 for place in some]},
    ):
        assert set(store.ids_where(where).tolist()) == set(some)
        truth = kr.stores.ArrayStore(ROWS).search(QUERIES, 9, where=some)
        assert store.search(QUERIES, 9, where=where).ids.tolist() == truth.indices.tolist()
    assert store.ids_where({"Kind": None}).tolist() == [place for place in some if place % 4 == 0]
    for hostile in (
        "x') OR ('1'='1",
        "`; DROP TABLE pictures; --",
        "cat\0",
        "\\' OR 1=1 --",
        "\\') OR 1=1 --",
        "\\\\') OR 1=1 --",
        "''",
    ):
        assert len(store.ids_where({"Kind": [hostile, hostile + "x"]})) == 0
        assert len(store.ids_where({"Kind": hostile, "on": [None, True]})) == 0
        assert store.ids_where({"Kind": [hostile, None]}).tolist() == store.ids_where({"Kind": None}).tolist()
        with pytest.raises(ValueError, match=r"where has the unknown column .* give one of: id, vector, Kind"):
            store.search(QUERIES, 3, where={hostile: "cat"})
    for wrong, message in (
        ("Kind =", "refused"),
        ("nobody = 3", "refused"),
        ("", "where is ''"),
        (7, "where is 7"),
        (("id < ?", [3]), "where is"),
        ({"id": "x"}, "refused"),
        ({"Kind": []}, "no value"),
    ):
        with pytest.raises(ValueError, match=message):
            store.search(QUERIES, 3, where=wrong)


def test_a_slow_answer_and_a_table_that_is_gone(tmp_path: Path) -> None:
    table = made(tmp_path, np.tile(ROWS, (100, 1)))
    store = LanceDBStore(table, timeout=1e-4)
    for ask in (lambda: store.search(QUERIES, 500), store.everything, lambda: store.vectors([5])):
        with pytest.raises(TimeoutError, match=r"LanceDBStore\(pictures\) did not answer within 0\.0001 s"):
            ask()
    store = LanceDBStore(table)
    lancedb.connect(tmp_path).drop_table("pictures")
    for ask in (lambda: store.search(QUERIES, 5), store.everything, lambda: store.vectors([5]), lambda: len(store)):
        with pytest.raises(ValueError, match=r"LanceDBStore\(pictures\) refused: .*[Nn]ot found"):
            ask()


def test_many_threads_share_a_store(tmp_path: Path) -> None:
    store = LanceDBStore(made(tmp_path))
    expected = store.search(QUERIES, 20).ids.tolist()
    with ThreadPoolExecutor(8) as pool:
        asked = list(pool.map(lambda _: store.search(QUERIES, 20).ids.tolist(), range(32)))
    assert all(found == expected for found in asked)
    assert store.search(QUERIES, 10**9).ids.shape == (4, 600)
    store.close()
    assert reopened(tmp_path).count_rows() == 600


def test_urls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made(tmp_path / "folder")
    monkeypatch.chdir(tmp_path)
    url = "lancedb:folder?nprobes=5&refine_factor=3&ef=9&exact=true&timeout=9&metric=euclidean#pictures"
    with kr.open_store(url) as store:  # type: ignore[attr-defined]
        assert isinstance(store, LanceDBStore)
        assert (store.exact, store.timeout, store.metric) == (True, 9.0, "euclidean")
    for wrong, message in {
        "lancedb:nowhere#pictures": "there is no folder nowhere",
        "lancedb:folder#others": "the folder folder has no table 'others'",
        "lancedb:folder": "needs the name of a table or collection.*a complete URL: lancedb:///folder",
        "lancedb://folder/x#pictures": "needs a folder: lancedb:///folder",
        "lancedb:folder?nprobes=many#pictures": "nprobes='many' is not allowed; give a whole number",
        "lancedb:folder?probes=3#pictures": "has no option 'probes'",
    }.items():
        with pytest.raises(ValueError, match=message):
            kr.open_store(wrong)
    assert not (tmp_path / "nowhere").exists()
