"""Fusion equals its literal reference, independent of the order of the rankings, and matches items by id."""

from __future__ import annotations

import itertools
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kinrank as kr
from reference import fuse as reference


def ranked(lists: list[list[int]], depth: int, **names: Any) -> kr.Ranking:
    """Return rankings of these items, padded to a depth."""
    indices = np.full((len(lists), depth), -1)
    distances = np.full((len(lists), depth), np.inf)
    for row, listed in enumerate(lists):
        indices[row, : len(listed)] = listed
        distances[row, : len(listed)] = np.arange(len(listed))
    return kr.Ranking(indices, distances).with_ids(**names)


def lists_of(ranking: kr.Ranking) -> list[list[int]]:
    return [row[row >= 0].tolist() for row in ranking.indices]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    count=st.integers(1, 4),
    k=st.sampled_from([0, 1, 60, 12.5]),
    block=st.sampled_from([1, 30, 10**6]),
)
def test_fusion_equals_its_twin(seed: int, count: int, k: float, block: int) -> None:
    rng = np.random.default_rng(seed)
    runs = [[rng.permutation(15)[: rng.integers(0, 12)].tolist() for _ in range(5)] for _ in range(count)]
    weights = rng.integers(0, 3, count).astype(float)
    weights[0] = 1.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["kinrank.rank_fusion"], "MAX_SORTED_ENTRIES", block)
        found = kr.fuse([ranked(run, 12) for run in runs], rank_constant=k, weights=weights.tolist())
    best = weights.sum() / (k + 1)
    for query in range(5):
        expected = reference.fused([run[query] for run in runs], k, weights.tolist())
        scores = dict(expected)
        listed = lists_of(found)[query]
        assert sorted(listed) == sorted(scores)
        np.testing.assert_allclose([scores[item] for item in listed], [score for _, score in expected])
        distances = found.distances[query, : len(listed)]
        np.testing.assert_allclose(distances, [1 - scores[item] / best for item in listed], atol=1e-6)
        assert (np.diff(distances) >= 0).all()
        if len(set(np.round(list(scores.values()), 12))) == len(scores):
            assert listed == [item for item, _ in expected]


def test_ties_go_to_the_lower_number_whatever_the_order_of_the_rankings() -> None:
    runs = [ranked([order], 3) for order in ([5, 2, 9], [2, 9, 5], [9, 5, 2])]  # every item at ranks 1, 2 and 3
    for order in itertools.permutations(runs):
        found = kr.fuse(list(order))
        assert lists_of(found) == [[2, 5, 9]]
        assert len(set(found.distances[0])) == 1


def test_weights_decide_and_an_item_first_everywhere_is_at_distance_zero() -> None:
    a, b = ranked([[1, 2, 3]], 3), ranked([[1, 3, 2]], 3)
    assert lists_of(kr.fuse([a, b], weights=[1, 2])) == [[1, 3, 2]]
    assert lists_of(kr.fuse([a, b], weights=[2, 1])) == [[1, 2, 3]]
    assert kr.fuse([a, b]).distances[0, 0] == 0
    assert lists_of(kr.fuse([a, b], weights=[2, 1], k=2)) == [[1, 2]]


def test_items_are_the_same_where_their_ids_are() -> None:
    """Two manifolds number the same pictures differently."""
    a = ranked([[0, 1, 2]], 3, item_ids=["cat", "dog", "owl"])
    b = ranked([[0, 1]], 3, item_ids=["dog", "owl"])
    found = kr.fuse([a, b], rank_constant=1)
    assert found.ids.tolist() == [["dog", "owl", "cat"]]  # 1/3 + 1/2, 1/4 + 1/3, 1/2
    assert kr.fuse([a, a]).indices.tolist() == a.indices.tolist()  # equal numbering: the numbers stay
    with pytest.raises(ValueError, match="by text and some by number"):
        kr.fuse([a, ranked([[0]], 1)])


def test_ids_that_are_numbers_are_not_item_numbers() -> None:
    a, b = ranked([[0, 1]], 2, item_ids=[70, 2**63]), ranked([[1, 0]], 2, item_ids=[2**63, 70])
    found = kr.fuse([a, b])
    assert found.ids.tolist() == [[70, 2**63]]
    assert kr.evaluate(found, kr.Truth.from_lists([[0]], item_ids=[70, 2**63]))["mAP"].mean == 1


def test_queries_are_the_same_where_their_names_are() -> None:
    a = ranked([[1], [2]], 1, query_ids=["x", "y"])
    b = ranked([[2], [3]], 1, query_ids=["y", "z"])
    found = kr.fuse([a, b])
    assert found.query_ids is not None
    assert found.query_ids.tolist() == ["x", "y", "z"]
    assert lists_of(found) == [[1], [2], [3]]
    with pytest.raises(ValueError, match="ranking 2 of 2 has no query ids"):
        kr.fuse([a, ranked([[1], [2]], 1)])


def test_fusing_two_models_of_the_same_data_helps(rng: np.random.Generator) -> None:
    labels = np.arange(60) % 6
    centres = rng.standard_normal((6, 16))
    views = [centres[labels] + 1.3 * rng.standard_normal((60, 16)) for _ in range(2)]
    runs = [kr.rerank(None, view, "none") for view in views]
    truth = kr.Truth.from_labels(labels)
    alone = [kr.evaluate(run, truth)["mAP"].mean for run in runs]
    assert kr.evaluate(kr.fuse(runs), truth)["mAP"].mean > max(alone)


@pytest.mark.parametrize(
    ("rankings", "options", "message"),
    [
        ([], {}, "rankings is empty"),
        ([ranked([[1]], 1), ranked([[1], [2]], 1)], {}, "of 1 and of 2 queries cannot be fused row by row"),
        ([[[1]]], {}, r"rankings\[0\] is a list"),
        ([ranked([[0], [3, 1, 3]], 3)], {}, "lists item 3 twice"),
        ([ranked([[1]], 1)], {"rank_constant": -1}, "rank_constant=-1 is not allowed"),
        ([ranked([[1]], 1)], {"rank_constant": float("nan")}, "rank_constant=nan is not allowed"),
        ([ranked([[1]], 1)], {"weights": [1, 2]}, "weights has 2 numbers but there are 1 rankings"),
        ([ranked([[1]], 1)], {"weights": [0]}, "at least one of them above 0"),
        ([ranked([[1]], 1)], {"k": 0}, "k=0 is not allowed"),
    ],
)
def test_what_cannot_be_fused_is_refused(rankings: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kr.fuse(rankings, **options)


def test_nothing_to_fuse_is_no_error() -> None:
    assert kr.fuse([ranked([], 3)] * 2).indices.shape == (0, 0)
    assert kr.fuse([ranked([[], []], 3)] * 2).indices.shape == (2, 0)
