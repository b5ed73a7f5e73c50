"""Array files: exactly as many numbers as there are bytes, whatever the header claims; and only regular files."""

from __future__ import annotations

import io
import os
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinrank.manifold.folder_reader import open_array
from kinrank.manifold.saved_folder import refuse_special_file


def written(path: Path, header: dict[str, Any], data: bytes = b"") -> dict[str, Any]:
    """Write a file with any header; return its manifest entry."""
    with path.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        file.write(data)
    return {"dtype": header["descr"], "shape": list(header["shape"])}


def header_of(*shape: int, kind: str = "<f4", columns_first: bool = False) -> dict[str, Any]:
    return {"descr": kind, "fortran_order": columns_first, "shape": shape}


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("shape", [(2, 3), (6,), (0, 3), (0,)])
def test_round_trip(tmp_path: Path, shape: tuple[int, ...], mmap: bool) -> None:
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    np.save(tmp_path / "a.npy", array)
    got = open_array(tmp_path / "a.npy", {"dtype": "<f4", "shape": list(shape)}, mmap)
    np.testing.assert_array_equal(got, array)
    assert got.flags.writeable
    assert type(got) is np.ndarray


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("rows", [10**12, 2**62, 2**63, 10**30, 7])
def test_a_header_that_claims_too_much_allocates_nothing(tmp_path: Path, rows: int, mmap: bool) -> None:
    path = tmp_path / "a.npy"
    entry = written(path, header_of(rows, 4), bytes(96))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=f"a.npy is not an array: its header claims {rows * 16} bytes of numbers"):
            open_array(path, entry, mmap)
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "header",
    [
        header_of(-2, -3),
        header_of(2, 3, columns_first=True),
        header_of(3, kind="|O"),
        header_of(2, 2, kind="<f8"),
        header_of(1, kind=", <f8"),  # numpy reports it as invalid Python
    ],
)
def test_arrays_that_kinrank_does_not_write_are_refused(tmp_path: Path, header: dict[str, Any]) -> None:
    entry = written(tmp_path / "a.npy", header, bytes(24))
    with pytest.raises(ValueError, match=r"a.npy is not an array"):
        open_array(tmp_path / "a.npy", entry, mmap=True)


def test_unaligned_numbers_are_refused(tmp_path: Path) -> None:
    """Kernels are compiled for aligned numbers."""
    file = io.BytesIO()
    np.save(file, np.zeros((2, 3), np.float32))
    content = file.getvalue()
    size = int.from_bytes(content[8:10], "little")
    odd = content[:8] + (size + 1).to_bytes(2, "little") + content[10 : 10 + size - 1] + b" \n" + content[10 + size :]
    (tmp_path / "a.npy").write_bytes(odd)
    assert np.load(tmp_path / "a.npy").shape == (2, 3)
    with pytest.raises(ValueError, match="layout differs from the one that kinrank writes"):
        open_array(tmp_path / "a.npy", {"dtype": "<f4", "shape": [2, 3]}, mmap=True)


@pytest.mark.parametrize(
    "content", [b"", b"\x93NUMPY", b"\x93NUMPY\x02\x00", b"PK\x03\x04", b"\x93NUMPY\x01\x00\xff\xff{"]
)
def test_other_files_are_not_arrays(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(ValueError, match=r"a.npy is not an array"):
        open_array(tmp_path / "a.npy", {"dtype": "<f4", "shape": [2]}, mmap=False)


def test_another_array_than_the_manifest_says_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros(3, np.float32))
    for entry in ({"dtype": "<f4", "shape": [4]}, {"dtype": "<f8", "shape": [3]}, {"dtype": "<f4", "shape": [3, 1]}):
        with pytest.raises(ValueError, match="which differs from the manifest"):
            open_array(tmp_path / "a.npy", entry, mmap=True)


def test_pipes_devices_and_folders_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "device", "folder"):
        with pytest.raises(ValueError, match=f"{name} is not a file"):
            refuse_special_file(tmp_path / name)
    refuse_special_file(tmp_path / "missing")  # the reader reports it
