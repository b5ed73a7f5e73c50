"""UsearchStore: number types, metrics, recall, files."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank as kr
from kinrank.vector_input import to_unit_rows

with suppress(ImportError):
    import faiss  # noqa: F401  # its index_factory crashes where usearch was imported first

usearch = pytest.importorskip("usearch.index", reason="install kinrank[usearch]")

from kinrank.stores.usearch import UsearchStore  # noqa: E402

RNG = np.random.default_rng(3)
ROWS = RNG.normal(size=(3000, 24)).astype(np.float32)
QUERIES = RNG.normal(size=(12, 24)).astype(np.float32)


def index_of(rows: Any = ROWS[:200], metric: str = "cos", dtype: str = "f32", **more: Any) -> Any:
    index = usearch.Index(ndim=24, metric=metric, dtype=dtype, **more)
    index.add(np.arange(len(rows)), rows, threads=1)
    return index


def recall(found: Any, truth: Any) -> float:
    return float(np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found.tolist(), truth.tolist(), strict=True)]))


@pytest.mark.parametrize("metric", ["cos", "ip", "l2sq"])
def test_the_graph_finds_most_and_more_with_more_effort(metric: str) -> None:
    rows = to_unit_rows(ROWS) if metric == "ip" else ROWS
    index = index_of(rows, metric, expansion_search=1)
    store = UsearchStore(index)
    assert not store.exact
    truth = kr.stores.ArrayStore(rows, store.metric).search(QUERIES, 50).indices
    assert recall(store.search(QUERIES, 50).ids, truth) > 0.8  # the beam is at least k
    index.expansion_search = 3000
    assert recall(store.search(QUERIES, 50).ids, truth) > 0.99
    assert index.expansion_search == 3000
    exact = UsearchStore(index, exact=True)
    assert exact.exact
    assert exact.search(QUERIES, 50).ids.tolist() == truth.tolist()
    plain = exact.nearest_ids(QUERIES, 50)
    np.testing.assert_allclose(plain.distances, exact.search(QUERIES, 50).distances, atol=1e-3)


@pytest.mark.parametrize(("dtype", "off"), [("f64", 1e-6), ("f16", 1e-3), ("bf16", 1e-2), ("e4m3", 0.1), ("i8", 0.02)])
def test_rounded_vectors_come_back_rounded_and_are_not_misread(dtype: str, off: float) -> None:
    if not hasattr(usearch.ScalarKind, dtype.upper()):
        pytest.skip(f"this usearch has no {dtype}")
    store = UsearchStore(index_of(dtype=dtype), exact=True)
    np.testing.assert_allclose(to_unit_rows(store.vectors(np.arange(200))), to_unit_rows(ROWS[:200]), atol=off)
    assert store.exact == (dtype == "f64")
    found = store.search(QUERIES, 20)
    assert recall(found.ids, kr.stores.ArrayStore(ROWS[:200]).search(QUERIES, 20).indices) > 0.8
    held = kr.stores.ArrayStore(store.vectors(np.arange(200)))
    np.testing.assert_allclose(found.distances[:, 0], held.search(QUERIES, 1).distances[:, 0], atol=0.05)


def test_indexes_that_cannot_be_compared_with_are_refused() -> None:
    for metric in ("l2sq", "ip"):
        with pytest.raises(
            ValueError, match=r"index stores i8 numbers and compares by .*, which loses signs or lengths"
        ):
            UsearchStore(index_of(metric=metric, dtype="i8"))
    if hasattr(usearch.ScalarKind, "E4M3"):  # older versions do not have u8
        with pytest.raises(ValueError, match="index stores u8 numbers"):
            UsearchStore(index_of(dtype="u8"))
    with pytest.raises(ValueError, match="index compares by 'pearson'"):
        UsearchStore(index_of(metric="pearson"))
    with pytest.raises(ValueError, match="index compares by 'hamming'"):
        UsearchStore(usearch.Index(ndim=24, metric="hamming"))
    with pytest.raises(ValueError, match=r"several vectors per key \(multi=True\)"):
        UsearchStore(index_of(multi=True))
    with pytest.raises(ValueError, match="enable_key_lookups=False"):
        UsearchStore(index_of(enable_key_lookups=False))
    with pytest.raises(ValueError, match=r"must be a usearch.index.Index; got list"):
        UsearchStore([])


def test_inner_products_need_unit_vectors() -> None:
    with pytest.raises(ValueError, match="compares by inner product, which needs vectors of length one; that of 0 has"):
        UsearchStore(index_of(metric="ip"))
    index = index_of(to_unit_rows(ROWS[:200]), "ip")
    store = UsearchStore(index)
    index.add(900, 3.0 * ROWS[0])
    with pytest.raises(ValueError, match="that of 900 has length"):
        store.search(ROWS[:1], 3)
    assert UsearchStore(index_of(to_unit_rows(ROWS[:200]), "ip", "bf16")).metric == "cosine"


def test_index_that_reports_a_wrong_metric(tmp_path: Path) -> None:
    """After loading a file with another metric, usearch still reports the metric of its constructor."""
    index_of(metric="l2sq").save(tmp_path / "index")
    index = usearch.Index(ndim=24, metric="cos", dtype="f32")
    index.load(tmp_path / "index")
    store = UsearchStore(index, exact=True)
    assert (store.metric, repr(store)) == ("euclidean", "UsearchStore(l2sq, f32)")
    truth = kr.stores.ArrayStore(ROWS[:200], "euclidean").search(QUERIES, 9).indices
    assert store.search(QUERIES, 9).ids.tolist() == truth.tolist()


def test_removed_and_added_keys() -> None:
    index = index_of()
    store = UsearchStore(index, exact=True)
    index.remove(np.arange(0, 200, 2))
    index.add(5000, ROWS[500])
    assert len(store) == 101
    assert set(store.search(ROWS[:1], 300).ids[0].tolist()) == {*range(1, 200, 2), 5000}
    assert store.search(ROWS[500:501], 1).ids.tolist() == [[5000]]
    assert store.find_vectors(np.array([4, 5, 5000]))[0].tolist() == [False, True, True]
    mask = np.zeros(101, np.bool_)
    mask[[0, 100]] = True
    assert sorted(store.ids_where(mask).tolist()) == [1, 5000]


def test_open_file_by_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    index_of().save("index.usearch")
    with kr.open_store("usearch:index.usearch") as store:  # type: ignore[attr-defined]
        assert (len(store), store.exact, repr(store)) == (200, False, "UsearchStore(cos, f32)")
    with kr.open_store("usearch:index.usearch?exact=true") as store:  # type: ignore[attr-defined]
        assert store.exact
    with pytest.raises(ValueError, match="exact='yes' is not allowed"):
        kr.open_store("usearch:index.usearch?exact=yes")  # type: ignore[attr-defined]
    index_of(multi=True).save("several.usearch")
    with pytest.raises(ValueError, match="several vectors per key"):
        kr.open_store("usearch:several.usearch")  # type: ignore[attr-defined]


def test_without_usearch_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "usearch.index", None)
    with pytest.raises(ImportError, match=r"UsearchStore needs usearch.*pip install '\.\[usearch\]'"):
        UsearchStore(None)
