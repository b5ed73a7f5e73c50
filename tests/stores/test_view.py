"""StoreView: search after items were removed and added, without changing the base store."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import kinrank as kr
from kinrank.stores import ArrayStore, Store
from kinrank.stores.view import StoreView
from kinrank.vector_input import to_unit_rows

Rows = NDArray[np.float32]


def rows_of(seed: int, count: int) -> Rows:
    return np.random.default_rng(seed).normal(size=(count, 6)).astype(np.float32)


def assert_same_search(one: Store, other: Store, queries: Rows, k: int) -> None:
    got, want = one.search(queries, k), other.search(queries, k)
    np.testing.assert_array_equal(got.indices, want.indices)
    np.testing.assert_allclose(got.distances, want.distances, atol=1e-6)  # rows normalised twice


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 1000),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=4),
    st.integers(1, 40),
)
def test_any_sequence_of_changes_equals_a_search_over_current_items(
    seed: int, changes: list[tuple[int, int]], k: int
) -> None:
    rng = np.random.default_rng(seed)
    rows = to_unit_rows(rows_of(seed, 30))
    store = StoreView(ArrayStore(rows), np.arange(len(rows)))
    for leave, come in changes:
        stay = np.sort(rng.choice(len(rows), max(len(rows) - leave, 0), replace=False))
        new = to_unit_rows(rows_of(seed + 1 + come, come)) if come else rows[:0]
        store, rows = store.after(stay, new), np.concatenate([rows[stay], new])
        assert len(store) == len(rows)
        np.testing.assert_allclose(store.vectors(np.arange(len(rows))), rows, atol=1e-6)
        if len(rows):
            assert_same_search(store, ArrayStore(rows), rows_of(seed + 99, 5), k)


def test_all_nearest_items_were_removed() -> None:
    rows = to_unit_rows(rows_of(0, 400))
    query = rows_of(1, 1)
    order = ArrayStore(rows).search(query, 400).indices[0]
    stay = np.sort(order[300:])
    store = StoreView(ArrayStore(rows)).after(stay, rows[:0])
    assert_same_search(store, ArrayStore(rows[stay]), query, 10)


def test_search_stops_if_the_base_finds_too_few() -> None:
    class Near(ArrayStore):
        """Returns at most 20 items and then padding, as approximate indexes do."""

        asked = 0

        def search(self, queries: Any, k: int) -> kr.Ranking:
            self.asked += 1
            found = super().search(queries, k)
            found.indices[:, 20:], found.distances[:, 20:] = -1, np.inf
            return found

    rows = to_unit_rows(rows_of(2, 100))
    base = Near(rows)
    store = StoreView(base).after(np.arange(5, 100), rows[:0])
    ranking = store.search(rows_of(3, 4), 30)
    assert ranking.indices.shape == (4, 30)
    assert ((ranking.indices >= 0).sum(axis=1) >= 15).all()
    assert base.asked == 1


def test_items_added_to_the_base_are_ignored() -> None:
    rows = to_unit_rows(rows_of(4, 60))
    grown = ArrayStore(rows)  # contains 60 items, of which 50 existed when the manifold was built
    store = StoreView(grown, np.arange(50)).after(np.arange(50), rows[50:])
    assert_same_search(store, ArrayStore(rows), rows_of(5, 3), 20)


def test_numbers_are_checked() -> None:
    store = StoreView(ArrayStore(rows_of(6, 9)), np.arange(9))
    with pytest.raises(ValueError, match="from 0 to 8"):
        store.vectors([9])
    assert store.search(np.empty((0, 6), np.float32), 3).indices.shape == (0, 3)
