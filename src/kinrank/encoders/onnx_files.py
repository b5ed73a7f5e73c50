"""A file of ONNX -> the files beside it that hold some of its weights, found without any package.

Such a model may name any path for them, so the names are read before a runtime follows them. The format is that of
protocol buffers: fields, each with a number and a length, some of which hold fields again.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from pathlib import Path

# What a part of a model is made of: number of the field -> the kind of part it holds; other fields are passed over.
PARTS = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {13: "entry"},
}
KEY, VALUE = 1, 2  # fields of an entry
Span = tuple[int, int]


def weight_files(path: Path) -> list[Path]:
    """The further files of a model, sorted; a ValueError where it is damaged, or where one is not in its folder."""
    with path.open("rb") as file:
        if not os.fstat(file.fileno()).st_size:
            raise ValueError(f"{path} is empty; give a model in the ONNX format")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            try:
                names = sorted(set(_locations(content)))
            except (IndexError, ValueError):
                raise ValueError(
                    f"{path} is no model in the ONNX format, or damaged; export or copy it again"
                ) from None
    return [_inside(path, name) for name in names]


def _inside(path: Path, name: str) -> Path:
    folder = os.path.realpath(path.parent)
    found = os.path.realpath(os.path.join(folder, name))
    if os.path.isabs(name) or os.path.commonpath([folder, found]) != folder:
        raise ValueError(
            f"{path} wants weights from {name!r:.100}, which is not in its folder, and is not read; save the model "
            "with its weights inside"
        )
    if not os.path.isfile(found):
        raise FileNotFoundError(f"{path} has weights in the file {name!r:.100}, which is missing; copy it there, too")
    return Path(found)


def _locations(content: mmap.mmap) -> Iterator[str]:
    """The paths of files that any tensor of a model names."""
    waiting: list[tuple[str, Span]] = [("model", (0, len(content)))]
    while waiting:
        kind, span = waiting.pop()
        for number, part in _fields(content, *span):
            inner = PARTS[kind].get(number)
            if inner == "entry":
                entry = dict(_fields(content, *part))
                if content[slice(*entry.get(KEY, (0, 0)))] == b"location":
                    yield content[slice(*entry.get(VALUE, (0, 0)))].decode()
            elif inner is not None:
                waiting.append((inner, part))


def _fields(content: mmap.mmap, at: int, end: int) -> Iterator[tuple[int, Span]]:
    """The fields between two places: the number of each, and where its content begins and ends."""
    while at < end:
        key, at = _number(content, at)
        kind = key & 7
        if kind == 0:  # a number
            after = _number(content, at)[1]
        elif kind == 2:  # something with a length
            length, at = _number(content, at)
            after = at + length
        elif kind in (1, 5):  # eight or four bytes
            after = at + (8 if kind == 1 else 4)
        else:
            raise ValueError("no such kind of field")
        if after > end:
            raise ValueError("it ends too early")
        yield key >> 3, (at, after)
        at = after


def _number(content: mmap.mmap, at: int) -> tuple[int, int]:
    """A number of seven bits per byte, the lowest first, and where the next thing begins."""
    value = 0
    for shift in range(0, 70, 7):
        byte = content[at]
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
    raise ValueError("a number without end")
