"""Ranking and the ordering of rows: shapes, types, ties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinrank.ranking import Ranking, rank_rows


def test_a_ranking_is_int64_and_float32_whatever_goes_in() -> None:
    ranking = Ranking([[2, 0]], [[0.1, 0.4]])
    assert ranking.indices.dtype == np.int64
    assert ranking.distances.dtype == np.float32
    assert ranking.indices.flags.c_contiguous
    assert (len(ranking), ranking.depth) == (1, 2)
    assert repr(ranking) == "Ranking(1 queries x 2 items, search)"


@pytest.mark.parametrize(("indices", "distances"), [([[1, 2]], [[0.1]]), ([1, 2], [0.1, 0.2]), ([[[1]]], [[[1.0]]])])
def test_unequal_or_flat_shapes_are_refused_with_both(indices: object, distances: object) -> None:
    with pytest.raises(ValueError, match=r"indices \(.*\) and distances \(.*\)"):
        Ranking(indices, distances)  # type: ignore[arg-type]


def test_top_cuts_and_keeps_meta() -> None:
    ranking = Ranking([[2, 0, 1]], [[0.1, 0.4, 0.5]], {"mode": "joint"})
    cut = ranking.top(2)
    assert cut.indices.tolist() == [[2, 0]]
    assert cut.meta == {"mode": "joint"}
    assert ranking.top(99).depth == 3
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
