"""Devices, pipes, folders and too large inputs are refused at once."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from kinrank import Truth, vector_input
from kinrank.errors import MemoryLimitError
from kinrank.files import path_checks, safe_pickle
from kinrank.files.path_checks import check_fits_memory, check_regular_file, read_pipe
from kinrank.ranking import Ranking


def odd_places(folder: Path) -> dict[str, Path]:
    os.mkfifo(folder / "pipe.csv")  # without a writer
    (folder / "folder.npy").mkdir()
    (folder / "zero.npz").symlink_to("/dev/zero")
    return {"a pipe": folder / "pipe.csv", "a folder": folder / "folder.npy", "a device": folder / "zero.npz"}


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    for what, path in odd_places(tmp_path).items():
        for reader in (check_regular_file, vector_input.load, safe_pickle.load, Ranking.load, Truth.from_qrels):
            with pytest.raises(ValueError, match=f"is {what}, but only regular files are read"):
                reader(path)
    for name in ("absent.npy", "x" * 5000, "a\0b"):
        with pytest.raises(FileNotFoundError, match="check the path"):
            check_regular_file(tmp_path / name)


def test_misfits_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_checks, "default_limit_bytes", lambda: 10**6)
    check_fits_memory("x.npz", 10**6)
    with pytest.raises(MemoryLimitError, match=r"x\.npz unpacks to 2 MB, but only 1 MB are free"):
        check_fits_memory("x.npz", 2 * 10**6)


class Endless(io.RawIOBase):
    def __init__(self, piece: bytes) -> None:
        self.piece, self.count = piece, 0

    def read(self, size: int = -1) -> bytes:
        self.count += 1
        return self.piece * (size // len(self.piece))


def test_a_pipe_that_never_ends_is_left_early(monkeypatch: pytest.MonkeyPatch) -> None:
    zeros = Endless(b"\0")
    with pytest.raises(ValueError, match=r"neither a \.npy file nor text"):
        read_pipe(zeros)
    assert zeros.count == 1
    monkeypatch.setattr(path_checks, "default_limit_bytes", lambda: 16 * 2**20)
    for piece in (b"1,2\n", path_checks.NPY_MAGIC):
        stream = Endless(piece)
        with pytest.raises(MemoryLimitError, match="standard input is larger than"):
            read_pipe(stream)
        assert stream.count <= 5
    assert read_pipe(io.BytesIO(b"")) == b""
