"""Exact nearest neighbours: against brute force, with duplicates, near duplicates, large k, own items."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kinrank.neighbors import Neighbors, find_nearest, pairwise_distances
from kinrank.problem import Items
from kinrank.vector_input import to_unit_rows
from reference import neighbors as twin

TIE = 3e-7  # float32 distances this close may change places


def rows(seed: int, count: int, dimensions: int, kinds: int | None = None) -> NDArray[np.float32]:
    """Return unit rows; with `kinds` only so many distinct ones, repeated at random."""
    rng = np.random.default_rng(seed)
    drawn = to_unit_rows(rng.normal(size=(kinds or max(count, 1), dimensions)).astype(np.float32))
    return drawn[rng.integers(0, kinds, count)] if kinds else drawn[:count]


def agrees(found: Neighbors, expected: list[list[tuple[float, int]]]) -> None:
    assert found.indices.shape == found.distances.shape == (len(expected), len(expected[0]) if expected else found.k)
    for row, wanted in enumerate(expected):
        gaps = np.array([gap for gap, _ in wanted])
        np.testing.assert_allclose(found.distances[row], gaps, atol=TIE, rtol=1e-5)
        assert len(set(found.indices[row].tolist())) == len(wanted)
        for place, (gap, item) in enumerate(wanted):
            got = int(found.indices[row, place])
            if got != item:  # only where the distances are equal up to rounding, but not where they are equal
                assert np.isclose(gap, found.distances[row, place], atol=TIE, rtol=1e-5)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    queries=st.integers(0, 9),
    items=st.integers(0, 40),
    dimensions=st.integers(1, 9),
    k=st.integers(0, 60),
)
def test_nearest_is_brute_force(seed: int, queries: int, items: int, dimensions: int, k: int) -> None:
    asked, gallery = rows(seed, queries, dimensions), rows(seed + 1, items, dimensions)
    found = find_nearest(asked, gallery, k)
    assert found.indices.shape == (queries, min(k, items))
    agrees(found, twin.nearest(asked, gallery, k))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), kinds=st.integers(1, 5), items=st.integers(1, 60), k=st.integers(1, 70))
def test_equal_vectors_are_ordered_by_item_number(seed: int, kinds: int, items: int, k: int) -> None:
    gallery = rows(seed, items, 7, kinds)
    found = find_nearest(gallery, gallery, k)
    expected = twin.nearest(gallery, gallery, k)
    assert found.indices.tolist() == [[item for _, item in row] for row in expected]
    own = find_nearest(gallery, gallery, k, own=np.arange(items))
    expected = twin.nearest(gallery, gallery, k, np.arange(items))
    assert own.indices.tolist() == [[item for _, item in row] for row in expected]
    assert (own.indices[:, 0] == np.arange(items)).all()
    others = find_nearest(gallery, gallery, k, own=np.arange(items), self_first=False)
    expected = twin.nearest(gallery, gallery, k, np.arange(items), self_first=False)
    assert others.indices.tolist() == [[item for _, item in row] for row in expected]


def test_duplicates_are_at_distance_zero_in_large_blocks() -> None:
    gallery = rows(3, 5000, 24, kinds=3)
    found = find_nearest(gallery[:3], gallery, 20)
    for row in range(3):
        equal = np.flatnonzero((gallery == gallery[row]).all(axis=1))[:20]
        np.testing.assert_array_equal(found.indices[row], equal)
        assert (found.distances[row] == 0).all()


@pytest.mark.parametrize("spread", [1e-3, 1e-4, 1e-5])
def test_near_duplicates_are_told_apart_where_products_are_not(spread: float, rng: np.random.Generator) -> None:
    """Inner products of these rows are all 1 up to rounding; only differences show which are nearest."""
    crowd = to_unit_rows((1 + spread * rng.normal(size=(700, 32))).astype(np.float32))
    found = find_nearest(crowd[:20], crowd, 10, own=np.arange(20))
    expected = twin.nearest(crowd[:20], crowd, 10, np.arange(20))
    for row in range(20):
        assert found.indices[row].tolist() == [item for _, item in expected[row]]


def test_rows_with_and_without_an_own_item_together(rng: np.random.Generator) -> None:
    gallery = rows(5, 30, 6)
    own = np.array([4, -1, 2, -1])
    asked = gallery[[4, 7, 2, 9]]
    for k in (1, 3, 30, 99):
        found = find_nearest(asked, gallery, k, own=own)
        agrees(found, twin.nearest(asked, gallery, k, own))
        assert found.indices[:, 0].tolist() == [4, 7, 2, 9]
        assert (found.indices >= 0).all()


def test_lists_do_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    gallery = rows(8, 900, 16)
    monkeypatch.setenv("KINRANK_THREADS", "1")
    alone = find_nearest(gallery, gallery, 12)
    monkeypatch.setenv("KINRANK_THREADS", "5")
    shared = find_nearest(gallery, gallery, 12)
    assert alone.indices.tobytes() == shared.indices.tobytes()
    assert alone.distances.tobytes() == shared.distances.tobytes()


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), left=st.integers(0, 9), right=st.integers(0, 9), dimensions=st.integers(1, 9))
def test_pairwise_is_the_distance(seed: int, left: int, right: int, dimensions: int) -> None:
    a, b = rows(seed, left, dimensions), rows(seed + 1, right, dimensions)
    b = np.concatenate([b, a])  # with duplicates, which are at 0
    table = pairwise_distances(a, b)
    np.testing.assert_allclose(table, twin.distances(a, b).reshape(table.shape), atol=2e-5)
    assert (np.diagonal(table[:, right:]) == 0).all()


def test_lists_of_items_grow_and_are_cut() -> None:
    items = Items.joint(rows(1, 3, 5), rows(2, 20, 5))
    few = items.neighbors(4)
    many = items.neighbors(9)
    np.testing.assert_array_equal(few.indices, many.indices[:, :4])
    np.testing.assert_array_equal(items.neighbors(4).indices, few.indices)
    assert items.neighbors(100).indices.shape == (23, 23)
    assert (many.indices[:, 0] == np.arange(23)).all()
    assert items.gallery_neighbors(5).indices.max() < 20
    assert items.query_neighbors(5).indices.shape == (3, 5)


def test_when_everyone_asks_nobody_is_its_own_answer() -> None:
    items = Items.from_gallery(rows(4, 12, 5, kinds=2))
    lists = items.query_neighbors(4)
    assert lists.indices.shape == (12, 4)
    assert not (lists.indices == np.arange(12)[:, None]).any()
