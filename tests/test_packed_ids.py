"""Ids as arrays without objects can be restored, and other arrays are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given as examples
from hypothesis import settings
from hypothesis import strategies as st

from kinrank.ids import pack_ids, parse_ids, unpack_ids

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@settings(max_examples=50, deadline=None)
@examples(st.lists(TEXT, unique=True) | st.lists(st.integers(0, 2**64 - 1), unique=True))
def test_ids_come_back(ids: list[Any]) -> None:
    arrays = pack_ids(parse_ids(ids), "ids")
    assert all(array.dtype.kind in "iu" for array in arrays.values())
    found = unpack_ids(arrays, "ids")
    assert found is not None
    assert found.tolist() == ids


def test_empty_texts_and_missing_ids() -> None:
    none = unpack_ids(pack_ids(np.empty(0, object), "ids"), "ids")
    assert none is not None
    assert none.dtype == object
    assert unpack_ids({}, "ids") is None


def test_one_long_text_costs_only_itself() -> None:
    arrays = pack_ids(parse_ids(["x" * 20_000, *(f"item {i}" for i in range(20_000))]), "ids")
    assert sum(array.nbytes for array in arrays.values()) < 500_000


GOOD = pack_ids(parse_ids(["one", "two"]), "ids")


@pytest.mark.parametrize(
    "changed",
    [
        {"ids_starts": np.array([0, 3], np.int64)},
        {"ids_starts": np.array([0, 5, 3, 6], np.int64)},
        {"ids_starts": np.array([1, 3, 6], np.int64)},
        {"ids_starts": np.array([0, 2**60, 6], np.int64)},
        {"ids_starts": np.array([], np.int64)},
        {"ids_starts": np.array([0.0, 3.0, 6.0])},
        {"ids_starts": np.array([0, 3, 3, 6], np.int64)},
        {"ids_text": np.frombuffer(b"oneone", np.uint8)},
        {"ids_text": np.frombuffer(b"on\xff\xfewo", np.uint8)},
        {"ids_text": np.zeros((2, 3), np.uint8)},
        {"ids_text": None},
        {"ids": np.array([1, 2])},
    ],
)
def test_other_arrays_are_refused(changed: dict[str, Any]) -> None:
    arrays = {name: array for name, array in (GOOD | changed).items() if array is not None}
    with pytest.raises(ValueError, match=r"ids|utf-8"):
        unpack_ids(arrays, "ids")
    for numbers in (np.array([1.0]), np.array([[1]]), np.array([4, 4]), np.array(["a"])):
        with pytest.raises(ValueError, match="ids"):
            unpack_ids({"ids": numbers}, "ids")
