"""Masks of possible results and of counted items: the answers of the full search without the other items."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import kinrank as kr
from kinrank.methods.base import Answer
from kinrank.methods.capabilities import Capabilities
from kinrank.neighbors import find_nearest, find_nearest_among
from kinrank.stages.request import ALL_ITEMS, UNRESTRICTED, Masks, Request
from kinrank.vector_input import to_unit_rows
from reference import online as twin
from reference.stores import Elsewhere

pytestmark = pytest.mark.slow

Rows = NDArray[np.float32]


def clusters(seed: int, items: int = 120, dimensions: int = 8, groups: int = 6, noise: float = 0.35) -> Rows:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(groups, dimensions))[rng.integers(0, groups, items)]
    return to_unit_rows((rows + noise * rng.normal(size=(items, dimensions))).astype(np.float32))


def only(answer: Answer, allowed: NDArray[np.bool_], k: int) -> tuple[NDArray[np.int64], Rows]:
    """Return the first k allowed items of every row of a full ranking."""
    rows = [np.flatnonzero(allowed[row])[:k] for row in answer.indices]
    return (
        np.array([answer.indices[number, places] for number, places in enumerate(rows)]),
        np.array([answer.distances[number, places] for number, places in enumerate(rows)]),
    )


def whole(manifold: kr.Manifold, queries: Rows) -> Answer:
    return manifold.snapshot.search(Request(queries, len(manifold), len(manifold)))


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5, 0.95])
@pytest.mark.parametrize("k", [1, 5, 40])
def test_allowed_ones_in_the_order_and_with_the_distances_of_the_whole_search(share: float, k: int) -> None:
    rows = clusters(3, 400, noise=0.8)  # all within reach
    manifold = kr.Manifold.build(rows[20:])
    allowed = np.random.default_rng(int(100 * share)).random(380) < share
    answer = manifold.snapshot.search(Request(rows[:20], k, k, None, Masks.of(allowed)))
    indices, distances = only(whole(manifold, rows[:20]), allowed, k)
    assert answer.facts["certain"] == 1.0
    assert answer.indices.shape[1] == min(k, allowed.sum())
    np.testing.assert_array_equal(answer.indices, indices)
    np.testing.assert_array_equal(answer.distances, distances)


def test_a_budget_that_ends_first_is_reported() -> None:
    rows = clusters(3, 400)
    manifold = kr.Manifold.build(rows[20:])
    allowed = np.random.default_rng(1).random(380) < 0.2
    few = manifold.snapshot.search(Request(rows[:20], 10, 10, 12, Masks.of(allowed)))
    assert few.facts["certain"] < 1.0
    assert allowed[few.indices].all()
    assert all(len(set(row)) == 10 for row in few.indices.tolist())
    assert (np.diff(few.distances, axis=1) >= 0).all()


def test_when_all_that_are_allowed_are_known_the_search_is_over() -> None:
    rows = clusters(5, 2000, groups=2)
    manifold = kr.Manifold.build(rows[1:])
    near = find_nearest(rows[:1], rows[1:], 3).indices[0]
    allowed = np.zeros(1999, bool)
    allowed[near] = True
    answer = manifold.snapshot.search(Request(rows[:1], 10, 10, None, Masks.of(allowed)))
    assert answer.facts == {"certain": 1.0, "budget": 5000, "settled": answer.facts["settled"]}
    assert answer.facts["settled"] < 50
    assert sorted(answer.indices[0]) == sorted(near)


@pytest.mark.parametrize("over", [None, kr.stores.ArrayStore, Elsewhere], ids=str)
def test_unreachable_allowed_items_follow_in_search_order(over: type | None) -> None:
    rng = np.random.default_rng(0)
    near, far = np.eye(6)[0] + 0.05 * rng.random((30, 6)), np.eye(6)[1] + 0.05 * rng.random((200, 6))
    rows = to_unit_rows(np.concatenate([near, far]).astype(np.float32))
    method = kr.LPMT(k=3, path_k=3, k1=8, k2=3)
    manifold = kr.Manifold.build(rows[1:] if over is None else over(rows[1:]), method)
    allowed = np.arange(229) >= 20  # nine near ones, all far ones
    answer = manifold.snapshot.search(Request(rows[:1], 5, 60, None, Masks.of(allowed)))
    plain = find_nearest_among(rows[:1], 60, allowed, lambda numbers: rows[1:][numbers]).indices[0]
    assert set(answer.indices[0, :9]) == set(range(20, 29))
    np.testing.assert_array_equal(answer.indices[0, 9:], plain[9:])
    assert (np.diff(answer.distances[0]) >= 0).all()


@pytest.mark.parametrize(
    "method",
    [
        kr.DFS(k=8),
        kr.methods.FSR(k=8, rank=12),
        kr.methods.EIR(kd=8, truncation=25),
        kr.methods.AQE(),
        kr.methods.AugmentedAQE(kdba=3),
    ],
    ids=repr,
)
@pytest.mark.parametrize("k", [4, 60])
def test_other_methods_serve_masks(method: kr.Method, k: int) -> None:
    rows = clusters(7, 200)
    manifold = kr.Manifold.build(rows[10:], method)
    allowed = np.random.default_rng(2).random(190) < 0.3
    answer = manifold.snapshot.search(Request(rows[:10], k, k, None, Masks.of(allowed)))
    indices, distances = only(whole(manifold, rows[:10]), allowed, k)
    assert answer.indices.shape == indices.shape
    np.testing.assert_allclose(answer.distances[:, :4], distances[:, :4], rtol=1e-5, atol=1e-6)
    assert (np.diff(answer.distances, axis=1) >= 0).all()
    assert [sorted(row) for row in answer.indices.tolist()] == [sorted(row) for row in indices.tolist()] or k == 4


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("direct", [0.0, 0.3, 1.0])
def test_stepping_stones_are_passed_and_counted_nowhere(seed: int, direct: float) -> None:
    sizes = {"k1": 12, "k2": 3, "k": 4, "path_k": 5, "support": 9, "direct_k": 12, "direct_support": 11}
    numbers = {**sizes, "kappa": 2.0, "rho": 1.5, "gamma": 2.5, "sigma": 0.6, "mu": 0.3, "lam": 0.2}
    numbers |= {"direct": direct, "direct_mu": 0.05}
    rows = clusters(seed, 40, 5, 4, noise=0.8)  # all within reach
    method = kr.LPMT(**numbers, share=0.3, theta=0.4, transport="exact", tolerance=1e-7)  # type: ignore[arg-type]
    snapshot = kr.Manifold.build(rows[5:], method).snapshot
    counted = np.random.default_rng(seed).random(35) < 0.6
    answer = snapshot.search(Request(rows[:5], 35, 35, None, Masks.of(counted=counted)))
    assert answer.indices.shape == (5, counted.sum())
    for query in range(5):
        expected = twin.answered(
            rows[5:],
            rows[query],
            **numbers,
            theta=0.4,
            share=0.3,
            counted=counted,  # type: ignore[arg-type]
        )
        got = np.full(35, np.inf)
        got[answer.indices[query]] = answer.distances[query]
        np.testing.assert_allclose(got, expected, rtol=2e-3, atol=2e-3)
    different = snapshot.search(Request(rows[:5], 35, 35)).distances[:, : counted.sum()]
    assert not np.allclose(different, answer.distances)


def test_a_result_is_allowed_and_counted() -> None:
    both = Masks.of(np.array([True, True, False]), np.array([True, False, True]))
    assert both.results.tolist() == [True, False, False]
    assert both.possible == 1
    assert Masks.of(counted=np.array([True, False])).results.tolist() == [True, False]
    assert UNRESTRICTED.possible == ALL_ITEMS


def test_the_nearest_among_some(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = clusters(1, 300)
    some = np.random.default_rng(0).random(300) < 0.4
    every = find_nearest(rows[:7], rows, 300).indices
    expected = [[number for number in row if some[number]][:20] for row in every.tolist()]
    np.testing.assert_array_equal(
        find_nearest_among(rows[:7], 20, some, lambda numbers: rows[numbers]).indices, expected
    )
    monkeypatch.setattr("kinrank.neighbors.ITEMS_PER_BLOCK", 33)
    np.testing.assert_array_equal(
        find_nearest_among(rows[:7], 20, some, lambda numbers: rows[numbers]).indices, expected
    )
    gallery = kr.Manifold.build(Elsewhere(rows), "aqe").snapshot.gallery
    assert not gallery.exact
    np.testing.assert_array_equal(gallery.search_among(rows[:7], 20, some).indices, expected)
    few = np.arange(300) == 17
    assert gallery.search_among(rows[:7], 3, few).indices.tolist() == [[17, -1, -1]] * 7


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    items=st.integers(1, 40),
    k=st.integers(1, 12),
    budget=st.none() | st.integers(1, 30),
    direct=st.none() | st.sampled_from([0.0, 0.3, 1.0]),
)
@example(seed=1, items=33, k=1, budget=None, direct=0.0)  # equal d*, the higher number is settled first
@example(seed=641, items=31, k=5, budget=None, direct=0.0)  # a query with more copies than its list is long
def test_any_gallery_any_mask(seed: int, items: int, k: int, budget: int | None, direct: float | None) -> None:
    """With copies, unreachable items and exhausted budgets: certain results are the full order without the others."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(1, 5, (items + 2, 3)).astype(np.float32)
    manifold = kr.Manifold.build(rows[2:], kr.LPMT(k=3, path_k=2, k1=5, k2=2, direct=direct))
    allowed = rng.random(items) < rng.random()
    answer = manifold.snapshot.search(Request(to_unit_rows(rows[:2]), k, k, budget, Masks.of(allowed)))
    most = min(k, int(allowed.sum()))
    assert answer.indices.shape == (2, most)
    if not most:
        return
    indices, _ = only(whole(manifold, to_unit_rows(rows[:2])), allowed, k)
    assert answer.certain is not None
    for row in range(2):
        found = answer.indices[row]
        assert allowed[found].all()
        assert len(set(found.tolist())) == most
        assert (np.diff(answer.distances[row]) >= 0).all()
        if answer.certain[row]:
            np.testing.assert_array_equal(found, indices[row])


def test_a_custom_method_without_filters_is_refused() -> None:
    class Old(kr.methods.AQE):
        capabilities = Capabilities(prepared_search=True)

    rows = clusters(1, 40)
    manifold = kr.Manifold.build(rows, Old())
    assert manifold.search(rows[:2], k=3).depth == 3
    with pytest.raises(ValueError, match="Old cannot exclude items from its results"):
        manifold.search(rows[:2], k=3, where=[1, 2])
