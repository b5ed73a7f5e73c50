"""Several changes are merged into one with the same effect."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kinrank as kr
from kinrank.manifold.changes import _next_number, apply_change, merge_changes
from kinrank.manifold.service_log import Change, pack_changes, unpack_changes


def row_of(number: int) -> Any:
    return np.random.default_rng(number).normal(size=4).astype(np.float32)


def at_random(rng: np.random.Generator, manifold: kr.Manifold, named: bool) -> list[Change]:
    """Return random valid changes, and apply each of them to `manifold`."""
    changes: list[Change] = []
    for _ in range(int(rng.integers(2, 12))):
        version = len(changes) + 1
        there = manifold.ids.tolist()
        kind = rng.choice(["put", "replace", "remove", "remove all"], p=[0.4, 0.2, 0.35, 0.05])
        rows = np.stack([row_of(100 * version + place) for place in range(rng.integers(1, 4))])
        if kind == "put" or (kind == "replace" and not (there and named)):
            ids = [f"v{version}-{place}" for place in range(len(rows))] if named else None
            first = None if named else _next_number(manifold.snapshot.names, [Change(vectors=rows)])
            changes.append(Change(vectors=rows, ids=ids, version=version, first=first))
            manifold.add(rows, ids)
        elif kind == "replace":
            ids = rng.choice(there, min(len(rows), len(there)), replace=False).tolist()
            ids += [f"v{version}-{place}" for place in range(len(ids), len(rows))]
            changes.append(Change(vectors=rows, ids=ids, version=version))
            manifold.upsert(rows, ids)
        elif there:
            count = len(there) if kind == "remove all" else min(len(there), len(rows))
            gone = rng.choice(there, count, replace=False).tolist()
            changes.append(Change(gone, version=version))
            manifold.remove(gone)
    return changes


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_merged_changes_equal_single_changes(seed: int, named: bool) -> None:
    """Assert equal items, order, vectors and next number."""
    rng = np.random.default_rng(seed)
    rows, names = np.stack([row_of(number) for number in range(8)]), [f"n{number}" for number in range(8)]
    slow = kr.Manifold.build(rows, kr.methods.AQE(k=2), ids=names if named else None)
    quick = slow.snapshot
    if seed % 3 == 0:  # some were removed before
        slow.remove(slow.ids.tolist()[:2])
        quick = slow.snapshot
    changes = unpack_changes(pack_changes(at_random(rng, slow, named)), 1)
    one = merge_changes(changes, 4, _next_number(quick.names, changes))
    after, wanted = apply_change(quick, one), slow.snapshot
    assert after.names.all.tolist() == wanted.names.all.tolist()
    assert after.names.following == wanted.names.following
    np.testing.assert_array_equal(after.vectors, wanted.vectors)


def test_changes_that_undo_each_other_are_none() -> None:
    snapshot = kr.Manifold.build(np.eye(4, dtype=np.float32), kr.methods.AQE(k=2), ids=list("abcd")).snapshot
    one = merge_changes([Change(vectors=row_of(1)[None], ids=["e"], version=1), Change(["e"], version=2)], 4, None)
    assert apply_change(snapshot, one) is snapshot


def test_numbers_taken_in_the_meantime_are_replaced() -> None:
    """The log contains 8 and 9, but the next number is 10: they become 10 and 11, and a removal of 9 removes 11."""
    changes = [Change(vectors=np.ones((2, 4), np.float32), version=1, first=8), Change([9, 3], version=2)]
    assert merge_changes(changes, 4, 10).removed == [11, 3]
    assert merge_changes(changes, 4, 8).removed == [9, 3]


def test_changes_of_another_gallery_are_refused() -> None:
    with pytest.raises(ValueError, match="do not have 5 columns"):
        merge_changes([Change(vectors=row_of(1)[None], ids=["a"], version=1)], 5, None)
    with pytest.raises(ValueError, match="have ids, but those of the gallery have numbers"):
        merge_changes([Change(vectors=row_of(1)[None], ids=["a"], version=1)], 4, 3)
