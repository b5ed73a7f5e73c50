"""Positive and negative items: the rule against its slow reference, certainty, and errors about unusual marks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import kinrank as kr
from kinrank.stages.feedback_search import soft_minimum
from kinrank.vector_input import to_unit_rows
from reference import online as twin

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
    "direct_k": 12,
    "direct_mu": 0.05,
    "direct_support": 11,
}


def clusters(seed: int, items: int, dimensions: int = 5, groups: int = 4, noise: float = 0.8) -> Rows:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(groups, dimensions))[rng.integers(0, groups, items)]
    return to_unit_rows((rows + noise * rng.normal(size=(items, dimensions))).astype(np.float32))


@pytest.fixture(scope="module")
def built() -> tuple[kr.Manifold, Rows]:
    rows = clusters(3, 420, 8, 6, 0.5)
    return kr.Manifold.build(rows[20:]), rows[:20]


@pytest.mark.parametrize(
    ("positives", "negatives"),
    [([3], []), ([3], [7]), ([3, 20], [7]), ([1, 2, 9], [5, 11, 30]), ([], [7, 8]), ([], [])],
)
@pytest.mark.parametrize("direct", [0.0, 0.3, 1.0])
def test_the_rule_is_that_of_its_slow_twin(positives: list[int], negatives: list[int], direct: float) -> None:
    rows = clusters(0, 37)
    numbers = {**NUMBERS, "direct": direct}
    manifold = kr.Manifold.build(rows[2:], kr.LPMT(**numbers, transport="exact", tolerance=1e-7))
    marks = {"positives": [positives] * 2, "negatives": [negatives] * 2}
    ranking = manifold.search(rows[:2], k=35, **marks)
    left = 35 - len(positives) - len(negatives)
    assert ranking.meta["certain"] == 1.0
    for query in range(2):
        expected = twin.marked(rows[2:], rows[query], positives, negatives, **numbers)
        assert np.isfinite(expected).sum() >= left  # all within reach
        found = ranking.indices[query, :left]
        assert not set(found) & {*positives, *negatives}
        assert len(set(found)) == left
        np.testing.assert_array_equal(ranking.indices[query, left:], -1)
        np.testing.assert_allclose(ranking.distances[query, :left], expected[found], rtol=2e-3, atol=2e-3)


def test_marks_that_say_nothing_change_nothing(built: tuple[kr.Manifold, Rows]) -> None:
    manifold, queries = built
    plain = manifold.search(queries[:5], k=10)
    empty = manifold.search(queries[:5], k=10, positives=[[]] * 5)
    np.testing.assert_array_equal(empty.indices, plain.indices)
    np.testing.assert_allclose(empty.distances, plain.distances, rtol=1e-5)


def test_chains_avoid_negatives_and_start_from_positives(built: tuple[kr.Manifold, Rows]) -> None:
    manifold, queries = built
    before = manifold.search(queries[:1], k=40).indices[0]
    right, wrong = int(before[6]), int(before[1])
    after = manifold.search(queries[:1], k=30, positives=[right], negatives=wrong).indices[0]
    assert right not in after
    assert wrong not in after
    others = [item for item in before.tolist() if item not in (right, wrong)][:30]
    assert after.tolist() != others


@pytest.mark.parametrize("budget", [15, 40, 120, 5000])
def test_certain_results_are_right(built: tuple[kr.Manifold, Rows], budget: int) -> None:
    """An exhausted budget is reported, and certain results equal those of the full search."""
    manifold, queries = built
    before = manifold.search(queries, k=20).indices
    sure = 0
    for row in range(20):
        marks = {"positives": before[row, :2].tolist(), "negatives": before[row, 5:7].tolist()}
        whole = manifold.search(queries[row : row + 1], k=5, **marks)
        part = manifold.search(queries[row : row + 1], k=5, budget=budget, **marks)
        assert whole.meta["certain"] == 1.0
        assert all(len(set(found)) == 5 for found in part.indices.tolist())
        if part.meta["certain"]:
            sure += 1
            np.testing.assert_array_equal(part.indices, whole.indices)
    assert (sure == 20) if budget > 400 else (sure < 20)


def test_marks_and_a_filter(built: tuple[kr.Manifold, Rows]) -> None:
    manifold, queries = built
    where = np.random.default_rng(0).random(400) < 0.3
    marks = {"positives": [3, 4], "negatives": [5]}
    whole = manifold.search(queries[:1], k=400, **marks)
    some = manifold.search(queries[:1], k=12, where=where, **marks)
    assert some.indices[0].tolist() == [item for item in whole.indices[0] if item >= 0 and where[item]][:12]
    few = manifold.search(queries[:1], k=6, where=[3, 9, 5, 10], **marks)
    assert set(few.indices[0].tolist()) == {9, 10, -1}


def test_other_methods_say_that_they_have_no_chains() -> None:
    rows = clusters(1, 60)
    with pytest.raises(ValueError, match="AQE cannot use `positives` and `negatives`, which need chains; use LPMT"):
        kr.Manifold.build(rows, "aqe").search(rows[:1], positives=[3])
    with pytest.raises(ValueError, match="AQE cannot use `positives`"):
        kr.rerank(rows[:1], rows, "aqe", positives=[3])
    with pytest.raises(ValueError, match="LPMTAblation cannot use `positives`"):
        kr.rerank(rows[:1], rows, "lpmt-ablation", positives=[3])


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        ({"positives": ["b7"], "negatives": ["b7"]}, "both name 'b7' for query 0; mark an item as right or"),
        ({"positives": ["zz"]}, "positives contains 'zz', which is not in this manifold; its ids look like 'b0'"),
        ({"negatives": [4]}, "negatives contains 4, which is not in this manifold; its ids look like 'b0'"),
        ({"negatives": [None]}, "negatives contains None, which is not in this manifold"),
        ({"positives": [["b1"], ["b2"]]}, "one list of items per query, .*there are 1 queries and 2 entries"),
        ({"positives": ["b1", ["b2"]]}, "positives must be one list of items per query"),
        ({"positives": ["b1"], "groups": ["x"]}, "groups cannot be combined with `positives` or `negatives`"),
    ],
    ids=str,
)
def test_invalid_marks(marks: dict[str, Any], message: str) -> None:
    rows = clusters(1, 30)
    manifold = kr.Manifold.build(rows, ids=[f"b{number}" for number in range(30)])
    with pytest.raises(ValueError, match=message):
        manifold.search(rows[:1], **marks)


def test_lists_for_two_queries_stand_each_for_one(built: tuple[kr.Manifold, Rows]) -> None:
    manifold, queries = built
    together = manifold.search(queries[:2], k=8, positives=[[1], [2, 3]], negatives=[[], [9]])
    first = manifold.search(queries[:1], k=8, positives=[1])
    second = manifold.search(queries[1:2], k=8, positives=[2, 3, 3], negatives=9)
    np.testing.assert_array_equal(together.indices, np.concatenate([first.indices, second.indices]))
    with pytest.raises(ValueError, match="positives must be one list of items per query"):
        manifold.search(queries[:2], positives=[1, 2])


def test_the_soft_minimum_is_stable() -> None:
    values = np.array([[0.5, np.inf, 900.0], [0.5, np.inf, np.inf]], np.float32)
    np.testing.assert_allclose(soft_minimum(values), [0.5, np.inf, 900.0 + np.log(2) / 4], rtol=1e-6)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    items=st.integers(1, 25),
    theta=st.sampled_from([0.0, 0.4, 1.0]),
    budget=st.none() | st.integers(1, 10),
)
def test_any_gallery_any_marks(seed: int, items: int, theta: float, budget: int | None) -> None:
    """With copies, unreachable items and everything marked: all others appear once, in order, online and joint."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(1, 5, (items + 1, 3)).astype(np.float32)
    kinds = rng.integers(0, 3, items)
    marks = {"positives": [np.flatnonzero(kinds == 1)], "negatives": [np.flatnonzero(kinds == 2)]}
    method = kr.LPMT(k=3, path_k=2, k1=5, k2=2, theta=theta)
    others = np.flatnonzero(kinds == 0).tolist()
    for ranking in (
        kr.Manifold.build(rows[1:], method).search(rows[:1], k=items, budget=budget, **marks),
        kr.rerank(rows[:1], rows[1:], method, **marks),
        kr.rerank(rows[:1], rows[1:], method, candidates=items, **marks),
    ):
        found = ranking.indices[0]
        assert sorted(found[found >= 0].tolist()) == others
        assert (found[len(others) :] == -1).all()
        lengths = ranking.distances[0, : len(others)]
        assert np.isfinite(lengths).all()
        assert (np.diff(lengths) >= 0).all()
