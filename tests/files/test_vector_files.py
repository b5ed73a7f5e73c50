"""Paths of vector files."""

from __future__ import annotations

from pathlib import Path

from kinrank.files import vector_files


def test_a_key_after_a_file_name(tmp_path: Path) -> None:
    assert vector_files.split_key("a/set.npz:queries") == (Path("a/set.npz"), "queries")
    assert vector_files.split_key(Path("x.H5:group/rows")) == (Path("x.H5"), "group/rows")
    assert vector_files.split_key("C:/rows.npy") == (Path("C:/rows.npy"), None)
    odd = tmp_path / "odd.npz:name.npz"
    odd.write_bytes(b"")
    assert vector_files.split_key(odd) == (odd, None)
