"""Benchmark, the type that every reader returns, and Arrays, the checked contents of an .npz file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.encoders.embeddings import facts_path, names_path
from kinrank.encoders.item_sources import find_files
from kinrank.errors import InputError, MemoryLimitError, UnreadableFileError
from kinrank.evaluation import Truth
from kinrank.files.numpy_files import read_headers, read_npy, read_npz
from kinrank.files.path_checks import check_regular_file
from kinrank.files.text_columns import read_names


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

    A .npy file that `kinrank embed` wrote is x; one whose name ends in .d.npy is d, and q is the .q.npy next to it.

    Example:
        >>> Arrays("cub200_rgem.npz", "a class split has x, label and is_query")["x"]
    """

    def __init__(self, path: Path, needs: str) -> None:
        self.path, self.needs = check_regular_file(path), needs
        self._parts = _list_parts(path)
        self.found: dict[str, Any] = self._read(
            lambda: {key: read_npy(part, mmap=True) for key, part in self._parts.items()} or read_headers(path)
        )

    def __contains__(self, key: str) -> bool:
        return key in self.found

    def __getitem__(self, key: str) -> NDArray[Any]:
        if key not in self.found:
            names = ", ".join(self.found) or "nothing"
            raise InputError(f"{self.path} has no array {key!r}, only {names}", remedy=self.needs)
        if self._parts:
            return np.asarray(self.found[key])
        array: NDArray[Any] = self._read(lambda: read_npz(self.path, key, self.found[key]))
        return array

    def rows_of(self, key: str, names: Sequence[str] | None) -> NDArray[Any]:
        """Return the rows in the order of these names, if the file has names; otherwise all as they are."""
        rows, part = self.rows(key), self._parts.get(key)
        if part is None or names is None:
            return rows
        own = read_names(names_path(part))
        if len(own) != len(rows):
            raise InputError(f"{names_path(part)} has {len(own)} names for {len(rows)} rows", remedy="embed them again")
        if own == list(names):
            return rows
        try:
            found = find_files(own, names)
        except InputError as error:
            raise InputError(
                f"{names_path(part)} lacks images of this set: {error.problem}",
                remedy=f"embed all of them; {facts_path(part).name} lists those that were skipped",
            ) from None
        places = {name: place for place, name in enumerate(own)}
        return rows[[places[found[name]] for name in names]]

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
            raise InputError(
                f"{self.path} is truncated, damaged or not an {self.path.suffix} file ({reason})"
            ) from error


def _list_parts(path: Path) -> dict[str, Path]:
    """Return the .npy file of every array; none for an .npz, which has them all."""
    if path.suffix.lower() != ".npy":
        return {}
    queries = query_path(path)
    return {"x": path} if queries is None else {"q": check_regular_file(queries), "d": path}


def query_path(path: Path) -> Path | None:
    """Return the path of the queries of a gallery such as roxford5k_rgem.d.npy; None for other names."""
    return path.with_name(f"{path.name.removesuffix('.d.npy')}.q.npy") if path.name.endswith(".d.npy") else None


def check_has_positives(truths: dict[str, Truth], source: object) -> None:
    """Raise InputError if no query has a relevant item, because nothing could be measured."""
    if not any(truth.positives.counts.any() for truth in truths.values()):
        raise InputError("no query has a right item in the gallery, so nothing can be measured", context=str(source))
