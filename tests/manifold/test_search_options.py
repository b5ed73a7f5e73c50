"""`Manifold.search` with a filter, and with several vectors per query."""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinrank as kr
from kinrank.vector_input import to_unit_rows
from reference.stores import Elsewhere

Rows = NDArray[np.float32]
NAMES = [f"b{number}" for number in range(300)]


def clusters(seed: int, items: int, noise: float = 0.5) -> Rows:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(6, 8))[rng.integers(0, 6, items)]
    return to_unit_rows((rows + noise * rng.normal(size=(items, 8))).astype(np.float32))


ROWS = clusters(3, 312, 0.9)  # all within reach of chains
QUERIES, GALLERY = ROWS[:12], ROWS[12:]
SOME = np.random.default_rng(1).random(300) < 0.2


@pytest.fixture(scope="module")
def named() -> kr.Manifold:
    return kr.Manifold.build(GALLERY, ids=NAMES)


@pytest.mark.parametrize(
    "where",
    [
        SOME,
        SOME.tolist(),
        [name for name, some in zip(NAMES, SOME, strict=True) if some],
        np.array(NAMES)[SOME],
        {name for name, some in zip(NAMES, SOME, strict=True) if some},
        [name for name, some in zip(NAMES, SOME, strict=True) if some] * 2,
    ],
    ids=["mask", "list", "names", "array", "set", "twice"],
)
def test_only_these_are_results(named: kr.Manifold, where: Any) -> None:
    whole = named.search(QUERIES, k=300)
    some = named.search(QUERIES, k=9, where=where)
    assert some.meta["certain"] == 1.0
    for row in range(12):
        inside = SOME[whole.indices[row]]
        assert some.ids[row].tolist() == whole.ids[row][inside][:9].tolist()
        np.testing.assert_array_equal(some.distances[row], whole.distances[row][inside][:9])


def test_numbers_of_a_manifold_without_ids_are_stable() -> None:
    manifold = kr.Manifold.build(GALLERY)
    manifold.remove([0, 1, 7])
    ranking = manifold.search(QUERIES, k=2, where=[2, 8, 250])
    assert set(ranking.ids.ravel().tolist()) <= {2, 8, 250}
    mask = np.isin(manifold.ids, [2, 8, 250])
    np.testing.assert_array_equal(manifold.search(QUERIES, k=2, where=mask).ids, ranking.ids)
    with pytest.raises(ValueError, match="where contains 7, which is not in this manifold; its ids look like 2"):
        manifold.search(QUERIES, where=[7])


def test_fewer_than_k_are_padded(named: kr.Manifold) -> None:
    ranking = named.search(QUERIES, k=5, where=["b3", "b4"])
    assert ranking.indices.shape == (12, 5)
    assert ranking.meta["certain"] == 1.0
    assert (ranking.indices[:, :2] >= 0).all()
    assert (ranking.indices[:, 2:] == -1).all()
    assert (ranking.ids[:, 2:] == "").all()
    assert np.isinf(ranking.distances[:, 2:]).all()
    assert named.search(QUERIES[:0], k=5, where=["b3"]).indices.shape == (0, 5)
    near = named.search(QUERIES, k=5, where=SOME, max_distance=0.9)
    assert (near.distances[near.indices >= 0] <= np.float32(0.9)).all()


@pytest.mark.parametrize("method", ["lpmt", "dfs", "fsr", "eir", "aqe", "adba+aqe"])
@pytest.mark.parametrize("over", [None, Elsewhere], ids=str)
def test_every_prepared_method_fills_its_rows(method: str, over: Any) -> None:
    manifold = kr.Manifold.build(GALLERY if over is None else over(GALLERY), method)
    for share in (0.05, 0.5):
        some = np.random.default_rng(2).random(300) < share
        ranking = manifold.search(QUERIES, k=3, depth=12, where=some)
        assert some[ranking.indices].all()
        assert all(len(set(row)) == 12 for row in ranking.indices.tolist())
        assert (np.diff(ranking.distances, axis=1) >= 0).all()


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ([], "where leaves no item; allow at least one, or leave it out"),
        (np.zeros(300, bool), "where leaves no item"),
        ([True, False, True], "where has 3 entries but there are 300 items; give one for each"),
        (np.ones((300, 2), bool), r"where must be one mask over all items, or a list of ids; got shape \(300, 2\)"),
        (["b1", "zz"], "where contains 'zz', which is not in this manifold; its ids look like 'b0'"),
        ([3], "where contains 3, which is not in this manifold"),
        ([True, "b1"], "where contains True, which is not in this manifold"),
        ([float("nan")], "where contains nan, which is not in this manifold"),
        ([["b1"]], r"where contains \['b1'\], which is not in this manifold"),
        (uuid.UUID(int=1), "which is not in this manifold"),
        (np.ma.masked_array(SOME, SOME), "where has .* masked entries"),
    ],
    ids=str,
)
def test_invalid_filters(named: kr.Manifold, where: Any, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        named.search(QUERIES, where=where)


@pytest.mark.parametrize("method", ["lpmt", "aqe"])
def test_one_row_per_group_by_the_nearest_of_its_vectors(method: str) -> None:
    manifold = kr.Manifold.build(GALLERY, method, ids=NAMES)
    labels = ["x", "y", "x", "z", "y", "x", "w", "w", "w", "w", "z", "z"]
    ranking = manifold.search(QUERIES, k=7, groups=labels)
    assert ranking.query_ids is not None
    assert ranking.query_ids.tolist() == ["x", "y", "z", "w"]
    assert ranking.meta["certain"] == 1.0
    whole = manifold.search(QUERIES, k=300)
    values = np.full((12, 300), np.inf)
    np.put_along_axis(values, whole.indices, whole.distances, axis=1)
    for row, label in enumerate(["x", "y", "z", "w"]):
        least = values[[one == label for one in labels]].min(axis=0)
        np.testing.assert_array_equal(ranking.indices[row], np.argsort(least, kind="stable")[:7])
        np.testing.assert_array_equal(ranking.distances[row], np.sort(least)[:7].astype(np.float32))


def test_groups_go_with_filters_and_numbers(named: kr.Manifold) -> None:
    ranking = named.search(QUERIES, k=4, groups=np.arange(12) // 3, where=SOME)
    assert ranking.query_ids is not None
    assert ranking.query_ids.tolist() == [0, 1, 2, 3]
    assert SOME[ranking.indices].all()
    each = named.search(QUERIES[:3], k=4, where=SOME)
    assert set(ranking.indices[0].tolist()) <= set(each.indices.ravel().tolist())
    alone = named.search(QUERIES, k=4, groups=list(range(12)))
    np.testing.assert_array_equal(alone.indices, named.search(QUERIES, k=4).indices)
    assert named.search(QUERIES[:0], groups=[]).indices.shape[0] == 0


def test_a_group_is_certain_if_all_of_it_is(named: kr.Manifold) -> None:
    each = [named.search(QUERIES[[row]], k=10, budget=20).meta["certain"] for row in range(12)]
    assert 0 < sum(each) < 12
    order = np.argsort(each)  # starts with a group that is not certain
    ranking = named.search(QUERIES[order], k=10, budget=20, groups=[0] * 11 + [1])
    assert ranking.meta["certain"] == 0.5


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([], "groups has 0 labels but there are 12 queries; give one for each"),
        (["a"] * 11, "groups has 11 labels but there are 12 queries"),
        ("abc", "groups must be a list of texts or of whole numbers"),
        ([0.5] * 12, "groups must be a list of texts or of whole numbers; the one at 0 is 0.5"),
        ([[1]] * 12, "groups must be a list of texts or of whole numbers"),
        (["a", 1] * 6, "groups mixes whole numbers and texts"),
        ([""] * 12, "groups has '' at 0, which stands for no item"),
        (np.zeros((12, 1), int), r"groups must be a list .* got shape \(12, 1\)"),
    ],
    ids=str,
)
def test_invalid_groups(named: kr.Manifold, groups: Any, expected: str) -> None:
    with pytest.raises(ValueError, match=expected):
        named.search(QUERIES, groups=groups)


def test_nan_is_refused_with_every_option(named: kr.Manifold) -> None:
    rows = QUERIES.copy()
    rows[1, 2] = np.nan
    for more in ({"where": SOME}, {"groups": [1] * 12}, {"positives": [["b1"]] * 12}):
        with pytest.raises(ValueError, match="NaN"):
            named.search(rows, **more)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (3.5, "where=3.5 is not allowed; give a list of item"),
        (len, "is not allowed; give a list of item"),
        (b"00", "is not allowed; give a list of item"),
        (np.arange(60) % 2, "looks like a mask of 0 and 1"),
        ([1, 0] * 30, "looks like a mask of 0 and 1"),
        (np.ones(60, int), "looks like a mask of 0 and 1"),
    ],
)
def test_filters_that_are_none(where: object, message: str) -> None:
    manifold = kr.Manifold.build(GALLERY[:60])
    with pytest.raises(ValueError, match=message):
        manifold.search(QUERIES[:1], where=where)


def test_marks_that_are_none() -> None:
    manifold = kr.Manifold.build(GALLERY[:60])
    with pytest.raises(ValueError, match=r"positives=3\.5 is not allowed; give a list of item"):
        manifold.search(QUERIES[:1], positives=3.5)


def test_a_mask_of_objects_is_a_mask() -> None:
    manifold, mask = kr.Manifold.build(GALLERY[:60]), np.arange(60) % 2 == 0
    found = manifold.search(QUERIES[:1], where=mask.astype(object))
    assert (found.indices == manifold.search(QUERIES[:1], where=mask).indices).all()


@pytest.mark.parametrize(("method", "changes"), [("aqe", True), ("lpmt", False)])
def test_a_limit_without_observation_is_refused(method: str, changes: bool) -> None:
    with pytest.raises(ValueError, match="observe"):
        kr.Manifold.build(GALLERY[:60], method, changes=changes, observed_limit=5)
