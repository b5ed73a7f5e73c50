"""csv and tsv: detection of the heading and of the id column, and refusal of unclear tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kinrank import vector_input


def written(folder: Path, text: str, name: str = "x.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


ROWS = [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    "text",
    [
        "1,2\n3,4\n",
        "a,b\n1,2\n3,4",
        '"1","2"\n"3","4"\n',
        '"a, b","say ""c"""\n"1",2\n3,"4"\n',
        '"a\nb",c\n1,2\n3,4\n',
        "\ufeffa,b\r\n1,2\r\n3,4\r\n",
        "\n 1 , 2\n\n3,4\n\n",
    ],
)
def test_tables_without_ids(text: str, tmp_path: Path) -> None:
    np.testing.assert_array_equal(vector_input.load(written(tmp_path, text)), ROWS)
    tabs = written(tmp_path, text.replace(",", "\t"), "x.tsv")
    np.testing.assert_array_equal(vector_input.load(tabs), ROWS)


@pytest.mark.parametrize(
    ("text", "column", "ids"),
    [
        ("id,a,b\n7,1,2\n8,3,4\n", "id", ["7", "8"]),
        ("a,b,id\n1,2,007\n3,4,8\n", "id", ["007", "8"]),
        ("a,name,b\n1,x,2\n3,y,4\n", 1, ["x", "y"]),
        ("x,1,2\ny,3,4\n", 0, ["x", "y"]),
        ("7,1,2\n8,3,4\n", "0", ["7", "8"]),
        (",a,b\n0,1,2\n1,3,4\n", 0, ["0", "1"]),  # as pandas writes its index
        ("id,0,1\nx,1,2\ny,3,4\n", "id", ["x", "y"]),  # and columns without names
        ('name,a,b\n"x, ""y""",1,2\nz,3,4\n', "name", ['x, "y"', "z"]),
    ],
)
def test_the_id_column_is_not_a_dimension(text: str, column: str | int, ids: list[str], tmp_path: Path) -> None:
    path = written(tmp_path, text)
    rows, names = vector_input.load_with_ids(path, id_column=column)
    np.testing.assert_array_equal(rows, ROWS)
    assert names == ids
    np.testing.assert_array_equal(vector_input.load(path, id_column=column), ROWS)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("1,,3\n4,5,6\n", None, r"x\.csv line 1: column 1 \(counted from 0\) is empty; fill the cell"),
        ("a,b\n1,2\n3,\n", None, r"line 3: column 'b' is empty"),
        ("a,b\n1,2\n\n3,four\n", None, r"line 4: column 'b' contains 'four', which is not a number; .*id_column='b'"),
        ("x,1,2\ny,3,4\n", None, r"line 1: column 0 \(counted from 0\) contains 'x'.* give `id_column=0`"),
        ("1,2\n3\n", None, "line 2 has 1 cells, but the lines before have 2"),
        (
            "id,a,b\n1,2,3\n",
            None,
            "column 'id' looks like ids or labels.* give `id_column='id'`, otherwise drop or rename",
        ),
        (",a,b\n0,1,2\n", None, "column '' looks like ids .* give `id_column=0"),
        (",0,1\n0,1.5,2\n", None, "line 1: column 0 .* is empty"),
        ("0,1,2\n0.5,0.1,0.2\n", None, "seems to number the columns; delete it"),
        ("id,label,a\n1,2,3\n", "id", "column 'label' looks like ids .* only one column can be the id column"),
        ("x,1,2\n,3,4\n", 0, "line 2: column 0 .* is empty"),
        ("x,1,y\n", 0, "line 1: column 2 .* contains 'y'.* only one column can be the id column"),
        ("a,b\n1,2\n", "c", r"no single column 'c'; give `id_column` as the name, .* its 2 columns: 'a', 'b'"),
        ("a,b\n1,2\n", 2, "no single column 2"),
        ("a,b\n1,2\n", -1, "no single column -1"),
        ("id,id,a\n1,2,3\n", "id", "no single column 'id'"),
        ("id\nx\n", "id", "has ids but no column of numbers"),
        ("a,b\n", None, "contains no row of numbers"),
        ("\n \n", None, "contains no row of numbers"),
        ("1;2\n3;4\n", None, "contains '3;4', which is not a number; separate cells by commas"),
        ('1,"2\n3,4\n', None, r"x\.csv"),
        ("1,2\n3,4\0\n", None, r"x\.csv"),
    ],
)
def test_unclear_tables_are_refused(text: str, column: str | int | None, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        vector_input.load(written(tmp_path, text), id_column=column)


@pytest.mark.parametrize("name", ["id", "ID", "item_id", "itemId", "Index", "label", "class", "docno", "Unnamed: 0"])
def test_names_that_say_id(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"column '{name}' looks like ids or labels"):
        vector_input.load(written(tmp_path, f"{name},a\n1,2\n"))


@pytest.mark.parametrize("name", ["x", "valid", "grid", "width", "f0", "dim_1"])
def test_names_of_dimensions(name: str, tmp_path: Path) -> None:
    assert vector_input.load(written(tmp_path, f"{name},a\n1,2\n")).shape == (1, 2)


def test_whole_numbers_that_count_are_a_vector(tmp_path: Path) -> None:
    assert vector_input.load(written(tmp_path, "0,1,2\n3,4,5\n")).shape == (2, 3)


def test_other_files_have_no_id_column(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"`id_column=id` is for \.csv \| \.tsv \| \.parquet; give the ids separately"):
        vector_input.load(tmp_path / "x.npy", id_column="id")
    assert vector_input.load_with_ids(tmp_path / "x.npy")[1] is None
