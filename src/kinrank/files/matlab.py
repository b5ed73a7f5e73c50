"""Reader of Matlab files, versions 5 to 7. Every length is checked before it is used.

A file is a sequence of elements, each preceded by its kind and length. A matrix is an element that contains four
others: its flags, its shape, its name, and its numbers column by column. It may be compressed as a whole.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import UnreadableFileError
from kinrank.files.numpy_files import choose_array
from kinrank.files.path_checks import check_fits_memory

STORED_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
MATRIX_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
MATRIX, COMPRESSED, COMPLEX = 14, 15, 0x0800
START_BYTES = 4096  # unpacked from a matrix to read its kind, shape and name


class Matrix(NamedTuple):
    """A matrix of numbers in the file: its shape, its dtype, and the element that contains it."""

    shape: tuple[int, ...]
    kind: str
    compressed: bool
    content: memoryview


def read_matlab_version(path: Path) -> int:
    """Return the major version of the format: 1 for the files read here, 2 for Matlab 7.3, which is HDF5."""
    with path.open("rb") as file:
        start = file.read(128)
    return int(struct.unpack_from(_read_byte_order(path, start) + "H", start, 124)[0]) >> 8


def read_matlab(path: Path, key: str | None) -> NDArray[Any]:
    """Read the matrix of this name, or the only one."""
    content = np.memmap(path, np.uint8, mode="r").data
    order = _read_byte_order(path, bytes(content[:128]))
    matrices = dict(_find_matrices(path, content[128:], order))
    name = choose_array(path, key, {name: matrix.shape for name, matrix in matrices.items()})
    return _read_numbers(path, matrices[name], order)


def _read_byte_order(path: Path, start: bytes) -> str:
    """Return the byte order of the file."""
    if start[126:128] not in (b"IM", b"MI"):
        raise UnreadableFileError(
            f"{path} is damaged or not a Matlab file of version 5 or later", remedy="save it with -v7"
        )
    return "<" if start[126:128] == b"IM" else ">"


def _iterate_elements(path: Path, content: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """Yield the kind and the content of every element."""
    position = 0
    while position + 8 <= len(content):
        kind, size = struct.unpack_from(order + "II", content, position)
        start = position + 8
        if kind >> 16:  # kind and length share four bytes, and the content is in the other four
            kind, size, start = kind & 0xFFFF, kind >> 16, position + 4
        end = start + size
        if end > len(content) or (start == position + 4 and size > 4):
            raise UnreadableFileError(f"{path} is truncated or damaged: an element is longer than the rest of the file")
        yield kind, content[start:end]
        position = end if kind == COMPRESSED else position + (end - position + 7) // 8 * 8


def _find_matrices(path: Path, content: memoryview, order: str) -> Iterator[tuple[str, Matrix]]:
    """Yield name and description of every real numeric matrix."""
    for kind, element in _iterate_elements(path, content, order):
        start, compressed = element, kind == COMPRESSED
        if compressed:
            start = memoryview(zlib.decompressobj().decompress(element, START_BYTES))
            kind = int.from_bytes(start[:4], "little" if order == "<" else "big")
            start = start[8:]
        if kind != MATRIX:
            continue
        (_, flags), (_, shape), (_, name) = islice(_iterate_elements(path, start, order), 3)
        word = struct.unpack_from(order + "I", flags)[0]
        if word & 0xFF in MATRIX_CLASSES and not word & COMPLEX:
            sizes = tuple(np.frombuffer(shape, order + "i4").tolist())
            if min(sizes, default=-1) < 0:
                raise UnreadableFileError(f"{path} is damaged: a matrix claims the shape {sizes}")
            yield bytes(name).decode("latin1"), Matrix(sizes, MATRIX_CLASSES[word & 0xFF], compressed, element)


def _read_numbers(path: Path, matrix: Matrix, order: str) -> NDArray[Any]:
    """Unpack the numbers of a matrix."""
    check_fits_memory(path, math.prod(matrix.shape) * 8)
    content = matrix.content
    if matrix.compressed:
        max_bytes = START_BYTES + math.prod(matrix.shape) * 8  # the largest possible size of this shape
        content = memoryview(zlib.decompressobj().decompress(content, max_bytes))[8:]
    *_, (kind, numbers) = islice(_iterate_elements(path, content, order), 4)
    if kind not in STORED_TYPES or len(numbers) != math.prod(matrix.shape) * np.dtype(STORED_TYPES[kind]).itemsize:
        raise UnreadableFileError(f"{path} is damaged: its numbers do not fill a matrix of shape {matrix.shape}")
    return np.frombuffer(numbers, order + STORED_TYPES[kind]).astype(matrix.kind).reshape(matrix.shape, order="F")
