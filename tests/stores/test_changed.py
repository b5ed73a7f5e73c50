"""ChangedStore: what a store finds after items left and came, without writing into it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import kinrank as kr
from kinrank.features import unit
from kinrank.stores import ArrayStore, Store
from kinrank.stores.changed import ChangedStore

Rows = NDArray[np.float32]


def rows_of(seed: int, count: int) -> Rows:
    return np.random.default_rng(seed).normal(size=(count, 6)).astype(np.float32)


def assert_same_search(one: Store, other: Store, queries: Rows, k: int) -> None:
    got, want = one.search(queries, k), other.search(queries, k)
    np.testing.assert_array_equal(got.indices, want.indices)
    np.testing.assert_allclose(got.distances, want.distances, atol=1e-6)  # rows brought to unit length twice


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 1000),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=4),
    st.integers(1, 40),
)
def test_any_sequence_of_changes_is_a_search_over_what_is_there(
    seed: int, changes: list[tuple[int, int]], k: int
) -> None:
    rng = np.random.default_rng(seed)
    rows = unit(rows_of(seed, 30))
    store = ChangedStore(ArrayStore(rows), len(rows))
    for leave, come in changes:
        stay = np.sort(rng.choice(len(rows), max(len(rows) - leave, 0), replace=False))
        new = unit(rows_of(seed + 1 + come, come)) if come else rows[:0]
        store, rows = store.after(stay, new), np.concatenate([rows[stay], new])
        assert len(store) == len(rows)
        np.testing.assert_allclose(store.vectors(np.arange(len(rows))), rows, atol=1e-6)
        if len(rows):
            assert_same_search(store, ArrayStore(rows), rows_of(seed + 99, 5), k)


def test_all_that_stood_in_front_left() -> None:
    rows = unit(rows_of(0, 400))
    query = rows_of(1, 1)
    order = ArrayStore(rows).search(query, 400).indices[0]
    stay = np.sort(order[300:])
    store = ChangedStore(ArrayStore(rows), 400).after(stay, rows[:0])
    assert_same_search(store, ArrayStore(rows[stay]), query, 10)


def test_a_store_that_finds_less_is_not_asked_for_ever() -> None:
    class Near(ArrayStore):
        """At most 20 items, then padding, as approximate indexes do."""

        asked = 0

        def search(self, queries: Any, k: int) -> kr.Ranking:
            self.asked += 1
            found = super().search(queries, k)
            found.indices[:, 20:], found.distances[:, 20:] = -1, np.inf
            return found

    rows = unit(rows_of(2, 100))
    base = Near(rows)
    store = ChangedStore(base, 100).after(np.arange(5, 100), rows[:0])
    ranking = store.search(rows_of(3, 4), 30)
    assert ranking.indices.shape == (4, 30)
    assert ((ranking.indices >= 0).sum(axis=1) >= 15).all()
    assert base.asked == 1


def test_items_the_store_got_on_its_own_are_ignored() -> None:
    rows = unit(rows_of(4, 60))
    grown = ArrayStore(rows)  # holds 60, but 50 of them were there when the manifold was built
    store = ChangedStore(grown, 50).after(np.arange(50), rows[50:])
    assert_same_search(store, ArrayStore(rows), rows_of(5, 3), 20)


def test_numbers_are_checked() -> None:
    store = ChangedStore(ArrayStore(rows_of(6, 9)), 9)
    with pytest.raises(ValueError, match="from 0 to 8"):
        store.vectors([9])
    assert store.search(np.empty((0, 6), np.float32), 3).indices.shape == (0, 3)
