"""Gallery and distractors joined in one .npy file, written once, a block at a time, and read as a memory map."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import InputError
from kinrank.files.atomic import atomic_write, resolve_path
from kinrank.files.numpy_files import read_npy
from kinrank.vector_input import sample_evenly

BLOCK_BYTES = 32 * 2**20  # in memory at once
SAMPLE_ROWS = 1000  # distractors compared before a file is reused


def join_distractors(gallery: NDArray[Any], distractors: NDArray[Any], path: Path, source: Path) -> NDArray[Any]:
    """Return a memory map of the file `path` with the rows of the gallery, followed by the distractors.

    The file is written if it does not exist or has other rows. A small .json next to it records its parts: size and
    time of the file of distractors, digest of evenly spaced rows of it, digest of the gallery, and size and time of the
    joined file itself. All of these must match. The file is written atomically.

    Args:
        gallery: (n, d) rows.
        distractors: (m, d) rows, possibly on disk: one block is in memory at a time.
        path: the .npy file.
        source: the file of the distractors.
    """
    if distractors.shape[1] != gallery.shape[1]:
        raise InputError(
            f"{source} has {distractors.shape[1]} dimensions, but the gallery has {gallery.shape[1]}",
            remedy="give vectors of the same model",
        )
    if resolve_path(path) == resolve_path(source):
        raise InputError(f"{path} is the file of the distractors", remedy="give another path for the joined gallery")
    kind = np.result_type(gallery.dtype, distractors.dtype)
    parts = _describe_parts(gallery, distractors, kind, source)
    if not _matches(path, parts):
        _write_join(path, gallery, distractors, kind)
        with atomic_write(_metadata_path(path)) as file:
            file.write(json.dumps({**parts, "joined": _file_stamp(path)}, indent=1).encode())
    return read_npy(path, mmap=True)


def _metadata_path(path: Path) -> Path:
    """Return the path of the .json that records the parts of a joined file."""
    return path.with_suffix(".json")


def _matches(path: Path, parts: dict[str, Any]) -> bool:
    try:
        known = json.loads(_metadata_path(path).read_bytes())
        return bool(known == {**parts, "joined": _file_stamp(path)})
    except (OSError, ValueError, RecursionError):
        return False


def _describe_parts(
    gallery: NDArray[Any], distractors: NDArray[Any], kind: np.dtype[Any], source: Path
) -> dict[str, Any]:
    return {
        "shape": [len(gallery) + len(distractors), gallery.shape[1]],
        "type": kind.str,
        "distractors": _file_stamp(source),
        "distractors_sha256": _sample_digest(distractors[row] for row in sample_evenly(len(distractors), SAMPLE_ROWS)),
        "gallery_sha256": _sample_digest(gallery),
    }


def _file_stamp(path: Path) -> dict[str, int]:
    """Return size and modification time of a file."""
    state = path.stat()
    return {"bytes": state.st_size, "mtime_ns": state.st_mtime_ns}


def _sample_digest(rows: Iterable[NDArray[Any]]) -> str:
    hashed = hashlib.sha256()
    for row in rows:
        hashed.update(f"{row.dtype.str}\n".encode() + np.ascontiguousarray(row).tobytes())
    return hashed.hexdigest()


def _write_join(path: Path, gallery: NDArray[Any], distractors: NDArray[Any], kind: np.dtype[Any]) -> None:
    dimensions = gallery.shape[1]
    header = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False}
    block_rows = max(1, BLOCK_BYTES // max(1, dimensions * kind.itemsize))
    with atomic_write(path) as file:
        np.lib.format.write_array_header_1_0(file, {**header, "shape": (len(gallery) + len(distractors), dimensions)})
        for array in (gallery, distractors):
            for start in range(0, len(array), block_rows):
                file.write(np.ascontiguousarray(array[start : start + block_rows], dtype=kind).tobytes())
