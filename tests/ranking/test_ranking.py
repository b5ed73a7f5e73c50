"""Ranking and the ordering of rows: shapes, types, ties."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kinrank
from kinrank.ranking import Ranking, rank_rows, refuse_repeats

pytestmark = pytest.mark.slow


def test_a_ranking_is_int64_and_float32_whatever_goes_in() -> None:
    ranking = Ranking([[2, 0]], [[0.1, 0.4]])
    assert ranking.indices.dtype == np.int64
    assert ranking.distances.dtype == np.float32
    assert ranking.indices.flags.c_contiguous
    assert (len(ranking), ranking.depth) == (1, 2)
    assert repr(ranking) == "Ranking(1 queries x 2 items, search)\n  0: 2 (0.1), 0 (0.4)"


@pytest.mark.parametrize(("indices", "distances"), [([[1, 2]], [[0.1]]), ([1, 2], [0.1, 0.2]), ([[[1]]], [[[1.0]]])])
def test_unequal_or_flat_shapes_are_refused_with_both(indices: object, distances: object) -> None:
    with pytest.raises(ValueError, match=r"indices \(.*\) and distances \(.*\)"):
        Ranking(indices, distances)  # type: ignore[arg-type]


def test_top_cuts_and_keeps_meta() -> None:
    ranking = Ranking([[2, 0, 1]], [[0.1, 0.4, 0.5]], {"mode": "joint"})
    cut = ranking.head(2)
    assert cut.indices.tolist() == [[2, 0]]
    assert cut.meta == {"mode": "joint"}
    assert ranking.head(99).depth == 3
    assert ranking.depth == 3


@settings(max_examples=25, deadline=None)
@given(
    table=st.integers(0, 8).flatmap(
        lambda items: st.lists(
            st.lists(st.sampled_from([0.0, 0.5, 0.25, 2.0, -1.0]), min_size=items, max_size=items), max_size=6
        )
    ),
    depth=st.integers(0, 10),
)
def test_rows_are_ordered_by_distance_then_item_number(table: list[list[float]], depth: int) -> None:
    items = len(table[0]) if table else 0
    indices, distances = rank_rows(np.array(table, np.float64).reshape(len(table), items), depth)
    assert indices.shape == distances.shape == (len(table), min(depth, items))
    for row, values in enumerate(table):
        expected = sorted(range(items), key=lambda item: (values[item], item))[:depth]
        assert indices[row].tolist() == expected
        assert distances[row].tolist() == [values[item] for item in expected]


@pytest.mark.parametrize(
    "indices",
    [
        [[0.5, 1.0]],
        [[np.nan, 1.0]],
        [[np.inf, 1.0]],
        np.array([[2**63, 1]], np.uint64),
        [[1e300, 1.0]],
        [[True, False]],
        [["0", "1"]],
        np.ma.array([[0, 1]], mask=[[False, True]]),
        [[0, None]],
    ],
)
def test_numbers_are_never_cut_off(indices: object) -> None:
    with pytest.raises(ValueError, match="indices"):
        Ranking(indices, [[0.1, 0.4]])  # type: ignore[arg-type]


def test_whole_numbers_of_any_type_are_item_numbers() -> None:
    for indices in ([[1.0, 0.0]], np.array([[1, 0]], np.uint16), np.array([[1, 0]], object)):
        assert Ranking(indices, [[0.1, 0.4]]).indices.tolist() == [[1, 0]]  # type: ignore[arg-type]


def test_ids_are_the_numbers_unless_given() -> None:
    plain = Ranking([[2, 0, -1]], [[0.1, 0.4, np.inf]])
    assert plain.ids is plain.indices
    assert plain.query_ids is None
    assert (plain.has_ids, plain.has_numbers_only) == (False, True)
    named = plain.with_ids(["a", "b", "c"], ["q"])
    assert named.ids.tolist() == [["c", "a", ""]]
    assert named.query_ids is not None
    assert named.query_ids.tolist() == ["q"]
    assert (named.has_ids, named.has_numbers_only) == (True, False)
    assert plain.with_ids([7, 8, 2**63 + 1]).ids.tolist() == [[2**63 + 1, 7, -1]]
    assert plain.with_ids([7, 8, 9]).ids.tolist() == [[9, 7, -1]]
    assert plain.with_ids() is plain


def test_top_keeps_ids() -> None:
    named = Ranking([[2, 0, 1]], [[0.1, 0.4, 0.5]]).with_ids(["a", "b", "c"], ["q"]).head(2)
    assert named.ids.tolist() == [["c", "a"]]
    assert named.query_ids is not None
    assert not Ranking([[2, 0, 1]], [[0.1, 0.4, 0.5]]).head(2).has_ids


def test_ids_that_do_not_fit_are_refused() -> None:
    plain = Ranking([[2, 0]], [[0.1, 0.4]])
    with pytest.raises(ValueError, match="item_ids has 2 ids but the ranking needs 3"):
        plain.with_ids(["a", "b"])
    with pytest.raises(ValueError, match="query_ids has 2 ids but the ranking needs 1"):
        plain.with_ids(query_ids=["a", "b"])
    with pytest.raises(ValueError, match="this ranking already has ids; leave `item_ids` out"):
        plain.with_ids(["a", "b", "c"]).with_ids(["a", "b", "c"])
    with pytest.raises(ValueError, match="this ranking already has query_ids"):
        plain.with_ids(query_ids=["a"]).with_ids(query_ids=["a"])
    with pytest.raises(ValueError, match=r"ids must be .* in the shape \(1, 2\)"):
        Ranking([[2, 0]], [[0.1, 0.4]], {}, ids=np.array([["a"]]))


def test_items_listed_twice_are_found() -> None:
    refuse_repeats(np.array([[1, 0, -1, -1], [2, 1, 0, -1]]))
    with pytest.raises(ValueError, match="query 1 lists item 2 twice"):
        refuse_repeats(np.array([[1, 0, -1, -1], [2, 1, 2, -1]]))
    with pytest.raises(ValueError, match="query 0 lists item 4294967298 twice"):
        refuse_repeats(np.array([[2**32 + 2, 2, 2**32 + 2]]))
    refuse_repeats(np.array([[2**32 + 2, 2]]))


COPIES = range(20, 40)


@pytest.fixture(scope="module")
def copied() -> np.ndarray[Any, Any]:
    """Return 60 items with 21 copies of one vector, more than a neighbour list of LPMT's graphs holds."""
    rows = np.random.default_rng(0).standard_normal((60, 8)).astype(np.float32)
    rows[COPIES] = rows[10]
    return rows


@pytest.mark.parametrize("name", list(kinrank.METHODS))
def test_distances_never_decrease_along_a_row(name: str, copied: Any, ready: Any) -> None:
    method = ready(name, copied.shape[1])
    rankings = [kinrank.rerank(copied[8:12], copied, method, candidates=candidates) for candidates in (None, 30)]
    if kinrank.METHODS[name].capabilities.prepared_search:
        rankings.append(kinrank.Manifold.build(copied, method).search(copied[8:12], k=60))
    for ranking in rankings:
        assert (np.diff(ranking.distances, axis=1) >= 0).all()


@pytest.mark.parametrize("name", ["none", "aqe", "aqewd", "alpha-qe", "dqe", "adba+aqe"])
def test_equal_vectors_are_equally_far_where_that_is_promised(name: str, copied: Any) -> None:
    rankings = kinrank.rerank(copied[8:12], copied, name), kinrank.Manifold.build(copied, name).search(copied[8:12], 60)
    for ranking in rankings:
        for items, distances in zip(ranking.indices, ranking.distances, strict=True):
            assert len(set(distances[np.isin(items, [10, *COPIES])].tolist())) == 1


def test_lpmt_tells_copies_apart_as_is_said(copied: Any) -> None:
    """The docstring of Ranking warns of this; if this test fails, the docstring may promise more."""
    ranking = kinrank.rerank(copied[10:11], copied)
    there = np.isin(ranking.indices[0], [10, *COPIES])
    assert there[:21].all()  # copies of the query still come first
    assert len(set(ranking.distances[0][there].tolist())) > 1
    for output in (kinrank.Ranking.__doc__, kinrank.rerank.__doc__, kinrank.Manifold.search.__doc__):
        assert "comparable" in str(output) or "compared" in str(output)
