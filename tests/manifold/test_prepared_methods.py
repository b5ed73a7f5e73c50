"""Methods with an offline part in a Manifold: the answers of `rerank`, for one query or several."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import kinrank as kr
from kinrank.evaluation.trials import VARIANTS
from kinrank.manifold import saved_folder
from kinrank.manifold.saved_folder import MANIFEST, seal_manifest
from kinrank.methods import METHODS, Method, prepared_search
from kinrank.methods.base import distances_from_scores
from kinrank.methods.query_expansion import Expansion
from kinrank.neighbors import Neighbors

pytestmark = pytest.mark.slow

Rows = NDArray[np.float32]
DIFFUSION: list[Method] = [
    kr.DFS(k=8, kq=3),
    kr.methods.FSR(k=8, kq=3, rank=12),
    kr.methods.FSR(k=8, kq=3, variant="published"),
    kr.methods.EIR(kd=8, kq=3, truncation=25),
    kr.methods.EIR(kd=8, kq=3, truncation=5),
]
EXPANSION: list[Method] = [
    kr.methods.AQE(k=3),
    kr.methods.AQEwD(k=4),
    kr.AlphaQE(k=6),
    kr.methods.DQE(k=3, negatives=4),
    kr.methods.AugmentedAQE(k=3, kdba=3),
    kr.methods.AugmentedAQEwD(k=4, kdba=3),
    kr.methods.AugmentedAlphaQE(k=6, kdba=5),
    kr.methods.AugmentedDQE(k=3, negatives=4, kdba=3),
]
LEARNED: list[Method] = [
    kr.methods.GSS(k=4, kq=3, epochs=20),
    kr.methods.GSS(epochs=0),
    kr.methods.GSS(kq=4, epochs=5, layers=3),
]
SERVED = [kr.methods.NoReranking(), *DIFFUSION, *EXPANSION, *LEARNED]


def clusters(seed: int, items: int = 130, noise: float = 0.35) -> Rows:
    """Return groups, some of which are not connected, with two repeated rows."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(6, 8))[rng.integers(0, 6, items)] + noise * rng.normal(size=(items, 8))
    rows[[-1, -2]] = rows[[-20, -30]]
    return rows.astype(np.float32)


def same_answers(got: kr.Ranking, expected: kr.Ranking, tolerance: float = 1e-5) -> None:
    """Check that `got` is the beginning of `expected`, which ranks everything, up to ties within the tolerance.

    Ties are common: DQE puts all items on its margin at one distance, and rounding orders them, in rerank too.

    The tolerance is relative to the largest of each row, because diffusion scores have no scale of their own.
    """
    assert got.indices.shape[1] <= expected.indices.shape[1]
    span = np.abs(expected.distances).max(axis=1, keepdims=True, initial=0.0)
    assert (span > 0).all() or not expected.depth
    k = got.depth
    np.testing.assert_array_less(np.abs(got.distances - expected.distances[:, :k]) / span, tolerance)
    values = np.empty(expected.distances.shape, np.float32)
    np.put_along_axis(values, expected.indices, expected.distances, axis=1)
    theirs = np.take_along_axis(values, got.indices, axis=1)
    np.testing.assert_array_less(np.abs(got.distances - theirs) / span, tolerance)
    for row in got.indices.tolist():
        assert len(set(row)) == len(row)


@pytest.mark.parametrize("method", SERVED, ids=repr)
@pytest.mark.parametrize("k", [1, 10, 120])
def test_prepared_answers_equal_rerank(method: Method, k: int) -> None:
    rows = clusters(1)
    queries, gallery = rows[:10], rows[10:]
    expected = kr.rerank(queries, gallery, method)
    manifold = kr.Manifold.build(gallery, method)
    together = manifold.search(queries, k)
    assert together.indices.shape == (10, k)
    assert together.meta["mode"] == "online"
    assert together.meta["certain"] == 1.0
    same_answers(together, expected)
    for row in (0, 4, 9):
        alone = manifold.search(queries[row : row + 1], k)
        same_answers(alone, kr.Ranking(expected.indices[row : row + 1], expected.distances[row : row + 1]))


@pytest.mark.parametrize("name", ["dfs", "fsr", "eir", "aqe", "ddba+dqe", "gss"])
def test_defaults_answer_like_rerank(name: str) -> None:
    rows = clusters(2, 400)
    manifold = kr.Manifold.build(rows[5:], name)
    same_answers(manifold.search(rows[:5], 30), kr.rerank(rows[:5], rows[5:], name))


@pytest.mark.parametrize("method", DIFFUSION[:1] + DIFFUSION[2:], ids=repr)
def test_items_out_of_reach_follow_in_the_order_of_the_search(method: Method) -> None:
    """This includes the part of a ranking that contains only such items: exactly rerank's order, no tolerance."""
    rng = np.random.default_rng(0)
    near, far = np.eye(6)[0] + 0.05 * rng.random((20, 6)), np.eye(6)[1] + 0.05 * rng.random((20, 6))
    rows = np.concatenate([near, far]).astype(np.float32)
    ranking = kr.Manifold.build(rows[1:], method).search(rows[:1], k=39)
    plain = kr.rerank(rows[:1], rows[1:], "none")
    assert set(ranking.indices[0, :19]) == set(range(19))
    np.testing.assert_array_equal(ranking.indices[0, 19:], plain.indices[0, 19:])
    assert (np.diff(ranking.distances[0]) >= 0).all()


@pytest.mark.parametrize("method", SERVED, ids=repr)
def test_blocks_of_queries_change_nothing(method: Method, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = clusters(3)
    manifold = kr.Manifold.build(rows[20:], method)
    expected = kr.rerank(rows[:20], rows[20:], method)
    monkeypatch.setattr(prepared_search, "MAX_SCORES_PER_BLOCK", 330)  # three queries at once
    same_answers(manifold.search(rows[:20], 15), expected)


@settings(max_examples=60, deadline=None)
@given(
    values=st.lists(st.integers(-3, 3), min_size=1, max_size=12),
    depth=st.integers(1, 12),
    seed=st.integers(0, 1000),
)
def test_the_best_scores_are_the_beginning_of_the_whole_order(values: list[int], depth: int, seed: int) -> None:
    """With ties, negative scores and unreachable items, to the bit."""
    scores = np.array([values], np.float64)
    gaps = np.random.default_rng(seed).integers(0, 4, scores.shape).astype(np.float32)
    order = np.argsort(gaps, axis=1, kind="stable")
    found = Neighbors(order.astype(np.int32), np.take_along_axis(gaps, order, axis=1))
    depth = min(depth, len(values))
    best, distances = prepared_search._rank_one_query(scores[0], found.indices[0], found.distances[0], depth)
    whole = distances_from_scores(scores, lambda: gaps)[0]
    expected = np.argsort(whole, kind="stable")[:depth]
    np.testing.assert_array_equal(best, expected)
    np.testing.assert_array_equal(distances, whole[expected])


@pytest.mark.parametrize("method", SERVED, ids=repr)
@pytest.mark.parametrize("items", [0, 1, 2, 3])
def test_tiny_galleries_are_prepared(method: Method, items: int) -> None:
    gallery = np.ones((items, 3), np.float32) + np.eye(3, dtype=np.float32)[:items]
    queries = np.array([[1, 2, 3], [1, 0, 0]], np.float32)
    ranking = kr.Manifold.build(gallery, method).search(queries, k=5)
    assert ranking.indices.shape == (2, items)
    same_answers(ranking, kr.rerank(queries, gallery, method))


def test_equal_items_come_by_number() -> None:
    gallery = np.tile(np.eye(4, dtype=np.float32), (3, 1))
    for method in EXPANSION + LEARNED:
        ranking = kr.Manifold.build(gallery, method).search(np.array([[1.0, 0.1, 0, 0]]), k=3)
        assert ranking.indices.tolist() == [[0, 4, 8]], method


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("method", SERVED, ids=repr)
def test_saved_manifolds_answer_the_same(method: Method, mmap: bool, tmp_path: Path) -> None:
    rows = clusters(4)
    manifold = kr.Manifold.build(rows[10:], method, ids=[f"n{number}" for number in range(120)])
    manifold.save(tmp_path / "one")
    loaded = kr.Manifold.load(tmp_path / "one", mmap=mmap)
    assert loaded.method == method
    assert loaded.info() == json.loads(json.dumps(manifold.info()))
    before, after = manifold.search(rows[:10], 20), loaded.search(rows[:10], 20)
    np.testing.assert_array_equal(before.indices, after.indices)
    np.testing.assert_array_equal(before.distances, after.distances)
    np.testing.assert_array_equal(before.ids, after.ids)


@pytest.mark.parametrize(
    ("method", "name"),
    [
        (kr.DFS(k=8), "graph_indptr"),
        (kr.DFS(k=8), "graph_indices"),
        (kr.methods.FSR(k=8), "part_sizes"),
        (kr.methods.FSR(k=8), "part_items"),
        (kr.methods.EIR(kd=8), "row_items"),
        (kr.methods.AugmentedAQE(), "augmented"),
        (kr.methods.GSS(epochs=0), "embeddings"),
        (kr.methods.GSS(epochs=0), "hidden_1"),
        (kr.methods.GSS(epochs=0), "degrees"),
        (kr.methods.GSS(epochs=0), "weights"),
        (kr.methods.GSS(epochs=0), "biases"),
    ],
    ids=repr,
)
def test_parts_that_do_not_fit_are_refused(method: Method, name: str, tmp_path: Path) -> None:
    """With valid checksums over invalid content, no index leads out of its array."""
    kr.Manifold.build(clusters(5), method).save(tmp_path / "whole")
    for wrong in ("another kind", "too short", "outside", "missing"):
        if wrong == "outside" and name in ("augmented", "hidden_1", "degrees", "weights", "biases"):
            continue  # contain no item numbers
        folder = tmp_path / wrong
        shutil.copytree(tmp_path / "whole", folder)
        manifest = json.loads((folder / MANIFEST).read_bytes())
        path = folder / manifest["data"] / f"{name}.npy"
        array = np.load(path)
        if wrong == "missing":
            del manifest["arrays"][name]
        else:
            if wrong == "another kind":
                array = array.astype(np.float16)
            elif wrong == "too short":
                array = array[:-1]
            else:
                array[-1] = 10**6
            manifest["arrays"][name] = saved_folder.write_array(path, array)
        (folder / MANIFEST).write_text(json.dumps(seal_manifest(manifest)))
        with pytest.raises(ValueError, match=f"not a manifold.*{name.split('_')[0]}"):
            kr.Manifold.load(folder)


@pytest.mark.parametrize("method", SERVED, ids=repr)
def test_a_store_gives_the_neighbours(method: Method) -> None:
    rows = clusters(6)
    stored = kr.Manifold.build(kr.stores.ArrayStore(rows[10:]), method).search(rows[:10], k=20)
    same_answers(stored, kr.rerank(rows[:10], rows[10:], method))


class Forgetful(kr.stores.ArrayStore):
    """A store that finds only a few items, a different number per row, and pads; for some queries it finds nothing."""

    def search(self, queries: object, k: int) -> kr.Ranking:
        ranking = super().search(queries, k)  # type: ignore[arg-type]
        for row in range(len(ranking)):
            ranking.indices[row, row % 4 :] = -1
            ranking.distances[row, row % 4 :] = np.inf
        return ranking


@pytest.mark.parametrize("method", DIFFUSION, ids=repr)
def test_a_query_that_found_few_enters_through_these(method: Method) -> None:
    rows = clusters(7)
    manifold = kr.Manifold.build(Forgetful(rows[8:]), method)
    few = manifold.search(rows[:8], k=10)
    assert (few.indices[[0, 4]] == -1).all()  # no neighbours: no entry, no answer
    assert np.isinf(few.distances[[0, 4]]).all()
    for row in (1, 2, 3, 5, 6, 7):
        there = few.indices[row] >= 0
        assert there[0]
        fewer = type(method)(**{**vars(method), "kq": min(row % 4, 3)})
        whole = kr.rerank(rows[row : row + 1], rows[8:], fewer, k=10)
        reached = there & (few.distances[row] < 0)
        np.testing.assert_allclose(few.distances[row, reached], whole.distances[0, reached], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", EXPANSION + LEARNED, ids=repr)
def test_an_expansion_that_found_few_uses_these(method: Method) -> None:
    rows = clusters(8)
    few = kr.Manifold.build(Forgetful(rows[8:]), method).search(rows[:8], k=10)
    there = few.indices >= 0
    assert there[:, 0][[1, 2, 3, 5, 6, 7]].all()
    assert np.isfinite(few.distances[there]).all()
    assert np.isinf(few.distances[~there]).all()


class Uneven(kr.stores.ArrayStore):
    """A store that misses the third nearest item in every other row, as an approximate index may."""

    def search(self, queries: object, k: int) -> kr.Ranking:
        ranking = super().search(queries, k + 1)  # type: ignore[arg-type]
        keep = [0, 1, *range(3, ranking.depth)]
        ranking.indices[::2, :-1], ranking.distances[::2, :-1] = (
            ranking.indices[::2, keep],
            ranking.distances[::2, keep],
        )
        return ranking.head(k)


def test_equal_items_stay_equal_when_augmented_from_uneven_lists() -> None:
    gallery = clusters(10)
    gallery[1] = gallery[0]
    augmented = kr.Manifold.build(Uneven(gallery), kr.methods.AugmentedAQE(kdba=4)).snapshot.state.to_arrays()[
        "augmented"
    ]
    np.testing.assert_array_equal(augmented[1], augmented[0])
    plain = kr.Manifold.build(gallery, kr.methods.AugmentedAQE(kdba=4)).snapshot.arrays["augmented"]
    assert not np.array_equal(augmented, plain)  # the store's lists were used


def test_many_threads_search_one_manifold() -> None:
    rows = clusters(9)
    for method in (
        kr.DFS(k=8),
        kr.methods.FSR(k=8),
        kr.methods.EIR(kd=8),
        kr.methods.AugmentedDQE(k=3, kdba=3),
        kr.methods.GSS(epochs=3),
    ):
        manifold = kr.Manifold.build(rows[10:], method)
        expected = manifold.search(rows[:10])
        with ThreadPoolExecutor(4) as pool:
            for ranking in pool.map(lambda _, built=manifold: built.search(rows[:10]), range(8)):
                np.testing.assert_array_equal(ranking.indices, expected.indices)
                np.testing.assert_array_equal(ranking.distances, expected.distances)


def test_refusal_names_methods_with_prepared_search(ready: Callable[..., Method]) -> None:
    served = {method.name for method in SERVED} | {"lpmt", "lattqe", "lattdba+lattqe"}
    assert {name for name, kind in METHODS.items() if issubclass(kind, Expansion)} <= served
    for name in METHODS:
        if name in served:
            kr.Manifold.build(np.eye(3), ready(name, 3))
            continue
        with pytest.raises(ValueError, match="a Manifold cannot use it; use ") as caught:
            kr.Manifold.build(np.eye(3), name)
        if name in VARIANTS:  # variants of one method that supports prepared search
            assert "; use one of: lpmt, " in str(caught.value)
            continue
        assert "; use one of: " in str(caught.value)
        for other in served:
            assert other in str(caught.value)
    with pytest.raises(ValueError, match=r"variant='joint'.*cannot use it; use EIR\(variant='paper'\), DFS"):
        kr.Manifold.build(np.eye(3), kr.methods.EIR(variant="joint"))


@pytest.mark.parametrize("method", SERVED, ids=repr)
def test_there_are_no_chains_to_explain(method: Method) -> None:
    manifold = kr.Manifold.build(np.eye(4), method)
    with pytest.raises(ValueError, match=f"{type(method).__name__} ranks without chains.*LPMT"):
        manifold.explain([1, 0, 0, 0.1], 0)


@pytest.mark.parametrize(
    "method", [kr.DFS(), kr.methods.FSR(), kr.methods.EIR(), kr.methods.AugmentedAlphaQE(), kr.methods.GSS()], ids=repr
)
def test_too_little_memory_is_refused_before_the_work(method: Method) -> None:
    with pytest.raises(kr.errors.MemoryLimitError, match="`max_memory` allows 100 KB"):
        kr.Manifold.build(clusters(0, 300), method, max_memory=100_000)
