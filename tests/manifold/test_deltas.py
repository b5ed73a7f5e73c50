"""The difference between two states, applied to the first, gives the second to the bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from kinrank.manifold.deltas import Arrays, apply_diff, diff_arrays
from kinrank.stages.item_change import ItemChange


def state(rng: np.random.Generator, n: int) -> Arrays:
    """Return arrays of all the kinds that methods store, with values that compare in unusual ways."""
    sizes = rng.integers(0, 4, n)
    entries = int(sizes.sum())
    return {
        "vectors": rng.normal(size=(n, 3)).astype(np.float32),
        "near": rng.integers(-1, max(n, 1), (n, 4)).astype(np.int32),
        "odd": rng.choice(np.array([0.0, -0.0, np.nan, 1.0], np.float32), n),
        "state_indptr": np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        "state_indices": rng.integers(0, max(n, 1), entries).astype(np.int32),
        "state_data": rng.normal(size=entries).astype(np.float32),
        "ids": np.array([f"{'x' * int(rng.integers(0, 5))}{number}" for number in range(n)], dtype=str),
        "beta": rng.integers(0, 2, 3).astype(np.float64),
        "text": rng.integers(97, 100, int(rng.integers(0, 9))).astype(np.uint8),
        "table": rng.integers(0, 2, (2, 2)),
    }


def mostly(rng: np.random.Generator, before: Arrays, turnover: ItemChange) -> Arrays:
    """Return another state in which many rows are unchanged, with the numbers after the change."""
    after = state(rng, turnover.after)
    stayed = np.flatnonzero(rng.random(len(turnover.stay)) < 0.7)
    for name in ("vectors", "odd"):
        after[name][stayed] = before[name][turnover.stay[stayed]]
    after["near"][stayed] = turnover.renumber(before["near"][turnover.stay[stayed]])
    after["ids"] = after["ids"].astype("U9")
    return after


def same(left: Arrays, right: Arrays) -> bool:
    return set(left) == set(right) and all(
        left[name].dtype == right[name].dtype
        and left[name].shape == right[name].shape
        and left[name].tobytes() == right[name].tobytes()
        for name in left
    )


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 12), st.integers(0, 5), st.floats(0, 1))
def test_any_change_is_made_again_to_the_bit(seed: int, count: int, fresh: int, leaving: float) -> None:
    rng = np.random.default_rng(seed)
    before = state(rng, count)
    turnover = ItemChange(count, np.flatnonzero(rng.random(count) >= leaving), fresh)
    after = mostly(rng, before, turnover)
    found = diff_arrays(before, after, turnover)
    assert found is not None
    assert same(apply_diff(before, found), after)


def test_a_small_change_is_small() -> None:
    rng = np.random.default_rng(1)
    before = state(rng, 1000)
    after = {name: array.copy() for name, array in before.items()}
    after["near"][17] = 3
    for name in ("vectors", "near", "odd", "ids"):
        after[name] = np.concatenate([after[name], after[name][:1]])
    after["state_indptr"] = np.append(after["state_indptr"], after["state_indptr"][-1])
    found = diff_arrays(before, after, ItemChange(1000, np.arange(1000), 1))
    assert found is not None
    assert found["near.rows"].tolist() == [17, 1000]
    assert sum(array.nbytes for array in found.values()) < 400
    assert same(apply_diff(before, found), after)


def test_a_dropped_array_has_no_difference() -> None:
    before = state(np.random.default_rng(1), 5)
    after = {name: array for name, array in before.items() if name != "beta"}
    assert diff_arrays(before, after, ItemChange(5, np.arange(5), 0)) is None


def crafted(name: str, value: Any) -> Arrays:
    rng = np.random.default_rng(1)
    before, turnover = state(rng, 5), ItemChange(5, np.array([0, 2, 3, 4]), 1)
    found = diff_arrays(before, mostly(rng, before, turnover), turnover) or {}
    assert name in found
    return found | {name: np.asarray(value)}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("items", [4, 0]),
        ("items", [5, -1]),
        ("items", [5, 10**12]),
        ("items", [[[5, 1]]]),
        ("items", [[5, 5], [1, 1]]),
        ("items", [5.0, 1.0]),
        ("items", 5),
        ("items", [5, 1, 1]),
        ("gone", [[1]]),
        ("gone", 1),
        ("gone", [5]),
        ("gone", [-1]),
        ("gone", [1, 1]),
        ("near.rows", [9]),
        ("near.rows", [-1]),
        ("near.rows", [0, 0]),
        ("near.values", np.zeros((3, 2), np.int32)),
        ("state.sizes", [-1]),
        ("state.indices", np.zeros(10**6, np.int32)),
        ("text.ends", [10**9, 0]),
        ("text.ends", [-1, 0]),
    ],
)
def test_differences_that_cannot_be_are_refused(name: str, value: NDArray[Any]) -> None:
    before = state(np.random.default_rng(1), 5)
    with pytest.raises((ValueError, KeyError, IndexError)):
        apply_diff(before, crafted(name, value))
