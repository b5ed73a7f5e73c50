"""Files of names or labels -> lists, one entry per item; and the ids that names mean."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kinrank import given
from kinrank.cli.output import STANDARD
from kinrank.files.arrays import headers, read_npy, read_npz
from kinrank.files.opening import STANDARD_INPUT, fits, piped, regular
from kinrank.memory import NotEnoughMemory

if TYPE_CHECKING:
    from kinrank.manifold import Manifold


def read_names(path: Path | None) -> list[str] | None:
    """The lines of a text file, or of standard input for `-`; None where there is no file. A blank line is refused."""
    if path is None:
        return None
    if path == STANDARD:
        return _lines(piped(sys.stdin.buffer), STANDARD_INPUT)
    fits(path, 8 * regular(path).stat().st_size)
    return _lines(path.read_bytes(), path)


def _lines(content: bytes, name: object) -> list[str]:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{name} is not text; write one name per line") from None
    lines = text.replace("\r\n", "\n").split("\n")  # other signs that can end a line may be part of a name
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            raise ValueError(f"{name} line {number} is blank; write one name per line, without blank lines")
    return lines


def read_labels(path: Path, key: str | None = None) -> NDArray[Any]:
    """One label per item: npy, npz (by key, or its `label`, or its only 1-d array), csv or txt (a line each).

    Text labels are compared as text, also where they look like numbers.
    """
    ending = path.suffix.lower()
    if ending not in (".npy", ".npz", ".csv", ".txt"):
        raise ValueError(f"{path} has the unknown ending {path.suffix!r}; labels are .npy | .npz | .csv | .txt")
    if ending in (".csv", ".txt"):
        return np.array(_without_heading(read_names(path) or []), dtype=str)
    regular(path)
    try:
        return read_npy(path) if ending == ".npy" else _from_npz(path, key)
    except NotEnoughMemory:
        raise
    except Exception as error:  # zip, header, objects: each has errors of its own
        raise ValueError(f"labels cannot be read from {path}: {error}") from None


def _from_npz(path: Path, key: str | None) -> NDArray[Any]:
    found = headers(path)
    if key is None:
        usual = [name for name in ("label", "labels") if name in found]
        flat = [name for name, header in found.items() if len(header.shape) == 1]
        key = usual[0] if usual else flat[0] if len(flat) == 1 else None
    if key not in found:
        raise ValueError(f"it holds {', '.join(found) or 'nothing'}; say which with --labels-key")
    return read_npz(path, key, found[key])


def _without_heading(lines: list[str]) -> list[str]:
    return lines[1:] if lines and lines[0].strip().lower() in ("label", "labels") else lines


def ids_meant(manifold: Manifold, words: Iterable[str | int]) -> list[str | int]:
    """The ids that words of the command line, or of a file, mean: numbers where the ids of the manifold are numbers."""
    if manifold.ids.dtype.kind == "O":
        return [str(word) for word in words]
    # what is no number stays: the manifold says what its ids look like
    return [int(word) if given.NUMBER.fullmatch(str(word)) else word for word in words]


def places_meant(words: list[str], names: list[Any] | None) -> list[str | int]:
    """The item numbers that lines of a --where file mean: places among the names, or numbers where there are none."""
    if names is None:
        return [int(word) if given.NUMBER.fullmatch(word) else word for word in words]
    places = {str(name): place for place, name in enumerate(names)}
    unknown = next((word for word in words if word not in places), None)
    if unknown is not None:
        raise ValueError(f"where names {unknown!r}, which is not among the names of the items")
    return [places[word] for word in words]
