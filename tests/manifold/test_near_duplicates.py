"""Planted duplicates are found as complete groups with their ids, and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import kinrank as kr


def planted(rng: np.random.Generator, sizes: list[int], singles: int = 50, noise: float = 0.005) -> NDArray[np.float32]:
    """Return shuffled rows: some originals with nearly equal copies of each, and others far from everything."""
    originals = rng.standard_normal((len(sizes), 64))
    copies = np.repeat(originals, sizes, axis=0)
    copies = copies + noise * rng.standard_normal(copies.shape)
    return np.concatenate([copies, rng.standard_normal((singles, 64))]).astype(np.float32)


@pytest.mark.parametrize("noise", [0.0, 0.005])
def test_planted_duplicates_come_back_largest_first(rng: np.random.Generator, noise: float) -> None:
    sizes = [5, 2, 90, 3]  # 90 is more than the number of neighbours of any item
    rows = planted(rng, sizes, noise=noise)
    order = rng.permutation(len(rows))
    truth = np.concatenate([np.repeat(np.arange(4), sizes), np.full(50, -1)])[order]
    found = kr.near_duplicates(rows[order] * rng.uniform(0.5, 2, (len(rows), 1)), max_distance=0.01)
    assert [len(group) for group in found] == [90, 5, 3, 2]
    for group, number in zip(found, (2, 0, 3, 1), strict=True):
        assert group.items.tolist() == np.flatnonzero(truth == number).tolist()
        assert group.ids.tolist() == group.items.tolist()
        assert (group.distances <= 0.01).all()


def test_the_threshold_is_a_cosine_distance() -> None:
    angle = np.arccos(1 - 0.1)
    rows = [[1, 0], [np.cos(angle), np.sin(angle)], [-1, 0.01]]
    assert kr.near_duplicates(rows, max_distance=0.0999) == []
    (group,) = kr.near_duplicates(rows, max_distance=0.1001)
    assert group.items.tolist() == [0, 1]
    np.testing.assert_allclose(group.distances, 0.1, rtol=1e-4)


def test_chains_join() -> None:
    angles = np.deg2rad([0, 5, 10, 15, 90])
    rows = np.column_stack([np.cos(angles), np.sin(angles)])
    (group,) = kr.near_duplicates(rows, max_distance=1 - np.cos(np.deg2rad(6)))
    assert group.items.tolist() == [0, 1, 2, 3]  # the ends are 15 degrees apart


def test_groups_that_touch_are_kept_apart_by_a_smaller_k() -> None:
    angles = np.deg2rad([0, 1, 2, 7, 8.5])  # 7 is near 2, but 2 has nearer ones
    rows = np.column_stack([np.cos(angles), np.sin(angles)])
    apart, together = (kr.near_duplicates(rows, max_distance=1 - np.cos(np.deg2rad(6)), k=k) for k in (2, 4))
    assert [group.items.tolist() for group in apart] == [[0, 1, 2], [3, 4]]
    assert [len(group) for group in together] == [5]


def test_every_item_with_a_duplicate_is_grouped(rng: np.random.Generator) -> None:
    rows = planted(rng, [300], singles=0, noise=0.01)
    lists = kr.rerank(None, rows, "none", k=1)
    label = np.full(len(rows), -1)
    for number, group in enumerate(kr.near_duplicates(rows, k=2)):
        label[group.items] = number
    assert (label >= 0).all()
    assert (label[lists.indices[:, 0]] == label).all()


def test_copies_stay_together_whatever_k(rng: np.random.Generator) -> None:
    rows = np.repeat(rng.standard_normal((2, 8)), [7, 4], axis=0)
    found = kr.near_duplicates(rows, max_distance=0, k=1)
    assert [len(group) for group in found] == [7, 4]
    assert all((group.distances == 0).all() for group in found)


def test_names_come_with_the_items_also_from_a_manifold(rng: np.random.Generator) -> None:
    rows = planted(rng, [3], singles=40)
    names = [f"picture {number}" for number in range(len(rows))]
    (group,) = kr.near_duplicates(rows, ids=names)
    assert group.ids.tolist() == names[:3]
    assert "picture 1" in repr(group)
    manifold = kr.Manifold.build(rows, "dfs", ids=names)
    (same,) = kr.near_duplicates(manifold)
    assert same.ids.tolist() == names[:3]
    with pytest.raises(ValueError, match="ids cannot be given for a manifold"):
        kr.near_duplicates(manifold, ids=names)


@pytest.mark.parametrize("count", [0, 1])
def test_nothing_to_group(count: int) -> None:
    assert kr.near_duplicates(np.ones((count, 3))) == []


@pytest.mark.parametrize("threshold", [-0.1, 2.1, float("nan"), "near", True])
def test_a_threshold_that_is_none_is_refused(threshold: float) -> None:
    with pytest.raises(ValueError, match="give a cosine distance from 0 to 2"):
        kr.near_duplicates(np.eye(3), max_distance=threshold)


def test_groups_of_real_features_are_of_one_kind(shared_dir: Path) -> None:
    """Persons and turntable views: rows this near almost always show the same person or object."""
    for name, threshold in (("market1501_osnet", 0.05), ("coil20_pixels", 0.02)):
        content = np.load(shared_dir / "data" / f"{name}.npz")
        found = kr.near_duplicates(content["x"], threshold)
        assert len(found) > 20
        pure = [len(set(content["label"][group.items].tolist())) == 1 for group in found]
        assert np.mean(pure) > 0.98


@pytest.mark.parametrize("copies", [2, 3, 21, 500])
@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_copies_of_one_vector_are_one_group(copies: int, metric: str) -> None:
    rows = np.tile(np.float32([[1, 2, 3]]), (copies, 1))
    for gallery in (rows, kr.Manifold.build(rows, metric=metric)):
        (group,) = kr.near_duplicates(gallery, max_distance=0.05, metric=metric)
        assert group.items.tolist() == list(range(copies))
        assert (group.distances == 0).all()


def test_two_vectors_with_a_hundred_copies_each_are_two_groups() -> None:
    rows = np.tile(np.float32([[1, 0], [0, 1]]), (100, 1))
    even, odd = kr.near_duplicates(rows)
    assert even.items.tolist() == list(range(0, 200, 2))
    assert odd.items.tolist() == list(range(1, 200, 2))
    assert (even.distances == 0).all()
    (everything,) = kr.near_duplicates(rows, max_distance=1.5)
    assert len(everything) == 200
    assert (everything.distances == 0).all()


@pytest.mark.parametrize("count", [0, 1])
def test_fewer_than_two_items_have_no_groups(count: int) -> None:
    rows = np.ones((count, 3), np.float32)
    assert kr.near_duplicates(rows) == []
    assert kr.near_duplicates(kr.Manifold.build(rows)) == []
