"""Removing and adding items in one change equals two changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinrank as kr
from kinrank.manifold.changes import apply_change
from kinrank.manifold.service_log import Change

pytestmark = pytest.mark.slow

METHOD = kr.LPMT(k1=8, k2=3, k=3, path_k=3, support=8)


def rows_of(count: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(count, 4)).astype(np.float32)


def built(named: bool) -> kr.Manifold:
    return kr.Manifold.build(rows_of(50), METHOD, ids=[f"n{number}" for number in range(50)] if named else None)


def test_neighbours_are_those_of_a_new_gallery() -> None:
    manifold = built(True)
    after = apply_change(manifold.snapshot, Change(["n1", "n2", "nobody"], rows_of(3, 1), ["n4", "a", "b"]))
    assert after.names.all.tolist()[-3:] == ["n4", "a", "b"]
    assert len(after) == 50
    rows = np.concatenate([np.delete(rows_of(50), [1, 2, 4], axis=0), rows_of(3, 1)])
    rebuilt = kr.Manifold.build(rows, METHOD).snapshot
    np.testing.assert_array_equal(after.arrays["nearest"], rebuilt.arrays["nearest"])


def test_it_is_journaled_as_one_change(tmp_path: Any) -> None:
    manifold = built(True)
    manifold.save(tmp_path / "m")
    manifold.replace_snapshot(lambda snapshot: apply_change(snapshot, Change(["n1"], rows_of(1, 1), ["a"])))
    manifold.save(tmp_path / "m")
    loaded = kr.Manifold.load(tmp_path / "m")
    for name, array in manifold.snapshot.arrays.items():
        assert array.tobytes() == loaded.snapshot.arrays[name].tobytes(), name


def test_numbers_are_used_up_by_items_that_leave_at_once() -> None:
    after = apply_change(built(False).snapshot, Change([50, 52, 7, 99], rows_of(3, 1), None))
    assert after.names.all.tolist() == [*range(7), *range(8, 50), 51]
    assert after.names.following == 53
    np.testing.assert_allclose(after.vectors[-1], rows_of(3, 1)[1] / np.linalg.norm(rows_of(3, 1)[1]), atol=1e-6)
    only = apply_change(built(False).snapshot, Change([50, 51], rows_of(2, 1), None))
    assert (len(only), only.names.following) == (50, 52)


def test_observed_queries_stay() -> None:
    manifold = built(True)
    manifold.observe(rows_of(5, 3))
    count = manifold.n_observed
    assert count > 0
    manifold.replace_snapshot(lambda snapshot: apply_change(snapshot, Change(["n9"], rows_of(2, 4), ["n0", "a"])))
    assert manifold.n_observed == count
    assert manifold.ids.tolist()[-2:] == ["n0", "a"]


@pytest.mark.parametrize("named", [True, False])
def test_nothing_changes_nothing(named: bool) -> None:
    snapshot = built(named).snapshot
    assert apply_change(snapshot, Change(["nobody", 999], rows_of(0), [] if named else None)) is snapshot


def test_impossible_changes_are_refused() -> None:
    with pytest.raises(ValueError, match="ids cannot be given: this manifold has item numbers"):
        apply_change(built(False).snapshot, Change([], rows_of(1), ["a"]))
    with pytest.raises(ValueError, match="ids of this manifold are texts"):
        apply_change(built(True).snapshot, Change([], rows_of(1), [5]))
    with pytest.raises(ValueError, match="zero vector"):
        apply_change(built(True).snapshot, Change([], np.zeros((1, 4)), ["a"]))
