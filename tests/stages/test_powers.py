"""Trust in chains: compared with pairs counted one by one, short lists, limits of the share."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from kinrank.problem import Items
from kinrank.stages import pipeline
from kinrank.stages.pipeline import choose_direct_share, measure_trust
from kinrank.vector_input import to_unit_rows
from reference import lpmt as twin

Lists = NDArray[np.int32]


def random_lists(seed: int, items: int, width: int, padded: bool) -> Lists:
    """Return lists that start with the item, then distinct others; padded lists end anywhere after the item."""
    rng = np.random.default_rng(seed)
    lists = np.full((items, width), -1, np.int32)
    for i in range(items):
        others = rng.permutation(np.delete(np.arange(items), i))[: width - 1]
        if padded:
            others = others[: rng.integers(0, width)]
        lists[i, : 1 + len(others)] = [i, *others]
    return lists


def near_lists(rows: NDArray[np.floating], k: int = 11) -> Lists:
    return Items.from_gallery(to_unit_rows(rows.astype(np.float32))).neighbors(k).indices


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(
    ("items", "width"), [(1, 1), (1, 4), (2, 2), (3, 3), (5, 5), (6, 6), (9, 7), (40, 4), (90, 12)]
)
def test_pairs_counted_one_by_one(items: int, width: int, padded: bool) -> None:
    for seed in range(4):
        lists = random_lists(seed, items, width, padded)
        assert measure_trust(lists) == pytest.approx(twin.trust_of(lists), abs=1e-12)


@pytest.mark.parametrize("items", [6, 30, 200])
def test_lists_of_a_search(items: int, rng: np.random.Generator) -> None:
    lists = near_lists(rng.normal(size=(items, 3)))
    found = measure_trust(lists)
    assert found == pytest.approx(twin.trust_of(lists))
    assert 0 < found.common < 1
    assert 0 < found.mutual <= 1


def test_only_the_nearest_five_count(rng: np.random.Generator) -> None:
    lists = near_lists(rng.normal(size=(50, 4)), 20)
    other = lists.copy()
    other[:, 6:] = -1
    assert measure_trust(other) == measure_trust(lists) == measure_trust(lists[:, :6])


def test_padding_is_not_a_neighbour() -> None:
    """-1 is neither a shared neighbour nor the last item."""
    lists = np.array([[0, 1, -1], [1, 2, -1], [2, -1, -1]], np.int32)
    assert measure_trust(lists) == (0.0, 0.0)
    lists = np.array([[0, 1, 2], [1, 2, -1], [2, 0, -1]], np.int32)  # pairs 01, 02, 12, 20: mutual 02 and 20, shared 2
    assert measure_trust(lists) == (0.5, 0.125)


@pytest.mark.parametrize("lists", [np.zeros((1, 1)), np.array([[0, -1]]), np.arange(4)[:, None]], ids=str)
def test_items_without_neighbours(lists: NDArray[np.floating]) -> None:
    lists = lists.astype(np.int32)
    assert measure_trust(lists) == (0.0, 0.0)
    assert choose_direct_share(measure_trust(lists)) == pipeline.MAX_DIRECT_SHARE


def test_a_sample_of_items_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sampled items are evenly spaced from the first to the last and handled in blocks."""
    lists = random_lists(1, 97, 8, True)
    monkeypatch.setattr(pipeline, "BLOCK_ROWS", 10)
    assert measure_trust(lists) == pytest.approx(twin.trust_of(lists))
    monkeypatch.setattr(pipeline, "MAX_TRUST_ITEMS", 25)
    assert measure_trust(lists) == pytest.approx(twin.trust_of(lists, range(0, 97, 4)))


def circle(items: int) -> Lists:
    """Return views of a turn: the nearest five are adjacent, two on one side and three on the other."""
    return np.array([[(i + step) % items for step in (0, 1, -1, 2, -2, 3)] for i in range(items)], np.int32)


def test_the_share_falls_as_chains_can_be_trusted() -> None:
    ring, cliques = circle(30), np.array([[i, *(i // 6 * 6 + np.delete(np.arange(6), i % 6))] for i in range(30)])
    mutual, common = twin.trust_of(ring)
    assert 0.1 < 1 - ((mutual - common) / pipeline.THIN_DIFFERENCE) ** 2 < 0.95
    assert choose_direct_share(measure_trust(ring)) == pytest.approx(
        1 - ((mutual - common) / pipeline.THIN_DIFFERENCE) ** 2
    )
    mutual, common = twin.trust_of(cliques.astype(np.int32))  # each lists all others: they share all but themselves
    assert (mutual, common) == (1.0, pytest.approx(0.8))
    assert choose_direct_share(measure_trust(cliques.astype(np.int32))) == pytest.approx(
        1 - (0.2 / pipeline.THIN_DIFFERENCE) ** 2
    )


def test_the_share_has_bounds() -> None:
    pairs = np.array([[0, 1], [1, 0], [2, 3], [3, 2]], np.int32)  # they list each other and share nothing
    assert measure_trust(pairs) == (1.0, 0.0)
    assert choose_direct_share(measure_trust(pairs)) == 0.1
    followers = np.array([[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 0], [4, 0, 1]], np.int32)  # no item is listed back
    assert measure_trust(followers)[0] == 0.0
    assert choose_direct_share(measure_trust(followers)) == pipeline.MAX_DIRECT_SHARE


@pytest.mark.parametrize(
    ("gap", "thin", "share"),
    [(0.17, 0.34, 0.75), (0.1, 0.2, 0.75), (0.3, 0.4, 0.4375), (0.3, 0.3, 0.1), (-0.2, 0.34, 0.95), (0.0, 0.34, 0.95)],
)
def test_from_a_gap_on_chains_alone_decide(gap: float, thin: float, share: float) -> None:
    assert choose_direct_share(pipeline.ChainTrust(0.6 + gap, 0.6), thin) == pytest.approx(share)
