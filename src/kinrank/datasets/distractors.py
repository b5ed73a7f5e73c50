"""A gallery and its distractors -> one .npy file, read in place; written once, a block at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.features import evenly
from kinrank.files.arrays import read_npy
from kinrank.files.atomic import replacing

BLOCK = 32 * 2**20  # bytes of rows that are held at once
SAMPLE = 64  # distractors that are compared before a file is used again


def joined_with(gallery: NDArray[Any], distractors: NDArray[Any], path: Path, source: Path) -> NDArray[Any]:
    """A memory map of the rows of the gallery, then of the distractors, in the file `path`.

    The file is written if it is not there, or not of these rows: it must have their size and number type, be no older
    than the distractors, hold the gallery, and hold a sample of the distractors. It appears whole or not at all.

    Args:
        gallery: (n, d) rows.
        distractors: (m, d) rows, which may lie on disk: a block of them is held at a time.
        path: the .npy file.
        source: the file of the distractors, for what is said, and for its age.
    """
    if distractors.shape[1] != gallery.shape[1]:
        raise ValueError(
            f"{source} has {distractors.shape[1]} dimensions and the gallery {gallery.shape[1]}; "
            "both must come from the same model"
        )
    if path.resolve() == source.resolve():
        raise ValueError(f"{path} holds the distractors themselves; write the joined gallery to another file")
    kind = np.result_type(gallery.dtype, distractors.dtype)
    if not _matches(path, gallery, distractors, kind, source):
        _write(path, gallery, distractors, kind)
    return read_npy(path, mmap=True)


def _matches(path: Path, gallery: NDArray[Any], distractors: NDArray[Any], kind: np.dtype[Any], source: Path) -> bool:
    if not path.is_file() or path.stat().st_mtime_ns < source.stat().st_mtime_ns:
        return False
    try:
        there = read_npy(path, mmap=True)  # refuses a file that is shorter than its header says
    except (ValueError, OSError):
        return False
    if there.shape != (len(gallery) + len(distractors), gallery.shape[1]) or there.dtype != kind:
        return False
    some = evenly(len(distractors), SAMPLE)
    near = np.array_equal(there[: len(gallery)], gallery.astype(kind), equal_nan=True)
    return near and all(_same(there[len(gallery) + row], distractors[row], kind) for row in some)


def _same(there: NDArray[Any], row: NDArray[Any], kind: np.dtype[Any]) -> bool:
    return np.array_equal(there, row.astype(kind), equal_nan=True)


def _write(path: Path, gallery: NDArray[Any], distractors: NDArray[Any], kind: np.dtype[Any]) -> None:
    dimensions = gallery.shape[1]
    header = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False}
    rows = max(1, BLOCK // max(1, dimensions * kind.itemsize))
    with replacing(path) as file:
        np.lib.format.write_array_header_1_0(file, {**header, "shape": (len(gallery) + len(distractors), dimensions)})
        for part in (gallery, distractors):
            for start in range(0, len(part), rows):
                file.write(np.ascontiguousarray(part[start : start + rows], dtype=kind).tobytes())
