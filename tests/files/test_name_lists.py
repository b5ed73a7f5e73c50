"""Files of names and labels: whole lines, no blank ones, and the choice of the array in an .npz."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kinrank.files.text_columns import read_labels, read_names


@pytest.mark.parametrize(
    ("content", "line"), [("a\n\nb\n", 2), ("\na\n", 1), ("a\nb\n \nc", 3), ("a\n\n", 2), ("a\r\n\r\nb", 2)]
)
def test_a_blank_line_among_names_is_refused(content: str, line: int, tmp_path: Path) -> None:
    path = tmp_path / "names.txt"
    path.write_bytes(content.encode())
    with pytest.raises(ValueError, match=rf"names\.txt line {line} is blank"):
        read_names(path)


@pytest.mark.parametrize("content", ["a\u2028b\nc d\n", "\ufeffa\u2028b\r\nc d"])
def test_names_are_whole_lines(content: str, tmp_path: Path) -> None:
    path = tmp_path / "names.txt"
    path.write_bytes(content.encode())
    assert read_names(path) == ["a\u2028b", "c d"]


def test_labels_of_every_kind_of_file(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([1, 2]))
    np.savez(tmp_path / "x.npz", rows=np.zeros((2, 2)), label=np.array(["a", "b"]), other=np.arange(2))
    (tmp_path / "x.csv").write_text("label\na\nb\n")
    (tmp_path / "x.txt").write_text("1\n2\n")
    assert read_labels(tmp_path / "x.npy").tolist() == [1, 2]
    assert read_labels(tmp_path / "x.npz").tolist() == ["a", "b"]
    assert read_labels(tmp_path / "x.npz", "other").tolist() == [0, 1]
    assert read_labels(tmp_path / "x.csv").tolist() == ["a", "b"]
    assert read_labels(tmp_path / "x.txt").tolist() == ["1", "2"]


def test_files_without_labels_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", one=np.arange(2), two=np.arange(2))
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(ValueError, match=r"it contains one, two; choose one with FILE:KEY"):
        read_labels(tmp_path / "x.npz")
    with pytest.raises(ValueError, match="unknown ending"):
        read_labels(tmp_path / "x.json")
