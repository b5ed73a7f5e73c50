"""FaissIndexStore: every type of index, with explicit or sequential ids. Indexes are never changed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank as kr
from kinrank.vector_input import to_unit_rows

faiss = pytest.importorskip("faiss", reason="install kinrank[faiss]")

from kinrank.stores.faiss import FaissIndexStore  # noqa: E402

RNG = np.random.default_rng(5)
CENTRES = RNG.normal(size=(20, 16))
ROWS = (CENTRES[RNG.integers(0, 20, 2000)] + 0.5 * RNG.normal(size=(2000, 16))).astype(np.float32)
QUERIES = (CENTRES[RNG.integers(0, 20, 10)] + 0.5 * RNG.normal(size=(10, 16))).astype(np.float32)
IDS = np.array([7 * place - 3 for place in range(2000)], np.int64)  # one negative id, but not -1

# name of the index, supports ids, tolerance of vectors, minimum recall at 30
KINDS = {
    "Flat": (False, 0.0, 1.0),
    "IDMap,Flat": (True, 0.0, 1.0),
    "IDMap2,Flat": (True, 0.0, 1.0),
    "IVF16,Flat": (False, 0.0, 0.6),
    "IVF16_HNSW8,Flat": (False, 0.0, 0.6),
    "IDMap,IVF16,Flat": (True, 0.0, 0.6),
    "HNSW16,Flat": (False, 0.0, 0.9),
    "IDMap2,HNSW16,Flat": (True, 0.0, 0.9),
    "SQ8": (False, 0.02, 0.95),
    "SQfp16": (False, 0.01, 0.95),
    "HNSW16,SQ8": (False, 0.02, 0.9),
    "NSG16,Flat": (False, 0.0, 0.9),
    "RQ2x4": (False, 3.0, 0.1),
    "PQ8x4": (False, 3.0, 0.2),
    "IVF16,PQ8x4": (False, 3.0, 0.2),
    "IVF16,PQ8x4fs": (False, 3.0, 0.2),
    "IVF16,SQ8": (False, 0.05, 0.6),
    "RR16,Flat": (False, 1e-4, 1.0),
    "PCA12,IVF16,Flat": (False, 2.5, 0.5),
    "IDMap,PCA12,IVF16,Flat": (True, 2.5, 0.5),
    "RR16,IVF16,PQ8x4": (False, 3.0, 0.2),
    "L2norm,Flat": (False, None, 0.9),
    "IVF16,PQ8x4,RFlat": (False, 0.0, 0.2),
}


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Use one FAISS thread: several are slower for small inputs."""
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    yield
    faiss.omp_set_num_threads(before)


def made(kind: str, rows: Any = ROWS, metric: int = faiss.METRIC_L2) -> Any:
    index = faiss.index_factory(rows.shape[1], kind, metric)
    ivf = faiss.try_extract_index_ivf(index)
    if ivf is not None:
        ivf.cp.min_points_per_centroid = 1
    index.train(rows[:700] if "PQ" in kind else rows)
    index.add_with_ids(rows, IDS[: len(rows)]) if kind.startswith("IDMap") else index.add(rows)
    return index


def recall(found: Any, truth: Any) -> float:
    return float(np.mean([len(set(a) & set(b)) / len(b) for a, b in zip(found.tolist(), truth.tolist(), strict=True)]))


@pytest.mark.parametrize("kind", KINDS)
def test_every_type_of_index(kind: str) -> None:
    named, off, least = KINDS[kind]
    index = made(kind)
    before = faiss.serialize_index(index).tobytes()
    store = FaissIndexStore(index)
    ids = IDS if named else np.arange(2000)
    assert (len(store), store.metric, store.dimensions) == (2000, "euclidean", 16)
    assert store.exact == (kind in ("Flat", "IDMap,Flat", "IDMap2,Flat"))
    truth = kr.stores.ArrayStore(to_unit_rows(ROWS) if kind == "L2norm,Flat" else ROWS, "euclidean").search(QUERIES, 30)
    found = store.search(QUERIES, 30)
    assert found.depth == 30  # the store searches enough lists for k, whatever the settings of the index
    assert (found.indices >= 0).all()
    assert recall(found.ids, ids[truth.indices]) >= least
    some = np.random.default_rng(1).permutation(2000)[:50]
    rows = store.vectors(ids[some])
    if off is not None:
        assert np.abs(rows - ROWS[some]).max() <= off
    held = np.linalg.norm(store.vectors(found.ids[0]) - QUERIES[0], axis=1)
    np.testing.assert_allclose(found.distances[0], held, rtol=1e-4, atol=1e-4)
    assert store.everything()[0].tolist() == sorted(ids.tolist())
    few = ids[:40]
    exact = kr.stores.ArrayStore(store.vectors(few), "euclidean").search(QUERIES, 5)
    assert store.search(QUERIES, 5, where=few).ids.tolist() == few[exact.indices].tolist()
    assert store.find_vectors(np.array([10**7, ids[3]]))[0].tolist() == [False, True]
    assert faiss.serialize_index(index).tobytes() == before


@pytest.mark.parametrize("kind", ["Flat", "IDMap,Flat", "IVF16,Flat", "HNSW16,Flat", "SQ8", "PQ8x4", "L2norm,Flat"])
def test_inner_products_of_unit_vectors_are_cosine(kind: str) -> None:
    store = FaissIndexStore(made(kind, to_unit_rows(ROWS), faiss.METRIC_INNER_PRODUCT))
    ids = IDS if kind.startswith("IDMap") else np.arange(2000)
    assert store.metric == "cosine"
    truth = kr.stores.ArrayStore(ROWS).search(QUERIES, 20)
    found, plain = store.search(QUERIES, 20), store.nearest_ids(QUERIES, 20)
    assert recall(found.ids, ids[truth.indices]) >= {"PQ8x4": 0.2, "IVF16,Flat": 0.6}.get(kind, 0.9)
    assert (np.diff(plain.distances, axis=1) >= -1e-6).all()  # nearest first
    if store.exact:
        np.testing.assert_allclose(plain.distances, truth.distances, atol=1e-3)
    assert store.search(QUERIES, 5000).depth <= 2000


def test_lengths_and_metrics() -> None:
    with pytest.raises(ValueError, match="compares by inner product, which needs vectors of length one; that of 0 has"):
        FaissIndexStore(made("Flat", ROWS, faiss.METRIC_INNER_PRODUCT))
    with pytest.raises(ValueError, match="was opened with metric='cosine', which needs vectors of length one"):
        FaissIndexStore(made("Flat"), metric="cosine")
    with pytest.raises(ValueError, match="not by distance; give an L2 index"):
        FaissIndexStore(made("Flat", to_unit_rows(ROWS), faiss.METRIC_INNER_PRODUCT), metric="euclidean")
    with pytest.raises(ValueError, match="metric='l2' is not allowed"):
        FaissIndexStore(made("Flat"), metric="l2")
    with pytest.raises(ValueError, match="index has the FAISS metric 2"):
        FaissIndexStore(faiss.IndexFlat(16, faiss.METRIC_L1))
    store = FaissIndexStore(made("Flat", to_unit_rows(ROWS)), metric="cosine")
    assert store.search(5 * QUERIES, 9).ids.tolist() == kr.stores.ArrayStore(ROWS).search(QUERIES, 9).indices.tolist()
    store._index.add(3 * ROWS[:1])
    with pytest.raises(ValueError, match="that of 2000 has length"):
        store.search(ROWS[:1], 3000)


def test_indexes_that_cannot_be_searched_are_refused() -> None:
    with pytest.raises(ValueError, match="index is an IndexBinaryFlat, which compares bits"):
        FaissIndexStore(faiss.IndexBinaryFlat(64))
    with pytest.raises(ValueError, match=r"must be a faiss.Index; got list"):
        FaissIndexStore([])
    with pytest.raises(ValueError, match="not trained"):
        FaissIndexStore(faiss.index_factory(16, "IVF16,Flat"))
    with pytest.raises(ValueError, match=r"cannot return vectors; pass the vectors as well: FaissStore.from_index"):
        FaissIndexStore(made("ITQ8,LSH"))
    twice = faiss.IndexIDMap(faiss.IndexFlatL2(16))
    twice.add_with_ids(ROWS[:3], np.array([4, 9, 4]))
    with pytest.raises(ValueError, match="index contains the id 4 twice"):
        FaissIndexStore(twice)


@pytest.mark.parametrize("kind", ["Flat", "IDMap,Flat", "HNSW16,Flat", "IVF16,Flat", "PCA12,IVF16,Flat", "PCA12,Flat"])
def test_an_index_without_items(kind: str) -> None:
    index = faiss.index_factory(16, kind)
    index.train(ROWS)
    store = FaissIndexStore(index)
    assert len(store) == 0
    assert store.search(QUERIES, 3).depth == 0
    assert store.everything()[0].shape == (0,)
    assert store.find_vectors(np.array([0, 1]))[0].tolist() == [False, False]
    index.add_with_ids(ROWS[:2], np.array([5, 6])) if kind.startswith("IDMap") else index.add(ROWS[:2])
    assert store.search(QUERIES, 3).depth == 2


def test_short_lists_are_padded() -> None:
    """FAISS pads with -1."""
    index = made("IVF16,Flat", np.repeat(np.eye(16, dtype=np.float32), 4, axis=0) * 5)
    found = FaissIndexStore(index).search(np.eye(16, dtype=np.float32)[:2], 20)
    assert found.ids[0, :4].tolist() == [0, 1, 2, 3]
    assert index.nprobe == 1


@pytest.mark.parametrize("kind", ["IDMap,Flat", "IDMap2,Flat", "IVF16,Flat"])
def test_changes_behind_the_store_are_seen(kind: str) -> None:
    index = made(kind, ROWS[:400])
    ids = IDS[:400] if kind.startswith("IDMap") else np.arange(400)
    store = FaissIndexStore(index)
    index.remove_ids(ids[:100])
    index.add_with_ids(ROWS[1000:1050], np.arange(50_000, 50_050))
    assert len(store) == 350
    assert store.find_vectors(np.array([ids[5], ids[150], 50_007]))[0].tolist() == [False, True, True]
    np.testing.assert_array_equal(store.vectors([ids[150], 50_007]), ROWS[[150, 1007]])
    assert set(store.everything()[0].tolist()) == {*ids[100:].tolist(), *range(50_000, 50_050)}
    assert store.search(ROWS[1007:1008], 1).ids.tolist() == [[50_007]]
    index.remove_ids(np.array([50_007]))
    index.add_with_ids(ROWS[1500:1501], np.array([50_007]))  # same number of items, at other positions
    np.testing.assert_array_equal(store.vectors([50_007, 50_049]), ROWS[[1500, 1049]])


def test_flat_index_renumbers_after_removal() -> None:
    index = made("Flat", ROWS[:10])
    store = FaissIndexStore(index)
    index.remove_ids(np.array([0]))
    assert store.search(ROWS[4:5], 1).ids.tolist() == [[3]]
    assert store.find_vectors(np.array([9, -1]))[0].tolist() == [
        False,
        False,
    ]  # FAISS would read before its buffer for -1


def test_id_map_with_wrong_ids_is_refused() -> None:
    index = made("IDMap2,IVF16,Flat", ROWS[:200])
    store = FaissIndexStore(index)
    index.remove_ids(IDS[:2])
    with pytest.raises(ValueError, match="FAISS returns wrong ids"):
        FaissIndexStore(index)
    for call in (lambda: store.vectors(IDS[:1]), lambda: store.search(ROWS[:1], 3), lambda: store.vectors(IDS[9:10])):
        with pytest.raises(ValueError, match="FAISS returns wrong ids"):
            call()


def test_open_file_by_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    faiss.write_index(made("IVF16,Flat", to_unit_rows(ROWS)), "index.faiss")
    with kr.open_store("faiss:index.faiss") as store:  # type: ignore[attr-defined]
        assert (len(store), store.metric, repr(store)) == (2000, "euclidean", "FaissIndexStore(IndexIVFFlat)")
    with kr.open_store("faiss:index.faiss?metric=cosine") as store:  # type: ignore[attr-defined]
        assert store.metric == "cosine"
    faiss.write_index_binary(faiss.IndexBinaryFlat(64), "bits.faiss")
    with pytest.raises(ValueError, match=r"bits.faiss is not a FAISS index"):
        kr.open_store("faiss:bits.faiss")  # type: ignore[attr-defined]


@pytest.mark.skipif(not hasattr(faiss, "set_deserialization_vector_byte_limit"), reason="an older FAISS")
def test_memory_of_a_damaged_file_is_limited(tmp_path: Path) -> None:
    before = faiss.get_deserialization_vector_byte_limit()
    path = tmp_path / "index.faiss"
    faiss.write_index(made("Flat", ROWS[:10]), str(path))
    content = bytearray(path.read_bytes())
    place = len(content) - 16 * 10 * 4 - 8
    content[place : place + 8] = (2**35).to_bytes(8, "little")  # declared size of the following data: 128 GB
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match="is not a FAISS index, or is truncated"):
        kr.open_store(f"faiss:{path}")  # type: ignore[attr-defined]
    assert faiss.get_deserialization_vector_byte_limit() == before


def test_without_faiss_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ImportError, match=r"FaissIndexStore needs faiss.*pip install '\.\[faiss\]'"):
        FaissIndexStore(None)
