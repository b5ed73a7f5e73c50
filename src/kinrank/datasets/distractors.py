"""A gallery and its distractors -> one .npy file, read in place; written once, a block at a time."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.features import evenly
from kinrank.files.arrays import read_npy
from kinrank.files.atomic import replacing
from kinrank.files.paths import resolved

BLOCK = 32 * 2**20  # bytes of rows that are held at once
SAMPLE = 1000  # distractors whose digest is compared before a file is used again


def joined_with(gallery: NDArray[Any], distractors: NDArray[Any], path: Path, source: Path) -> NDArray[Any]:
    """A memory map of the rows of the gallery, then of the distractors, in the file `path`.

    The file is written if it is not there, or not of these rows. A small .json beside it says what it was made of: size
    and time of the file of distractors, the digest of evenly taken rows of it, the digest of the gallery, and size and
    time of the joined file itself. All of it must be the same. The file appears whole or not at all.

    Args:
        gallery: (n, d) rows.
        distractors: (m, d) rows, which may lie on disk: a block of them is held at a time.
        path: the .npy file.
        source: the file of the distractors.
    """
    if distractors.shape[1] != gallery.shape[1]:
        raise ValueError(
            f"{source} has {distractors.shape[1]} dimensions and the gallery {gallery.shape[1]}; "
            "both must come from the same model"
        )
    if resolved(path) == resolved(source):
        raise ValueError(f"{path} holds the distractors themselves; write the joined gallery to another file")
    kind = np.result_type(gallery.dtype, distractors.dtype)
    made_of = _made_of(gallery, distractors, kind, source)
    if not _matches(path, made_of):
        _write(path, gallery, distractors, kind)
        with replacing(_about(path)) as file:
            file.write(json.dumps({**made_of, "joined": _stamp(path)}, indent=1).encode())
    return read_npy(path, mmap=True)


def _about(path: Path) -> Path:
    """The file that says what a joined file was made of."""
    return path.with_suffix(".json")


def _matches(path: Path, made_of: dict[str, Any]) -> bool:
    try:
        known = json.loads(_about(path).read_bytes())
        return bool(known == {**made_of, "joined": _stamp(path)})
    except (OSError, ValueError, RecursionError):
        return False


def _made_of(gallery: NDArray[Any], distractors: NDArray[Any], kind: np.dtype[Any], source: Path) -> dict[str, Any]:
    return {
        "shape": [len(gallery) + len(distractors), gallery.shape[1]],
        "type": kind.str,
        "distractors": _stamp(source),
        "distractors_sha256": _digest(distractors[row] for row in evenly(len(distractors), SAMPLE)),
        "gallery_sha256": _digest(gallery),
    }


def _stamp(path: Path) -> dict[str, int]:
    """The size of a file, and when it was written last."""
    state = path.stat()
    return {"bytes": state.st_size, "mtime_ns": state.st_mtime_ns}


def _digest(rows: Iterable[NDArray[Any]]) -> str:
    hashed = hashlib.sha256()
    for row in rows:
        hashed.update(f"{row.dtype.str}\n".encode() + np.ascontiguousarray(row).tobytes())
    return hashed.hexdigest()


def _write(path: Path, gallery: NDArray[Any], distractors: NDArray[Any], kind: np.dtype[Any]) -> None:
    dimensions = gallery.shape[1]
    header = {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False}
    rows = max(1, BLOCK // max(1, dimensions * kind.itemsize))
    with replacing(path) as file:
        np.lib.format.write_array_header_1_0(file, {**header, "shape": (len(gallery) + len(distractors), dimensions)})
        for part in (gallery, distractors):
            for start in range(0, len(part), rows):
                file.write(np.ascontiguousarray(part[start : start + rows], dtype=kind).tobytes())
