"""The weights of a learned method <-> a sealed .npz file: arrays under their published names, and a record of them."""

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

from kinrank.files import sealed
from kinrank.files.opening import FileProblem, regular

VERSION = 1
WORDS = sealed.Words("file of weights", "a file of weights", "kinrank.fit or `kinrank fit`", "fit them again")
LABELS = ("given", "pseudo", "published")  # where the labels they were fitted on came from
Arrays = Mapping[str, NDArray[np.float32]]
Shapes = dict[str, tuple[int, ...]]
Layout = Callable[[Any], Shapes]  # sizes -> shapes


@dataclass(frozen=True, eq=False)
class Weights:
    """What was learned.

    Attributes:
        arrays: float32, by the names they have in the published program; not to be changed.
        sizes: what the shapes follow from and the settings that belong to them, such as anchors, width, depth, heads.
        record: how they came about: method, dimensions of the features where these matter, labels (given | pseudo |
            published), recipe, seed, versions, sha256.
        name: of the file, for errors.
    """

    arrays: Arrays
    sizes: Mapping[str, Any]
    record: dict[str, Any] = field(default_factory=dict)
    name: str = "weights"


def save(path: str | os.PathLike[str], arrays: Arrays, sizes: dict[str, Any], record: dict[str, Any]) -> None:
    """Write a file of weights: beside the path, then renamed. `record` must say the method, see `Weights`."""
    sealed.ends_well(Path(path), WORDS)
    about = {**record, "sizes": sizes, "arrays": list(arrays)}  # their names are sealed, too
    plain = {name: np.ascontiguousarray(array, np.float32) for name, array in arrays.items()}
    sealed.write(path, plain, about, VERSION)


def load(path: str | os.PathLike[str], method: str, layout: Layout, fields: Mapping[str, Any]) -> Weights:
    """The weights of a file, checked; a sentence for everything else. The same file is read once.

    Args:
        path: what `save` wrote.
        method: the name of the method they must be for.
        layout: sizes -> the shape of every array, or a ValueError for sizes that no network has.
        fields: the names of the sizes, and of which type each is.
    """
    place = Path(os.fspath(path))
    found = regular(sealed.ends_well(place, WORDS)).stat()
    state = found.st_mtime_ns, found.st_size, found.st_ino
    return _read(os.fspath(path), state, method, layout, tuple(fields.items()))


def fitting(weights: Weights, layout: Layout, fields: Mapping[str, Any]) -> None:
    """A FileProblem unless the arrays are what the sizes say, and finite."""
    sizes, name = weights.sizes, weights.name
    if set(sizes) != set(fields) or not all(type(sizes[key]) is kind for key, kind in fields.items()):
        raise FileProblem(f"{name} does not tell its sizes ({', '.join(fields)}) as kinrank does; fit it again")
    try:
        wanted = layout(sizes)
    except ValueError as error:
        raise FileProblem(f"{name} tells sizes that no such network has ({error}); fit it again") from None
    if set(wanted) != set(weights.arrays):
        odd = sorted(set(wanted) ^ set(weights.arrays))[0]
        raise FileProblem(f"{name} {'lacks' if odd in wanted else 'has a foreign'} array {odd!r}; fit it again")
    for key, shape in wanted.items():
        array = weights.arrays[key]
        if array.shape != shape or array.dtype != np.float32:
            raise FileProblem(
                f"{name}: {key} is {array.dtype} {array.shape}, and must be float32 {shape}; fit it again"
            )
        if not np.isfinite(array).all():
            raise FileProblem(f"{name}: {key} contains NaN or Inf; fit it again")


def flat(weights: Weights) -> NDArray[np.float32]:
    """All arrays, one after the other by their names."""
    return np.concatenate([weights.arrays[name].ravel() for name in sorted(weights.arrays)])


def unflat(numbers: NDArray[np.float32], sizes: dict[str, Any], layout: Layout, name: str = "weights") -> Weights:
    """What `flat` was made of, under a name for errors; a ValueError where sizes say otherwise."""
    shapes = layout(sizes)
    ends = np.cumsum([math.prod(shapes[name]) for name in sorted(shapes)])
    if numbers.shape != (int(ends[-1]),) or not np.isfinite(numbers).all():
        raise ValueError(f"must hold {ends[-1]} finite numbers")
    parts = np.split(numbers, ends[:-1])
    arrays = {key: part.reshape(shapes[key]) for key, part in zip(sorted(shapes), parts, strict=True)}
    return Weights(arrays, sizes, name=name)


@lru_cache(maxsize=8)
def _read(
    path: str, state: tuple[int, ...], method: str, layout: Layout, fields: tuple[tuple[str, Any], ...]
) -> Weights:
    """A file as it was at that time, checked."""
    arrays, about, seal = sealed.read(Path(path), WORDS, VERSION)
    good = isinstance(about, dict) and isinstance(about.get("sizes"), dict) and about.get("arrays") == list(arrays)
    if not good or not isinstance(about.get("method"), str):
        raise FileProblem(f"{path} does not say which weights it holds; {WORDS.again}")
    for array in arrays.values():
        array.setflags(write=False)
    record = {key: value for key, value in about.items() if key not in ("sizes", "arrays")}
    if record["method"] != method:
        raise FileProblem(
            f"{path} holds weights of {record['method']:.40}, and {method} needs its own; give those, or fit some"
        )
    weights = Weights(arrays, MappingProxyType(about["sizes"]), {**record, "sha256": seal}, path)
    fitting(weights, layout, dict(fields))
    return weights
