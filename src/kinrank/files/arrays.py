"""npy and npz files -> arrays; what their headers claim is checked before anything is allocated."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.files.opening import FileProblem, fits

Array = NDArray[Any]
Shapes = Mapping[str, tuple[int, ...]]


class Header(NamedTuple):
    """What an array says of itself before its numbers come."""

    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]

    @property
    def size(self) -> int:
        """Bytes that the array takes."""
        return math.prod(self.shape) * self.dtype.itemsize


def choose(path: Path, key: str | None, shapes: Shapes) -> str:
    """The name of the wanted array: the key, or the only 2-d array there is."""
    listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "nothing"
    if key is not None:
        if key in shapes:
            return key
        raise FileProblem(f"{path} has no array {key!r}; it holds {listed}")
    flat = [name for name, shape in shapes.items() if len(shape) == 2]
    if len(flat) == 1:
        return flat[0]
    count = "several 2-d arrays" if flat else "no 2-d array of numbers"
    raise FileProblem(f"{path} holds {count}; pass key= with one of: {listed}")


def read_npy(path: Path, mmap: bool = False) -> Array:
    """The array of a .npy file, left on disk where `mmap` is True."""
    with path.open("rb") as file:
        _without_objects(path, _header(path, file))
    array: Array = np.lib.format.open_memmap(path, mode="r")  # also refuses a file shorter than its header says
    return array if mmap else np.array(array)


def npy_from(content: bytes, name: str) -> Array:
    """The same from the bytes of such a file, which are not copied."""
    file = io.BytesIO(content)
    header = _without_objects(name, _header(name, file))
    if header.size > len(content) - file.tell():
        raise FileProblem(f"{name} is shorter than its header says; it was cut short")
    flat = np.frombuffer(content, header.dtype, math.prod(header.shape), file.tell())
    return flat.reshape(header.shape, order="F" if header.fortran_order else "C")


def headers(path: Path) -> dict[str, Header]:
    """The arrays of an .npz file by name."""
    found = {}
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.filename.endswith(".npy"):
                name = info.filename.removesuffix(".npy")
                with archive.open(info) as member:
                    header = _header(f"{path}: {name}", member)
                if header.size > info.file_size:
                    raise FileProblem(f"{path}: {name} is shorter than its header says; the file is damaged")
                found[name] = header
    return found


def read_npz(path: Path, name: str, header: Header) -> Array:
    """One array of an .npz file, if it fits into memory."""
    _without_objects(f"{path}: {name}", header)
    fits(path, header.size)
    with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as member:  # the one that has this header
        return np.asarray(np.lib.format.read_array(member, allow_pickle=False))


def _header(name: object, file: IO[bytes]) -> Header:
    try:
        version = np.lib.format.read_magic(file)
        first = version == (1, 0)
        header = Header(*(np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0)(file))
    except Exception as error:  # numpy reads it as a piece of Python, in which anything can be wrong
        said = " ".join(str(error).split())[:200]
        raise FileProblem(
            f"{name} is truncated, damaged or no .npy file: its header cannot be read ({said})"
        ) from error
    if min(header.shape, default=0) < 0:
        raise FileProblem(f"{name} is damaged: its header claims the shape {header.shape}")
    return header


def _without_objects(name: object, header: Header) -> Header:
    if header.dtype.hasobject:
        raise FileProblem(f"{name} holds Python objects, which are never loaded; save it as an array of numbers")
    return header
