"""Arrays and files from anywhere -> float32 rows, checked before anything native sees them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Set
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank import given

Vectors = NDArray[np.float32]
LONGEST = 1e15  # numbers whose squares still add up in float32


def load(
    path: str | os.PathLike[str], key: str | None = None, mmap: bool = True, id_column: str | int | None = None
) -> NDArray[Any]:
    """The rows of a file, with the type they have on disk; `check` makes float32 of them where they are used.

    Read by ending: npy, npz, csv, tsv, fvecs, bvecs, pkl (plain lists only, nothing executed), mat; and with
    `pip install 'kinrank[io]'` h5, hdf5, mat 7.3, safetensors, and parquet (a column of lists, or all
    columns of numbers).

    The first line of a csv or tsv is a heading if none of its cells is a number. An empty cell is refused, and so
    is text that `id_column` does not name, and a column of numbers that is called id, index, label or the like.

    Args:
        path: the file.
        key: which of its arrays, where it holds several; the error lists them.
        mmap: npy, fvecs and bvecs stay on disk and are read as needed; False reads them at once.
        id_column: the column of a csv, tsv or parquet that names the rows and is no dimension: its name, or its
            number from 0. `load_with_ids` returns what stands in it.

    A missing file is a FileNotFoundError; an empty, truncated or foreign one, one of Python objects, or an
    unknown ending a ValueError; a missing package an ImportError that says what to install; one that unpacks to more
    than this machine has free a NotEnoughMemory.

    Example:
        >>> gallery = load("roxford5k_sscd.npz", key="d")
    """
    return load_with_ids(path, key, mmap, id_column)[0]


def load_with_ids(
    path: str | os.PathLike[str], key: str | None = None, mmap: bool = True, id_column: str | int | None = None
) -> tuple[NDArray[Any], list[Any] | None]:
    """The same rows, and what stands in their id column: text, or the whole numbers of a parquet; None without one.

    Example:
        >>> gallery, names = load_with_ids("gallery.csv", id_column="name")
    """
    from kinrank.files.features import read

    return read(Path(path), key, mmap, id_column)


def check(vectors: ArrayLike, name: str = "vectors", dimensions: int | None = None) -> Vectors:
    """The rows as contiguous, native float32, never the caller's own memory changed.

    Refused with a ValueError that names the parameter: not 2-d, no columns, not numbers, masked entries, NaN or Inf
    (with the first bad row), another number of columns than `dimensions`.

    Example:
        >>> check([[1, 2]]).dtype
        dtype('float32')
    """
    array = _as_array(vectors, name)
    if array.ndim == 1 and array.dtype == object and any(isinstance(row, (list, tuple, np.ndarray)) for row in array):
        raise ValueError(f"{name} must be 2-d, one row per item; got {len(array)} rows apart: pass np.stack({name})")
    if array.ndim != 2:
        raise ValueError(
            f"{name} must be 2-d, one row per item; got shape {array.shape}"
            + ("; pass vector[None, :] for a single vector" if array.ndim == 1 else "")
        )
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold real numbers; got dtype {array.dtype}{_text_columns(vectors)}")
    if dimensions is not None and array.shape[1] != dimensions:
        raise ValueError(
            f"{name} has shape {array.shape} but {dimensions} dimensions are needed; "
            "both sides must come from the same model"
        )
    if array.shape[1] == 0:
        raise ValueError(f"{name} has shape {array.shape}: rows without a single number cannot be compared")
    with np.errstate(over="ignore"):  # a float64 beyond float32 becomes inf and is refused below, by row
        rows = np.ascontiguousarray(array, dtype=np.float32)
    finite = np.isfinite(rows).all(axis=1)
    if not finite.all():
        bad = int(np.flatnonzero(~finite)[0])
        raise ValueError(
            f"{name} row {bad} contains NaN or Inf (or a number beyond float32); drop or repair it "
            f"({int((~finite).sum())} such rows)"
        )
    return rows


def unit(rows: Vectors, name: str = "vectors") -> Vectors:
    """The rows divided by their Euclidean norm, as a new array; a zero row has no direction and is refused."""
    peak = np.abs(rows).max(axis=1, keepdims=True) if rows.size else np.ones((len(rows), 1), np.float32)
    zero = np.flatnonzero(peak[:, 0] == 0)
    if zero.size:
        raise ValueError(
            f"{name} row {int(zero[0])} is a zero vector and has no direction; drop it ({zero.size} such rows)"
        )
    scaled = rows / peak  # first, so that squares neither overflow nor vanish
    norms = np.sqrt(np.einsum("ij,ij->i", scaled, scaled, dtype=np.float64))
    return np.ascontiguousarray(scaled / norms[:, None], dtype=np.float32)


def are_unit(rows: Vectors) -> bool:
    """Whether every row has length one, but for rounding."""
    return bool(np.all(np.abs(np.einsum("ij,ij->i", rows, rows, dtype=np.float64) - 1.0) <= 1e-5))


def scale_of(rows: Vectors) -> float:
    """The root mean square length of rows, 1 where all are zero: the unit in which lengths matter (euclidean)."""
    peak = float(np.abs(rows).max(initial=0.0))
    if not peak:
        return 1.0
    total = sum(
        float(np.square(rows[start : start + 1024] / np.float32(peak), dtype=np.float64).sum())
        for start in range(0, len(rows), 1024)
    )
    return float(np.float32(peak * (total / len(rows)) ** 0.5))  # of rows of length one exactly 1


def bounded(rows: Vectors, name: str = "vectors") -> Vectors:
    """The rows, if the squares of their lengths are numbers that float32 can hold; refused if not."""
    peak = np.abs(rows).max(axis=1, initial=0.0)
    if len(rows) and float(peak.max()) > LONGEST:
        raise ValueError(
            f"{name} row {int(np.argmax(peak > LONGEST))} holds numbers beyond {LONGEST:g}, too large to be compared "
            "by their distances; divide all vectors, queries and gallery, by one number"
        )
    return rows


def evenly(count: int, most: int) -> NDArray[np.int64]:
    """At most so many of the numbers below `count`, evenly taken.

    Example:
        >>> evenly(100, 3)
        array([ 0, 49, 99])
    """
    return np.unique(np.linspace(0, max(count - 1, 0), min(most, count)).astype(np.int64))


def _as_array(vectors: Any, name: str) -> NDArray[Any]:
    if (remedy := _no_rows(vectors, name)) is not None:
        raise ValueError(f"{name} must be rows of numbers, one per item; got {remedy}")
    if hasattr(vectors, "detach"):  # a torch tensor, possibly with gradients or on a device
        vectors = vectors.detach().cpu()
        if str(getattr(vectors, "dtype", "")) == "torch.bfloat16":  # numpy has no such type
            vectors = vectors.float()
    vectors = given.unmasked(vectors, name)
    try:
        return np.asarray(vectors)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name} is not an array of equal rows: {error}") from error


def _no_rows(vectors: Any, name: str) -> str | None:
    """What was given where it can be no array of rows, and what to pass instead; None for everything else."""
    if vectors is None:
        return "None: pass an array, or read a file with kinrank.features.load(path)"
    if isinstance(vectors, (str, os.PathLike)):
        return f"the path {os.fspath(vectors)!r}: read it with kinrank.features.load(path)"
    if isinstance(vectors, (bytes, bytearray)):
        return "bytes: pass np.frombuffer(...) with its shape, or read a file with kinrank.features.load(path)"
    if isinstance(vectors, Mapping):
        keys = list(vectors)
        listed = ", ".join(map(repr, keys[:8])) or "nothing"
        return f"a dict with the keys {listed}: pass one of its arrays" + (f", {name}[{keys[0]!r}]" if keys else "")
    if hasattr(vectors, "toarray") and hasattr(vectors, "nnz"):
        return f"a sparse matrix: pass {name}.toarray()"
    if isinstance(vectors, Iterator):
        return f"a generator, which can be read only once: pass np.array(list({name}))"
    if isinstance(vectors, Set):
        return "a set, which has no order: pass a list or an array"
    return None


def _text_columns(vectors: Any) -> str:
    """The columns of a data frame that hold no numbers, for the end of a sentence."""
    kinds: Any = getattr(vectors, "dtypes", None)
    if not hasattr(kinds, "items"):
        return ""
    wrong = [str(column) for column, kind in kinds.items() if getattr(kind, "kind", "O") not in "fiub"]
    return f": pass its columns of numbers only, without {', '.join(wrong[:8])}"
