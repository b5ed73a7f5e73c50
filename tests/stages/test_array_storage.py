"""Checks of arrays from files: correct arrays pass, and every wrong number is reported with the name of its array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kinrank.stages import array_storage
from kinrank.stages.array_storage import BadArrayError
from kinrank.stages.csr import Rows


def rows_of(*lists: list[int], values: list[float] | None = None) -> Rows:
    indptr = np.cumsum([0, *map(len, lists)])
    indices = np.array([item for items in lists for item in items], np.int32)
    data = np.ones(len(indices)) if values is None else np.array(values)
    return Rows(indptr.astype(np.int64), indices, data.astype(np.float32))


def test_an_error_knows_its_array() -> None:
    with pytest.raises(BadArrayError, match=r"^lengths is missing$") as caught:
        array_storage.require_array({}, "lengths", np.float32, (3,))
    assert caught.value.name == "lengths"
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("wrong", [np.nan, -0.1, 2.1, np.inf, -np.inf])
def test_numbers_out_of_range(wrong: float) -> None:
    values = np.array([[0.0, 2.0], [wrong, 1.0]], np.float32)
    with pytest.raises(BadArrayError, match=f"^x must hold numbers from 0 to 2; it holds {wrong:g}$"):
        array_storage.check_range("x", values, 0.0, 2.0)
    array_storage.check_range("x", values[:1], 0.0, 2.0)
    array_storage.check_range("x", values[:0], 0.0, 2.0)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_numbers_that_are_not_finite(wrong: float, kind: Any) -> None:
    most = np.finfo(kind).max
    array_storage.check_finite("x", np.array([-most, 0.0, most], kind))
    with pytest.raises(BadArrayError, match=f"it holds {wrong}"):
        array_storage.check_finite("x", np.array([0.0, wrong], kind))


def test_infinity_is_allowed_where_there_is_no_upper_end() -> None:
    array_storage.check_range("x", np.array([0.0, np.inf]), 0.0)
    with pytest.raises(BadArrayError, match="of 0 and above; it holds nan"):
        array_storage.check_range("x", np.array([np.inf, np.nan]), 0.0)


@pytest.mark.parametrize("value", [0.0, np.nan, np.inf, 3e38, 0.9])
def test_rows_that_are_not_of_length_one(value: float) -> None:
    rows = np.eye(array_storage.ROWS_PER_BLOCK + 10, 4, dtype=np.float32)
    rows[4:] = [0.6, 0.8, 0, 0]
    array_storage.check_unit("vectors", rows)
    rows[array_storage.ROWS_PER_BLOCK + 7] = [value, 0, 0, 0]
    with pytest.raises(
        BadArrayError, match=f"vectors must hold rows of length 1; that of row {array_storage.ROWS_PER_BLOCK + 7} is"
    ):
        array_storage.check_unit("vectors", rows)


def test_rows_without_columns_have_no_length() -> None:
    with pytest.raises(BadArrayError, match="length 1"):
        array_storage.check_unit("vectors", np.empty((2, 0), np.float32))
    array_storage.check_unit("vectors", np.empty((0, 4), np.float32))


@pytest.mark.parametrize("lists", [[[1, 2], [0, 2], [1]], [[], [0, 5], []], [[], []], [[3], [1], [0]]])
def test_rows_that_ascend(lists: list[list[int]]) -> None:
    array_storage.check_ascending("x", rows_of(*lists))


@pytest.mark.parametrize("lists", [[[2, 1]], [[1], [], [0, 3, 3]], [[1, 2], [2, 0], []]])
def test_rows_that_do_not_ascend(lists: list[list[int]]) -> None:
    with pytest.raises(BadArrayError, match=r"^x_indices must ascend in every row"):
        array_storage.check_ascending("x", rows_of(*lists))


def test_lists_that_name_an_item_twice() -> None:
    array_storage.check_distinct("x", np.array([[0, 2, -1, -1], [1, 0, 2, -1]]))
    with pytest.raises(BadArrayError, match="x must not repeat an item within a row"):
        array_storage.check_distinct("x", np.array([[0, 2, 1], [1, 0, 1]]))


def test_distributions() -> None:
    array_storage.check_distributions("p", rows_of([1, 2], [0], values=[0.25, 0.75, 1.0]), 2)
    array_storage.check_distributions("p", rows_of(), 2)
    with pytest.raises(BadArrayError, match=r"p_data must sum to 1 in every row; row 1 sums to 0\.5"):
        array_storage.check_distributions("p", rows_of([1, 2], [0], values=[0.25, 0.75, 0.5]), 2)
    with pytest.raises(BadArrayError, match="p_indptr must give every row 1 to 2 entries"):
        array_storage.check_distributions("p", rows_of([1, 2], [], values=[0.25, 0.75]), 2)
    with pytest.raises(BadArrayError, match="p_indptr must give every row 1 to 1 entries"):
        array_storage.check_distributions("p", rows_of([1, 2], values=[0.25, 0.75]), 1)


@pytest.mark.parametrize(
    ("indptr", "message"),
    [
        ([0, 2, 1, 3], "x_indptr does not fit"),
        ([1, 1, 2, 3], "x_indptr does not fit"),
        ([0, 1, 2, 4], "x_indptr does not fit"),
        ([0, -(2**63), 2**63 - 1, 3], "x_indptr does not fit"),  # their differences would overflow
    ],
)
def test_row_pointers_that_lead_elsewhere(indptr: list[int], message: str) -> None:
    arrays = {"x_indptr": np.array(indptr), "x_indices": np.zeros(3, np.int32), "x_data": np.zeros(3, np.float32)}
    with pytest.raises(BadArrayError, match=message):
        array_storage.require_rows(arrays, "x", 3)
    assert array_storage.require_rows(arrays | {"x_indptr": np.array([0, 1, 1, 3])}, "x", 3).data.shape == (3,)
