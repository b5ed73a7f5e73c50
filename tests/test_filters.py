"""Parsing of ids and filters loses nothing: masks, digits of ids, ends of texts."""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np
import pytest

from kinrank.filters import looks_like_mask, parse_marks, parse_mask
from kinrank.ids import count_id_bytes, parse_ids, to_list

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
    found = parse_ids(ids)
    assert found.dtype == dtype
    assert found.tolist() == [entry.item() if isinstance(entry, np.generic) else entry for entry in ids]


def test_uuids_become_their_text() -> None:
    ids = [uuid.uuid4() for _ in range(3)]
    assert parse_ids(ids).tolist() == [str(entry) for entry in ids]
    assert parse_ids(np.array(ids, object)).tolist() == [str(entry) for entry in ids]


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
        (["a", "b", "a"], "'a' occurs twice, the second time at 2"),
        ([7, 7], "7 occurs twice"),
        (["a", "\ud800"], "UTF-8"),
        (np.ma.array([1, 2], mask=[False, True]), "1 masked"),
        ({"a", "b"}, "a set, which has no order; give a list"),
        (frozenset([1, 2]), "a set, which has no order"),
    ],
)
def test_ids_that_are_none_are_refused(ids: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_ids(ids)


def test_size_counts_every_text() -> None:
    assert count_id_bytes(parse_ids(range(1000))) == 8000
    assert 20_000 < count_id_bytes(parse_ids(["x" * 20_000, "y"])) < 21_000


class Column:
    """An object that numpy can read, like a column of a data frame."""

    def __init__(self, entries: Any) -> None:
        self.entries = entries

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.entries, dtype)

    def __iter__(self) -> Any:
        return iter(self.entries)


def numbers(entries: Any, parameter: str) -> Any:
    return np.array(to_list(entries, parameter), np.int64)


FORMS: dict[str, Any] = {
    "list": list,
    "tuple": tuple,
    "generator": iter,
    "int64": lambda entries: np.array(entries, np.int64),
    "uint8": lambda entries: np.array(entries, np.uint8),
    "float": lambda entries: np.array(entries, float),
    "objects": lambda entries: np.array(entries, object),
    "numpy numbers": lambda entries: [np.int32(entry) for entry in entries],
    "floats": lambda entries: [float(entry) for entry in entries],
    "column": Column,
    "column of numbers": lambda entries: Column(np.array(entries)),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize(
    "entries", [[1, 0] * 200, [1] * 400, [0] * 400, [0, 1, 1], [0, 1], [1, 0], [1, 1], [0, 0], [0], [1]], ids=str
)
def test_a_mask_of_numbers_is_refused(form: Any, entries: list[int]) -> None:
    with pytest.raises(ValueError, match=r"where looks like a mask of 0 and 1.*give True and False"):
        parse_mask(form(entries), len(entries), numbers)


@pytest.mark.parametrize(
    "form",
    [
        list,
        np.array,
        lambda entries: [np.bool_(entry) for entry in entries],
        lambda entries: np.array(entries, object),
        lambda entries: Column(np.array(entries)),
        lambda entries: Column(np.array(entries, object)),
    ],
)
@pytest.mark.parametrize("entries", [[True], [True, False], [False, True, True], [True, False] * 200], ids=len)
def test_a_mask_of_booleans_is_a_mask(form: Any, entries: list[bool]) -> None:
    assert parse_mask(form(entries), len(entries), numbers).tolist() == entries


@pytest.mark.parametrize(
    ("where", "count", "expected"),
    [
        ([0, 1], 3, [True, True, False]),
        ([1, 0], 3, [True, True, False]),
        ([0, 1, 2], 3, [True, True, True]),
        (np.array([0]), 2, [True, False]),
        (0, 1, [True]),  # a single number is not a mask
        (np.int64(0), 1, [True]),
        ({0}, 1, [True]),  # nor is a set, which has no order
        ({0, 1}, 2, [True, True]),
        (frozenset([0, 1]), 2, [True, True]),
    ],
)
def test_ids_0_and_1_stay_ids(where: Any, count: int, expected: list[bool]) -> None:
    assert parse_mask(where, count, numbers).tolist() == expected


def test_texts_0_and_1_look_like_a_mask_only_if_one_stands_there_twice() -> None:
    assert looks_like_mask(["0", "1", "1"], 3)
    assert not looks_like_mask(["0", "1"], 2)
    assert not looks_like_mask(["0", "1"], 3)
    assert not looks_like_mask([], 0)


@pytest.mark.parametrize("parameter", ["positives", "negatives"])
def test_marks_have_no_mask_form(parameter: str) -> None:
    def marked(entries: Any, queries: int, items: int) -> Any:
        both = {"positives": None, "negatives": None, parameter: entries}
        return parse_marks(**both, count=queries, places=numbers, items=lambda: items)

    for entries, queries in (([1, 0, 1], 1), (np.ones(3, int), 1), ([[2], [1, 0, 1]], 2)):
        with pytest.raises(ValueError, match=rf"{parameter} looks like a mask of 0 and 1.*give the ids"):
            marked(entries, queries, 3)
    for entries, items in (([1, 0, 1], 4), ([0, 1], 2), ([0], 1), ([0, 1, 2], 3)):
        assert sorted(np.concatenate(marked(entries, 1, items)[0]).tolist()) == sorted(set(entries))
