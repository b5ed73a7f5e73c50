"""Manifold.add and remove: against a rebuild, under load, ids, bad input, files."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import kinrank as kr
from kinrank.errors import ExactSearchWarning
from kinrank.manifold.changes import apply_change
from kinrank.manifold.service_log import Change, Rule
from kinrank.manifold.snapshot import Snapshot, make_gallery
from kinrank.stages import diffusion, states, step_costs
from kinrank.stages import graph_update as stages_changes
from kinrank.stages.array_storage import POWER_NAMES
from kinrank.stages.pipeline import ListSizes
from kinrank.stores import ArrayStore
from kinrank.vector_input import to_unit_rows

pytestmark = pytest.mark.slow

Rows = NDArray[np.float32]
SMALL = kr.LPMT(k1=12, k2=3, k=4, path_k=4, support=12)
SEARCHED = (
    "state_indptr",
    "state_indices",
    "state_data",
    "step_indptr",
    "step_indices",
    "step_data",
    "wide_indptr",
    "wide_indices",
    "wide_data",
    "lengths",
)
RECORDED = ("near_indices", "near_distances", "nearest", "similar", "graph_indptr", "graph_indices", "graph_data")


def clusters(seed: int, items: int = 120, dimensions: int = 8, groups: int = 6) -> Rows:
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(7).normal(size=(groups, dimensions))
    rows = centres[rng.integers(0, groups, items)] + 0.4 * rng.normal(size=(items, dimensions))
    return rows.astype(np.float32)


def rebuilt(snapshot: Snapshot, rows: Rows) -> kr.Manifold:
    """Build the same items at once, with the powers and graph weights with which the snapshot was built."""
    facts, beta = snapshot.state.facts, snapshot.state.to_arrays()["beta"]
    assert isinstance(snapshot.method, kr.LPMT)
    method = replace(snapshot.method, **{name: facts[name] for name in POWER_NAMES})
    with mock.patch.object(diffusion, "fit_graph_weights", return_value=beta):
        return kr.Manifold.build(rows, method)


def walk(seed: int, sizes: list[int], tolerance: float | None, rows: Rows) -> tuple[Snapshot, list[int]]:
    """Return a manifold of 100 of the rows after a sequence of changes: positive sizes add, negative ones remove."""
    rng = np.random.default_rng(seed)
    have, upcoming = list(range(100)), 100
    snapshot = kr.Manifold.build(rows[:100], SMALL).snapshot
    for size in sizes:
        if size > 0:
            added = Change(vectors=rows[upcoming : upcoming + size], rule=Rule.ADD)
            snapshot = apply_change(snapshot, added, tolerance)
            have += range(upcoming, upcoming + size)
            upcoming += size
        else:
            gone = rng.choice(have, -size, replace=False).tolist()
            snapshot = apply_change(snapshot, Change(gone, rule=Rule.REMOVE), tolerance)
            have = [name for name in have if name not in gone]
    return snapshot, have


def assert_exact(snapshot: Snapshot, rows: Rows) -> None:
    """Check that neighbours are those of an exact search, as deep as the lists go."""
    near, gaps = snapshot.state.to_arrays()["near_indices"], snapshot.state.to_arrays()["near_distances"]
    lists = make_gallery(to_unit_rows(rows)).lists(near.shape[1])
    there = near >= 0
    np.testing.assert_array_equal(near[there], lists.indices[there])
    np.testing.assert_array_equal(gaps[there], lists.distances[there])
    assert (np.diff(there.astype(int), axis=1) <= 0).all()
    assert isinstance(snapshot.method, kr.LPMT)
    assert there.sum(axis=1).min() >= min(ListSizes.of(snapshot.method).needed, len(rows))


SIZES = st.lists(st.integers(-12, 12).filter(bool), min_size=1, max_size=4)
FEW = st.lists(st.integers(-4, 4).filter(bool), min_size=1, max_size=4)  # small enough to have no effect


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 1000), SIZES, st.booleans())
def test_without_tolerance_changes_are_a_rebuild_to_the_last_bit(seed: int, sizes: list[int], ties: bool) -> None:
    rows = clusters(seed, 160)
    if ties:
        rows = np.round(rows * 1.5) + np.float32(0.25)  # many equal rows and equal distances
    snapshot, have = walk(seed, sizes, 0.0, rows)
    again = rebuilt(snapshot, rows[have]).snapshot
    assert (np.arange(len(have)) if snapshot.names.stored is None else snapshot.names.stored).tolist() == have
    for name in (*SEARCHED, *RECORDED):
        np.testing.assert_array_equal(snapshot.state.to_arrays()[name], again.state.to_arrays()[name], err_msg=name)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.integers(0, 1000), st.one_of(SIZES, FEW))
def test_changes_are_a_rebuild_within_the_tolerance(seed: int, sizes: list[int]) -> None:
    rows = clusters(seed, 160)
    snapshot, have = walk(seed, sizes, None, rows)
    again = rebuilt(snapshot, rows[have])
    assert_exact(snapshot, rows[have])
    queries = clusters(seed + 5000, 30)
    got, want = kr.Manifold(snapshot).search(queries, k=10), again.search(queries, k=10)
    there = np.array(have)[want.indices].tolist()
    shared = [len(set(a) & set(b)) for a, b in zip(got.ids.tolist(), there, strict=True)]
    apart = np.abs(got.distances - want.distances)  # as documented at TOLERANCE
    assert np.mean(shared) >= 8.5
    assert np.median(apart) <= 0.1  # not the mean, because one chain between two groups moves a whole group
    drift = snapshot.state.to_arrays()["drift"]
    assert (drift[:, 0] <= stages_changes.BOUND_SLACK * stages_changes.TOLERANCE).all()
    assert (drift[:, 1:] <= stages_changes.TOLERANCE).all()


def test_a_change_leaves_far_items_alone() -> None:
    rows = clusters(1, 400, 16, 20)
    manifold = kr.Manifold.build(rows[:396], SMALL)
    with (
        mock.patch.object(diffusion, "update_nearest_rows", wraps=diffusion.update_nearest_rows) as rows_of_f,
        mock.patch.object(states, "build_wide_states", wraps=states.build_wide_states) as widened,
        mock.patch.object(states, "locality_states", wraps=states.locality_states) as averaged,
        mock.patch.object(step_costs, "price_pairs", wraps=step_costs.price_pairs) as priced,
        mock.patch.object(step_costs, "price_steps", side_effect=AssertionError("every step is priced")),
    ):
        manifold.add(rows[396:])
    steps = len(manifold.snapshot.state.to_arrays()["step_indices"]) // 2
    assert 4 <= len(rows_of_f.call_args.args[0]) < 80
    assert 4 <= len(averaged.call_args.args[0].items) < 80
    assert len(widened.call_args.args[0]) == len(averaged.call_args.args[0].items)  # whose state changed
    assert 0 < len(priced.call_args.args[0]) < steps / 4
    assert rows_of_f.call_count == widened.call_count == averaged.call_count == priced.call_count == 1


def test_many_small_changes_are_followed() -> None:
    rows = clusters(2, 140)
    manifold = kr.Manifold.build(rows[:100], SMALL)
    for row in range(100, 140):
        manifold.add(rows[row : row + 1])
    want = rebuilt(manifold.snapshot, rows).search(rows[:30], k=10)
    got = manifold.search(rows[:30], k=10)
    pairs = zip(got.indices.tolist(), want.indices.tolist(), strict=True)
    assert np.mean([len(set(a) & set(b)) for a, b in pairs]) >= 8.5


def test_staleness_grows_and_refresh_repairs() -> None:
    rows = clusters(3, 150)
    manifold = kr.Manifold.build(rows[:120], SMALL)
    assert manifold.staleness == 0.0
    manifold.add(rows[120:126])
    little = manifold.staleness
    assert 6 / 126 <= little < 0.5
    manifold.add(rows[126:])
    assert little < manifold.staleness <= 1.0
    assert manifold.info()["staleness"] == manifold.staleness
    manifold.remove([0, 5])
    manifold.refresh()
    again = kr.Manifold.build(rows[[row for row in range(150) if row not in (0, 5)]], SMALL)
    assert manifold.staleness == 0.0
    assert manifold.ids.tolist()[:5] == [1, 2, 3, 4, 6]
    for name in SEARCHED:
        np.testing.assert_array_equal(manifold.snapshot.state.to_arrays()[name], again.snapshot.state.to_arrays()[name])


def test_numbers_are_names_that_stay() -> None:
    rows = clusters(4, 60)
    manifold = kr.Manifold.build(rows[:50], SMALL)
    manifold.add(rows[50:55])
    assert manifold.ids.tolist() == list(range(55))
    manifold.remove(54)
    manifold.remove(np.array([3, 10]))
    manifold.add(rows[55:])
    names = [name for name in range(60) if name not in (3, 10, 54)]
    assert manifold.ids.tolist() == [*names[:-5], 55, 56, 57, 58, 59]
    ranking = manifold.search(rows[[20]], k=5)
    assert ranking.ids.tolist() == ranking.indices.tolist()
    assert set(ranking.ids[0].tolist()) <= set(names)
    assert ranking.ids[0, 0] == 20
    assert manifold.info()["ids"] == "item numbers, some removed"
    assert manifold.explain(rows[20], 59).names[-1] == 59  # type: ignore[attr-defined]


def test_names_of_all_kinds() -> None:
    rows = clusters(5, 40)
    words = kr.Manifold.build(rows[:30], SMALL, ids=[f"a{i}" for i in range(30)])
    words.add(rows[30:32], ["a longer name", "b"])
    words.remove(["a0", "b"])
    words.add(rows[33:34], ["a0"])
    assert words.ids.tolist() == [*(f"a{i}" for i in range(1, 30)), "a longer name", "a0"]
    words.remove("a0")
    numbers = kr.Manifold.build(rows[:30], SMALL, ids=range(100, 130))
    numbers.add(rows[30:31], [7])
    numbers.remove([100])
    assert numbers.ids.tolist() == [*range(101, 130), 7]
    assert numbers.info()["ids"] == "given"


@pytest.mark.parametrize(
    ("verb", "given", "message"),
    [
        ("add", ([[0.0] * 7], ["x"]), "7"),
        ("add", ([[np.nan] * 8], ["x"]), "row 0"),
        ("add", ([[0.0] * 8], ["x"]), "row 0"),
        ("add", ([[1.0] * 8], ["a3"]), "'a3', which exists already"),
        ("add", ([[1.0] * 8] * 2, ["x", "x"]), "must be unique"),
        ("add", ([[1.0] * 8] * 2, ["x"]), "1 entries, but there are 2"),
        ("add", ([[1.0] * 8], None), "ids is missing"),
        ("add", ([[1.0] * 8], [5]), "are texts"),
        ("remove", (["a1", "nobody"],), "'nobody'"),
        ("remove", (["a1", "a1"],), "twice"),
        ("remove", ([1],), "contains 1"),
    ],
)
def test_bad_input_changes_nothing(verb: str, given: Any, message: str) -> None:
    manifold = kr.Manifold.build(clusters(6, 20), SMALL, ids=[f"a{i}" for i in range(20)])
    before = manifold.snapshot
    with pytest.raises(ValueError, match=message):
        getattr(manifold, verb)(*given)
    assert manifold.snapshot is before
    with pytest.raises(ValueError, match=r"ids cannot be given: .* leave it out"):
        kr.Manifold.build(clusters(6, 20), SMALL).add(np.ones((1, 8)), ["x"])
    with pytest.raises(ValueError, match="contains True"):
        kr.Manifold.build(clusters(6, 20), SMALL).remove([True])


def test_an_empty_change_changes_nothing() -> None:
    manifold = kr.Manifold.build(clusters(6, 20), SMALL)
    before = manifold.snapshot
    manifold.add(np.empty((0, 8), np.float32))
    manifold.remove([])
    assert manifold.snapshot is before


@pytest.mark.parametrize("names", [None, [f"a{i}" for i in range(20)]])
def test_everything_removed_leaves_an_empty_manifold(names: list[str] | None, tmp_path: Path) -> None:
    rows = clusters(7, 30)
    manifold = kr.Manifold.build(rows[:20], SMALL, ids=names)
    manifold.remove(manifold.ids)
    assert len(manifold) == 0
    assert manifold.search(rows[:3], k=5).indices.shape == (3, 0)
    manifold.save(tmp_path / "empty")
    manifold = kr.Manifold.load(tmp_path / "empty")
    with pytest.raises(ValueError, match="which is empty"):
        manifold.remove([1])
    manifold.add(rows[20:21], None if names is None else ["b"])
    manifold.add(rows[21:], None if names is None else [f"c{i}" for i in range(9)])
    want = kr.Manifold.build(rows[20:], SMALL).search(rows[:5], k=10)
    assert len(manifold) == 10
    assert names is not None or manifold.ids.tolist() == list(range(20, 30))
    assert manifold.search(rows[:5], k=1).ids.tolist() == manifold.ids[want.indices[:, :1]].tolist()


def test_one_item_left_and_grown_again() -> None:
    rows = clusters(8, 30)
    manifold = kr.Manifold.build(rows[:12], SMALL)
    manifold.remove(range(11))
    assert manifold.ids.tolist() == [11]
    assert manifold.search(rows[:1]).ids.tolist() == [[11]]
    manifold.add(rows[12:])
    assert manifold.ids.tolist() == list(range(11, 30))
    again = kr.Manifold.build(rows[11:], SMALL)
    for name in SEARCHED:
        np.testing.assert_array_equal(manifold.snapshot.state.to_arrays()[name], again.snapshot.state.to_arrays()[name])


def test_saved_and_loaded_between_changes(tmp_path: Path) -> None:
    rows = clusters(9, 130)
    kept, travelled = (kr.Manifold.build(rows[:100], SMALL) for _ in range(2))
    for number, part in enumerate((slice(100, 110), slice(110, 120), slice(120, 130))):
        kept.add(rows[part])
        kept.remove([number * 3])
        travelled.add(rows[part])
        travelled.remove([number * 3])
        travelled.save(tmp_path / "m")
        travelled = kr.Manifold.load(tmp_path / "m", mmap=number % 2 == 0)
    assert kept.staleness == travelled.staleness > 0
    for name, array in kept.snapshot.state.to_arrays().items():
        np.testing.assert_array_equal(array, travelled.snapshot.state.to_arrays()[name], err_msg=name)
    assert kept.ids.tolist() == travelled.ids.tolist()


def test_methods_without_changes_are_refused() -> None:
    rows = clusters(10, 60)
    for manifold, message in (
        (kr.Manifold.build(rows, kr.DFS()), "DFS cannot"),
        (kr.Manifold.build(rows, SMALL, changes=False), "changes=True"),
    ):
        with pytest.raises(ValueError, match=f"{message}.*"):
            manifold.add(rows[:1])
        with pytest.raises(ValueError, match="remove items"):
            manifold.remove([0])
        manifold.refresh()
        assert manifold.staleness == 0.0
    assert not {"beta", "drift", *RECORDED} & set(
        kr.Manifold.build(rows, SMALL, changes=False).snapshot.state.to_arrays()
    )


def test_a_store_that_is_exact_changes_like_an_array() -> None:
    rows = clusters(15, 160)
    plain, stored = kr.Manifold.build(rows[:120], SMALL), kr.Manifold.build(ArrayStore(rows[:120]), SMALL)
    for manifold in (plain, stored):
        manifold.add(rows[120:124])
        manifold.remove([3, 121])
        manifold.add(rows[124:])
        manifold.remove(range(10, 30))
    for name, array in plain.snapshot.state.to_arrays().items():
        apart = 1e-3 if name in ("state_data", "wide_data") else 1e-5  # masses are kept as 8-bit codes
        np.testing.assert_allclose(array, stored.snapshot.state.to_arrays()[name], rtol=1e-3, atol=apart, err_msg=name)
    queries = clusters(16, 9)
    got, want = stored.search(queries, k=20), plain.search(queries, k=20)
    np.testing.assert_array_equal(got.indices, want.indices)
    assert stored.info()["store"] == "StoreView"
    stored.refresh()
    assert stored.info()["store"] == "ArrayStore"
    assert stored.staleness == 0.0


@pytest.mark.parametrize("kind", ["flat", "ivf", "hnsw"])
def test_changes_of_a_manifold_over_faiss(kind: str, tmp_path: Path) -> None:
    faiss = pytest.importorskip("kinrank.stores.faiss", reason="needs FAISS: pip install '.[faiss]'")
    rows = clusters(17, 620, 16, 20)
    manifold = kr.Manifold.build(faiss.FaissStore(rows[:600], kind))
    manifold.add(rows[600:])
    manifold.remove(range(12))
    queries = clusters(18, 40, 16, 20)
    want = rebuilt(manifold.snapshot, rows[12:]).search(queries, k=10)
    for _ in range(2):
        got = manifold.search(queries, k=10)
        pairs = zip(got.indices.tolist(), (want.indices + 12).tolist(), strict=True)
        assert np.mean([len(set(a) & set(b)) for a, b in pairs]) >= 8.5
        assert manifold.ids.tolist() == list(range(12, 620))
        assert manifold.search(rows[[610]], k=1).ids.tolist() == [[610]]
        manifold.refresh()
        assert manifold.info()["store"] == "FaissStore"
    manifold.remove([12])
    manifold.save(tmp_path / "m")
    with contextlib.nullcontext() if kind == "flat" else pytest.warns(ExactSearchWarning):
        assert kr.Manifold.load(tmp_path / "m").ids.tolist() == list(range(13, 620))


def test_an_index_made_elsewhere_stays_when_refreshed() -> None:
    library = pytest.importorskip("faiss", reason="needs FAISS: pip install '.[faiss]'")
    from kinrank.stores.faiss import FaissStore

    rows = to_unit_rows(clusters(19, 130))
    index = library.IndexFlatIP(rows.shape[1])
    index.add(rows[:120])
    manifold = kr.Manifold.build(FaissStore.from_index(index, rows[:120]), SMALL)
    manifold.add(rows[120:])
    manifold.refresh()
    assert manifold.info()["store"] == "StoreView"
    assert index.ntotal == 120
    assert manifold.search(rows[[125]], k=1).indices.tolist() == [[125]]


@pytest.mark.parametrize("method", [kr.methods.AQE(k=3), kr.methods.AQE(k=3, kdba=4)])
def test_query_expansion_changes_at_once(method: kr.Method) -> None:
    rows = clusters(11, 80)
    manifold = kr.Manifold.build(rows[:70], method)
    manifold.add(rows[70:])
    manifold.remove([0])
    want = kr.Manifold.build(rows[1:], method).search(rows[:9], k=8)
    got = manifold.search(rows[:9], k=8)
    np.testing.assert_array_equal(got.distances, want.distances)
    assert got.ids.tolist() == got.indices.tolist() == (want.indices + 1).tolist()
    assert manifold.staleness == 0.0


def test_every_answer_is_of_one_snapshot_whole() -> None:
    rows = clusters(12, 200)
    manifold = kr.Manifold.build(rows[:150], SMALL)
    queries = clusters(13, 6)
    snapshots, done = [manifold.snapshot], threading.Event()

    def ask() -> list[tuple[list[Any], list[Any]]]:
        answers: list[tuple[list[Any], list[Any]]] = []
        while not done.is_set() or len(answers) < 3:
            ranking = manifold.search(queries, k=10)
            answers.append((ranking.ids.tolist(), ranking.distances.tolist()))
        return answers

    with ThreadPoolExecutor(4) as pool:
        askers = [pool.submit(ask) for _ in range(3)]
        try:
            for start in range(150, 200, 5):
                manifold.add(rows[start : start + 5])
                snapshots.append(manifold.snapshot)
                manifold.remove(range(start - 150, start - 145))
                snapshots.append(manifold.snapshot)
        finally:
            done.set()
        answers = [answer for asker in askers for answer in asker.result()]
    whole = []
    for snapshot in snapshots:
        ranking = kr.Manifold(snapshot).search(queries, k=10)
        whole.append((ranking.ids.tolist(), ranking.distances.tolist()))
    assert all(answer in whole for answer in answers)
    assert len({str(answer) for answer in answers}) > 1


def test_changes_at_the_same_time_are_all_made() -> None:
    rows = clusters(14, 100)
    manifold = kr.Manifold.build(rows[:60], SMALL, ids=range(60))
    with ThreadPoolExecutor(4) as pool:
        tasks = [pool.submit(manifold.add, rows[[item]], [item]) for item in range(60, 100)]
        tasks += [pool.submit(manifold.remove, [item]) for item in range(10)]
        for task in tasks:
            task.result()
    assert sorted(manifold.ids.tolist()) == list(range(10, 100))
    order = np.array(manifold.ids)
    assert_exact(manifold.snapshot, rows[order])


def test_upsert_replaces_and_adds_in_one_change() -> None:
    rows = clusters(21, 104)
    names = [f"n{number}" for number in range(100)]
    manifold = kr.Manifold.build(rows[:100], SMALL, ids=names)
    manifold.upsert(rows[100:], ["n3", "new", "n98", "newer"])
    assert manifold.ids.tolist() == [
        *(name for name in names if name not in ("n3", "n98")),
        "n3",
        "new",
        "n98",
        "newer",
    ]
    found = manifold.search(rows[100:], k=1)
    assert found.ids.tolist() == [["n3"], ["new"], ["n98"], ["newer"]]
    turnover = manifold.snapshot.turnover
    assert turnover is not None
    assert (turnover.before, len(turnover.stay), turnover.fresh) == (100, 98, 4)
    expected = kr.Manifold.build(rows[:100], SMALL, ids=names).snapshot
    stay = np.delete(np.arange(100), [3, 98])
    np.testing.assert_array_equal(manifold.snapshot.vectors[:98], expected.vectors[stay])
    before = manifold.snapshot
    manifold.upsert(rows[:0], [])
    assert manifold.snapshot is before


def test_upsert_only_of_new_or_only_of_old_items() -> None:
    rows = clusters(22, 52)
    added = kr.Manifold.build(rows[:50], SMALL, ids=list(range(50)))
    upserted = kr.Manifold.build(rows[:50], SMALL, ids=list(range(50)))
    added.add(rows[50:], [70, 80])
    upserted.upsert(rows[50:], [70, 80])
    for name, array in added.snapshot.arrays.items():
        np.testing.assert_array_equal(array, upserted.snapshot.arrays[name], err_msg=name)
    upserted.upsert(rows[:52], [*range(50), 70, 80])  # all of them
    assert upserted.ids.tolist() == [*range(50), 70, 80]
    np.testing.assert_array_equal(upserted.snapshot.vectors, to_unit_rows(rows))


@pytest.mark.parametrize(
    ("ids", "sentence"),
    [
        (["n1", "n1"], "unique"),
        (["n1"], "1 entries, but there are 2"),
        ([1, 2], "texts"),
        (None, "ids is missing"),
    ],
)
def test_upsert_of_bad_ids_changes_nothing(ids: Any, sentence: str) -> None:
    manifold = kr.Manifold.build(clusters(1, 30), SMALL, ids=[f"n{number}" for number in range(30)])
    before = manifold.snapshot
    with pytest.raises(ValueError, match=sentence):
        manifold.upsert(clusters(2, 2), ids)
    assert manifold.snapshot is before


def test_upsert_needs_ids_and_a_method_that_can_change() -> None:
    with pytest.raises(ValueError, match=r"cannot be replaced by id; build it with `ids`"):
        kr.Manifold.build(clusters(1, 30), SMALL).upsert(clusters(2, 1), [3])
    with pytest.raises(ValueError, match="cannot upsert items"):
        kr.Manifold.build(clusters(1, 30), kr.DFS(), ids=list(range(30))).upsert(clusters(2, 1), [3])
