"""Parquet: columns that are dimensions, the column with ids, and claims that are too large."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinrank import vector_input
from kinrank.errors import MemoryLimitError
from kinrank.files import vector_tables as reader

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.parquet"


def write(path: Path, **columns: Any) -> None:
    parquet.write_table(arrow.table(columns), path)


@pytest.mark.parametrize("name", ["id", "item_id", "label", "__index_level_0__"])
def test_a_column_of_ids_is_not_a_dimension(name: str, path: Path) -> None:
    write(path, **{name: [7, 8], "a": [1.0, 3.0], "b": [2.0, 4.0]})
    with pytest.raises(ValueError, match=f"column '{name}' looks like ids or labels.* give `id_column='{name}'"):
        vector_input.load(path)
    for column in (name, 0, "0"):
        rows, ids = vector_input.load_with_ids(path, id_column=column)
        np.testing.assert_array_equal(rows, [[1, 2], [3, 4]])
        assert ids == [7, 8]


def test_ids_with_vectors_and_other_columns(path: Path) -> None:
    write(path, name=["x", "y"], vector=[[1.0, 2.0], [3.0, 4.0]], price=[1, 2])
    rows, ids = vector_input.load_with_ids(path, id_column="name")
    np.testing.assert_array_equal(rows, [[1, 2], [3, 4]])
    assert ids == ["x", "y"]
    write(path, a=[1.0], name=["x"])
    assert vector_input.load(path).shape == (1, 1)  # text is not a dimension


@pytest.mark.parametrize(
    ("column", "message"),
    [("price", "ids are text or whole numbers"), ("gap", "1 empty entries"), ("absent", "no single column 'absent'")],
)
def test_invalid_id_columns(column: str, message: str, path: Path) -> None:
    write(path, vector=[[1.0], [2.0]], price=[0.5, 1.5], gap=["x", None])
    with pytest.raises(ValueError, match=message):
        vector_input.load(path, id_column=column)


def test_a_few_bytes_that_stand_for_many_numbers(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(path, a=np.zeros(10**6), b=np.zeros(10**6))
    assert path.stat().st_size < 10**5
    monkeypatch.setattr(reader, "default_limit_bytes", lambda: 10**6)
    with pytest.raises(MemoryLimitError, match=r"x\.parquet unpacks to 16 MB"):
        vector_input.load(path)
    write(path, a=[[0.0] * 1000] * 1000)
    with pytest.raises(MemoryLimitError, match=r"x\.parquet unpacks to 8.1"):
        vector_input.load(path)


def test_damage_that_would_end_the_process_is_not_read(path: Path) -> None:
    """A wrong count of levels at the number of values makes pyarrow abort."""
    write(path, v=np.arange(200.0).reshape(20, 10).tolist(), id=list(range(20)), name=[str(n) for n in range(20)])
    whole = path.read_bytes()
    for at in range(len(whole) - 900, len(whole) - 700):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x15]) + whole[at + 1 :])
        with contextlib.suppress(ValueError, MemoryLimitError):
            vector_input.load_with_ids(path, id_column="id")
