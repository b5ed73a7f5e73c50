"""Many changes become one that has the same effect, whatever they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinrank as kr
from kinrank.manifold.exchange import exchanged
from kinrank.manifold.log_records import Change, merged, packed, unpacked
from kinrank.manifold.replay import _following


def row_of(number: int) -> Any:
    return np.random.default_rng(number).normal(size=4).astype(np.float32)


def at_random(rng: np.random.Generator, manifold: kr.Manifold, named: bool) -> list[Change]:
    """Changes that can be made one after the other, made to `manifold` one after the other."""
    changes: list[Change] = []
    for _ in range(int(rng.integers(2, 12))):
        version = len(changes) + 1
        there = manifold.ids.tolist()
        kind = rng.choice(["put", "replace", "remove", "remove all"], p=[0.4, 0.2, 0.35, 0.05])
        rows = np.stack([row_of(100 * version + place) for place in range(rng.integers(1, 4))])
        if kind == "put" or (kind == "replace" and not (there and named)):
            ids = [f"v{version}-{place}" for place in range(len(rows))] if named else None
            first = None if named else _following(manifold._snapshot.names, [Change(0, None, rows)])
            changes.append(Change(version, ids, rows, first))
            manifold.add(rows, ids)
        elif kind == "replace":
            ids = rng.choice(there, min(len(rows), len(there)), replace=False).tolist()
            ids += [f"v{version}-{place}" for place in range(len(ids), len(rows))]
            changes.append(Change(version, ids, rows))
            manifold.upsert(rows, ids)
        elif there:
            count = len(there) if kind == "remove all" else min(len(there), len(rows))
            gone = rng.choice(there, count, replace=False).tolist()
            changes.append(Change(version, gone))
            manifold.remove(gone)
    return changes


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_merged_changes_do_what_they_do_one_after_the_other(seed: int, named: bool) -> None:
    """The same items, in the same order, with the same vectors and the same numbers to come."""
    rng = np.random.default_rng(seed)
    rows, names = np.stack([row_of(number) for number in range(8)]), [f"n{number}" for number in range(8)]
    slow = kr.Manifold.build(rows, kr.AQE(k=2), ids=names if named else None)
    quick = slow._snapshot
    if seed % 3 == 0:  # some were removed before
        slow.remove(slow.ids.tolist()[:2])
        quick = slow._snapshot
    changes = unpacked(packed(at_random(rng, slow, named)), 1)
    one = merged(changes, 4, _following(quick.names, changes))
    after, wanted = exchanged(quick, one.vectors, one.ids, one.gone), slow._snapshot
    assert after.names.all.tolist() == wanted.names.all.tolist()
    assert after.names.following == wanted.names.following
    np.testing.assert_array_equal(after.vectors, wanted.vectors)


def test_changes_that_undo_each_other_are_none() -> None:
    snapshot = kr.Manifold.build(np.eye(4, dtype=np.float32), kr.AQE(k=2), ids=list("abcd"))._snapshot
    one = merged([Change(1, ["e"], row_of(1)[None]), Change(2, ["e"])], 4, None)
    assert exchanged(snapshot, one.vectors, one.ids, one.gone) is snapshot


def test_numbers_that_somebody_else_took_meanwhile_are_given_anew() -> None:
    """The log says 8 and 9, but the next one is 10: they become 10 and 11, and who leaves as 9 is 11."""
    changes = [Change(1, None, np.ones((2, 4), np.float32), first=8), Change(2, [9, 3])]
    assert merged(changes, 4, 10).gone == [11, 3]
    assert merged(changes, 4, 8).gone == [9, 3]


def test_changes_of_another_gallery_are_refused() -> None:
    with pytest.raises(ValueError, match="do not have 5 columns"):
        merged([Change(1, ["a"], row_of(1)[None])], 5, None)
    with pytest.raises(ValueError, match="have names, but those of the gallery numbers"):
        merged([Change(1, ["a"], row_of(1)[None])], 4, 3)
