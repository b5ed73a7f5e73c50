"""HnswlibStore: spaces, recall, deleted labels, graphs in pieces, files."""

from __future__ import annotations

import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank as kr
from kinrank.features import unit

hnswlib = pytest.importorskip("hnswlib", reason="install kinrank[hnswlib]")

from kinrank.stores.hnswlib import HnswlibStore  # noqa: E402

RNG = np.random.default_rng(4)
ROWS = RNG.normal(size=(3000, 24)).astype(np.float32)
QUERIES = RNG.normal(size=(12, 24)).astype(np.float32)


def index_of(rows: Any = ROWS[:200], space: str = "cosine", **more: Any) -> Any:
    index = hnswlib.Index(space, rows.shape[1])
    index.init_index(len(rows) + 50, **more)
    index.add_items(rows, np.arange(len(rows)))
    return index


def recall(found: Any, truth: Any) -> float:
    return float(np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found.tolist(), truth.tolist(), strict=True)]))


@pytest.mark.parametrize("space", ["cosine", "ip", "l2"])
def test_the_graph_finds_most_and_more_with_more_effort(space: str) -> None:
    rows = unit(ROWS) if space == "ip" else ROWS
    index = index_of(rows, space)
    index.set_ef(1)
    store = HnswlibStore(index)
    assert not store.exact
    truth = kr.ArrayStore(rows, store.metric).search(QUERIES, 50).indices
    assert recall(store.search(QUERIES, 50).ids, truth) > 0.8  # at least as many in view as asked for
    assert index.ef == 1
    index.set_ef(3000)
    found = store.search(QUERIES, 50)
    assert recall(found.ids, truth) > 0.99
    np.testing.assert_allclose(store.nearest_ids(QUERIES, 50).distances, found.distances, atol=1e-3)
    assert store.search(QUERIES, 4000).depth == 3000


def test_deleted_labels_are_not_there() -> None:
    index = index_of()
    store = HnswlibStore(index)
    for label in range(0, 200, 2):
        index.mark_deleted(label)
    assert len(store) == 100
    assert set(store.search(ROWS[:1], 200).ids[0].tolist()) == set(range(1, 200, 2))
    assert sorted(store.ids_where(range(10)).tolist()) == [1, 3, 5, 7, 9]
    assert store.search(ROWS[:1], 9, where=list(range(10))).depth == 5
    assert store.everything()[0].tolist() == list(range(1, 200, 2))
    mask = np.zeros(100, np.bool_)
    mask[:2] = True
    assert store.search(ROWS[:1], 9, where=mask).depth == 2
    index.unmark_deleted(4)
    assert 4 in store.ids_where().tolist()
    for label in range(200):
        if label % 2 or label == 4:
            index.mark_deleted(label)
    assert len(store) == 0
    assert store.search(QUERIES, 3).depth == 0


def test_a_deleted_place_that_was_given_to_another() -> None:
    index = hnswlib.Index("l2", 24)
    index.init_index(100, allow_replace_deleted=True)
    index.add_items(ROWS[:100], np.arange(100))
    store = HnswlibStore(index)
    index.mark_deleted(7)
    index.add_items(ROWS[500:501], [7000], replace_deleted=True)
    assert len(store) == 100
    np.testing.assert_array_equal(store.vectors([7000]), ROWS[500:501])
    assert store.vectors_there(np.array([7]))[0].tolist() == [False]


def test_few_vectors_of_many_are_asked_for_by_label() -> None:
    """Where copying the whole index would take longer; one that is gone does not hide the others."""
    index = index_of(ROWS, "l2")
    store = HnswlibStore(index)
    index.mark_deleted(11)
    labels = np.array([3, 11, 12, 2999, 5000, 6000])
    there, rows = store.vectors_there(labels)
    assert there.tolist() == [True, False, True, True, False, False]
    np.testing.assert_array_equal(rows, ROWS[[3, 12, 2999]])
    copied = store._copied
    store._copied = None  # type: ignore[assignment,method-assign]
    np.testing.assert_array_equal(store.vectors([9, 8]), ROWS[[9, 8]])
    store._copied = copied  # type: ignore[method-assign]
    np.testing.assert_array_equal(store.everything()[1], np.delete(ROWS, 11, axis=0))


def test_a_graph_in_pieces_gives_what_it_reaches() -> None:
    """hnswlib raises "Cannot return the results in a contiguous 2D array" then."""
    rows = np.concatenate([ROWS[:30], 100.0 + ROWS[30:60] / 100])
    index = index_of(rows, "l2", M=2, ef_construction=2)
    store = HnswlibStore(index)
    found = store.search(np.concatenate([QUERIES, 100.0 + QUERIES / 100]), 60)
    assert found.depth >= 1
    assert all(len(set(row[row >= 0].tolist())) == int((row >= 0).sum()) for row in found.indices)
    some = store.search(QUERIES, 60, where=list(range(60)))
    assert some.depth == 60  # few are compared one by one


def test_indexes_that_cannot_be_searched_are_refused() -> None:
    with pytest.raises(ValueError, match="index has no room for items yet; call its init_index or load_index first"):
        HnswlibStore(hnswlib.Index("l2", 8))  # asking it for its labels would end the process
    with pytest.raises(ValueError, match=r"must be an hnswlib.Index; got BFIndex"):
        HnswlibStore(hnswlib.BFIndex("l2", 8))
    with pytest.raises(ValueError, match="compares by inner product, which needs vectors of length one; that of"):
        HnswlibStore(index_of(space="ip"))


def test_cosine_keeps_unit_vectors() -> None:
    store = HnswlibStore(index_of())
    np.testing.assert_allclose(store.vectors([5, 2]), unit(ROWS[[5, 2]]), atol=1e-6)


def test_a_file_by_its_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    index = index_of()
    index.save_index("index.bin")
    expected = HnswlibStore(index).search(QUERIES, 5).ids.tolist()
    for options in ("?space=cosine", "?dimensions=24&space=cosine"):
        with kr.open_store(f"hnswlib:index.bin{options}") as store:  # type: ignore[attr-defined]
            assert store.dimensions == 24
            assert store.search(QUERIES, 5).ids.tolist() == expected
    with pytest.raises(ValueError, match=r"index.bin has 24 dimensions, not '128'; leave the option out"):
        kr.open_store("hnswlib:index.bin?dimensions=128&space=cosine")  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"needs the space of the index.*a URL looks like hnswlib:index.bin"):
        kr.open_store("hnswlib:index.bin")  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="space='hamming' is not allowed; give one of: cosine, ip, l2"):
        kr.open_store("hnswlib:index.bin?space=hamming")  # type: ignore[attr-defined]
    index_of(space="l2").save_index("long.bin")
    with pytest.raises(ValueError, match="has the space cosine, which needs vectors of length one"):
        kr.open_store("hnswlib:long.bin?space=cosine")  # type: ignore[attr-defined]
    empty = hnswlib.Index("l2", 24)
    empty.init_index(7)
    empty.save_index("empty.bin")
    with kr.open_store("hnswlib:empty.bin?space=l2") as store:  # type: ignore[attr-defined]
        assert len(store) == 0
        assert store.search(QUERIES, 3).depth == 0


@pytest.mark.parametrize("number", range(6))
def test_a_beginning_that_does_not_fit_is_refused_before_hnswlib_reads_it(tmp_path: Path, number: int) -> None:
    index_of().save_index(str(tmp_path / "index.bin"))
    content = bytearray((tmp_path / "index.bin").read_bytes())
    (value,) = struct.unpack_from("<Q", content, 8 * number)
    struct.pack_into("<Q", content, 8 * number, 1 if number == 1 else value + 4)
    (tmp_path / "index.bin").write_bytes(bytes(content))
    with pytest.raises(ValueError, match="is no index of hnswlib, or is cut off"):
        kr.open_store(f"hnswlib:{tmp_path}/index.bin?space=l2")  # type: ignore[attr-defined]


def test_without_hnswlib_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hnswlib", None)
    with pytest.raises(ImportError, match=r"HnswlibStore needs hnswlib.*pip install 'kinrank\[hnswlib\]'"):
        HnswlibStore(None)
