"""Weights of learned methods in a checksummed .npz file: arrays under their published names, and a record."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import InputError, UnreadableFileError
from kinrank.files import checksummed_npz
from kinrank.files.path_checks import check_regular_file

FORMAT_VERSION = 1
FILE_WORDS = checksummed_npz.FileWording(
    "file of weights", "a file of weights", "kinrank.fit or `kinrank fit`", "fit them again"
)
Arrays = Mapping[str, NDArray[np.float32]]
Shapes = dict[str, tuple[int, ...]]
Layout = Callable[[Any], Shapes]  # sizes -> shapes


@dataclass(frozen=True, eq=False)
class Weights:
    """Learned weights.

    Attributes:
        arrays: float32, by their names in the published program; read-only.
        sizes: numbers that determine the shapes, and their settings, such as anchors, width, depth, heads.
        record: origin: method, dimensions of the features if these matter, labels (given | pseudo | published),
            recipe, seed, versions, sha256.
        name: of the file, for errors.
    """

    arrays: Arrays
    sizes: Mapping[str, Any]
    record: dict[str, Any] = field(default_factory=dict)
    name: str = "weights"


def save(path: str | os.PathLike[str], arrays: Arrays, sizes: dict[str, Any], record: dict[str, Any]) -> None:
    """Write a file of weights atomically. `record` must name the method, see `Weights`."""
    checksummed_npz.check_ending(Path(path), FILE_WORDS)
    header = {**record, "sizes": sizes, "arrays": list(arrays)}  # their names are covered by the checksum
    plain = {name: np.ascontiguousarray(array, np.float32) for name, array in arrays.items()}
    checksummed_npz.write_npz(path, plain, header, FORMAT_VERSION)


def load(path: str | os.PathLike[str], method: str, layout: Layout, fields: Mapping[str, Any]) -> Weights:
    """Read and check a file of weights; an unchanged file is read once.

    Args:
        path: a file written by `save`.
        method: name of the method that the weights must belong to.
        layout: sizes -> the shape of every array; raises an InputError for impossible sizes.
        fields: name and type of every size.
    """
    place = Path(os.fspath(path))
    status = check_regular_file(checksummed_npz.check_ending(place, FILE_WORDS)).stat()
    state = status.st_mtime_ns, status.st_size, status.st_ino
    return _read_file(os.fspath(path), state, method, layout, tuple(fields.items()))


def check_weights(weights: Weights, layout: Layout, fields: Mapping[str, Any]) -> None:
    """Raise an UnreadableFileError unless the arrays have the shapes of their sizes and are finite."""
    sizes, name = weights.sizes, weights.name
    if set(sizes) != set(fields) or not all(type(sizes[key]) is kind for key, kind in fields.items()):
        raise UnreadableFileError(
            f"{name} does not hold its sizes ({', '.join(fields)}) as kinrank writes them; fit it again"
        )
    try:
        shapes = layout(sizes)
    except InputError as error:
        raise UnreadableFileError(f"{name} has sizes that no such network can have ({error}); fit it again") from None
    check_arrays(weights.arrays, shapes, name, FILE_WORDS.again)


def check_arrays(arrays: Arrays, shapes: Shapes, name: str, hint: str) -> None:
    """Raise an UnreadableFileError with the hint for an array that is missing, not finite, or should not be there."""
    for key, shape in shapes.items():
        if key not in arrays:
            raise UnreadableFileError(f"{name} lacks the array {key!r}; {hint}")
        array = arrays[key]
        if array.shape != shape or array.dtype != np.float32:
            raise UnreadableFileError(
                f"{name}: {key} is {array.dtype} {array.shape}, and must be float32 {shape}; {hint}"
            )
        if not np.isfinite(array).all():
            raise UnreadableFileError(f"{name}: {key} contains NaN or Inf; {hint}")
    for key in sorted(set(arrays) - set(shapes)):
        raise UnreadableFileError(f"{name} has the unexpected array {key!r}; {hint}")


def flatten_weights(weights: Weights) -> NDArray[np.float32]:
    """Join all arrays in the order of their names."""
    return np.concatenate([weights.arrays[name].ravel() for name in sorted(weights.arrays)])


def unflatten_weights(
    numbers: NDArray[np.float32], sizes: dict[str, Any], layout: Layout, name: str = "weights"
) -> Weights:
    """Undo `flatten_weights`; `name` is used in errors. Raise an InputError if the sizes do not match."""
    shapes = layout(sizes)
    ends = np.cumsum([math.prod(shapes[name]) for name in sorted(shapes)])
    if numbers.shape != (int(ends[-1]),) or not np.isfinite(numbers).all():
        raise InputError(f"must hold {ends[-1]} finite numbers")
    parts = np.split(numbers, ends[:-1])
    arrays = {key: part.reshape(shapes[key]) for key, part in zip(sorted(shapes), parts, strict=True)}
    return Weights(arrays, sizes, name=name)


@lru_cache(maxsize=8)
def _read_file(
    path: str, state: tuple[int, ...], method: str, layout: Layout, fields: tuple[tuple[str, Any], ...]
) -> Weights:
    """Read and check a file; `state` makes the cache miss if the file has changed."""
    arrays, header, seal = checksummed_npz.read_checked_npz(Path(path), FILE_WORDS, FORMAT_VERSION)
    complete = (
        isinstance(header, dict) and isinstance(header.get("sizes"), dict) and header.get("arrays") == list(arrays)
    )
    if not complete or not isinstance(header.get("method"), str):
        raise UnreadableFileError(f"{path} does not name the weights that it holds; {FILE_WORDS.again}")
    for array in arrays.values():
        array.setflags(write=False)
    record = {key: value for key, value in header.items() if key not in ("sizes", "arrays")}
    if record["method"] != method:
        raise UnreadableFileError(
            f"{path} holds weights of {record['method']:.40}, and {method} needs its own; give those, or fit some"
        )
    weights = Weights(arrays, MappingProxyType(header["sizes"]), {**record, "sha256": seal}, path)
    check_weights(weights, layout, dict(fields))
    return weights
