"""A folder of mapped arrays and a range of rows -> those rows of the next array. Run by workers; nothing is kept.

Every function gives the same bits whichever process runs it and however often, on processors of one kind: rows do not
depend on each other.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.distributed.files import read, zeros_on_disk
from kinrank.manifold.gallery import lists_of
from kinrank.space import Space
from kinrank.stores import Store
from kinrank.stores.scaled import in_space

Span = tuple[int, int]
Block = NDArray[Any]
Factory = Callable[[], Store]

_opened: dict[str, Store] = {}
_opening = threading.Lock()


class File(NamedTuple):
    """An array that every worker maps: its name in the folder, and its shape."""

    name: str
    shape: tuple[int, ...]


class Filled(NamedTuple):
    """An array that a task fills a range of: the whole shape, its kind, and the file of its row pointers, if any."""

    shape: tuple[int, ...]
    kind: str
    indptr: File | None


def opened(token: str, factory: Factory) -> Store:
    """The store of a run, opened once per worker; the one of an earlier run is let go."""
    with _opening:
        if token not in _opened:
            _opened.clear()
            _opened[token] = factory()
        return _opened[token]


def neighbours(folder: str, span: Span, k: int, token: str, factory: Factory | None, space: Space) -> tuple[Block, ...]:
    """Neighbour lists of a block: numbers and distances, (rows, k)."""
    store = None if factory is None else in_space(opened(token, factory), space)
    lists = lists_of(read(folder, "vectors"), store, np.arange(*span), k, space.unit)
    return lists.indices, lists.distances


def loop(
    folder: str, span: Span, module: str, name: str, inputs: tuple[Any, ...], outputs: tuple[Filled, ...]
) -> tuple[Block, ...]:
    """kernel(start, stop, *inputs, *outputs) of one range; the ranges that it filled, one per output."""
    kernel = getattr(importlib.import_module(module), name)
    arrays = [zeros_on_disk(output.shape, output.kind) for output in outputs]
    with stages.kernels.compiled.one_blas_thread():
        kernel(*span, *(mapped(folder, given) for given in inputs), *arrays)
    indptrs = [None if output.indptr is None else mapped(folder, output.indptr) for output in outputs]
    return tuple(array[owned(span, indptr)].copy() for array, indptr in zip(arrays, indptrs, strict=True))


def owned(span: Span, indptr: NDArray[np.int64] | None) -> slice:
    """The entries that belong to a range of rows."""
    return slice(*span) if indptr is None else slice(int(indptr[span[0]]), int(indptr[span[1]]))


def mapped(folder: str, given: Any) -> Any:
    """What was sent: files become arrays, also inside named tuples."""
    if isinstance(given, File):
        return read(folder, given.name).reshape(given.shape)
    if isinstance(given, tuple) and hasattr(given, "_fields"):
        return type(given)(*(mapped(folder, part) for part in given))
    return given
