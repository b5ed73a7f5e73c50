"""`rerank` with a filter and with marked items, joint and over candidates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinrank as kr
from kinrank.vector_input import to_unit_rows
from reference import online as twin
from reference.stores import Elsewhere

pytestmark = pytest.mark.slow

Rows = NDArray[np.float32]


def clusters(seed: int, items: int, noise: float = 0.8) -> Rows:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(4, 5))[rng.integers(0, 4, items)]
    return to_unit_rows((rows + noise * rng.normal(size=(items, 5))).astype(np.float32))


ROWS = clusters(0, 150)
QUERIES, GALLERY = ROWS[:6], ROWS[6:]
SOME = np.random.default_rng(1).random(144) < 0.3


@pytest.mark.parametrize("method", ["none", "lpmt", "aqe", "cas"])
def test_joint_everybody_is_in_the_graph_and_some_are_results(method: str) -> None:
    whole = kr.rerank(QUERIES, GALLERY, method)
    some = kr.rerank(QUERIES, GALLERY, method, where=SOME)
    inside = SOME[whole.indices]
    np.testing.assert_array_equal(some.indices, whole.indices[inside].reshape(6, -1))
    np.testing.assert_array_equal(some.distances, whole.distances[inside].reshape(6, -1))
    numbers = kr.rerank(QUERIES, GALLERY, method, where=np.flatnonzero(SOME).tolist(), k=7)
    np.testing.assert_array_equal(numbers.indices, some.indices[:, :7])


def test_an_item_that_asks_is_no_result_of_its_own() -> None:
    ranking = kr.rerank(None, GALLERY, "none", where=[3, 4, 5])
    assert ranking.indices.shape == (144, 3)
    assert ranking.indices[4].tolist()[2] == -1
    assert sorted(ranking.indices[4].tolist()) == [-1, 3, 5]
    assert np.isinf(ranking.distances[4, 2])
    assert sorted(ranking.indices[9].tolist()) == [3, 4, 5]
    over = kr.rerank(None, GALLERY, "none", candidates=3, where=[3, 4, 5])
    np.testing.assert_array_equal(over.indices, ranking.indices)


@pytest.mark.parametrize("over", [np.asarray, kr.stores.ArrayStore, Elsewhere], ids=str)
@pytest.mark.parametrize(("candidates", "depth"), [(5, None), (20, 30), (200, None)])
def test_candidates_are_the_nearest_allowed_ones_beside_the_nearest(over: Any, candidates: int, depth: int) -> None:
    some = kr.rerank(QUERIES, over(GALLERY), "lpmt", candidates=candidates, k=depth, where=SOME)
    plain = kr.rerank(QUERIES, GALLERY, "none").indices
    for row in range(6):
        listed = [item for item in plain[row].tolist() if SOME[item]]
        first = listed[:candidates]
        pool = np.unique(first + plain[row, :candidates].tolist())
        order = pool[kr.rerank(QUERIES[row : row + 1], GALLERY[pool]).indices[0]]
        expected = [item for item in order.tolist() if SOME[item]] + listed[candidates : depth or candidates]
        assert some.indices[row][some.indices[row] >= 0].tolist() == expected
        assert (np.diff(some.distances[row][: len(expected)]) >= 0).all()


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


@pytest.mark.parametrize(("positives", "negatives"), [([3], []), ([3, 20], [7]), ([1, 2, 9], [5, 11, 30]), ([], [7])])
@pytest.mark.parametrize("candidates", [None, 40])
@pytest.mark.parametrize("direct", [0.0, 0.3, 1.0])
def test_marks_follow_the_rule_of_the_slow_twin(
    positives: list[int], negatives: list[int], candidates: int | None, direct: float
) -> None:
    rows = clusters(0, 37)
    numbers = {**NUMBERS, "direct": direct}
    method = kr.LPMT(**numbers, transport="exact", tolerance=1e-7)
    marks = {"positives": [positives, []], "negatives": [negatives, []]}
    ranking = kr.rerank(rows[:2], rows[2:], method, candidates=candidates, **marks)
    if candidates is None:
        expected = twin.jointly_marked(rows, 2, 0, positives, negatives, **numbers)
    else:  # the other query is not in this graph
        expected = twin.jointly_marked(np.delete(rows, 1, axis=0), 1, 0, positives, negatives, **numbers)
    left = 35 - len(positives) - len(negatives)
    found = ranking.indices[0, :left]
    assert sorted([*found, *positives, *negatives]) == list(range(35))
    np.testing.assert_array_equal(ranking.indices[0, left:], -1)
    np.testing.assert_allclose(ranking.distances[0, :left], expected[found], rtol=2e-3, atol=2e-3)
    unmarked = kr.rerank(rows[:2], rows[2:], method, candidates=candidates)
    np.testing.assert_array_equal(ranking.indices[1], unmarked.indices[1])


def test_marked_items_enter_the_graph_of_the_candidates() -> None:
    far = int(kr.rerank(QUERIES[:1], GALLERY, "none").indices[0, -1])
    ranking = kr.rerank(QUERIES[:1], GALLERY, candidates=20, positives=[far])
    plain = kr.rerank(QUERIES[:1], GALLERY, candidates=20)
    assert far not in ranking.indices
    assert sorted(ranking.indices[0]) == sorted(plain.indices[0])
    assert not np.array_equal(ranking.distances, plain.distances)
    some = kr.rerank(QUERIES[:1], GALLERY, candidates=20, positives=[far], where=SOME)
    assert SOME[some.indices].all()


@pytest.mark.parametrize("candidates", [None, 10])
@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"where": []}, "where leaves no item; allow at least one, or leave it out"),
        ({"where": np.zeros(144, bool)}, "where leaves no item"),
        ({"where": [True, False]}, "where has 2 entries but there are 144 items; give one for each"),
        ({"where": np.ones((144, 1), bool)}, r"where must be one mask .* got shape \(144, 1\)"),
        ({"where": [3, 144]}, "where contains 144, which is not an item; give numbers from 0 to 143"),
        ({"where": [-1]}, "where contains -1, which is not an item"),
        ({"where": ["a"]}, "where contains 'a', which is not an item"),
        ({"where": "a"}, "where contains 'a', which is not an item"),
        ({"where": [0.5]}, "where contains 0.5, which is not an item"),
        ({"where": np.ma.masked_array([1, 2], [True, False])}, "where has 1 masked entries"),
        ({"positives": [[3], [], [], [], []]}, "positives must be one list of items per query, .* 6 queries and 5"),
        ({"positives": [3]}, "positives must be one list of items per query"),
        ({"negatives": [[200]] * 6}, "negatives contains 200, which is not an item"),
        ({"positives": [[3]] * 6, "negatives": [[]] * 5 + [[3]]}, "both name 3 for query 5; mark an item as right or"),
    ],
    ids=str,
)
def test_odd_filters_and_marks(wanted: dict[str, Any], message: str, candidates: int | None) -> None:
    with pytest.raises(ValueError, match=message):
        kr.rerank(QUERIES, GALLERY, candidates=candidates, **wanted)


@pytest.mark.parametrize("over", [np.asarray, kr.stores.ArrayStore, Elsewhere], ids=str)
@pytest.mark.parametrize("candidates", [None, 20])
def test_a_mask_of_numbers_is_refused(over: Any, candidates: int | None) -> None:
    if over is Elsewhere and candidates is None:
        pytest.skip("this store is searched over candidates only")
    for where in (SOME.astype(int), SOME.astype(int).tolist(), np.ones(144, int), [1, 0] * 72):
        with pytest.raises(ValueError, match="where looks like a mask of 0 and 1"):
            kr.rerank(QUERIES, over(GALLERY), "aqe", candidates=candidates, where=where)
    expected = kr.rerank(QUERIES, over(GALLERY), "aqe", candidates=candidates, where=SOME)
    for where in (SOME.tolist(), list(SOME), SOME.astype(object)):
        found = kr.rerank(QUERIES, over(GALLERY), "aqe", candidates=candidates, where=where)
        np.testing.assert_array_equal(found.indices, expected.indices)
    for parameter in ("positives", "negatives"):
        with pytest.raises(ValueError, match=f"{parameter} looks like a mask of 0 and 1"):
            kr.rerank(QUERIES[:1], over(GALLERY), "lpmt", candidates=candidates, **{parameter: SOME.astype(int)})
