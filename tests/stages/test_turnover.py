"""Two turnovers of a gallery, one after the other, as one."""

from __future__ import annotations

import numpy as np
import pytest

from kinrank.stages.turnover import Turnover


@pytest.mark.fast
@pytest.mark.parametrize("seed", range(20))
def test_two_turnovers_become_one(seed: int) -> None:
    """Rows are numbers from 0, and those that come get numbers of their own."""
    rng = np.random.default_rng(seed)
    rows = np.arange(10)
    first = Turnover(10, np.flatnonzero(rng.random(10) < 0.6), int(rng.integers(0, 4)))
    between = np.concatenate([first.of(rows), 100 + np.arange(first.fresh)])
    second = Turnover(len(between), np.flatnonzero(rng.random(len(between)) < 0.7), int(rng.integers(0, 4)))
    after = np.concatenate([second.of(between), 200 + np.arange(second.fresh)])
    both = first.then(second)
    assert (both.before, both.after) == (10, len(after))
    np.testing.assert_array_equal(after[: len(both.stay)], rows[both.stay])
    assert (after[len(both.stay) :] >= 100).all()
