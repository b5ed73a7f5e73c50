"""Matlab files of version 5 to 7 -> arrays of numbers; every length is checked before it is followed.

A file is a row of elements, each with its kind and its length before it. A matrix is an element that holds four others:
what kind of matrix it is, its shape, its name and its numbers, column by column. It may be compressed as a whole.
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

from kinrank.files.arrays import choose
from kinrank.files.opening import FileProblem, fits

STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
MATRIX, COMPRESSED, COMPLEX = 14, 15, 0x0800
START = 4096  # bytes to unpack of a matrix to see its kind, shape and name


class Matrix(NamedTuple):
    """A matrix of numbers in the file: its shape, its type, and the element that holds it."""

    shape: tuple[int, ...]
    kind: str
    compressed: bool
    content: memoryview


def version_of(path: Path) -> int:
    """The main number of the format: 1 for the files read here, 2 for those of Matlab 7.3, which are HDF5."""
    with path.open("rb") as file:
        start = file.read(128)
    return int(struct.unpack_from(_byte_order(path, start) + "H", start, 124)[0]) >> 8


def read_matlab(path: Path, key: str | None) -> NDArray[Any]:
    """The matrix of that name, or the only one there is."""
    content = np.memmap(path, np.uint8, mode="r").data
    order = _byte_order(path, bytes(content[:128]))
    found = dict(_matrices(path, content[128:], order))
    name = choose(path, key, {name: matrix.shape for name, matrix in found.items()})
    return _numbers(path, found[name], order)


def _byte_order(path: Path, start: bytes) -> str:
    if start[126:128] not in (b"IM", b"MI"):
        raise FileProblem(f"{path} is damaged or no Matlab file of version 5 or later; save it with -v7")
    return "<" if start[126:128] == b"IM" else ">"


def _elements(path: Path, content: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """The kind and the content of one element after the other."""
    position = 0
    while position + 8 <= len(content):
        kind, size = struct.unpack_from(order + "II", content, position)
        start = position + 8
        if kind >> 16:  # kind and length share four bytes, and the content has the other four
            kind, size, start = kind & 0xFFFF, kind >> 16, position + 4
        end = start + size
        if end > len(content) or (start == position + 4 and size > 4):
            raise FileProblem(f"{path} is truncated or damaged: an element is longer than what is left of the file")
        yield kind, content[start:end]
        position = end if kind == COMPRESSED else position + (end - position + 7) // 8 * 8


def _matrices(path: Path, content: memoryview, order: str) -> Iterator[tuple[str, Matrix]]:
    for kind, element in _elements(path, content, order):
        start, compressed = element, kind == COMPRESSED
        if compressed:
            start = memoryview(zlib.decompressobj().decompress(element, START))
            kind = int.from_bytes(start[:4], "little" if order == "<" else "big")
            start = start[8:]
        if kind != MATRIX:
            continue
        (_, flags), (_, shape), (_, name) = islice(_elements(path, start, order), 3)
        word = struct.unpack_from(order + "I", flags)[0]
        if word & 0xFF in CLASSES and not word & COMPLEX:
            sizes = tuple(np.frombuffer(shape, order + "i4").tolist())
            if min(sizes, default=-1) < 0:
                raise FileProblem(f"{path} is damaged: a matrix claims the shape {sizes}")
            yield bytes(name).decode("latin1"), Matrix(sizes, CLASSES[word & 0xFF], compressed, element)


def _numbers(path: Path, matrix: Matrix, order: str) -> NDArray[Any]:
    fits(path, math.prod(matrix.shape) * 8)
    content = matrix.content
    if matrix.compressed:
        most = START + math.prod(matrix.shape) * 8  # more than that no matrix of this shape can have
        content = memoryview(zlib.decompressobj().decompress(content, most))[8:]
    *_, (kind, numbers) = islice(_elements(path, content, order), 4)
    if kind not in STORED or len(numbers) != math.prod(matrix.shape) * np.dtype(STORED[kind]).itemsize:
        raise FileProblem(f"{path} is damaged: its numbers do not fill a matrix of shape {matrix.shape}")
    return np.frombuffer(numbers, order + STORED[kind]).astype(matrix.kind).reshape(matrix.shape, order="F")
