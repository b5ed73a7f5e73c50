"""What every reader of a set returns: vectors, truths and measures; and the arrays that it reads them from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.evaluation import Truth
from kinrank.files.arrays import headers, read_npz
from kinrank.files.opening import FileProblem, regular
from kinrank.memory import NotEnoughMemory


@dataclass(frozen=True, eq=False)
class Benchmark:
    """What to rank and how it is judged.

    Attributes:
        name: its name in BENCHMARKS, or that of the published set.
        queries: (q, d) vectors, None where every item queries the others.
        gallery: (n, d) vectors.
        truths: label -> Truth, the label that the field prints ("medium", "hard", "class").
        measures: what to evaluate.
        notes: sentences that say in what it is not the published set; none where it is, or where nobody can tell.
    """

    name: str
    queries: NDArray[Any] | None
    gallery: NDArray[Any]
    truths: dict[str, Truth]
    measures: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        asked = "every item" if self.queries is None else f"{len(self.queries)} queries"
        return f"Benchmark({self.name}: {asked}, gallery {self.gallery.shape}, {', '.join(self.truths)})"


class Arrays:
    """The arrays of an .npz file by name; one that is not there is refused with what the set needs.

    Example:
        >>> Arrays("cub200_rgem.npz", "a class split holds x, label and is_query")["x"]
    """

    def __init__(self, path: Path, needs: str) -> None:
        self.path, self.needs = regular(path), needs
        self.found = self._tried(lambda: headers(path))

    def __contains__(self, key: str) -> bool:
        return key in self.found

    def __getitem__(self, key: str) -> NDArray[Any]:
        if key not in self.found:
            held = ", ".join(self.found) or "nothing"
            raise ValueError(f"{self.path} has no array {key!r}, only {held}; {self.needs}")
        array: NDArray[Any] = self._tried(lambda: read_npz(self.path, key, self.found[key]))
        return array

    def rows(self, key: str) -> NDArray[Any]:
        """2-d numbers, a row per item."""
        array = self[key]
        if array.ndim != 2 or array.dtype.kind not in "fiub":
            raise ValueError(
                f"{self.path}: {key} holds {array.dtype} of shape {array.shape}; vectors are 2-d numbers, a row each"
            )
        return array

    def column(self, key: str, count: int) -> NDArray[Any]:
        """One entry per item."""
        array = self[key]
        if array.shape != (count,):
            raise ValueError(
                f"{self.path}: {key} has the shape {array.shape} and there are {count} vectors; it needs one each"
            )
        return array

    def flags(self, key: str, count: int) -> NDArray[np.bool_]:
        """One yes or no per item, as truth values or as 0 and 1."""
        array = self.column(key, count)
        if array.dtype.kind not in "biu" or not np.isin(array, (0, 1)).all():
            raise ValueError(f"{self.path}: {key} must be yes or no, 1 or 0, for every item; it holds {array.dtype}")
        return array.astype(bool)

    def _tried(self, read: Any) -> Any:
        try:
            return read()
        except (FileProblem, NotEnoughMemory):
            raise
        except Exception as error:  # zip and header have errors of their own for a damaged file
            said = " ".join(str(error).split())[:200]
            raise ValueError(f"{self.path} is truncated, damaged or no .npz file ({said})") from error


def somebody_is_right(truths: dict[str, Truth], source: object) -> None:
    """Refuse a set in which no query has a right answer: nothing could be measured."""
    if not any(truth.positives.counts.any() for truth in truths.values()):
        raise ValueError(f"{source}: no query has a right item in the gallery; nothing can be measured on it")
