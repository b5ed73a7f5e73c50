"""Matlab files: files that scipy writes are read, damaged ones are refused, nothing crashes."""

from __future__ import annotations

import contextlib
import random
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

from kinrank import vector_input
from kinrank.errors import MemoryLimitError
from kinrank.files import path_checks

scipy_io = pytest.importorskip("scipy.io")
KINDS = ["f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"]


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_files_of_scipy_are_read(kind: str, compressed: bool, tmp_path: Path) -> None:
    rows = np.arange(12).reshape(3, 4).astype(kind)
    others = {"name": "text", "cell": np.array([1, "a"], object), "z": np.ones((2, 2)) * 1j, "s": {"a": 1.0}}
    scipy_io.savemat(tmp_path / "x.mat", {**others, "long_name": rows}, do_compression=compressed)
    found = vector_input.load(tmp_path / "x.mat")
    assert found.dtype == kind
    np.testing.assert_array_equal(found, rows)
    np.testing.assert_array_equal(vector_input.load(tmp_path / "x.mat", key="long_name"), rows)


def test_several_matrices_need_a_key(tmp_path: Path) -> None:
    scipy_io.savemat(tmp_path / "x.mat", {"q": np.ones((2, 3)), "d": np.ones((4, 3))})
    with pytest.raises(ValueError, match=r"choose one with FILE:KEY: q \(2, 3\), d \(4, 3\)"):
        vector_input.load(tmp_path / "x.mat")
    assert vector_input.load(tmp_path / "x.mat", key="d").shape == (4, 3)


def test_numbers_of_the_other_byte_order_and_in_fewer_bytes(tmp_path: Path) -> None:
    """As Matlab stores whole numbers in a matrix of doubles, on a big-endian machine."""
    numbers = struct.pack(">II6B2x", 2, 6, *range(6))
    body = struct.pack(">IIII", 6, 8, 6, 0) + struct.pack(">IIii", 5, 8, 2, 3) + b"\x00\x01\x00\x01x\0\0\0" + numbers
    whole = b"MATLAB".ljust(124) + b"\x01\x00MI" + struct.pack(">II", 14, len(body)) + body
    (tmp_path / "x.mat").write_bytes(whole)
    np.testing.assert_array_equal(vector_input.load(tmp_path / "x.mat"), [[0, 2, 4], [1, 3, 5]])


@pytest.mark.parametrize("compressed", [False, True])
def test_damage_never_crashes(compressed: bool, tmp_path: Path) -> None:
    path, draw = tmp_path / "x.mat", random.Random(0)
    scipy_io.savemat(path, {"x": np.arange(200.0).reshape(20, 10)}, do_compression=compressed)
    whole = path.read_bytes()
    for _ in range(600):
        content = bytearray(whole)
        for _ in range(draw.choice([1, 2, 8])):
            at = draw.randrange(100, min(len(content), 260))
            content[at : at + draw.choice([0, 1, 4])] = draw.choice([b"\xff\xff\xff\x7f", draw.randbytes(1), b""])
        path.write_bytes(content)
        with contextlib.suppress(ValueError, MemoryLimitError):
            assert vector_input.load(path).ndim == 2


def test_a_compressed_matrix_that_unpacks_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.mat"
    scipy_io.savemat(path, {"x": np.zeros((1000, 1000))}, do_compression=True)
    assert path.stat().st_size < 10**5
    monkeypatch.setattr(path_checks, "default_limit_bytes", lambda: 10**6)
    with pytest.raises(MemoryLimitError, match=r"x\.mat unpacks to 8 MB"):
        vector_input.load(path)
    small = struct.pack("<IIII", 6, 8, 6, 0) + struct.pack("<IIii", 5, 8, 1, 1) + struct.pack("<I4s", 0x00010001, b"x")
    bomb = zlib.compress(struct.pack("<II", 14, 2**31) + small + struct.pack("<II", 9, 2**31 - 99) + bytes(10**8))
    path.write_bytes(path.read_bytes()[:128] + struct.pack("<II", 15, len(bomb)) + bomb)
    with pytest.raises(ValueError, match="longer than the rest"):
        vector_input.load(path)
