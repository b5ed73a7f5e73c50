"""PendingIds refuses a change exactly if a Manifold would refuse it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import numpy as np
import pytest

import kinrank as kr
from kinrank.ids import PendingIds

NAMES: list[Any] = [
    ["a", "b"],
    ["new"],
    ["new", "new"],
    ["a", "new"],
    [""],
    [7],
    [-1],
    [2**63],
    [-7],
    [2**64],
    [1.5],
    [True],
    ["x", 3],
    [None],
    [UUID(int=5)],
    "text",
    [],
    None,
]
GALLERIES: dict[str, Any] = {"texts": list("abc"), "numbers": [7, 8, -3], "large": [2**63, 1, 2], "none": None}


def manifold_of(ids: Any, emptied: bool = False) -> kr.Manifold:
    made = kr.Manifold.build(np.eye(3, dtype=np.float32), kr.methods.AQE(k=2), ids=ids)
    if emptied:
        made.remove(made.ids)
    return made


def outcome(change: Any) -> bool:
    try:
        change()
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("emptied", [False, True])
@pytest.mark.parametrize("gallery", GALLERIES)
@pytest.mark.parametrize("names", NAMES, ids=repr)
def test_it_refuses_what_a_manifold_refuses(gallery: str, names: Any, emptied: bool) -> None:
    for replace in (False, True):
        manifold = manifold_of(GALLERIES[gallery], emptied)
        known = PendingIds(manifold.snapshot.names)
        rows = np.ones((1 if names is None or isinstance(names, str) else len(names), 3), np.float32)
        if not len(rows) and gallery == "none":
            continue  # no ids and no rows have no effect here
        change = manifold.upsert if replace and names is not None and gallery != "none" else manifold.add
        allowed = outcome(lambda: change(rows, names))  # noqa: B023
        before = set(known.names), known.following
        assert outcome(lambda: known.put(names, len(rows), replace)) == allowed  # noqa: B023
        assert known.names == set(manifold.ids.tolist())
        known.undo()
        assert (known.names, known.following) == before


@pytest.mark.parametrize("gallery", GALLERIES)
@pytest.mark.parametrize("names", [*NAMES, ["a", "a"], [0, 2], [8], "a", 8, np.array([7])], ids=repr)
def test_it_removes_what_a_manifold_removes(gallery: str, names: Any) -> None:
    manifold = manifold_of(GALLERIES[gallery])
    known = PendingIds(manifold.snapshot.names)
    allowed = outcome(lambda: manifold.remove(names))
    assert outcome(lambda: known.remove(names)) == allowed
    assert known.names == set(manifold.ids.tolist())
    known.undo()
    assert known.names == set(manifold_of(GALLERIES[gallery]).ids.tolist())


def test_numbers_continue_and_are_taken_back() -> None:
    known = PendingIds(manifold_of(None).snapshot.names)
    assert known.put(None, 2, False).first == 3
    known.settle()
    assert known.put(None, 2, False).first == 5
    known.remove([0, 5])
    known.undo()
    assert known.names == {0, 1, 2, 3, 4}
    assert known.put(None, 1, False).first == 5


@pytest.mark.parametrize("named", [True, False])
def test_the_first_items_say_whether_they_have_names(named: bool) -> None:
    empty = kr.Manifold.build(np.zeros((0, 3), np.float32), kr.methods.AQE(k=2))
    known = PendingIds(empty.snapshot.names)
    known.put(["a"] if named else None, 1, False)
    known.undo()
    known.put([5] if named else None, 1, False)
    with pytest.raises(ValueError, match="ids is missing" if named else "has item numbers.*leave it out"):
        known.put(None if named else ["a"], 1, False)
