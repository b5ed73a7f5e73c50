"""Files of vectors in many formats -> 2-d arrays as they are on disk; nothing in a file is executed."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from kinrank.files.arrays import choose, headers, npy_from, read_npy, read_npz
from kinrank.files.matlab import read_matlab, version_of
from kinrank.files.opening import NPY, STANDARD_INPUT, FileProblem, fits, optional, piped, regular
from kinrank.files.parquet import read_parquet
from kinrank.files.tables import Column, Ids, read_text
from kinrank.memory import NotEnoughMemory

Array = NDArray[Any]
Reader = Callable[[], tuple[Array, Ids]]


def read(path: Path, key: str | None, mmap: bool, id_column: Column = None) -> tuple[Array, Ids]:
    """The rows of the file and their ids, or a ValueError (FileNotFoundError, ImportError) of one sentence."""
    suffix = regular(path).suffix.lower()
    if suffix not in READERS and suffix not in TABLES:
        known = ", ".join((*READERS, *TABLES))
        raise ValueError(f"{path} has the unknown ending {path.suffix!r}; these are read: {known}")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty; write it again")
    if suffix in TABLES:
        return _checked(path, f"{path.suffix} file", partial(TABLES[suffix], path, key, id_column))
    if id_column is not None:
        raise FileProblem(
            f"{path} has no columns with names; id_column={id_column} is for {' | '.join(TABLES)}: give the ids apart"
        )
    return _checked(path, f"{path.suffix} file", lambda: (READERS[suffix](path, key, mmap), None))


def read_piped(stream: IO[bytes], id_column: Column = None) -> tuple[Array, Ids]:
    """The same of a .npy or .csv file that comes through a pipe."""
    content = piped(stream)
    if not content:
        raise ValueError(f"{STANDARD_INPUT} is empty; pipe a .npy or .csv file")

    def reader() -> tuple[Array, Ids]:
        if not content.startswith(NPY):
            opened = partial(io.TextIOWrapper, encoding="utf-8-sig", newline="")
            return read_text(STANDARD_INPUT, lambda: opened(io.BytesIO(content)), ",", id_column)
        if id_column is not None:
            raise FileProblem(f"{STANDARD_INPUT} is a .npy file, which has no columns with names; pipe a .csv file")
        return npy_from(content, STANDARD_INPUT), None

    return _checked(STANDARD_INPUT, ".npy or .csv file", reader)


def _checked(name: object, kind: str, reader: Reader) -> tuple[Array, Ids]:
    """What the reader reads, if that is 2-d numbers; whatever goes wrong in it becomes a sentence."""
    try:
        array, ids = reader()
    except (FileProblem, ImportError, NotEnoughMemory):
        raise
    except Exception as error:  # every library has errors of its own for a damaged file
        said = " ".join(str(error).split())[:200]
        raise ValueError(f"{name} is truncated, damaged or no {kind} ({said})") from error
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise ValueError(f"{name} holds {array.dtype} of shape {array.shape}; vectors are 2-d numbers, a row per item")
    if ids is not None and not array.shape[1]:
        raise ValueError(f"{name} has no column of numbers beside its ids; write one vector per line")
    return array, ids


def _npz(path: Path, key: str | None, mmap: bool) -> Array:
    found = headers(path)
    numeric = {name: header.shape for name, header in found.items() if header.dtype.kind in "fiub" or name == key}
    name = choose(path, key, numeric)
    return read_npz(path, name, found[name])


def _text(path: Path, key: str | None, id_column: Column) -> tuple[Array, Ids]:
    fits(path, 3 * path.stat().st_size)  # two characters make four bytes
    opened = partial(path.open, encoding="utf-8-sig", newline="")
    return read_text(path, opened, "\t" if path.suffix.lower() == ".tsv" else ",", id_column)


def _vecs(path: Path, key: str | None, mmap: bool) -> Array:
    """fvecs, bvecs: every row is its number of dimensions as int32, then so many float32 or bytes."""
    kind = np.dtype("<f4") if path.suffix.lower() == ".fvecs" else np.dtype(np.uint8)
    raw = np.memmap(path, np.uint8, mode="r")
    dimensions = int.from_bytes(raw[:4].tobytes(), "little", signed=True)
    width = 4 + dimensions * kind.itemsize
    if dimensions < 1 or len(raw) % width:
        raise FileProblem(f"{path} is truncated or no {path.suffix} file: rows of {dimensions} numbers do not fill it")
    rows = raw.reshape(-1, width)
    if (rows[:, :4] != raw[:4]).any():
        raise FileProblem(f"{path} has rows of different lengths; vectors need {dimensions} numbers in every row")
    array = rows[:, 4:].view(kind)
    return array if mmap else np.array(array)


def _pickle(path: Path, key: str | None, mmap: bool) -> Array:
    from kinrank.files import closed_pickle

    try:
        content = closed_pickle.load(path)
    except ValueError as error:
        raise FileProblem(str(error)) from None
    if not isinstance(content, dict):
        return _from_lists(path, "its content", content)
    lists = {str(name): value for name, value in content.items() if isinstance(value, list)}
    name = choose(path, key, {name: _shape(value) for name, value in lists.items()})
    return _from_lists(path, name, lists[name])


def _shape(rows: list[Any]) -> tuple[int, ...]:
    return (len(rows), len(rows[0])) if rows and isinstance(rows[0], (list, tuple)) else (len(rows),)


def _from_lists(path: Path, name: str, rows: Any) -> Array:
    """Rows of Python's numbers as an array; numpy would also make one, of any size, from text."""
    if not isinstance(rows, list) or not rows or not all(isinstance(row, (list, tuple)) for row in rows):
        raise FileProblem(f"{path}: {name} is no list of rows; vectors are lists of numbers, one per item")
    if len({len(row) for row in rows}) > 1:
        raise FileProblem(f"{path}: {name} has rows of different lengths; vectors need equal rows")
    if not all({int, float, bool}.issuperset(map(type, row)) for row in rows):
        raise FileProblem(f"{path}: {name} holds something that is not a number; vectors are lists of numbers")
    return np.array(rows, np.float64)


def _hdf5(path: Path, key: str | None, mmap: bool) -> Array:
    h5py = optional("h5py", path)
    shapes: dict[str, tuple[int, ...]] = {}

    def note(name: str, entry: Any) -> None:
        # Data that lives in another file would let this one read anything on the machine.
        inside = isinstance(entry, h5py.Dataset) and not entry.external and not entry.is_virtual
        if inside and entry.dtype.kind in "fiub" and entry.shape is not None:
            shapes[name] = tuple(entry.shape)

    with h5py.File(path, "r") as file:
        file.visititems(note)
        entry = file[choose(path, None if key is None else key.strip("/"), shapes)]
        fits(path, entry.size * entry.dtype.itemsize)
        return np.asarray(entry[()])


def _matlab(path: Path, key: str | None, mmap: bool) -> Array:
    if version_of(path) == 2:  # version 7.3 is HDF5, with the order of the axes turned round
        return np.transpose(_hdf5(path, key, mmap))
    return read_matlab(path, key)


def _safetensors(path: Path, key: str | None, mmap: bool) -> Array:
    with optional("safetensors", path).safe_open(path, framework="numpy") as file:
        name = choose(path, key, {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()})  # noqa: SIM118
        if file.get_slice(name).get_dtype() == "BF16":
            raise FileProblem(f"{path}: {name} is bfloat16, which numpy does not know; save it as float16 or float32")
        return np.asarray(file.get_tensor(name))


READERS: dict[str, Callable[[Path, str | None, bool], Array]] = {
    ".npy": lambda path, key, mmap: read_npy(path, mmap),
    ".npz": _npz,
    ".fvecs": _vecs,
    ".bvecs": _vecs,
    ".pkl": _pickle,
    ".pickle": _pickle,
    ".h5": _hdf5,
    ".hdf5": _hdf5,
    ".mat": _matlab,
    ".safetensors": _safetensors,
}
TABLES: dict[str, Callable[[Path, str | None, Column], tuple[Array, Ids]]] = {
    ".csv": _text,
    ".tsv": _text,
    ".parquet": read_parquet,
}
