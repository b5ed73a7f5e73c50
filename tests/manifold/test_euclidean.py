"""Manifolds and stores with the Euclidean metric."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinrank as kr
from kinrank.manifold.saved_folder import MANIFEST, read_manifest, seal_manifest
from kinrank.manifold.verify import verify
from kinrank.stores.view import StoreView
from kinrank.vector_input import compute_rms_length, to_unit_rows
from reference import neighbors as twin
from reference.vectors_of_any_length import EUCLIDEAN, made, same_but_for_ties

pytestmark = pytest.mark.slow


def served() -> list[str]:
    return [name for name, kind in kr.METHODS.items() if kind.capabilities.prepared_search]


@pytest.mark.parametrize("name", served())
def test_a_manifold_of_rows_of_any_length(name: str, tmp_path: Path, ready: Callable[..., kr.Method]) -> None:
    method = ready(name)
    rows = made(160)
    rows[11] = 0.0
    gallery, queries = rows[:130], rows[130:]
    manifold = kr.Manifold.build(gallery, method, metric=EUCLIDEAN)
    found = manifold.search(queries, k=20)
    assert manifold.info()["metric"] == found.meta["metric"] == EUCLIDEAN
    assert found.meta["scale"] == pytest.approx(float(np.sqrt((gallery.astype(float) ** 2).sum(axis=1).mean())))
    assert (found.indices != kr.Manifold.build(rows[12:142], method).search(queries, k=20).indices).mean() > 0.2
    manifold.save(tmp_path / "m")
    assert verify(tmp_path / "m").whole
    loaded = kr.Manifold.load(tmp_path / "m")
    travelled = pickle.loads(pickle.dumps(manifold))
    for other in (loaded, travelled):
        again = other.search(queries, k=20)
        assert (again.indices == found.indices).all()
        assert other.info()["metric"] == EUCLIDEAN
    units = kr.Manifold.build(to_unit_rows(gallery[20:]), method, metric=EUCLIDEAN).search(to_unit_rows(queries), k=20)
    assert same_but_for_ties(kr.Manifold.build(gallery[20:], method).search(queries, k=20, depth=110), units)


@pytest.mark.parametrize("name", ["lpmt", "alpha-dba+alpha-qe"])
@pytest.mark.parametrize("kind", ["array", "store", "faiss"])
def test_changes_equal_a_rebuild(name: str, kind: str, tmp_path: Path) -> None:
    rows = made(200)

    def source(part: NDArray[np.float32]) -> Any:
        if kind == "array":
            return part
        if kind == "store":
            return kr.stores.ArrayStore(part, EUCLIDEAN)
        pytest.importorskip("faiss")
        from kinrank.stores.faiss import FaissStore

        return FaissStore(part, metric=EUCLIDEAN)

    queries = rows[170:]
    manifold = kr.Manifold.build(source(rows[:120]), name, metric=EUCLIDEAN)
    manifold.add(rows[120:170])
    manifold.remove(np.arange(30).tolist())
    rebuilt = kr.Manifold.build(rows[30:170], name, metric=EUCLIDEAN).search(queries, k=10)
    changed = manifold.search(queries, k=10)
    assert np.mean([len(set(a) & set(b)) for a, b in zip(changed.ids, rebuilt.indices + 30, strict=True)]) > 9
    manifold.refresh()
    assert (manifold.search(queries, k=5).ids == rebuilt.indices[:, :5] + 30).mean() > 0.98
    if kind != "array":
        assert manifold.info()["store"] == ("ArrayStore" if kind == "store" else "FaissStore")
    manifold.save(tmp_path / "m")
    present = rows[30:170]
    loaded = kr.Manifold.load(tmp_path / "m", store=None if kind == "array" else source(present))
    assert (loaded.search(queries, k=5).ids == manifold.search(queries, k=5).ids).all()


def test_explanations_follow_the_chains_that_rank() -> None:
    rows = made(150)
    gallery, query = rows[:149], rows[149:]
    for method in (kr.LPMT(), kr.LPMT(transport="exact")):
        manifold = kr.Manifold.build(gallery, method, metric=EUCLIDEAN)
        item = int(manifold.search(query, k=3).indices[0, 2])
        why = manifold.explain(query[0], item)
        expected = np.linalg.norm(query[0] - gallery[item]) / compute_rms_length(gallery)
        assert why.distance == pytest.approx(expected, rel=1e-4)
        assert why.rank_after == 3
        assert sum(why.costs) == pytest.approx(why.total, rel=1e-4)
    joint = kr.explain(query, gallery, query=0, item=item, metric=EUCLIDEAN)
    assert joint.distance == pytest.approx(expected, rel=1e-4)
    assert set(kr.manifold.export(manifold)) >= {"states", "steps"}


def test_stores_give_distances_and_vectors_as_they_are() -> None:
    rows = made(80) * 50
    store = kr.stores.ArrayStore(rows, EUCLIDEAN)
    found = store.search(rows[:4], 80)
    np.testing.assert_allclose(found.distances, np.sort(twin.distances(rows[:4], rows), axis=1), rtol=1e-4, atol=1e-3)
    assert np.array_equal(store.vectors([3, 1]), rows[[3, 1]])
    inside = StoreView(store, scale=50.0)
    assert len(inside) == 80
    np.testing.assert_allclose(inside.search(rows[:4] / 50, 80).distances, found.distances / 50, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", ["flat", "ivf", "hnsw"])
def test_faiss_stores_of_rows_of_any_length(kind: str) -> None:
    faiss = pytest.importorskip("faiss")
    from kinrank.stores.faiss import FaissStore

    rows = made(600) * 20
    exact = kr.stores.ArrayStore(rows, EUCLIDEAN).search(rows[:20], 10)
    found = FaissStore(rows, kind, metric=EUCLIDEAN).search(rows[:20], 10)
    assert (exact.indices == found.indices).mean() > (0.999 if kind == "flat" else 0.9)
    index = faiss.IndexFlatIP(12)
    index.add(rows)
    with pytest.raises(ValueError, match="index compares by inner product, not by distance; give an L2 index"):
        FaissStore.from_index(index, rows, EUCLIDEAN)
    index = faiss.IndexFlatL2(12)
    index.add(rows)
    store = FaissStore.from_index(index, rows, EUCLIDEAN)
    assert np.array_equal(store.search(rows[:20], 10).indices, exact.indices)


def test_one_metric_for_store_and_manifold(tmp_path: Path) -> None:
    rows = made(60)
    with pytest.raises(ValueError, match="metric='euclidean' differs from the metric of the store, 'cosine'"):
        kr.Manifold.build(kr.stores.ArrayStore(rows), metric=EUCLIDEAN)
    with pytest.raises(ValueError, match="metric='cosine' differs from the metric of the store, 'euclidean'"):
        kr.rerank(rows, kr.stores.ArrayStore(rows, EUCLIDEAN), metric="cosine")
    kr.Manifold.build(rows, "aqe", metric=EUCLIDEAN).save(tmp_path / "m")
    with pytest.raises(ValueError, match="the store searches by cosine, but the manifold was built with euclidean"):
        kr.Manifold.load(tmp_path / "m", store=kr.stores.ArrayStore(rows))
    assert kr.Manifold.build(kr.stores.ArrayStore(rows, EUCLIDEAN), "aqe").info()["metric"] == EUCLIDEAN


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"scale": 0.0}, "the scale of its vectors must be a float32 number above 0; it is 0.0"),
        ({"scale": -2.0}, "the scale of its vectors must be a float32 number above 0"),
        ({"scale": 1e-300}, "the scale of its vectors must be a float32 number above 0"),
        ({"scale": 1e39}, "the scale of its vectors must be a float32 number above 0"),
        ({"feature_size_0": 11.5, "feature_weight_0": 1.0}, r"features of \[11.5\] columns .* do not make 12 columns"),
        ({"feature_size_0": 5.0, "feature_weight_0": 1.0}, r"features of \[5.0\] columns .* do not make 12 columns"),
        ({"feature_size_0": 12.0, "feature_weight_0": -1.0}, r"with the weights \[-1.0\] do not make 12 columns"),
        ({"feature_size_0": 12.0}, "do not make 12 columns"),
    ],
)
def test_saved_facts_are_checked(facts: dict[str, float], message: str, tmp_path: Path) -> None:
    kr.Manifold.build(made(30), "aqe", metric=EUCLIDEAN).save(tmp_path / "m")
    manifest = read_manifest(tmp_path / "m")
    manifest["facts"] |= facts
    (tmp_path / "m" / MANIFEST).write_text(json.dumps(seal_manifest(manifest)))
    with pytest.raises(ValueError, match=message):
        kr.Manifold.load(tmp_path / "m")
    assert not verify(tmp_path / "m").whole
    del manifest["facts"]["scale"]  # vectors that do not have length one, without a fact that explains it
    for name in facts:
        manifest["facts"].pop(name, None)
    (tmp_path / "m" / MANIFEST).write_text(json.dumps(seal_manifest(manifest)))
    with pytest.raises(ValueError, match="must hold rows of length 1"):
        kr.Manifold.load(tmp_path / "m")


def test_features_can_be_combined_under_either_metric() -> None:
    rows = made(60)
    gallery = kr.combine([rows[:50, :8], rows[:50, 8:]])
    manifold = kr.Manifold.build(gallery, "aqe", metric=EUCLIDEAN)
    queries = [rows[50:, :8], rows[50:, 8:]]
    expected = kr.Manifold.build(gallery, "aqe").search(queries)
    assert same_but_for_ties(expected, manifold.search(queries))
