"""Items that leave and items that come are one change, as good as two."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinrank as kr
from kinrank.manifold.exchange import exchanged

METHOD = kr.LPMT(k1=8, k2=3, k=3, path_k=3, support=8)


def rows_of(count: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(count, 4)).astype(np.float32)


def built(named: bool) -> kr.Manifold:
    return kr.Manifold.build(rows_of(50), METHOD, ids=[f"n{number}" for number in range(50)] if named else None)


def test_neighbours_are_those_of_a_new_gallery() -> None:
    manifold = built(True)
    after = exchanged(manifold._snapshot, rows_of(3, 1), ["n4", "a", "b"], ["n1", "n2", "nobody"])
    assert after.names.all.tolist()[-3:] == ["n4", "a", "b"]
    assert len(after) == 50
    rows = np.concatenate([np.delete(rows_of(50), [1, 2, 4], axis=0), rows_of(3, 1)])
    anew = kr.Manifold.build(rows, METHOD)._snapshot
    np.testing.assert_array_equal(after.arrays["nearest"], anew.arrays["nearest"])


def test_it_is_journaled_as_one_change(tmp_path: Any) -> None:
    manifold = built(True)
    manifold.save(tmp_path / "m")
    manifold._change(lambda snapshot: exchanged(snapshot, rows_of(1, 1), ["a"], ["n1"]))
    manifold.save(tmp_path / "m")
    loaded = kr.Manifold.load(tmp_path / "m")
    for name, array in manifold._snapshot.arrays.items():
        assert array.tobytes() == loaded._snapshot.arrays[name].tobytes(), name


def test_numbers_are_used_up_by_items_that_leave_at_once() -> None:
    after = exchanged(built(False)._snapshot, rows_of(3, 1), None, [50, 52, 7, 99])
    assert after.names.all.tolist() == [*range(7), *range(8, 50), 51]
    assert after.names.following == 53
    np.testing.assert_allclose(after.vectors[-1], rows_of(3, 1)[1] / np.linalg.norm(rows_of(3, 1)[1]), atol=1e-6)
    only = exchanged(built(False)._snapshot, rows_of(2, 1), None, [50, 51])
    assert (len(only), only.names.following) == (50, 52)


def test_remembered_queries_stay() -> None:
    manifold = built(True)
    manifold.observe(rows_of(5, 3))
    count = manifold.observed
    assert count > 0
    manifold._change(lambda snapshot: exchanged(snapshot, rows_of(2, 4), ["n0", "a"], ["n9"]))
    assert manifold.observed == count
    assert manifold.ids.tolist()[-2:] == ["n0", "a"]


@pytest.mark.parametrize("named", [True, False])
def test_nothing_changes_nothing(named: bool) -> None:
    snapshot = built(named)._snapshot
    assert exchanged(snapshot, rows_of(0), [] if named else None, ["nobody", 999]) is snapshot


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="names items by their numbers"):
        exchanged(built(False)._snapshot, rows_of(1), ["a"], [])
    with pytest.raises(ValueError, match="ids of this manifold are texts"):
        exchanged(built(True)._snapshot, rows_of(1), [5], [])
    with pytest.raises(ValueError, match="zero vector"):
        exchanged(built(True)._snapshot, np.zeros((1, 4)), ["a"], [])
