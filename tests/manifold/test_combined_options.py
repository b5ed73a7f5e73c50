"""Filters, marks, groups and observed queries with the Euclidean metric and with combined features."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinrank as kr
from kinrank.manifold.verify import verify
from kinrank.vector_input import compute_rms_length
from reference import online as twin
from reference.vectors_of_any_length import EUCLIDEAN, made, same_but_for_ties

pytestmark = pytest.mark.slow

Rows = NDArray[np.float32]
NUMBERS: dict[str, Any] = {
    "k1": 12,
    "k2": 3,
    "k": 4,
    "path_k": 5,
    "support": 9,
    "kappa": 2.0,
    "rho": 1.5,
    "gamma": 2.5,
    "sigma": 0.6,
    "mu": 0.3,
    "lam": 0.2,
    "share": 0.3,
    "theta": 0.4,
    "direct": 0.3,
    "direct_k": 8,
    "direct_mu": 0.1,
    "direct_support": 9,
}
EXACT = kr.LPMT(**NUMBERS, transport="exact", tolerance=1e-7)
ROWS = made(190)
QUERIES, GALLERY, ASKED = ROWS[:10], ROWS[10:160], ROWS[160:]
SOME = np.random.default_rng(1).random(150) < 0.3


def served() -> list[str]:
    return [name for name, kind in kr.METHODS.items() if kind.capabilities.prepared_search]


class Far(kr.Store):
    """A foreign store ordered by distance that does not claim to be exact."""

    metric = EUCLIDEAN

    def __init__(self, rows: Rows) -> None:
        self.store = kr.stores.ArrayStore(rows, EUCLIDEAN)

    def __len__(self) -> int:
        return len(self.store)

    def search(self, queries: Any, k: int) -> kr.Ranking:
        return self.store.search(queries, k)

    def vectors(self, ids: Any) -> Any:
        return self.store.vectors(ids)


@pytest.mark.parametrize("over", [np.asarray, Far], ids=str)
@pytest.mark.parametrize("name", served())
def test_a_filter_where_lengths_matter(name: str, over: Any, ready: Callable[..., kr.Method]) -> None:
    manifold = kr.Manifold.build(over(GALLERY), ready(name), metric=EUCLIDEAN)
    whole = manifold.search(QUERIES, k=150)
    some = manifold.search(QUERIES, k=20, where=SOME)
    for row in range(len(QUERIES)):
        expected = [item for item in whole.indices[row].tolist() if SOME[item]][:20]
        assert len(set(expected) & set(some.indices[row].tolist())) >= 19  # ties
    assert SOME[some.indices].all()
    assert some.meta["metric"] == EUCLIDEAN
    few = manifold.search(QUERIES[:1], k=10, where=[5, 7])
    assert sorted(few.indices[0].tolist()) == [-1] * 8 + [5, 7]


def test_observed_queries_equal_the_reference_with_the_euclidean_metric() -> None:
    rows = made(45, 5, 0.3)
    gallery = rows[5:35]
    manifold = kr.Manifold.build(gallery, EXACT, metric=EUCLIDEAN)
    assert manifold.observe(rows[35:]) == 10
    manifold.refresh()
    found = manifold.search(rows[:5], k=30)
    scale = np.float32(compute_rms_length(gallery))
    for query in range(5):
        expected = twin.answered(rows[5:] / scale, rows[query] / scale, **NUMBERS, counted=np.arange(40) < 30)
        got = np.full(40, np.inf)
        got[found.indices[query]] = found.distances[query]
        np.testing.assert_allclose(got, expected, rtol=2e-3, atol=2e-3)


def test_copies_depend_on_the_metric() -> None:
    asked = np.stack([QUERIES[0], 3 * QUERIES[0], QUERIES[0] * 1.0001])
    assert kr.Manifold.build(GALLERY).observe(asked) == 1
    manifold = kr.Manifold.build(GALLERY, metric=EUCLIDEAN)
    assert manifold.observe(asked) == 2
    assert manifold.observe(asked[::-1]) == 0
    assert manifold.observe(np.zeros((1, 12))) == 1  # no direction, but a position


@pytest.mark.parametrize("kind", ["array", "store", "faiss"])
def test_observed_queries_with_the_euclidean_metric(kind: str, tmp_path: Path) -> None:
    def source(rows: Rows) -> Any:
        if kind == "array":
            return rows
        if kind == "store":
            return Far(rows)
        pytest.importorskip("faiss")
        from kinrank.stores.faiss import FaissStore

        return FaissStore(rows, metric=EUCLIDEAN)

    manifold = kr.Manifold.build(source(GALLERY), metric=EUCLIDEAN)
    assert manifold.info()["built_over"] == ("Far" if kind == "store" else None)
    scale = manifold.info()["facts"]["scale"]
    assert manifold.observe(100 * ASKED[:5]) == 5  # far away: the scale stays that of the items
    manifold.forget()
    assert manifold.observe(ASKED) > 20
    manifold.remove([3, 4])
    manifold.add(GALLERY[3:5])
    before = manifold.search(QUERIES, k=20)
    assert (manifold.n_observed > 20, len(manifold)) == (True, 150)
    manifold.save(tmp_path / "m")
    assert verify(tmp_path / "m").whole
    present = np.concatenate([np.delete(GALLERY, [3, 4], axis=0), GALLERY[3:5]])
    others = [kr.Manifold.load(tmp_path / "m", store=None if kind == "array" else source(present))]
    others.append(pickle.loads(pickle.dumps(others[0])))
    for other in (*others, pickle.loads(pickle.dumps(manifold))):
        assert other.n_observed == manifold.n_observed
        assert same_but_for_ties(before, other.search(QUERIES, k=20))
        other.refresh()
        assert other.info()["facts"]["scale"] == pytest.approx(scale, rel=1e-5)
        again = other.search(QUERIES, k=5)
        assert np.mean([len(set(a) & set(b)) for a, b in zip(again.ids, before.ids[:, :5], strict=True)]) > 4
    assert manifold.info()["metric"] == EUCLIDEAN
    why = manifold.explain(QUERIES[0], before.ids[0, 4])
    assert why.rank_after == 5


@pytest.mark.parametrize(("positives", "negatives"), [([3], []), ([3, 20], [7]), ([], [7, 8])])
def test_marks_follow_the_slow_twin_where_lengths_matter(positives: list[int], negatives: list[int]) -> None:
    rng = np.random.default_rng(2)  # few wide clusters: chains lead everywhere
    rows = rng.normal(size=(4, 5))[rng.integers(0, 4, 37)] + 0.8 * rng.normal(size=(37, 5))
    rows = rows.astype(np.float32)
    marks = {"positives": positives, "negatives": negatives}
    left = 35 - len(positives) - len(negatives)
    manifold = kr.Manifold.build(rows[2:], EXACT, metric=EUCLIDEAN)
    scale = np.float32(compute_rms_length(rows[2:]))
    online = manifold.search(rows[:1], k=35, **marks)
    expected = twin.marked(rows[2:] / scale, rows[0] / scale, positives, negatives, **NUMBERS)
    _agree(online, left, expected)
    together = twin.jointly_marked(rows[1:] / scale, 1, 0, positives, negatives, **NUMBERS)
    for candidates in (None, 35):
        ranking = kr.rerank(rows[1:2], rows[2:], EXACT, candidates=candidates, metric=EUCLIDEAN, **marks)
        _agree(ranking, left, together)


def _agree(ranking: kr.Ranking, left: int, expected: NDArray[np.float64]) -> None:
    found = ranking.indices[0, :left]
    assert len(set(found.tolist())) == left
    assert (ranking.indices[0, left:] == -1).all()
    np.testing.assert_allclose(ranking.distances[0, :left], expected[found], rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("over", [np.asarray, Far], ids=str)
def test_rerank_filters_candidates_by_distance(over: Any) -> None:
    plain = kr.rerank(QUERIES, GALLERY, "none", metric=EUCLIDEAN).indices
    some = kr.rerank(QUERIES, over(GALLERY), "none", candidates=20, metric=EUCLIDEAN, where=SOME)
    expected = [[item for item in row.tolist() if SOME[item]][:20] for row in plain]
    np.testing.assert_array_equal(some.indices, expected)
    ranked = kr.rerank(QUERIES, over(GALLERY), "lpmt", candidates=20, metric=EUCLIDEAN, where=SOME)
    np.testing.assert_array_equal(np.sort(ranked.indices, axis=1), np.sort(expected, axis=1))
    assert ranked.meta["metric"] == EUCLIDEAN


def test_views_of_one_thing_where_lengths_matter() -> None:
    manifold = kr.Manifold.build(GALLERY, metric=EUCLIDEAN)
    single = manifold.search(QUERIES[:4], k=150)
    grouped = manifold.search(QUERIES[:4], k=150, groups=["a", "b", "a", "b"])
    best = np.empty((4, 150))
    np.put_along_axis(best, single.indices, single.distances, axis=1)
    for row, rows in enumerate(([0, 2], [1, 3])):
        np.testing.assert_array_equal(grouped.distances[row], np.sort(best[rows].min(axis=0)).astype(np.float32))


def both(rows: Rows) -> list[Rows]:
    return [rows[:, :7], np.abs(rows[:, 7:])]


@pytest.mark.parametrize("metric", ["cosine", EUCLIDEAN])
def test_queries_of_several_features_with_everything(metric: str, tmp_path: Path) -> None:
    """A list with one array per feature is the same query as the combined array, with every option."""
    gallery = kr.combine(both(GALLERY), weights=[2, 1])
    manifold = kr.Manifold.build(gallery, ids=[f"n{i}" for i in range(150)], metric=metric)
    asked = kr.combine(both(QUERIES), weights=[2, 1])
    right, wrong = [["n3"]] * 10, [["n7", "n9"]] * 10
    for wanted in (
        {"where": SOME},
        {"positives": right, "negatives": wrong},
        {"positives": right, "where": SOME},
        {"groups": [0, 1] * 5},
        {"groups": [0, 1] * 5, "where": SOME},
    ):
        one = manifold.search(both(QUERIES), k=10, **wanted)
        two = manifold.search(asked.rows, k=10, **wanted)
        np.testing.assert_array_equal(one.ids, two.ids)
        np.testing.assert_array_equal(one.distances, two.distances)
    assert manifold.observe(both(ASKED)) > 20
    assert manifold.observe(kr.combine(both(ASKED), weights=[2, 1])) == 0
    manifold.search(both(QUERIES), k=10, observe=True)
    assert manifold.n_observed > 25
    manifold.save(tmp_path / "m")
    loaded = kr.Manifold.load(tmp_path / "m")
    assert loaded.info() == manifold.info()
    assert "7 dimensions (weight 0.6667) + 5 (0.3333)" in loaded.info()["combined"]
    one, two = (each.search(both(QUERIES), k=10, where=SOME) for each in (manifold, loaded))
    np.testing.assert_array_equal(one.ids, two.ids)
    for candidates in (None, 30):
        marks = {"where": SOME, "positives": [[3]] * 10, "metric": metric}
        first = kr.rerank(both(QUERIES), gallery, candidates=candidates, **marks)
        second = kr.rerank(asked, gallery, candidates=candidates, **marks)
        np.testing.assert_array_equal(first.indices, second.indices)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_invalid_queries_are_not_observed(wrong: float) -> None:
    manifold = kr.Manifold.build(kr.combine(both(GALLERY)))
    first, second = both(ASKED)
    with pytest.raises(ValueError, match=r"queries\[1\] row 0 contains NaN or Inf"):
        manifold.observe([first, np.full_like(second, wrong)])
    with pytest.raises(ValueError, match="queries holds 1 features but the gallery was combined from 2"):
        manifold.observe([first])
    with pytest.raises(ValueError, match="queries have different numbers of items: 30, 29"):
        manifold.observe([first, second[1:]])
    assert manifold.n_observed == 0


def test_a_store_of_another_metric_is_refused_with_observed_queries(tmp_path: Path) -> None:
    manifold = kr.Manifold.build(GALLERY, metric=EUCLIDEAN)
    manifold.observe(ASKED)
    manifold.save(tmp_path / "m")
    with pytest.raises(ValueError, match=r"^the store searches by cosine, but the manifold was built with euclidean"):
        kr.Manifold.load(tmp_path / "m", store=kr.stores.ArrayStore(GALLERY))


def test_groups_and_matrices_know_items_only_where_lengths_matter() -> None:
    rows = np.concatenate([GALLERY, GALLERY[:4] * 1.001])
    manifold = kr.Manifold.build(rows, metric=EUCLIDEAN)
    before = [group.items.tolist() for group in kr.near_duplicates(manifold, max_distance=0.05)]
    assert [0, 150] in before
    assert manifold.observe(ASKED) > 20
    assert [group.items.tolist() for group in kr.near_duplicates(manifold, max_distance=0.05)] == before
    assert kr.manifold.export(manifold)["steps"].shape == (154, 154)
