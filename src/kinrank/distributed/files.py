"""Arrays -> .npy files in a folder that every worker maps; and sparse scratch sheets for the loops."""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from kinrank.features import bounded, check, load, unit
from kinrank.files.scratch import scratch_folder
from kinrank.stores.rows import unit_blocks


@contextmanager
def workplace(folder: str | os.PathLike[str] | None) -> Iterator[Path]:
    """A fresh folder inside `folder`, or where temporary files go; removed afterwards."""
    if folder is not None and not Path(folder).is_dir():
        raise ValueError(f"folder={os.fspath(folder)!r} is not a folder; give one that every worker can read")
    if folder is None:
        with scratch_folder() as place:
            yield place
        return
    with tempfile.TemporaryDirectory(prefix="kinrank-", dir=folder) as name:  # which may not know locks
        yield Path(name)


def create(folder: str | Path, name: str, shape: tuple[int, ...], kind: DTypeLike) -> NDArray[Any]:
    """A new file of zeros, mapped for writing; only the client writes."""
    return np.lib.format.open_memmap(_path(folder, name), "w+", np.dtype(kind), shape)


def write(folder: str | Path, name: str, array: NDArray[Any]) -> NDArray[Any]:
    """The array as a file, and as it is read back."""
    np.save(_path(folder, name), np.ascontiguousarray(array), allow_pickle=False)
    return read(folder, name)


def read(folder: str | Path, name: str) -> NDArray[Any]:
    """The array, on disk until it is used. Copy-on-write: loops are compiled for arrays that could be written."""
    return np.asarray(np.load(_path(folder, name), mmap_mode="c", allow_pickle=False))


def remove(folder: str | Path, *names: str) -> None:
    """Files that no later task reads, as far as they are still there."""
    for name in names:
        _path(folder, name).unlink(missing_ok=True)


def _path(folder: str | Path, name: str) -> Path:
    return Path(folder) / f"{name}.npy"


def zeros_on_disk(shape: tuple[int, ...], kind: DTypeLike) -> NDArray[Any]:
    """Zeros of any size that take space only where they are touched.

    The loops address rows by their number in the gallery; a task fills a block of them. A file with holes holds that
    block and nothing else, and unlike memory it may be larger than the machine.
    """
    size = int(np.prod(shape))
    if not size:
        return np.zeros(shape, kind)
    with tempfile.TemporaryFile() as file:
        file.truncate(size * np.dtype(kind).itemsize)
        mapped = mmap.mmap(file.fileno(), 0)
    return np.frombuffer(mapped, kind).reshape(shape)


def share_gallery(
    gallery: ArrayLike | str | os.PathLike[str], folder: Path, metric: str = "cosine"
) -> NDArray[np.float32]:
    """The file `vectors` of unit rows, made block by block from a feature file or an array.

    With the metric "euclidean", of the rows as they are.
    """
    rows: Any = load(gallery) if isinstance(gallery, str | os.PathLike) else gallery
    if getattr(rows, "ndim", 2) != 2 or not hasattr(rows, "shape"):
        rows = check(rows, "gallery")
    made = unit_blocks(
        lambda start, stop: rows[start:stop],
        len(rows),
        "gallery",
        lambda shape: create(folder, "vectors", shape, np.float32),
        make=unit if metric == "cosine" else bounded,
    )
    made.flush()  # type: ignore[attr-defined]
    return read(folder, "vectors")
