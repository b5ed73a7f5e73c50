"""Manifold.observe: hidden intermediate points of chains, near-copies, limits, ids, files, stores, bad input."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import kinrank as kr
from kinrank.manifold.changes import apply_change
from kinrank.manifold.service_log import Change, Rule
from kinrank.manifold.snapshot import ObservedQueries, find_new_queries, measure_tenth_distances
from kinrank.manifold.verify import verify
from kinrank.neighbors import find_nearest
from kinrank.stores import ArrayStore
from kinrank.vector_input import to_unit_rows
from reference import online as twin
from reference.stores import Elsewhere

pytestmark = pytest.mark.slow

Rows = NDArray[np.float32]
SIZES = {"k1": 12, "k2": 3, "k": 4, "path_k": 4, "support": 12}
SMALL = kr.LPMT(**SIZES)  # type: ignore[arg-type]


def clusters(seed: int, items: int = 120, dimensions: int = 8, groups: int = 6) -> Rows:
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(7).normal(size=(groups, dimensions))
    rows = centres[rng.integers(0, groups, items)] + 0.4 * rng.normal(size=(items, dimensions))
    return rows.astype(np.float32)


@pytest.fixture
def manifold() -> kr.Manifold:
    """Return 120 items without ids and 10 observed queries."""
    made = kr.Manifold.build(clusters(1), SMALL)
    assert made.observe(clusters(2, 10)) == 10
    return made


def assert_same(left: kr.Manifold, right: kr.Manifold) -> None:
    a, b = left.search(clusters(3, 12), k=200), right.search(clusters(3, 12), k=200)
    np.testing.assert_array_equal(a.ids, b.ids)
    np.testing.assert_array_equal(a.distances, b.distances)
    assert left.ids.tolist() == right.ids.tolist()
    assert left.info() == right.info()


def test_observed_queries_are_never_results_or_items(manifold: kr.Manifold) -> None:
    assert (len(manifold), manifold.n_observed) == (120, 10)
    assert manifold.ids.tolist() == list(range(120))
    facts = manifold.info()
    assert (facts["items"], facts["observed"], facts["observed_limit"]) == (120, 10, 40)
    assert "120 items x 8 dimensions, 10 observed queries" in repr(manifold)
    for k in (1, 10, 120, 500):
        found = manifold.search(clusters(2, 10), k=k)  # observed queries: they are their own nearest rows
        assert found.indices.shape == (10, min(k, 120))
        assert all(len(set(row)) == min(k, 120) for row in found.indices.tolist())
        assert (found.indices >= 0).all()
        assert found.indices.max() < 120
        assert (np.diff(found.distances, axis=1) >= 0).all()


@pytest.mark.parametrize("direct", [0.0, 0.3, 1.0])
def test_chains_through_observed_queries_follow_the_equations(direct: float) -> None:
    """Compare with the slow reference over items and observed queries, in which only items count."""
    sizes = {**SIZES, "support": 9, "k1": 12, "path_k": 5, "direct_k": 12, "direct_support": 11}
    numbers = {**sizes, "kappa": 2.0, "rho": 1.5, "gamma": 2.5, "sigma": 0.6, "mu": 0.3, "lam": 0.2}
    numbers |= {"direct": direct, "direct_mu": 0.05}
    rng = np.random.default_rng(0)
    rows = to_unit_rows(
        (rng.normal(size=(4, 5))[rng.integers(0, 4, 45)] + 0.8 * rng.normal(size=(45, 5))).astype(np.float32)
    )
    method = kr.LPMT(**numbers, share=0.3, theta=0.4, transport="exact", tolerance=1e-7)  # type: ignore[arg-type]
    manifold = kr.Manifold.build(rows[5:35], method)
    assert manifold.observe(rows[35:]) == 10
    manifold.refresh()
    found = manifold.search(rows[:5], k=30)
    counted = np.arange(40) < 30
    for query in range(5):
        expected = twin.answered(
            rows[5:],
            rows[query],
            **numbers,
            theta=0.4,
            share=0.3,
            counted=counted,  # type: ignore[arg-type]
        )
        got = np.full(40, np.inf)
        got[found.indices[query]] = found.distances[query]
        np.testing.assert_allclose(got, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("direct", [0.0, 0.7])
def test_fewer_items_than_neighbours_that_set_a_scale(direct: float) -> None:
    """The last item then sets the scale, with any observed queries, and with marks that have no effect."""
    rows = to_unit_rows(np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32))
    manifold = kr.Manifold.build(rows[:6], kr.LPMT(direct=direct, k=8, k1=10, k2=3, path_k=4))
    manifold.observe(rows[6:36])
    manifold.refresh()
    plain = manifold.search(rows[36:], k=6)
    marked = manifold.search(rows[36:], k=6, positives=[[]] * 4)
    np.testing.assert_array_equal(marked.indices, plain.indices)
    np.testing.assert_allclose(marked.distances, plain.distances, rtol=1e-5)


def test_a_chain_through_an_observed_query() -> None:
    """Two far ends of an arc: a query in the gap between them connects them, and `explain` names it."""
    angles = np.r_[np.linspace(0, 1, 12), np.linspace(1.8, 2.8, 12)]
    arc = np.stack([np.cos(angles), np.sin(angles), np.full(24, 0.2)], axis=1).astype(np.float32)
    others = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32) * [1, 1, 0.1] - [0, 0, 2]
    rows = np.concatenate([arc, others.astype(np.float32)])
    method = kr.LPMT(k1=8, k2=2, k=3, path_k=2, support=8)
    manifold = kr.Manifold.build(rows, method, ids=[f"n{i}" for i in range(64)])
    asked = np.array([[np.cos(0.9), np.sin(0.9), 0.2]], np.float32)
    gap = np.linspace(1.1, 1.7, 4)
    manifold.observe(np.stack([np.cos(gap), np.sin(gap), np.full(4, 0.2)], axis=1))
    assert manifold.n_observed == 4
    why = manifold.explain(asked[0], "n20")
    assert "remembered" in why.kinds
    assert why.kinds[-1] == "item"
    place = why.kinds.index("remembered")
    assert why.names[place - 1] == f"remembered query {why.items[place]}"
    assert f"-> remembered query {why.items[place]} " in str(why)
    assert why.links[place]._asdict() in why.to_dict()["chain"]
    assert why.names[-1] == "n20"
    order = manifold.search(asked, k=64).ids[0].tolist()
    assert why.rank_after == order.index("n20") + 1
    assert (
        why.rank_before == find_nearest(to_unit_rows(asked), to_unit_rows(rows), 64).indices[0].tolist().index(20) + 1
    )
    before = manifold.search(asked, k=64).ids[0].tolist().index("n20")
    manifold.forget()
    assert manifold.search(asked, k=64).ids[0].tolist().index("n20") >= before
    assert set(manifold.explain(asked[0], "n20").kinds) <= {"query", "item"}


def test_search_answers_first_and_then_remembers() -> None:
    manifold, plain = (kr.Manifold.build(clusters(1), SMALL) for _ in range(2))
    asked = clusters(4, 6)
    found = manifold.search(asked, k=5, observe=True)
    np.testing.assert_array_equal(found.indices, plain.search(asked, k=5).indices)
    assert manifold.n_observed == 6
    plain.observe(asked)
    assert_same(manifold, plain)


def test_near_copies_are_not_observed() -> None:
    """Nearer to an observed query than 0.2 times the distance to its own 10th item."""
    rows, asked = clusters(1), to_unit_rows(clusters(5, 1))
    manifold = kr.Manifold.build(rows, SMALL)
    tenth = find_nearest(asked, to_unit_rows(rows), 10).distances[0, 9]
    aside = np.linalg.qr(np.stack([asked[0], np.ones(8)]).T)[0][:, 1]
    near, far = asked + 0.18 * tenth * aside, asked + 0.25 * tenth * aside
    assert manifold.observe(asked) == 1
    assert manifold.observe(asked) == 0
    assert manifold.observe(near) == 0
    assert manifold.observe(far) == 1
    assert manifold.n_observed == 2
    again = kr.Manifold.build(rows, SMALL)
    assert again.observe(np.concatenate([asked, near, asked, far, far])) == 2


def test_the_tenth_item_is_an_item() -> None:
    rows, asked = to_unit_rows(clusters(1)), to_unit_rows(clusters(5, 40))
    manifold = kr.Manifold.build(rows, SMALL)
    manifold.observe(np.repeat(asked[:1], 30, axis=0) + 0.3 * np.random.default_rng(0).normal(size=(30, 8)))
    snapshot = manifold.snapshot
    got = measure_tenth_distances(asked, snapshot.gallery.search, snapshot.remembered)
    np.testing.assert_allclose(got, find_nearest(asked, rows, 10).distances[:, 9], rtol=1e-6)
    few = kr.Manifold.build(rows[:3], SMALL).snapshot
    got = measure_tenth_distances(asked, few.gallery.search, few.remembered)
    np.testing.assert_allclose(got, find_nearest(asked, rows[:3], 3).distances[:, 2], rtol=1e-6)


def test_equal_rows_are_copies_however_dense_the_gallery() -> None:
    row = to_unit_rows(clusters(1, 1))
    assert find_new_queries(np.repeat(row, 3, axis=0), row[:0], np.zeros(3)).tolist() == [0]
    assert find_new_queries(row, row, np.zeros(1)).tolist() == []
    manifold = kr.Manifold.build(np.repeat(row, 30, axis=0), SMALL)
    assert [manifold.observe(row), manifold.observe(row)] == [1, 0]


@pytest.mark.parametrize("limit", [None, 4])
def test_the_oldest_leave_first(limit: int | None) -> None:
    manifold = kr.Manifold.build(clusters(1, 30), SMALL, observed_limit=limit)
    most = 10 if limit is None else limit
    asked = to_unit_rows(np.random.default_rng(6).normal(size=(18, 8)).astype(np.float32))
    for row in asked[:14]:
        manifold.observe(row[None])
    assert (manifold.n_observed, manifold.info()["observed_limit"]) == (most, most)
    known = manifold.snapshot.vectors[manifold.snapshot.remembered.queries]
    np.testing.assert_allclose(known, asked[14 - most : 14], atol=1e-6)
    assert manifold.observe(asked) == min(most, 18 - most)  # the others are observed already
    known = manifold.snapshot.vectors[manifold.snapshot.remembered.queries]
    np.testing.assert_allclose(known[-1:], asked[-1:], atol=1e-6)
    manifold.remove(list(range(18)))  # 12 items are left
    assert manifold.n_observed == (4 if limit is None else limit)
    manifold.remove(list(range(18, 30)))
    assert manifold.n_observed == (0 if limit is None else limit)
    assert manifold.search(asked).indices.shape == (18, 0)


def test_too_many_at_once_leave_the_newest() -> None:
    manifold = kr.Manifold.build(clusters(1, 30), SMALL, observed_limit=4)
    asked = to_unit_rows(np.random.default_rng(6).normal(size=(18, 8)).astype(np.float32))
    assert manifold.observe(asked) == 4
    snapshot = manifold.snapshot
    np.testing.assert_allclose(snapshot.vectors[snapshot.remembered.queries], asked[-4:], atol=1e-6)


@pytest.mark.parametrize("named", [False, True])
def test_names_are_those_of_a_manifold_that_remembers_nothing(named: bool, tmp_path: Path) -> None:
    """Add, remove and replace after observing, with saving in between: the same ids, no number is used up."""
    rows, more, asked = clusters(1, 60), clusters(2, 20), clusters(3, 12)
    ids = [f"n{i}" for i in range(80)] if named else [None] * 80

    def names(start: int, stop: int) -> Any:
        return ids[start:stop] if named else None

    plain, other = (kr.Manifold.build(rows, SMALL, ids=names(0, 60)) for _ in range(2))

    def through_a_file(manifold: kr.Manifold) -> kr.Manifold:
        manifold.save(tmp_path / "m")
        return kr.Manifold.load(tmp_path / "m")

    other.observe(asked[:4])
    for step in range(4):
        for manifold in (plain, other):
            manifold.add(more[5 * step : 5 * step + 5], names(60 + 5 * step, 65 + 5 * step))
        other.observe(asked[4 + 2 * step : 6 + 2 * step])
        other = through_a_file(other)
        for manifold in (plain, other):
            gone = [3 + step, 61 + 5 * step]
            manifold.remove([f"n{i}" for i in gone] if named else gone)
        assert other.ids.tolist() == plain.ids.tolist()
        assert other.n_observed == 4 + 2 * step + 2
    if named:
        for manifold in (plain, other):
            manifold.upsert(asked[:2], ["n10", "new"])
    other = through_a_file(other)
    assert other.ids.tolist() == plain.ids.tolist()
    assert other.info()["ids"] == plain.info()["ids"]
    for name in (other.ids[0], other.ids[17], other.ids[-1]):
        row = other.snapshot.item_vectors[other.ids.tolist().index(name)]
        np.testing.assert_allclose(row, plain.snapshot.vectors[plain.ids.tolist().index(name)])
        assert other.explain(row, name).names[-1] == name
    other.forget()
    other.refresh()
    plain.refresh()
    assert other.snapshot.size == plain.snapshot.size
    a, b = other.search(asked, k=70), plain.search(asked, k=70)
    np.testing.assert_array_equal(a.ids, b.ids)
    np.testing.assert_allclose(a.distances, b.distances, rtol=1e-4)


def test_changes_with_observed_queries_equal_a_rebuild() -> None:
    """With a tolerance of 0: the same rows, built at once."""
    rows, asked = clusters(1, 100), clusters(2, 12)
    snapshot = kr.Manifold.build(rows[:90], SMALL).snapshot
    snapshot = apply_change(snapshot, Change(queries=asked[:6], rule=Rule.OBSERVE), 0.0)
    snapshot = apply_change(snapshot, Change(vectors=rows[90:], rule=Rule.ADD), 0.0)
    snapshot = apply_change(snapshot, Change(queries=asked[6:], rule=Rule.OBSERVE), 0.0)
    snapshot = apply_change(snapshot, Change([5, 95], rule=Rule.REMOVE), 0.0)
    np.testing.assert_array_equal(snapshot.remembered.queries, [*range(89, 95), *range(104, 110)])
    assert len(snapshot) == 98
    assert snapshot.remembered.count == 12
    kept = np.delete(rows, [5, 95], axis=0)
    np.testing.assert_allclose(snapshot.item_vectors, to_unit_rows(kept), atol=1e-6)
    np.testing.assert_allclose(snapshot.vectors[snapshot.remembered.queries], to_unit_rows(asked), atol=1e-6)


def test_saved_loaded_and_sent(manifold: kr.Manifold, tmp_path: Path) -> None:
    manifold.save(tmp_path / "m")
    loaded = kr.Manifold.load(tmp_path / "m")
    assert_same(loaded, manifold)
    assert_same(pickle.loads(pickle.dumps(manifold)), manifold)
    loaded.add(clusters(8, 3))
    loaded.observe(clusters(9, 5))
    loaded.remove([0, 121])
    loaded.save(tmp_path / "m")  # as changes next to the arrays
    assert len(list((tmp_path / "m").glob("change-*"))) == 1
    again = kr.Manifold.load(tmp_path / "m")
    assert_same(again, loaded)
    assert again.n_observed == 15
    again.forget()
    again.save(tmp_path / "m")
    assert kr.Manifold.load(tmp_path / "m").n_observed == 0
    with kr.Manifold.changing(tmp_path / "m") as changing:
        changing.observe(clusters(9, 5))
    assert kr.Manifold.load(tmp_path / "m").n_observed == 5


def test_the_limit_is_respected(tmp_path: Path) -> None:
    made = kr.Manifold.build(clusters(1, 30), SMALL, observed_limit=3)
    made.observe(clusters(2, 2))
    made.save(tmp_path / "m")
    loaded = kr.Manifold.load(tmp_path / "m")
    loaded.observe(clusters(4, 5))
    loaded.refresh()
    assert (loaded.n_observed, loaded.info()["observed_limit"]) == (3, 3)


def test_refresh_keeps_observed_queries(manifold: kr.Manifold) -> None:
    manifold.add(clusters(8, 3))
    assert manifold.staleness > 0
    manifold.refresh()
    assert (len(manifold), manifold.n_observed, manifold.staleness) == (123, 10, 0.0)
    assert manifold.search(clusters(2, 10), k=1).indices.max() < 123


@pytest.mark.parametrize("kind", [ArrayStore, Elsewhere])
def test_over_a_store_observed_queries_are_searched_exactly(kind: Any, tmp_path: Path) -> None:
    rows, more, asked = clusters(1), clusters(8, 6), clusters(2, 10)
    exact = kr.Manifold.build(rows, SMALL)
    over = kr.Manifold.build(kind(rows), SMALL)
    for manifold in (exact, over):
        manifold.observe(asked[:5])
        manifold.add(more)
        manifold.observe(asked[5:])
        manifold.remove([7])
    queries = clusters(3, 12)
    found = over.search(queries, k=125)
    assert found.ids.tolist() == exact.search(queries, k=125).ids.tolist()
    over.save(tmp_path / "m")
    held = np.delete(np.concatenate([rows, more]), 7, axis=0)
    loaded = kr.Manifold.load(tmp_path / "m", store=kind(held))  # of the items only
    np.testing.assert_array_equal(loaded.search(queries, k=125).ids, found.ids)
    sent = pickle.loads(pickle.dumps(loaded))
    np.testing.assert_array_equal(sent.search(queries, k=125).ids, found.ids)
    loaded.add(clusters(10, 4))
    loaded.observe(clusters(11, 4))
    assert (len(loaded), loaded.n_observed) == (129, 14)
    assert loaded.search(queries, k=129).indices.min() >= 0
    loaded.refresh()
    assert sorted(loaded.search(queries[:1], k=129).ids[0].tolist()) == sorted(loaded.ids.tolist())
    with pytest.raises(ValueError, match="store has 135 items, but the manifold has 125"):
        kr.Manifold.load(tmp_path / "m", store=kind(np.concatenate([held, asked])))


def test_groups_and_export_know_items_only(manifold: kr.Manifold) -> None:
    manifold.observe(np.concatenate([clusters(1)[:1] * 2]))  # a query that is an item
    assert manifold.n_observed == 11
    assert kr.near_duplicates(manifold, max_distance=1e-6) == []
    for name, matrix in kr.manifold.export(manifold).items():
        assert matrix.shape == (120, 120), name
    states = kr.manifold.export(manifold)["states"]
    assert states.sum(axis=1).max() <= 1.001
    assert states.sum(axis=1).min() < 0.999
    manifold.forget()
    np.testing.assert_allclose(kr.manifold.export(manifold)["states"].sum(axis=1), 1.0, atol=1e-3)


def test_only_the_record_of_changes_allows_it() -> None:
    bare = kr.Manifold.build(clusters(1), SMALL, changes=False)
    sentence = "built without the record that is needed to observe queries; build it with `changes=True`"
    with pytest.raises(ValueError, match=sentence):
        bare.observe(clusters(2, 3))
    with pytest.raises(ValueError, match=sentence):
        bare.search(clusters(2, 3), observe=True)
    bare.forget()  # nothing to forget


@pytest.mark.parametrize("method", [kr.methods.AQE(k=2), kr.DFS(), kr.methods.AugmentedAQE(k=3, kdba=2)])
def test_methods_without_chains_say_so(method: kr.Method) -> None:
    manifold = kr.Manifold.build(clusters(1), method)
    with pytest.raises(ValueError, match=f"links of chains, and {type(method).__name__} ranks without"):
        manifold.observe(clusters(2, 3))


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        (np.full((2, 8), np.nan), "queries"),
        (np.zeros((1, 8)), "row 0"),
        (np.ones((2, 7)), "7"),
        (np.ones((1, 1, 8)), "2-d"),
    ],
)
def test_bad_queries(manifold: kr.Manifold, queries: Any, message: str) -> None:
    before = manifold.snapshot
    with pytest.raises(ValueError, match=message):
        manifold.observe(queries)
    with pytest.raises(ValueError, match=message):
        manifold.search(queries, observe=True)
    assert manifold.snapshot is before


@pytest.mark.parametrize("limit", [0, -1, 2.5, True, "many"])
def test_bad_limits(limit: Any) -> None:
    with pytest.raises(ValueError, match=f"observed_limit={limit!r} is not allowed"):
        kr.Manifold.build(clusters(1), SMALL, observed_limit=limit)


def test_nothing_to_observe(manifold: kr.Manifold) -> None:
    before = manifold.snapshot
    assert manifold.observe(np.empty((0, 8), np.float32)) == 0
    assert manifold.snapshot is before


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (np.zeros(129, bool), "remembered must be a mask of 130 rows"),
        (np.zeros((130, 1), bool), "remembered must be a mask of 130 rows"),
        (np.zeros(130, np.int8), "remembered must be a mask of 130 rows"),
        (np.full(130, 7, np.uint8).view(bool), "values other than True and False"),
    ],
)
def test_marks_of_a_stranger(manifold: kr.Manifold, mask: Any, message: str) -> None:
    from kinrank.manifold.snapshot import Snapshot

    snapshot = manifold.snapshot
    arrays = {**snapshot.arrays, "remembered": mask}
    with pytest.raises(ValueError, match=message):
        Snapshot.from_arrays(SMALL, arrays, snapshot.facts, None, None)


@pytest.mark.parametrize("limit", [0.0, -3.0, 2.5, float("nan"), float("inf")])
def test_limits_of_a_stranger(limit: float) -> None:
    with pytest.raises(ValueError, match="observed_limit"):
        ObservedQueries.restore(3, None, limit)


def test_marks_need_a_method_that_remembers_and_ids_that_fit(manifold: kr.Manifold) -> None:
    from kinrank.manifold.snapshot import Snapshot

    vectors = manifold.snapshot.vectors
    marks = {"vectors": vectors, "remembered": np.arange(130) >= 120}
    with pytest.raises(ValueError, match="observed queries become links of chains"):
        Snapshot.from_arrays(kr.methods.AQE(k=2), marks, {}, None, None)
    arrays = {**manifold.snapshot.arrays, "ids": np.arange(130)}
    with pytest.raises(ValueError, match="ids do not fit"):
        Snapshot.from_arrays(SMALL, arrays, manifold.snapshot.facts, None, None)


def test_folders_of_before_load_and_only_those_that_remember_are_newer(tmp_path: Path) -> None:
    import json

    made = kr.Manifold.build(clusters(1), SMALL)
    made.save(tmp_path / "m")
    assert json.loads((tmp_path / "m" / "manifest.json").read_text())["version"] == 3
    made.observe(clusters(2, 3))
    made.save(tmp_path / "m")
    assert json.loads((tmp_path / "m" / "manifest.json").read_text())["version"] == 4
    assert verify(tmp_path / "m").whole


def test_many_threads(manifold: kr.Manifold) -> None:
    from concurrent.futures import ThreadPoolExecutor

    rows = clusters(12, 24)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda row: manifold.search(row[None], k=5, observe=True), rows))
    assert all(ranking.indices.shape == (1, 5) for ranking in found)
    assert manifold.n_observed == 34


def test_filters_marks_and_groups_are_about_items(manifold: kr.Manifold) -> None:
    """Observed queries are between items here, but all given and returned numbers are those of items."""
    manifold.add(clusters(8, 10))
    manifold.observe(clusters(9, 6))
    queries = clusters(3, 6)
    allowed = np.arange(130) % 3 == 0
    order = manifold.search(queries, k=130)
    found = manifold.search(queries, k=20, where=allowed)
    for row, whole in zip(found.indices.tolist(), order.indices.tolist(), strict=True):
        assert row == [item for item in whole if item % 3 == 0][:20]
    assert manifold.search(queries, k=3, where=[125, 7]).indices[:, :2].tolist()[0] in ([125, 7], [7, 125])
    first = order.indices[0].tolist()
    marked = manifold.search(queries[:1], k=130, positives=first[3:5], negatives=first[7:8]).indices[0].tolist()
    assert sorted(marked[:127]) == sorted(set(range(130)) - {first[3], first[4], first[7]})
    near = manifold.search(queries[:1], k=1, positives=[125]).indices[0, 0]
    alone = manifold.search(manifold.snapshot.item_vectors[125:126], k=10).indices[0].tolist()
    assert near in alone[1:]
    assert manifold.search(queries, k=5, groups=[0, 0, 1, 1, 2, 2]).indices.max() < 130


@pytest.mark.parametrize("items", [0, 1, 2, 5])
def test_small_galleries(items: int, tmp_path: Path) -> None:
    rows, asked = clusters(1, 8), clusters(2, 6)
    manifold = kr.Manifold.build(rows, SMALL, observed_limit=5)
    manifold.remove(list(range(items, 8)))
    assert manifold.observe(asked) == 5
    assert (len(manifold), manifold.n_observed) == (items, 5)
    assert manifold.search(asked, k=9).indices.shape == (6, items)
    manifold.save(tmp_path / "m")
    loaded = kr.Manifold.load(tmp_path / "m")
    loaded.add(rows[items:])
    found = loaded.search(asked, k=9)
    assert sorted(found.indices[0].tolist()) == sorted([*range(items), *range(8, 16 - items)])
    free = kr.Manifold.build(rows, SMALL)
    free.remove(list(range(items, 8)))
    assert free.observe(asked) == items // 3


VERBS = ["add", "remove", "observe", "forget", "save", "refresh"]
STEPS = st.lists(st.tuples(st.sampled_from(VERBS), st.integers(0, 99)), max_size=8)


@settings(max_examples=25, deadline=None)
@given(steps=STEPS, limit=st.sampled_from([None, 1, 6]))
def test_ids_survive_all_changes(steps: list[tuple[str, int]], limit: int | None) -> None:
    manifold = kr.Manifold.build(clusters(0, 30), SMALL, observed_limit=limit)
    expected = dict(enumerate(to_unit_rows(clusters(0, 30))))
    following = 30
    for verb, number in steps:
        rows = clusters(100 + number, 1 + number % 4)
        if verb == "add":
            manifold.add(rows)
            expected |= {following + place: row for place, row in enumerate(to_unit_rows(rows))}
            following += len(rows)
        elif verb == "remove" and len(expected) > 2:
            gone = sorted(expected)[number % len(expected)]
            manifold.remove([gone])
            del expected[gone]
        elif verb == "observe":
            manifold.observe(rows)
        elif verb == "forget":
            manifold.forget()
        elif verb == "save":
            with tempfile.TemporaryDirectory() as folder:
                manifold.save(Path(folder) / "m")
                manifold = kr.Manifold.load(Path(folder) / "m", mmap=False)
        elif verb == "refresh":
            manifold.refresh()
        assert manifold.ids.tolist() == sorted(expected)
        np.testing.assert_allclose(manifold.snapshot.item_vectors, [expected[name] for name in sorted(expected)])
        assert manifold.n_observed <= (len(expected) // 3 if limit is None else limit)
    found = manifold.search(clusters(7, 3), k=len(expected))
    assert all(sorted(row) == sorted(expected) for row in found.ids.tolist())


def test_queries_that_came_and_went_make_nothing_stale() -> None:
    rows = to_unit_rows(np.random.default_rng(5).standard_normal((80, 6)).astype(np.float32))
    manifold = kr.Manifold.build(rows[:60])
    manifold.observe(rows[60:])
    assert manifold.n_observed == 20
    manifold.forget()
    assert manifold.staleness < 0.05
