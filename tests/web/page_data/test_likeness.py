"""How alike items are: thresholds measured on a gallery, and near-duplicates."""

from __future__ import annotations

import numpy as np
import pytest

import kinrank
from kinrank.web.page_data.likeness import Likeness, find_copies


def test_thresholds_are_those_of_all_pairs() -> None:
    rows = np.random.default_rng(0).normal(size=(200, 6)).astype(np.float32)
    manifold = kinrank.Manifold.build(rows)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    distances = np.linalg.norm(unit[:, None] - unit[None], axis=2)[np.triu_indices(200, 1)]
    found = Likeness.measure(manifold.snapshot)
    assert found.alike == pytest.approx(np.quantile(distances, 0.01), rel=1e-3)
    assert found.copy == pytest.approx(min(0.5 * np.quantile(distances, 0.01), np.median(distances) / 3), rel=1e-3)
    assert np.mean(distances <= found.alike) == pytest.approx(0.01, abs=0.001)


def test_one_item_is_like_nothing() -> None:
    assert Likeness.measure(kinrank.Manifold.build(np.ones((1, 4), np.float32)).snapshot) == (0.0, 0.0)


def test_copies_belong_to_the_first_that_is_no_copy() -> None:
    angles = np.array([0.0, 90.0, 0.5, 1.0, 90.2, 45.0, 1.4])  # degrees; 1.4 is near 0.5 and 1, but not near 0
    rows = np.stack([np.cos(np.deg2rad(angles)), np.sin(np.deg2rad(angles))], axis=1).astype(np.float32)
    assert find_copies(rows, np.deg2rad(1.1), True) == [None, None, 0, 0, 1, None, None]
    assert find_copies(rows[:0], 0.1, True) == []
