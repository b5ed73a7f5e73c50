"""Turntable: deterministic, hard for plain distances, with a manifold that can be followed."""

from __future__ import annotations

import numpy as np
import pytest

import kinrank
from kinrank.datasets.turntable import TOY_NAMES, Turntable, turntable
from kinrank.report.demo import embed_pixels

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def whole() -> Turntable:
    return turntable()


@pytest.fixture(scope="module")
def ranking(whole: Turntable) -> kinrank.Ranking:
    return kinrank.rerank(None, embed_pixels(whole.images), "none")


def test_shapes_and_order(whole: Turntable) -> None:
    assert whole.images.shape == (24 * 72, 64, 64, 3)
    assert whole.images.dtype == np.uint8
    assert whole.labels.tolist() == [toy for toy in range(24) for _ in range(72)]
    np.testing.assert_array_equal(whole.angles, np.tile(np.arange(0, 360, 5), 24))
    assert len(set(TOY_NAMES)) == 24


def test_same_seed_same_bits_other_seed_other_bits() -> None:
    first, again, other = (turntable(3, 9, 32, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.images, again.images)
    assert (first.images != other.images).mean() > 0.5


def test_a_smaller_set_is_the_beginning_of_a_larger_one() -> None:
    few, more = turntable(2, 4, 16), turntable(3, 4, 16)
    np.testing.assert_array_equal(few.images, more.images[: len(few.images)])


def test_every_picture_shows_a_toy_within_the_frame(whole: Turntable) -> None:
    """Check that the average over views differs from the background in the middle, but not at the border."""
    mean = whole.images.reshape(24, 72, 64, 64, 3).mean(axis=1)
    border = np.concatenate([mean[:, :2].reshape(24, -1, 3), mean[:, :, :2].reshape(24, -1, 3)], axis=1)
    wall = border.mean(axis=1)
    assert np.abs(border - wall[:, None]).mean(axis=(1, 2)).max() < 12
    middle = np.abs(mean[:, 24:44, 24:40] - wall[:, None, None]).max(axis=3).mean(axis=(1, 2))
    assert middle.min() > 15


def test_toys_are_distinct_and_no_two_pictures_equal(whole: Turntable) -> None:
    mean = whole.images.reshape(24, 72, -1).mean(axis=1)
    gaps = np.abs(mean[:, None, ::7] - mean[None, :, ::7]).mean(axis=2)
    assert gaps[~np.eye(24, dtype=bool)].min() > 4
    assert len({image.tobytes() for image in whole.images}) == len(whole.images)


def test_plain_distances_are_in_the_band(whole: Turntable, ranking: kinrank.Ranking) -> None:
    truth = kinrank.Truth.from_labels(whole.labels)
    assert 0.45 < kinrank.evaluate(ranking, truth, ["mAP"])["mAP"].mean < 0.62


def test_neighbours_are_mostly_views_of_the_same_toy_from_nearby(whole: Turntable, ranking: kinrank.Ranking) -> None:
    nearest = ranking.indices[:, :10]
    same = whole.labels[nearest] == whole.labels[:, None]
    assert same[:, 0].mean() > 0.98
    assert same.mean() > 0.9
    turned = np.abs((whole.angles[nearest] - whole.angles[:, None] + 180) % 360 - 180)
    assert (turned[:, :2] <= 15).mean() > 0.9


def test_following_the_neighbours_reaches_the_far_side(whole: Turntable, ranking: kinrank.Ranking) -> None:
    """Check that a plain shortest path, without our methods, gains clearly: the loops can be followed."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    count = len(whole.labels)
    rows, columns = np.repeat(np.arange(count), 10), ranking.indices[:, :10].ravel()
    graph = csr_array((ranking.distances[:, :10].ravel() ** 3, (rows, columns)), shape=(count, count))
    some = np.arange(0, count, 12)
    lengths = dijkstra(graph, directed=False, indices=some)
    lengths[np.arange(len(some)), some] = np.inf
    order = np.argsort(lengths, axis=1, kind="stable")[:, :-1]
    truth = kinrank.Truth.from_labels(whole.labels)
    walked = kinrank.evaluate(order, truth.subset(some), ["mAP"])["mAP"].mean
    plain = kinrank.evaluate(ranking.indices[some], truth.subset(some), ["mAP"])["mAP"].mean
    assert walked > plain + 0.12


@pytest.mark.parametrize("wrong", [{"objects": 0}, {"objects": 25}, {"views": 0}, {"size": 7}])
def test_wrong_arguments_are_named(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(wrong))}={next(iter(wrong.values()))}"):
        turntable(**wrong)
