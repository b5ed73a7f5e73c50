"""npy and npz: headers that claim too much, archives that unpack to too much."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest

from kinrank import vector_input
from kinrank.errors import MemoryLimitError
from kinrank.files import path_checks
from kinrank.files.numpy_files import parse_npy
from kinrank.files.text_columns import read_labels


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


@pytest.mark.parametrize("order", ["C", "F"])
def test_an_array_comes_back_from_its_bytes(order: str) -> None:
    rows = np.array(np.arange(12).reshape(3, 4), order=order)
    np.testing.assert_array_equal(parse_npy(npy(rows), "x"), rows)
    with pytest.raises(ValueError, match="x is truncated: it is shorter than its header claims"):
        parse_npy(npy(rows)[:-1], "x")
    with pytest.raises(ValueError, match="Python objects, which are never loaded"):
        parse_npy(npy(np.array([[None]])), "x")


def test_an_archive_that_unpacks_to_too_much_is_refused_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand times its own size: 40 MB of zeros, as rows and as labels."""
    path = tmp_path / "x.npz"
    np.savez_compressed(path, x=np.zeros((10**5, 50)), label=np.zeros(10**6))
    assert path.stat().st_size < 10**5
    monkeypatch.setattr(path_checks, "default_limit_bytes", lambda: 10**6)
    for reader in (vector_input.load, read_labels):
        with pytest.raises(MemoryLimitError, match=r"x\.npz unpacks to .* MB, but only 1 MB are free"):
            reader(path)


@pytest.mark.parametrize(
    "shape", ["(1000000000000, 4)", "(-1, 4)", "(2, 4, 1e9)", "(" * 500, "(9999999999999999999, 9)"]
)
def test_a_header_that_claims_too_much_is_refused(shape: str, tmp_path: Path) -> None:
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    claimed = path_checks.NPY_MAGIC + b"\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(64)
    (tmp_path / "x.npy").write_bytes(claimed)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", claimed)
    for name in ("x.npy", "x.npz"):
        with pytest.raises(ValueError, match=name):
            vector_input.load(tmp_path / name)
    with pytest.raises(ValueError):
        parse_npy(claimed, "x")


def test_a_member_without_the_ending_is_not_read_in_place_of_the_one_with_it(tmp_path: Path) -> None:
    """Only headers of members that end in .npy are checked, so only these may be read."""
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x", npy(np.full((9, 9), 9.0)))
        archive.writestr("x.npy", npy(np.ones((2, 3))))
    assert vector_input.load(tmp_path / "x.npz").tolist() == [[1, 1, 1], [1, 1, 1]]
