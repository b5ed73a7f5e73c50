"""What is opened ends and fits: devices, pipes and folders are refused at once, and so is too much."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from kinrank import Truth, features
from kinrank.files import closed_pickle, opening
from kinrank.files.opening import fits, piped, regular
from kinrank.files.rankings import load_ranking
from kinrank.memory import NotEnoughMemory


def odd_places(folder: Path) -> dict[str, Path]:
    os.mkfifo(folder / "pipe.csv")  # nobody writes to it
    (folder / "folder.npy").mkdir()
    (folder / "zero.npz").symlink_to("/dev/zero")
    return {"a pipe": folder / "pipe.csv", "a folder": folder / "folder.npy", "a device": folder / "zero.npz"}


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    for what, path in odd_places(tmp_path).items():
        for reader in (regular, features.load, closed_pickle.load, load_ranking, Truth.from_qrels):
            with pytest.raises(ValueError, match=f"is {what} and not a file"):
                reader(path)
    for name in ("absent.npy", "x" * 5000, "a\0b"):
        with pytest.raises(FileNotFoundError, match="check the path"):
            regular(tmp_path / name)


def test_what_does_not_fit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "allowed_bytes", lambda: 10**6)
    fits("x.npz", 10**6)
    with pytest.raises(NotEnoughMemory, match=r"x\.npz unpacks to 2 MB but only 1 MB are free"):
        fits("x.npz", 2 * 10**6)


class Endless(io.RawIOBase):
    def __init__(self, piece: bytes) -> None:
        self.piece, self.count = piece, 0

    def read(self, size: int = -1) -> bytes:
        self.count += 1
        return self.piece * (size // len(self.piece))


def test_a_pipe_that_never_ends_is_left_early(monkeypatch: pytest.MonkeyPatch) -> None:
    zeros = Endless(b"\0")
    with pytest.raises(ValueError, match=r"neither a \.npy file nor text"):
        piped(zeros)
    assert zeros.count == 1
    monkeypatch.setattr(opening, "allowed_bytes", lambda: 16 * 2**20)
    for piece in (b"1,2\n", opening.NPY):
        stream = Endless(piece)
        with pytest.raises(NotEnoughMemory, match="standard input has more than"):
            piped(stream)
        assert stream.count <= 5
    assert piped(io.BytesIO(b"")) == b""
