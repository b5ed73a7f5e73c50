"""Files of vectors in many formats -> 2-d arrays as they are on disk; nothing in a file is executed."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from kinrank.memory import NotEnoughMemory, allowed_bytes, in_words

Array = NDArray[Any]
Shapes = Mapping[str, tuple[int, ...]]


class FileProblem(ValueError):
    """A file that cannot be read, with a sentence that says why; other errors mean that it is damaged."""


def read(path: Path, key: str | None, mmap: bool) -> Array:
    """The array of the file, or a ValueError (FileNotFoundError, ImportError) of one sentence."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there, or is not a file; check the path")
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise ValueError(f"{path} has the unknown ending {path.suffix!r}; these are read: {', '.join(READERS)}")
    if path.stat().st_size == 0:
        raise ValueError(f"{path} is empty; write it again")
    try:
        array = reader(path, key, mmap)
    except (FileProblem, ImportError, MemoryError):
        raise
    except Exception as error:  # every library has errors of its own for a damaged file
        said = " ".join(str(error).split())[:200]
        raise ValueError(f"{path} is truncated, damaged or no {path.suffix} file ({said})") from error
    if array.ndim != 2 or array.dtype.kind not in "fiub":
        raise ValueError(f"{path} holds {array.dtype} of shape {array.shape}; vectors are 2-d numbers, a row per item")
    return array


def choose(path: Path, key: str | None, shapes: Shapes) -> str:
    """The name of the wanted array: the key, or the only 2-d array there is."""
    listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "nothing"
    if key is not None:
        if key in shapes:
            return key
        raise FileProblem(f"{path} has no array {key!r}; it holds {listed}")
    flat = [name for name, shape in shapes.items() if len(shape) == 2]
    if len(flat) == 1:
        return flat[0]
    count = "several 2-d arrays" if flat else "no 2-d array of numbers"
    raise FileProblem(f"{path} holds {count}; pass key= with one of: {listed}")


def fits(path: Path, size: int) -> None:
    """Refuse before allocating what this machine cannot hold: a small file can unpack to a huge array."""
    if size > allowed_bytes():
        raise NotEnoughMemory(
            f"{path} unpacks to {in_words(size)} but only {in_words(allowed_bytes())} are free; "
            "save it as .npy, which is read in place"
        )


def _npy(path: Path, key: str | None, mmap: bool) -> Array:
    with path.open("rb") as file:
        _, _, dtype = _npy_header(file)
    if dtype.hasobject:
        raise FileProblem(f"{path} holds Python objects, which are never loaded; save it as an array of numbers")
    array: Array = np.lib.format.open_memmap(path, mode="r")  # also refuses a file shorter than its header says
    return array if mmap else np.array(array)


def _npy_header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(file)
    return np.lib.format.read_array_header_2_0(file)


def _npz(path: Path, key: str | None, mmap: bool) -> Array:
    shapes, sizes = {}, {}
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.filename.endswith(".npy"):
                with archive.open(info) as member:
                    shape, _, dtype = _npy_header(member)
                name = info.filename.removesuffix(".npy")
                if dtype.kind in "fiub" or key == name:
                    shapes[name] = shape
                sizes[name] = math.prod(shape) * dtype.itemsize
                if dtype.hasobject and key == name:
                    raise FileProblem(f"{path}: {name} holds Python objects, which are never loaded; save numbers")
                if sizes[name] > info.file_size:
                    raise FileProblem(f"{path}: {name} is shorter than its header says; the file is damaged")
    name = choose(path, key, shapes)
    fits(path, sizes[name])
    with np.load(path, allow_pickle=False) as arrays:
        return np.asarray(arrays[name])


def _text(path: Path, key: str | None, mmap: bool) -> Array:
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    with path.open(encoding="utf-8-sig") as lines:
        first = next((line for line in lines if line.strip()), "")
    try:
        [float(cell) for cell in first.split(delimiter)]
        header = 0
    except ValueError:
        header = 1
    with path.open(encoding="utf-8-sig") as lines:
        rows = (line for line in lines if line.strip())
        for _ in range(header):
            next(rows, None)
        kept = list(rows)
    if not kept:
        raise FileProblem(f"{path} holds no row of numbers; write one vector per line")
    return np.loadtxt(kept, np.float32, delimiter=delimiter, comments=None, ndmin=2)


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
        return np.asarray(content)
    arrays = {}
    for name, value in content.items():
        if isinstance(value, list) and (key is None or str(name) == key):
            try:
                arrays[str(name)] = np.asarray(value)
            except ValueError:
                raise FileProblem(f"{path}: {name} has rows of different lengths; vectors need equal rows") from None
    return arrays[choose(path, key, {name: array.shape for name, array in arrays.items()})]


def _hdf5(path: Path, key: str | None, mmap: bool) -> Array:
    h5py = _import("h5py", path)
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
    import scipy.io

    try:
        listed = scipy.io.whosmat(str(path))
    except NotImplementedError:  # version 7.3 is HDF5, with the order of the axes turned round
        return np.transpose(_hdf5(path, key, mmap))
    numeric = (
        "double",
        "single",
        "logical",
        *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)),
    )
    shapes = {name: tuple(shape) for name, shape, kind in listed if kind in numeric}
    name = choose(path, key, shapes)
    fits(path, math.prod(shapes[name]) * 8)
    return np.asarray(scipy.io.loadmat(str(path), variable_names=[name])[name])


def _parquet(path: Path, key: str | None, mmap: bool) -> Array:
    parquet = _import("pyarrow.parquet", path)
    types = _import("pyarrow.types", path)
    with parquet.ParquetFile(path) as file:
        schema, count = file.schema_arrow, file.metadata.num_rows
        lists = {
            f.name: (count, getattr(f.type, "list_size", -1))
            for f in schema
            if types.is_fixed_size_list(f.type) or types.is_list(f.type) or types.is_large_list(f.type)
        }
        numbers = [f.name for f in schema if types.is_integer(f.type) or types.is_floating(f.type)]
        if key is None and not lists and numbers:
            table = file.read(columns=numbers)
            return np.column_stack([_without_nulls(path, name, table[name]).to_numpy() for name in numbers])
        name = choose(path, key, lists)
        column = _without_nulls(path, name, file.read(columns=[name])[name].combine_chunks())
    flat = _without_nulls(path, name, column.flatten()).to_numpy(zero_copy_only=False)
    widths = {len(flat) // max(count, 1)} if lists[name][1] >= 0 else set(np.diff(np.asarray(column.offsets)).tolist())
    if len(widths) != 1:
        raise FileProblem(f"{path}: {name} has rows of different lengths; vectors need equal rows")
    return np.asarray(flat.reshape(count, widths.pop()))


def _without_nulls(path: Path, name: str, column: Any) -> Any:
    if column.null_count:
        raise FileProblem(f"{path}: {name} has {column.null_count} empty entries; drop or fill them")
    return column


def _safetensors(path: Path, key: str | None, mmap: bool) -> Array:
    with _import("safetensors", path).safe_open(path, framework="numpy") as file:
        name = choose(path, key, {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()})  # noqa: SIM118
        if file.get_slice(name).get_dtype() == "BF16":
            raise FileProblem(f"{path}: {name} is bfloat16, which numpy does not know; save it as float16 or float32")
        return np.asarray(file.get_tensor(name))


def _import(module: str, path: Path) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        package = module.split(".")[0]
        raise ImportError(f"reading {path.suffix} files needs {package}; pip install 'kinrank[io]'") from error


READERS: dict[str, Callable[[Path, str | None, bool], Array]] = {
    ".npy": _npy,
    ".npz": _npz,
    ".csv": _text,
    ".tsv": _text,
    ".fvecs": _vecs,
    ".bvecs": _vecs,
    ".pkl": _pickle,
    ".pickle": _pickle,
    ".h5": _hdf5,
    ".hdf5": _hdf5,
    ".mat": _matlab,
    ".parquet": _parquet,
    ".safetensors": _safetensors,
}
