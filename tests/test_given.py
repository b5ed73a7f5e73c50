"""What users give loses nothing: masks, digits of ids, ends of texts."""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np
import pytest

from kinrank import given

BIG = 2**63 + 5


@pytest.mark.parametrize(
    ("ids", "dtype"),
    [
        ([3, 1, 2], np.int64),
        (range(3), np.int64),
        (np.array([3, 1, 2], np.uint8), np.int64),
        (np.array([3, 1, 2], object), np.int64),
        ([np.int32(3), 1, np.uint64(2)], np.int64),
        ([BIG, 1], np.uint64),
        (np.array([BIG, 2**64 - 1], np.uint64), np.uint64),
        (np.array([BIG, 2**64 - 1], object), np.uint64),
        (["b", "a", "ab" * 10_000], object),
        (np.array(["b", "a"]), object),
        (np.array(["b", "a"], object), object),
        (["a", "a\0", "\0", "a\0b"], object),
    ],
)
def test_ids_stay_what_they_are(ids: Any, dtype: Any) -> None:
    found = given.names(ids)
    assert found.dtype == dtype
    assert found.tolist() == [entry.item() if isinstance(entry, np.generic) else entry for entry in ids]


def test_uuids_become_their_text() -> None:
    ids = [uuid.uuid4() for _ in range(3)]
    assert given.names(ids).tolist() == [str(entry) for entry in ids]
    assert given.names(np.array(ids, object)).tolist() == [str(entry) for entry in ids]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([1, "a"], r"mixes whole numbers and texts \(1 and 'a'\)"),
        (np.array([1, "a"], object), "mixes whole numbers and texts"),
        ([uuid.UUID(int=1), 7], "mixes"),
        ([True, False], "at 0 is True, a bool"),
        ([1, True], "at 1 is True, a bool"),
        (np.array([True, False]), "a bool"),
        ([1.0, 2.0], "a float"),
        (np.array([1.0, np.nan]), "a float"),
        (["a", None], "at 1 is None"),
        ([b"a"], "a bytes"),
        ("abc", "got 'abc'"),
        (7, "got 7"),
        ([["a"]], "a list"),
        (np.array([["a"]]), r"shape \(1, 1\)"),
        ([-1, BIG], "that do not fit in 64 bits"),
        ([2**64], "that do not fit in 64 bits"),
        ([10**5000], "that do not fit in 64 bits"),
        ([5, -1], "-1 at 1, which stands for no item"),
        (["a", ""], "'' at 1, which stands for no item"),
        (["a", "b", "a"], "'a' stands there twice, the second time at 2"),
        ([7, 7], "7 stands there twice"),
        (["a", "\ud800"], "UTF-8"),
        (np.ma.array([1, 2], mask=[False, True]), "1 masked"),
        ({"a", "b"}, "a set, which has no order; give a list"),
        (frozenset([1, 2]), "a set, which has no order"),
    ],
)
def test_ids_that_are_none_are_refused(ids: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        given.names(ids)


def test_size_counts_every_text() -> None:
    assert given.size_of(given.names(range(1000))) == 8000
    assert 20_000 < given.size_of(given.names(["x" * 20_000, "y"])) < 21_000
