"""Files of names or labels -> lists, one entry per item."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


def read_names(path: Path | None) -> list[str] | None:
    """The lines of a text file; None where there is no file."""
    if path is None:
        return None
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not text; write one name per line") from None
    while lines and not lines[-1].strip():
        lines.pop()
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
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there, or is not a file; check the path")
    try:
        content = np.load(path, allow_pickle=False)
        labels = content if isinstance(content, np.ndarray) else _choose(path, content, key)
    except Exception as error:  # zip, header, objects: each has errors of its own
        raise ValueError(f"labels cannot be read from {path}: {error}") from None
    return np.asarray(labels)


def _choose(path: Path, content: Any, key: str | None) -> NDArray[Any]:
    with content:
        names = list(content.files)
        if key is None:
            usual = [name for name in ("label", "labels") if name in names]
            flat = [name for name in names if content[name].ndim == 1]
            found = usual or flat
            key = found[0] if usual or len(flat) == 1 else None
        if key not in names:
            raise ValueError(f"it holds {', '.join(names) or 'nothing'}; say which with --labels-key")
        return np.asarray(content[key])


def _without_heading(lines: list[str]) -> list[str]:
    return lines[1:] if lines and lines[0].strip().lower() in ("label", "labels") else lines
