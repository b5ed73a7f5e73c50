"""How far chains can be trusted: against pairs counted one by one, lists that end sooner, the bounds of the share."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from kinrank.features import unit
from kinrank.items import Items
from kinrank.stages import trust
from kinrank.stages.trust import share_of, trust_of
from reference import lpmt as twin

Lists = NDArray[np.int32]


def random_lists(seed: int, items: int, width: int, padded: bool) -> Lists:
    """Each item first in its own list, then others, each once; where padded, lists end anywhere behind the item."""
    rng = np.random.default_rng(seed)
    lists = np.full((items, width), -1, np.int32)
    for i in range(items):
        others = rng.permutation(np.delete(np.arange(items), i))[: width - 1]
        if padded:
            others = others[: rng.integers(0, width)]
        lists[i, : 1 + len(others)] = [i, *others]
    return lists


def near_lists(rows: NDArray[np.floating], k: int = 11) -> Lists:
    return Items.everyone(unit(rows.astype(np.float32))).neighbors(k).indices


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(
    ("items", "width"), [(1, 1), (1, 4), (2, 2), (3, 3), (5, 5), (6, 6), (9, 7), (40, 4), (90, 12)]
)
def test_pairs_counted_one_by_one(items: int, width: int, padded: bool) -> None:
    for seed in range(4):
        lists = random_lists(seed, items, width, padded)
        assert trust_of(lists) == pytest.approx(twin.trust_of(lists), abs=1e-12)


@pytest.mark.parametrize("items", [6, 30, 200])
def test_lists_of_a_search(items: int, rng: np.random.Generator) -> None:
    lists = near_lists(rng.normal(size=(items, 3)))
    found = trust_of(lists)
    assert found == pytest.approx(twin.trust_of(lists))
    assert 0 < found.common < 1
    assert 0 < found.mutual <= 1


def test_only_the_nearest_five_count(rng: np.random.Generator) -> None:
    lists = near_lists(rng.normal(size=(50, 4)), 20)
    other = lists.copy()
    other[:, 6:] = -1
    assert trust_of(other) == trust_of(lists) == trust_of(lists[:, :6])


def test_the_end_of_a_list_is_nobody() -> None:
    """-1 is neither a neighbour that items share, nor the last item."""
    lists = np.array([[0, 1, -1], [1, 2, -1], [2, -1, -1]], np.int32)
    assert trust_of(lists) == (0.0, 0.0)
    lists = np.array([[0, 1, 2], [1, 2, -1], [2, 0, -1]], np.int32)  # pairs 01, 02, 12, 20: mutual 02 and 20, shared 2
    assert trust_of(lists) == (0.5, 0.125)


@pytest.mark.parametrize("lists", [np.zeros((1, 1)), np.array([[0, -1]]), np.arange(4)[:, None]], ids=str)
def test_nobody_has_neighbours(lists: NDArray[np.floating]) -> None:
    lists = lists.astype(np.int32)
    assert trust_of(lists) == (0.0, 0.0)
    assert share_of(trust_of(lists)) == 0.9


def test_some_items_tell_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Items from the first to the last, evenly; a few at a time."""
    lists = random_lists(1, 97, 8, True)
    monkeypatch.setattr(trust, "BLOCK", 10)
    assert trust_of(lists) == pytest.approx(twin.trust_of(lists))
    monkeypatch.setattr(trust, "SAMPLE", 25)
    assert trust_of(lists) == pytest.approx(twin.trust_of(lists, range(0, 97, 4)))


def circle(items: int) -> Lists:
    """Views of a turn: the nearest five are those beside, two on the one side and three on the other."""
    return np.array([[(i + step) % items for step in (0, 1, -1, 2, -2, 3)] for i in range(items)], np.int32)


def test_the_share_falls_as_chains_can_be_trusted() -> None:
    ring, cliques = circle(30), np.array([[i, *(i // 6 * 6 + np.delete(np.arange(6), i % 6))] for i in range(30)])
    mutual, common = twin.trust_of(ring)
    assert 0 < 1 - (mutual - common) / trust.THIN < 0.9
    assert share_of(trust_of(ring)) == pytest.approx(max(1 - (mutual - common) / trust.THIN, 0.1))
    mutual, common = twin.trust_of(cliques.astype(np.int32))  # everybody lists everybody: they share all but themselves
    assert (mutual, common) == (1.0, pytest.approx(0.8))
    assert share_of(trust_of(cliques.astype(np.int32))) == pytest.approx(1 - 0.2 / trust.THIN)


def test_the_share_has_bounds() -> None:
    pairs = np.array([[0, 1], [1, 0], [2, 3], [3, 2]], np.int32)  # they list each other, and share nothing
    assert trust_of(pairs) == (1.0, 0.0)
    assert share_of(trust_of(pairs)) == 0.1
    followers = np.array([[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 0], [4, 0, 1]], np.int32)  # nobody is listed back
    assert trust_of(followers)[0] == 0.0
    assert share_of(trust_of(followers)) == 0.9


@pytest.mark.parametrize(
    ("gap", "thin", "share"),
    [(0.17, 0.34, 0.5), (0.1, 0.2, 0.5), (0.1, 0.4, 0.75), (0.3, 0.3, 0.1), (-0.2, 0.34, 0.9), (0.0, 0.34, 0.9)],
)
def test_from_a_gap_on_chains_alone_decide(gap: float, thin: float, share: float) -> None:
    assert share_of(trust.Trust(0.6 + gap, 0.6), thin) == pytest.approx(share)
