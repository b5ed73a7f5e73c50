"""Input vectors from arrays and files: checked and converted to float32 rows before compiled code reads them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import InputError
from kinrank.ids import unwrap_masked_array

Vectors = NDArray[np.float32]
MAX_MAGNITUDE = 1e15  # numbers whose squares still add up in float32
QUERY_PARAMETERS = ("queries", "query", "vector")  # these also accept a single vector (d,)
MAIN_MEMORY_DEVICES = (1, 3, 11)  # of DLPack: CPU, and host memory that CUDA or ROCm pinned


def load(
    path: str | os.PathLike[str], key: str | None = None, *, mmap: bool = True, id_column: str | int | None = None
) -> NDArray[Any]:
    """Read the rows of a file with the type they have on disk; `check_vectors` converts them to float32 later.

    The format follows from the ending: npy, npz, csv, tsv, fvecs, bvecs, pkl (plain lists only, nothing is executed),
    mat; and with the extra `io` h5, hdf5, mat 7.3, safetensors, and parquet (a column of lists, or all columns of
    numbers).

    The first line of a csv or tsv is a heading if none of its cells is a number. Empty cells are refused. So are text
    columns that `id_column` does not name, and columns of numbers that are called id, index, label or the like.

    Args:
        path: the file, or "FILE.npz:KEY".
        key: which of its arrays, if it holds several; the error lists them.
        mmap: npy, fvecs and bvecs stay on disk and are read as needed; False reads them at once.
        id_column: the column of a csv, tsv or parquet that names the rows and is not a dimension: its name, or its
            number from 0. `load_with_ids` returns its content.

    Raises:
        FileNotFoundError: the file does not exist.
        InputError: the file is empty, truncated, in another format, holds Python objects, or has an unknown ending.
        ImportError: a package is missing; the message says what to install.
        MemoryLimitError: the file unpacks to more than this machine has free.

    Example:
        >>> gallery = load("roxford5k_sscd.npz", key="d")
    """
    return load_with_ids(path, key, mmap=mmap, id_column=id_column)[0]


def load_with_ids(
    path: str | os.PathLike[str], key: str | None = None, *, mmap: bool = True, id_column: str | int | None = None
) -> tuple[NDArray[Any], list[Any] | None]:
    """Read the rows and the id column of a file: text, or the whole numbers of a parquet; None without an id column.

    Example:
        >>> gallery, names = load_with_ids("gallery.csv", id_column="name")
    """
    from kinrank.files.vector_files import read_vectors, split_key

    file, key = split_key(path) if key is None else (Path(path), key)
    return read_vectors(file, key, mmap, id_column)


def check_vectors(vectors: Any, name: str = "vectors", dimensions: int | None = None) -> Vectors:
    """Convert vectors to contiguous, native float32 rows without changing the memory of the caller.

    Accepts everything that `to_array` does, and a single vector (d,) where queries are given. An InputError that names
    the parameter refuses arrays that are not 2-d, have no columns, masked entries, NaN or Inf (with the first bad row),
    values that are not numbers, and another number of columns than `dimensions`.

    Example:
        >>> check_vectors([[1, 2]]).dtype
        dtype('float32')
    """
    array = to_array(vectors, name)
    if array.ndim == 1 and array.dtype.kind in "fiub" and name in QUERY_PARAMETERS:
        array = array[None, :]
    if array.ndim != 2:
        raise InputError(
            f"must be 2-d, one row per item; got shape {array.shape}",
            parameter=name,
            remedy="pass vector[None, :] for a single vector"
            if array.ndim == 1 and array.dtype.kind in "fiub"
            else None,
        )
    if array.dtype.kind not in "fiub":
        raise InputError(
            f"must hold real numbers; got dtype {array.dtype}{_describe_text_columns(vectors)}", parameter=name
        )
    if dimensions is not None and array.shape[1] != dimensions:
        raise InputError(
            f"has shape {array.shape} but {dimensions} dimensions are needed",
            parameter=name,
            remedy="both sides must come from the same model",
        )
    if array.shape[1] == 0:
        raise InputError(f"has shape {array.shape}: rows without columns cannot be compared", parameter=name)
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes inf and is refused below, by row
        rows = np.ascontiguousarray(array, dtype=np.float32)
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        bad = int(np.flatnonzero(~finite)[0])
        raise InputError(
            f"row {bad} contains NaN or Inf (or a number beyond float32)",
            parameter=name,
            remedy=f"drop or repair it ({int((~finite).sum())} of {len(rows)} rows)",
        )
    return rows


def to_unit_rows(rows: Vectors, name: str = "vectors") -> Vectors:
    """Divide the rows by their Euclidean norm into a new array. A zero row has no direction and is refused."""
    peak = np.abs(rows).max(axis=1, keepdims=True) if rows.size else np.ones((len(rows), 1), np.float32)
    zero = np.flatnonzero(peak[:, 0] == 0)
    if zero.size:
        raise InputError(
            f"row {int(zero[0])} is a zero vector and has no direction",
            parameter=name,
            remedy=f"drop it ({zero.size} of {len(rows)} rows)",
        )
    scaled = rows / peak  # first, so that squares neither overflow nor underflow
    norms = np.sqrt(np.einsum("ij,ij->i", scaled, scaled, dtype=np.float64))
    return np.ascontiguousarray(scaled / norms[:, None], dtype=np.float32)


def are_unit(rows: Vectors) -> bool:
    """True if every row has length one, up to rounding."""
    return bool(np.all(np.abs(np.einsum("ij,ij->i", rows, rows, dtype=np.float64) - 1.0) <= 1e-5))


def compute_rms_length(rows: Vectors) -> float:
    """Return the root mean square length of the rows (1 if all are zero), the unit of the metric "euclidean"."""
    peak = float(np.abs(rows).max(initial=0.0))
    if not peak:
        return 1.0
    total = sum(
        float(np.square(rows[start : start + 1024] / np.float32(peak), dtype=np.float64).sum())
        for start in range(0, len(rows), 1024)
    )
    return float(np.float32(peak * (total / len(rows)) ** 0.5))  # exactly 1 for rows of length one


def check_magnitude(rows: Vectors, name: str = "vectors") -> Vectors:
    """Return the rows if float32 can hold the squares of their lengths; refuse them otherwise."""
    peak = np.abs(rows).max(axis=1, initial=0.0)
    if len(rows) and float(peak.max()) > MAX_MAGNITUDE:
        raise InputError(
            f"row {int(np.argmax(peak > MAX_MAGNITUDE))} holds numbers beyond {MAX_MAGNITUDE:g}, too large to compute "
            "distances",
            parameter=name,
            remedy="divide all vectors, queries and gallery, by one number",
        )
    return rows


def sample_evenly(count: int, most: int) -> NDArray[np.int64]:
    """Return at most `most` numbers below `count`, evenly spaced.

    Example:
        >>> sample_evenly(100, 3)
        array([ 0, 49, 99])
    """
    return np.arange(count) if count <= most else np.unique(np.linspace(0, count - 1, most).astype(np.int64))


def to_array(vectors: Any, name: str) -> NDArray[Any]:
    """Convert vectors of any origin to one array, without checking its numbers.

    Accepts arrays, lists of rows, files (a path, or "FILE.npz:KEY"), data frames of numbers or of one column of rows,
    Series and columns of rows (pandas, polars, Hugging Face datasets), Arrow arrays and tables, torch tensors, and
    arrays of other libraries, such as JAX and CuPy, by `__array__` or DLPack.

    Example:
        >>> to_array(pandas.Series([[1, 2], [3, 4]]), "vectors").shape
        (2, 2)
    """
    if type(vectors) is np.ndarray and vectors.dtype.kind in "fiub":
        return vectors
    if isinstance(vectors, (str, os.PathLike)):
        return load(vectors)
    if (remedy := _describe_non_rows(vectors, name)) is not None:
        raise InputError(f"must be rows of numbers, one per item; got {remedy}", parameter=name)
    if isinstance(vectors, (list, tuple)) and len(vectors) and hasattr(vectors[0], "detach"):  # tensors, one per row
        return _stack_rows(vectors, name)
    library = type(vectors).__module__.partition(".")[0]
    if library == "polars" and type(vectors).__name__ == "Series":
        vectors, library = vectors.to_arrow(), "pyarrow"
    if library == "pyarrow":
        return _read_arrow(vectors, name)
    if hasattr(vectors, "detach") or (not hasattr(vectors, "__array__") and hasattr(vectors, "__dlpack__")):
        return _copy_to_main_memory(vectors, name)
    vectors = unwrap_masked_array(vectors, name)
    try:
        array = np.asarray(vectors)
    except (ValueError, TypeError) as error:
        if hasattr(vectors, "__dlpack__"):  # on a device, such as an array of CuPy
            return _copy_to_main_memory(vectors, name)
        raise InputError(f"is not an array of equal rows: {error}", parameter=name) from error
    if array.dtype.name == "bfloat16":
        return array.astype(np.float32)
    if array.dtype != object:
        return array
    if array.ndim == 0:
        raise InputError(f"must be rows of numbers, one per item; got {type(vectors).__name__}", parameter=name)
    if array.ndim == 2 and hasattr(vectors, "columns"):  # a data frame of nullable numbers, or of a column of rows
        columns = vectors.iter_columns() if library == "polars" else (column for _, column in vectors.items())
        return _join_columns([to_array(column, name) for column in columns])
    if array.ndim == 1 and any(hasattr(row, "__len__") and not isinstance(row, (str, bytes)) for row in array):
        return _stack_rows(array, name)
    return array


def _stack_rows(rows: Iterable[Any], name: str) -> NDArray[Any]:
    """Join separate rows, such as those of a Series, which must have the same length."""
    try:
        return np.stack([to_array(row, name) if hasattr(row, "detach") else np.asarray(row) for row in rows])
    except ValueError as error:
        raise InputError(f"is not an array of equal rows: {error}", parameter=name) from None


def _join_columns(columns: list[NDArray[Any]]) -> NDArray[Any]:
    """Join the columns of a table: numbers, or a single column of rows."""
    return columns[0] if len(columns) == 1 and columns[0].ndim == 2 else np.column_stack(columns)


def _read_arrow(vectors: Any, name: str) -> NDArray[Any]:
    """Convert an Arrow array of lists, or a table of numbers."""
    if hasattr(vectors, "column_names"):
        return _join_columns([to_array(column, name) for column in vectors.columns])
    if hasattr(vectors, "combine_chunks"):
        vectors = vectors.combine_chunks()
    if hasattr(vectors, "to_numpy_ndarray"):  # an extension type: tensors of a fixed shape
        return np.asarray(vectors.to_numpy_ndarray())
    values, lengths = vectors, None
    if hasattr(vectors, "flatten") and hasattr(vectors.type, "value_type"):  # lists, of a fixed size or not
        lengths = np.asarray(vectors.value_lengths() if hasattr(vectors, "value_lengths") else vectors.type.list_size)
        values = vectors.flatten()
    if vectors.null_count or values.null_count:
        count = vectors.null_count or values.null_count
        raise InputError(f"contains {count} missing entries", parameter=name, remedy="drop or fill them")
    array = np.asarray(values.to_numpy(zero_copy_only=False))
    if lengths is None:
        return array
    if lengths.ndim and (lengths != lengths[:1]).any():
        found = f"{lengths.min()} to {lengths.max()}"
        raise InputError(f"has rows of {found} numbers", parameter=name, allowed="rows of equal length")
    return array.reshape(len(vectors), int(lengths.max(initial=0)))


def _copy_to_main_memory(vectors: Any, name: str) -> NDArray[Any]:
    """Convert a tensor of torch, or an array of another library by DLPack; copy it if it is on a device."""
    try:
        if hasattr(vectors, "detach"):  # numpy has no bfloat16 and no float8
            small = vectors.dtype.is_floating_point and vectors.dtype.itemsize < 4
            return np.asarray((vectors.float() if small else vectors).numpy(force=True))
        device = int(vectors.__dlpack_device__()[0])
        if device in MAIN_MEMORY_DEVICES:
            return np.from_dlpack(vectors)
        if hasattr(vectors, "get"):  # CuPy
            return np.asarray(vectors.get())
        return np.from_dlpack(vectors, device="cpu", copy=True)
    except (AttributeError, BufferError, RuntimeError, TypeError, ValueError) as error:
        raise InputError(
            f"is a {type(vectors).__module__}.{type(vectors).__name__} that cannot be copied to main memory ({error})",
            parameter=name,
            remedy="pass a numpy array",
        ) from error


def _describe_non_rows(vectors: Any, name: str) -> str | None:
    """Describe a value that cannot be an array of rows, with the value to pass instead; None for any other value."""
    if vectors is None:
        return "None: pass an array or the path of a file"
    if isinstance(vectors, (bytes, bytearray)):
        return "bytes: pass np.frombuffer(...) with its shape, or the path of a file"
    if isinstance(vectors, Mapping):
        keys = list(vectors)
        names = ", ".join(map(repr, keys[:8])) or "nothing"
        return f"a dict with the keys {names}: pass one of its arrays" + (f", {name}[{keys[0]!r}]" if keys else "")
    if hasattr(vectors, "column_names") and hasattr(vectors, "with_format"):  # of Hugging Face
        names = ", ".join(map(repr, (vectors.column_names or [])[:8]))
        return f"a dataset with the columns {names}: pass one of them"
    if hasattr(vectors, "toarray") and hasattr(vectors, "nnz"):
        return f"a sparse matrix: pass {name}.toarray()"
    if isinstance(vectors, Iterator):
        return f"a generator, which can be read only once: pass np.array(list({name}))"
    if isinstance(vectors, Set):
        return "a set, which has no order: pass a list or an array"
    return None


def _describe_text_columns(vectors: Any) -> str:
    """List the columns of a data frame that are not numbers, as the end of a sentence."""
    kinds: Any = getattr(vectors, "dtypes", None)
    if not hasattr(kinds, "items"):
        return ""
    wrong = [str(column) for column, kind in kinds.items() if getattr(kind, "kind", "O") not in "fiub"]
    return f": pass its columns of numbers only, without {', '.join(wrong[:8])}"
