"""Benchmark, the type that every reader returns, and Arrays, the checked contents of an .npz file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import InputError, MemoryLimitError, UnreadableFileError
from kinrank.evaluation import Truth
from kinrank.files.numpy_files import read_headers, read_npz
from kinrank.files.path_checks import check_regular_file


@dataclass(frozen=True, eq=False)
class Benchmark:
    """Vectors to rank, with the truths and measures to evaluate the ranking.

    Attributes:
        name: name in BENCHMARKS, or of the published set.
        queries: (q, d) vectors, or None if every item queries the others.
        gallery: (n, d) vectors.
        truths: label -> Truth, with the labels used in papers ("medium", "hard", "class").
        measures: measures to evaluate.
        notes: differences from the published set; empty if there are none or nothing is known.
    """

    name: str
    queries: NDArray[Any] | None
    gallery: NDArray[Any]
    truths: dict[str, Truth]
    measures: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        queries = "every item" if self.queries is None else f"{len(self.queries)} queries"
        return f"Benchmark({self.name}: {queries}, gallery {self.gallery.shape}, {', '.join(self.truths)})"


class Arrays:
    """The arrays of an .npz file by name; a missing one raises InputError with what the set needs.

    Example:
        >>> Arrays("cub200_rgem.npz", "a class split has x, label and is_query")["x"]
    """

    def __init__(self, path: Path, needs: str) -> None:
        self.path, self.needs = check_regular_file(path), needs
        self.found = self._read(lambda: read_headers(path))

    def __contains__(self, key: str) -> bool:
        return key in self.found

    def __getitem__(self, key: str) -> NDArray[Any]:
        if key not in self.found:
            names = ", ".join(self.found) or "nothing"
            raise InputError(f"{self.path} has no array {key!r}, only {names}", remedy=self.needs)
        array: NDArray[Any] = self._read(lambda: read_npz(self.path, key, self.found[key]))
        return array

    def rows(self, key: str) -> NDArray[Any]:
        """Return a 2-d array of numbers, one row per item."""
        array = self[key]
        if array.ndim != 2 or array.dtype.kind not in "fiub":
            raise InputError(
                f"{key} has {array.dtype} of shape {array.shape}",
                remedy="give a 2-d array of numbers, one row per vector",
                context=str(self.path),
            )
        return array

    def column(self, key: str, count: int) -> NDArray[Any]:
        """Return a 1-d array, one entry per item."""
        array = self[key]
        if array.shape != (count,):
            raise InputError(
                f"{key} has shape {array.shape}, but there are {count} vectors",
                remedy="give one entry per vector",
                context=str(self.path),
            )
        return array

    def flags(self, key: str, count: int) -> NDArray[np.bool_]:
        """Return booleans, one per item, from booleans or from 0 and 1."""
        array = self.column(key, count)
        if array.dtype.kind not in "biu" or not np.isin(array, (0, 1)).all():
            raise InputError(
                f"{key} has {array.dtype} values that are not flags",
                remedy="give True or False, or 1 or 0, for every item",
                context=str(self.path),
            )
        return array.astype(bool)

    def _read(self, read: Any) -> Any:
        try:
            return read()
        except (UnreadableFileError, MemoryLimitError):
            raise
        except Exception as error:  # a damaged zip or header raises many types
            reason = " ".join(str(error).split())[:200]
            raise InputError(f"{self.path} is truncated, damaged or not an .npz file ({reason})") from error


def check_has_positives(truths: dict[str, Truth], source: object) -> None:
    """Raise InputError if no query has a relevant item, because nothing could be measured."""
    if not any(truth.positives.counts.any() for truth in truths.values()):
        raise InputError("no query has a right item in the gallery, so nothing can be measured", context=str(source))
