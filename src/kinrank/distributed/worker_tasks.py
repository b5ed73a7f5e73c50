"""Tasks that workers run on ranges of rows, and the .npy files through which they exchange arrays.

Every function gives bit-identical results in any process and in every repetition, on processors of one kind: rows do
not depend on each other.
"""

from __future__ import annotations

import importlib
import mmap
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from kinrank import stages
from kinrank.errors import InputError
from kinrank.files.user_folders import scratch_folder
from kinrank.manifold.snapshot import list_neighbors
from kinrank.stores import Store
from kinrank.stores.gallery import convert_blocks
from kinrank.stores.view import adapt_to_space
from kinrank.vector_input import check_magnitude, check_vectors, load, to_unit_rows
from kinrank.vector_space import Space

RowRange = tuple[int, int]
Block = NDArray[Any]
StoreFactory = Callable[[], Store]
_open_stores: dict[str, Store] = {}
_open_lock = threading.Lock()


@contextmanager
def make_exchange_folder(folder: str | os.PathLike[str] | None) -> Iterator[Path]:
    """Create a new folder inside `folder`, or among the temporary files; remove it afterwards."""
    if folder is not None and not Path(folder).is_dir():
        raise InputError(
            "is not a folder", parameter="folder", given=os.fspath(folder), allowed="one that every worker can read"
        )
    if folder is None:
        with scratch_folder() as place:
            yield place
        return
    with tempfile.TemporaryDirectory(prefix="kinrank-", dir=folder) as name:  # its file system may not support locks
        yield Path(name)


def create_array(folder: str | Path, name: str, shape: tuple[int, ...], kind: DTypeLike) -> NDArray[Any]:
    """Create a file of zeros, mapped for writing; only the client writes."""
    return np.lib.format.open_memmap(_array_path(folder, name), "w+", np.dtype(kind), shape)


def write_array(folder: str | Path, name: str, array: NDArray[Any]) -> NDArray[Any]:
    """Write the array to a file and return it mapped."""
    np.save(_array_path(folder, name), np.ascontiguousarray(array), allow_pickle=False)
    return read_array(folder, name)


def read_array(folder: str | Path, name: str) -> NDArray[Any]:
    """Map the array of a file copy-on-write, because the loops are compiled for writable arrays."""
    return np.asarray(np.load(_array_path(folder, name), mmap_mode="c", allow_pickle=False))


def remove_arrays(folder: str | Path, *names: str) -> None:
    """Remove files that no later task reads, if they still exist."""
    for name in names:
        _array_path(folder, name).unlink(missing_ok=True)


def _array_path(folder: str | Path, name: str) -> Path:
    return Path(folder) / f"{name}.npy"


def allocate_on_disk(shape: tuple[int, ...], kind: DTypeLike) -> NDArray[Any]:
    """Return zeros of any size that take space only where they are written.

    The loops address rows by their number in the gallery; a task fills a block of them. A sparse file holds that
    block only, and unlike memory it may be larger than the machine.
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
    """Write unit rows to the file `vectors`, block by block from a feature file or an array.

    With the metric "euclidean" the rows stay unchanged.
    """
    rows: Any = load(gallery) if isinstance(gallery, str | os.PathLike) else gallery
    if getattr(rows, "ndim", 2) != 2 or not hasattr(rows, "shape"):
        rows = check_vectors(rows, "gallery")
    shared = convert_blocks(
        lambda start, stop: rows[start:stop],
        len(rows),
        "gallery",
        lambda shape: create_array(folder, "vectors", shape, np.float32),
        make=to_unit_rows if metric == "cosine" else check_magnitude,
    )
    shared.flush()  # type: ignore[attr-defined]
    return read_array(folder, "vectors")


class ArrayFile(NamedTuple):
    """An array that every worker maps: its name in the folder, and its shape."""

    name: str
    shape: tuple[int, ...]


class OutputArray(NamedTuple):
    """An array of which a task fills a range: whole shape, dtype, and the file of its row pointers, if any."""

    shape: tuple[int, ...]
    kind: str
    indptr: ArrayFile | None


def open_store_once(token: str, factory: StoreFactory) -> Store:
    """Return the store of a run, opened once per worker; the store of an earlier run is released."""
    with _open_lock:
        if token not in _open_stores:
            _open_stores.clear()
            _open_stores[token] = factory()
        return _open_stores[token]


def find_neighbours(
    folder: str, span: RowRange, k: int, token: str, factory: StoreFactory | None, space: Space
) -> tuple[Block, ...]:
    """Return the neighbour lists of a block: numbers and distances, (rows, k)."""
    store = None if factory is None else adapt_to_space(open_store_once(token, factory), space)
    lists = list_neighbors(read_array(folder, "vectors"), store, np.arange(*span), k, space.unit)
    return lists.indices, lists.distances


def run_kernel(
    folder: str, span: RowRange, module: str, name: str, inputs: tuple[Any, ...], outputs: tuple[OutputArray, ...]
) -> tuple[Block, ...]:
    """Run kernel(start, stop, *inputs, *outputs) on one range; return the filled range of every output."""
    kernel = getattr(importlib.import_module(module), name)
    arrays = [allocate_on_disk(output.shape, output.kind) for output in outputs]
    with stages.kernels.compiler.single_blas_thread():
        kernel(*span, *(map_arrays(folder, given) for given in inputs), *arrays)
    indptrs = [None if output.indptr is None else map_arrays(folder, output.indptr) for output in outputs]
    return tuple(array[locate_entries(span, indptr)].copy() for array, indptr in zip(arrays, indptrs, strict=True))


def locate_entries(span: RowRange, indptr: NDArray[np.int64] | None) -> slice:
    """Return the entries that belong to a range of rows."""
    return slice(*span) if indptr is None else slice(int(indptr[span[0]]), int(indptr[span[1]]))


def map_arrays(folder: str, given: Any) -> Any:
    """Replace files by mapped arrays, also inside named tuples."""
    if isinstance(given, ArrayFile):
        return read_array(folder, given.name).reshape(given.shape)
    if isinstance(given, tuple) and hasattr(given, "_fields"):
        return type(given)(*(map_arrays(folder, part) for part in given))
    return given
