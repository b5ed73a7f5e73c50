"""Combination of two successive changes of a gallery."""

from __future__ import annotations

import numpy as np
import pytest

from kinrank.stages.item_change import ItemChange


@pytest.mark.parametrize("seed", range(20))
def test_two_changes_combine_into_one(seed: int) -> None:
    """Rows are numbers from 0, and new ones get numbers of their own."""
    rng = np.random.default_rng(seed)
    rows = np.arange(10)
    first = ItemChange(10, np.flatnonzero(rng.random(10) < 0.6), int(rng.integers(0, 4)))
    between = np.concatenate([first.of(rows), 100 + np.arange(first.fresh)])
    second = ItemChange(len(between), np.flatnonzero(rng.random(len(between)) < 0.7), int(rng.integers(0, 4)))
    after = np.concatenate([second.of(between), 200 + np.arange(second.fresh)])
    both = first.then(second)
    assert (both.before, both.after) == (10, len(after))
    np.testing.assert_array_equal(after[: len(both.stay)], rows[both.stay])
    assert (after[len(both.stay) :] >= 100).all()
