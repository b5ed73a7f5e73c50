"""Files of names or labels -> lists, one entry per item."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.files.arrays import headers, read_npy, read_npz
from kinrank.files.opening import fits, regular
from kinrank.memory import NotEnoughMemory


def read_names(path: Path) -> list[str]:
    """The lines of a text file; a blank one is refused."""
    return names_in(read_lines(path), path)


def read_lines(path: Path) -> list[str]:
    """The lines of a text file, blank ones too."""
    fits(path, 8 * regular(path).stat().st_size)
    return lines_in(path.read_bytes(), path)


def lines_in(content: bytes, name: object) -> list[str]:
    """The lines of a text; one that ends the last line is no line of its own."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{name} is not text in UTF-8; save it again in that encoding, one entry per line") from None
    lines = text.replace("\r\n", "\n").split("\n")  # other signs that can end a line may be part of a name
    if not lines[-1]:
        lines.pop()
    return lines


def names_in(lines: list[str], name: object) -> list[str]:
    """The lines, if none of them is blank."""
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            raise ValueError(f"{name} line {number} is blank; write one name per line, without blank lines")
    return lines


def read_labels(path: Path, key: str | None = None, blank: bool = False) -> NDArray[Any]:
    """One label per item: npy, npz (by key, or its `label`, or its only 1-d array), csv or txt (a line each).

    Text labels are compared as text, also where they look like numbers. `blank` allows lines without one.
    """
    ending = path.suffix.lower()
    if ending not in (".npy", ".npz", ".csv", ".txt"):
        raise ValueError(f"{path} has the unknown ending {path.suffix!r}; labels are .npy | .npz | .csv | .txt")
    if ending in (".csv", ".txt"):
        lines = [line.strip() for line in read_lines(path)] if blank else read_names(path)
        return np.array(_without_heading(lines), dtype=str)
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
        raise ValueError(f"it holds {', '.join(found) or 'nothing'}; say which with labels_key=")
    return read_npz(path, key, found[key])


def _without_heading(lines: list[str]) -> list[str]:
    return lines[1:] if lines and lines[0].strip().lower() in ("label", "labels") else lines
