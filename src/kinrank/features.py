"""Arrays and files from anywhere -> float32 rows, checked before anything native sees them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank import given

Vectors = NDArray[np.float32]


def load(path: str | os.PathLike[str], key: str | None = None, mmap: bool = True) -> NDArray[Any]:
    """The rows of a file, with the type they have on disk; `check` makes float32 of them where they are used.

    Read by ending: npy, npz, csv, tsv, fvecs, bvecs, pkl (plain lists only, nothing executed), mat; and with
    `pip install 'kinrank[io]'` h5, hdf5, mat 7.3, safetensors, and parquet (a column of lists, or all
    columns of numbers).

    Args:
        path: the file.
        key: which of its arrays, where it holds several; the error lists them.
        mmap: npy, fvecs and bvecs stay on disk and are read as needed; False reads them at once.

    A missing file is a FileNotFoundError; an empty, truncated or foreign one, one of Python objects, or an
    unknown ending a ValueError; a missing package an ImportError that says what to install.

    Example:
        >>> gallery = load("roxford5k_sscd.npz", key="d")
    """
    from kinrank.files.features import read

    return read(Path(path), key, mmap)


def check(vectors: ArrayLike, name: str = "vectors", dimensions: int | None = None) -> Vectors:
    """The rows as contiguous, native float32, never the caller's own memory changed.

    Refused with a ValueError that names the parameter: not 2-d, no columns, not numbers, masked entries, NaN or Inf
    (with the first bad row), another number of columns than `dimensions`.

    Example:
        >>> check([[1, 2]]).dtype
        dtype('float32')
    """
    array = _as_array(vectors, name)
    if array.ndim != 2:
        raise ValueError(
            f"{name} must be 2-d, one row per item; got shape {array.shape}"
            + ("; pass vector[None, :] for a single vector" if array.ndim == 1 else "")
        )
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{name} must hold real numbers; got dtype {array.dtype}")
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


def _as_array(vectors: Any, name: str) -> NDArray[Any]:
    if hasattr(vectors, "detach"):  # a torch tensor, possibly with gradients or on a device
        vectors = vectors.detach().cpu()
        if str(getattr(vectors, "dtype", "")) == "torch.bfloat16":  # numpy has no such type
            vectors = vectors.float()
    vectors = given.unmasked(vectors, name)
    try:
        return np.asarray(vectors)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name} is not an array of equal rows: {error}") from error
