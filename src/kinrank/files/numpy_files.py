"""Readers of npy and npz files, which check the claims of headers before anything is allocated."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import UnreadableFileError
from kinrank.files.path_checks import check_fits_memory

Array = NDArray[Any]
Shapes = Mapping[str, tuple[int, ...]]


class ArrayHeader(NamedTuple):
    """Header of an array in a file."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        """Size of the array in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize


def choose_array(path: Path, key: str | None, shapes: Shapes) -> str:
    """Return the name of the array to read: the key, or the only 2-d array."""
    listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "nothing"
    if key is not None:
        if key in shapes:
            return key
        raise UnreadableFileError(f"{path} has no array {key!r}; it contains {listed}")
    flat = [name for name, shape in shapes.items() if len(shape) == 2]
    if len(flat) == 1:
        return flat[0]
    count = "several 2-d arrays" if flat else "no 2-d array of numbers"
    raise UnreadableFileError(f"{path} contains {count}", remedy=f"choose one with FILE:KEY: {listed}")


def read_npy(path: Path, mmap: bool = False) -> Array:
    """Read the array of a .npy file; memory-map it if `mmap` is True."""
    with path.open("rb") as file:
        _refuse_objects(path, _read_header(path, file))
    array: Array = np.lib.format.open_memmap(path, mode="r")  # also refuses a file shorter than its header claims
    return array if mmap else np.array(array)


def parse_npy(content: bytes, name: str) -> Array:
    """Return the array in the bytes of a .npy file without copying them."""
    file = io.BytesIO(content)
    header = _refuse_objects(name, _read_header(name, file))
    if header.size > len(content) - file.tell():
        raise UnreadableFileError(f"{name} is truncated: it is shorter than its header claims")
    flat = np.frombuffer(content, header.dtype, math.prod(header.shape), file.tell())
    return flat.reshape(header.shape, order="F" if header.fortran_order else "C")


def read_headers(path: Path) -> dict[str, ArrayHeader]:
    """Return the headers of the arrays in an .npz file by name."""
    headers = {}
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.filename.endswith(".npy"):
                name = info.filename.removesuffix(".npy")
                with archive.open(info) as member:
                    header = _read_header(f"{path}: {name}", member)
                if header.size > info.file_size:
                    raise UnreadableFileError(f"{path} is damaged: {name} is shorter than its header claims")
                headers[name] = header
    return headers


def read_npz(path: Path, name: str, header: ArrayHeader) -> Array:
    """Read one array of an .npz file if it fits into memory."""
    _refuse_objects(f"{path}: {name}", header)
    check_fits_memory(path, header.size)
    with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as member:  # the member with this header
        return np.asarray(np.lib.format.read_array(member, allow_pickle=False))


def _read_header(name: object, file: IO[bytes]) -> ArrayHeader:
    """Read and check the header of an array."""
    try:
        version = np.lib.format.read_magic(file)
        first = version == (1, 0)
        header = ArrayHeader(
            *(np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0)(file)
        )
    except Exception as error:  # numpy parses it as a Python expression, which can fail in many ways
        reason = " ".join(str(error).split())[:200]
        raise UnreadableFileError(
            f"{name} is truncated, damaged or not a .npy file: its header cannot be read ({reason})"
        ) from error
    if min(header.shape, default=0) < 0:
        raise UnreadableFileError(f"{name} is damaged: its header claims the shape {header.shape}")
    return header


def _refuse_objects(name: object, header: ArrayHeader) -> ArrayHeader:
    """Refuse an array of Python objects."""
    if header.dtype.hasobject:
        raise UnreadableFileError(
            f"{name} contains Python objects, which are never loaded", remedy="save it as an array of numbers"
        )
    return header
