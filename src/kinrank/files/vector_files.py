"""Readers of vector files in many formats, as 2-d arrays. Nothing in a file is executed."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import InputError, MemoryLimitError, MissingFileError, UnreadableFileError
from kinrank.files.matlab import read_matlab, read_matlab_version
from kinrank.files.numpy_files import choose_array, parse_npy, read_headers, read_npy, read_npz
from kinrank.files.path_checks import (
    NPY_MAGIC,
    STANDARD_INPUT,
    check_fits_memory,
    check_regular_file,
    import_optional,
    read_pipe,
)
from kinrank.files.vector_tables import Column, Ids, read_parquet, read_text_table

FACTS_SUFFIX = ".embed.json"  # of the file next to vectors that `kinrank embed` wrote
KEYED_PATH = re.compile(r"(.*?\.(?:npz|h5|hdf5|mat|safetensors|pkl|pickle|parquet)):(.+)", re.I | re.S)

Array = NDArray[Any]
Reader = Callable[[], tuple[Array, Ids]]


def split_key(path: str | os.PathLike[str]) -> tuple[Path, str | None]:
    """Split "FILE.npz:KEY" into the file and the key of its array; the key is None if there is none.

    Example:
        >>> split_key("set.npz:queries")
        (PosixPath('set.npz'), 'queries')
    """
    match = KEYED_PATH.fullmatch(os.fspath(path))
    if match is None or Path(path).exists():
        return Path(path), None
    return Path(match[1]), match[2]


def read_content(path: Path) -> str | None:
    """Return "pictures" or "texts" if `kinrank embed` wrote this file of vectors; None if its content is unknown."""
    try:
        content = json.loads(path.with_suffix(FACTS_SUFFIX).read_text("utf-8"))["made by"]["content"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return content if isinstance(content, str) else None


def read_vectors(path: Path, key: str | None, mmap: bool, id_column: Column = None) -> tuple[Array, Ids]:
    """Read the rows of a file and their ids.

    Raises an InputError, FileNotFoundError or ImportError with a one-sentence message.
    """
    suffix = check_regular_file(path).suffix.lower()
    if suffix not in READERS and suffix not in TABLE_READERS:
        known = ", ".join((*READERS, *TABLE_READERS))
        raise InputError(f"{path} has the unknown ending {path.suffix!r}", allowed=f"one of {known}")
    if path.stat().st_size == 0:
        raise InputError(f"{path} is empty", remedy="write it again")
    if suffix in TABLE_READERS:
        return _check_read(path, f"{path.suffix} file", partial(TABLE_READERS[suffix], path, key, id_column))
    if id_column is not None:
        raise UnreadableFileError(
            f"{path} has no named columns; `id_column={id_column}` is for {' | '.join(TABLE_READERS)}",
            remedy="give the ids separately",
        )
    return _check_read(path, f"{path.suffix} file", lambda: (READERS[suffix](path, key, mmap), None))


def read_piped_vectors(stream: IO[bytes], id_column: Column = None) -> tuple[Array, Ids]:
    """Read the rows and ids of a .npy or .csv file from a pipe."""
    content = read_pipe(stream)
    if not content:
        raise InputError(f"{STANDARD_INPUT} is empty", remedy="pipe a .npy or .csv file")

    def reader() -> tuple[Array, Ids]:
        if not content.startswith(NPY_MAGIC):
            opened = partial(io.TextIOWrapper, encoding="utf-8-sig", newline="")
            return read_text_table(STANDARD_INPUT, lambda: opened(io.BytesIO(content)), ",", id_column)
        if id_column is not None:
            raise UnreadableFileError(
                f"{STANDARD_INPUT} is a .npy file, which has no named columns", remedy="pipe a .csv file"
            )
        return parse_npy(content, STANDARD_INPUT), None

    return _check_read(STANDARD_INPUT, ".npy or .csv file", reader)


def _check_read(name: object, kind: str, reader: Reader) -> tuple[Array, Ids]:
    """Return the result of the reader if it is 2-d numbers; convert its errors to one sentence."""
    try:
        array, ids = reader()
    except (UnreadableFileError, ImportError, MemoryLimitError):
        raise
    except Exception as error:  # every library has its own errors for a damaged file
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{name} is truncated, damaged or not a {kind} ({reason})") from error
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise InputError(
            f"{name} contains {array.dtype} of shape {array.shape}", allowed="2-d numbers, one row per item"
        )
    if ids is not None and not array.shape[1]:
        raise InputError(f"{name} has ids but no column of numbers", remedy="write one vector per line")
    return array, ids


def _read_npz_array(path: Path, key: str | None, mmap: bool) -> Array:
    """Read an array of an .npz file."""
    headers = read_headers(path)
    numeric = {name: header.shape for name, header in headers.items() if header.dtype.kind in "fiub" or name == key}
    name = choose_array(path, key, numeric)
    return read_npz(path, name, headers[name])


def _read_csv(path: Path, key: str | None, id_column: Column) -> tuple[Array, Ids]:
    """Read a .csv or .tsv file."""
    check_fits_memory(path, 3 * path.stat().st_size)  # two characters become four bytes
    opened = partial(path.open, encoding="utf-8-sig", newline="")
    return read_text_table(path, opened, "\t" if path.suffix.lower() == ".tsv" else ",", id_column)


def _read_vecs(path: Path, key: str | None, mmap: bool) -> Array:
    """Read fvecs or bvecs: every row is its number of dimensions as int32, then as many float32 or bytes."""
    kind = np.dtype("<f4") if path.suffix.lower() == ".fvecs" else np.dtype(np.uint8)
    raw = np.memmap(path, np.uint8, mode="r")
    dimensions = int.from_bytes(raw[:4].tobytes(), "little", signed=True)
    width = 4 + dimensions * kind.itemsize
    if dimensions < 1 or len(raw) % width:
        raise UnreadableFileError(
            f"{path} is truncated or not a {path.suffix} file: rows of {dimensions} numbers do not fill it"
        )
    rows = raw.reshape(-1, width)
    if (rows[:, :4] != raw[:4]).any():
        raise UnreadableFileError(f"{path} has rows of different lengths; the first has {dimensions} numbers")
    array = rows[:, 4:].view(kind)
    return array if mmap else np.array(array)


def _read_pickle(path: Path, key: str | None, mmap: bool) -> Array:
    """Read lists of numbers from a pickle file."""
    from kinrank.files import safe_pickle

    try:
        content = safe_pickle.load(path)
    except MissingFileError:
        raise
    except InputError as error:
        raise UnreadableFileError(str(error)) from None
    if not isinstance(content, dict):
        return _array_from_lists(path, "its content", content)
    lists = {str(name): value for name, value in content.items() if isinstance(value, list)}
    name = choose_array(path, key, {name: _shape_from_lists(value) for name, value in lists.items()})
    return _array_from_lists(path, name, lists[name])


def _shape_from_lists(rows: list[Any]) -> tuple[int, ...]:
    """Return the shape of nested lists."""
    return (len(rows), len(rows[0])) if rows and isinstance(rows[0], (list, tuple)) else (len(rows),)


def _array_from_lists(path: Path, name: str, rows: Any) -> Array:
    """Convert rows of Python numbers to an array; numpy would also convert text, to an array of any size."""
    if not isinstance(rows, list) or not rows or not all(isinstance(row, (list, tuple)) for row in rows):
        raise UnreadableFileError(f"{path}: {name} is not a list of rows", allowed="one list of numbers per item")
    if len({len(row) for row in rows}) > 1:
        raise UnreadableFileError(f"{path}: {name} has rows of different lengths")
    if not all({int, float, bool}.issuperset(map(type, row)) for row in rows):
        raise UnreadableFileError(f"{path}: {name} contains something that is not a number")
    return np.array(rows, np.float64)


def _read_hdf5(path: Path, key: str | None, mmap: bool) -> Array:
    """Read a dataset of an HDF5 file."""
    h5py = import_optional("h5py", path)
    shapes: dict[str, tuple[int, ...]] = {}

    def note(name: str, entry: Any) -> None:
        # Data stored in another file would let this one read any file on the machine.
        inside = isinstance(entry, h5py.Dataset) and not entry.external and not entry.is_virtual
        if inside and entry.dtype.kind in "fiub" and entry.shape is not None:
            shapes[name] = tuple(entry.shape)

    with h5py.File(path, "r") as file:
        file.visititems(note)
        entry = file[choose_array(path, None if key is None else key.strip("/"), shapes)]
        check_fits_memory(path, entry.size * entry.dtype.itemsize)
        return np.asarray(entry[()])


def _read_mat(path: Path, key: str | None, mmap: bool) -> Array:
    """Read a matrix of a Matlab file."""
    if read_matlab_version(path) == 2:  # version 7.3 is HDF5 with reversed axes
        return np.transpose(_read_hdf5(path, key, mmap))
    return read_matlab(path, key)


def _read_safetensors(path: Path, key: str | None, mmap: bool) -> Array:
    """Read a tensor of a safetensors file."""
    with import_optional("safetensors", path).safe_open(path, framework="numpy") as file:
        name = choose_array(path, key, {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()})  # noqa: SIM118
        if file.get_slice(name).get_dtype() == "BF16":
            raise UnreadableFileError(
                f"{path}: {name} is bfloat16, which numpy does not support", remedy="save it as float16 or float32"
            )
        return np.asarray(file.get_tensor(name))


READERS: dict[str, Callable[[Path, str | None, bool], Array]] = {
    ".npy": lambda path, key, mmap: read_npy(path, mmap),
    ".npz": _read_npz_array,
    ".fvecs": _read_vecs,
    ".bvecs": _read_vecs,
    ".pkl": _read_pickle,
    ".pickle": _read_pickle,
    ".h5": _read_hdf5,
    ".hdf5": _read_hdf5,
    ".mat": _read_mat,
    ".safetensors": _read_safetensors,
}
TABLE_READERS: dict[str, Callable[[Path, str | None, Column], tuple[Array, Ids]]] = {
    ".csv": _read_csv,
    ".tsv": _read_csv,
    ".parquet": read_parquet,
}
