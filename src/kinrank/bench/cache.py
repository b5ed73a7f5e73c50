"""What is measured -> a folder of JSON files, one per measurement: what was measured once is not measured again."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.evaluation import Truth
from kinrank.files.atomic import replacing

BLOCK = 1 << 24  # bytes of an array that are read at once
CALLERS = ("bench", "cli", "client", "datasets", "distributed", "integrations", "report", "testing", "web")
MEASURING = ("bench/cells.py",)  # of these rooms, what takes part in a measurement


class Cache:
    """A folder of JSON files, one per measurement, named by the SHA-256 of what was measured.

    Attributes:
        folder: where they are, None where nothing is kept.
        measured, read: how many measurements were made, and how many were found there, since this Cache was made.

    Example:
        >>> cache = Cache(Path("kept"))
        >>> cache.kept({"what": "answer"}, lambda: {"value": 42})
        {'value': 42}
    """

    def __init__(self, folder: Path | None) -> None:
        """None: nothing is kept."""
        if folder is not None and folder.exists() and not folder.is_dir():
            raise ValueError(f"{folder} is a file; what is measured is kept in a folder, give the path of one")
        self.folder = folder
        self.measured = self.read = 0
        self._silent = False  # after the first complaint that nothing can be written

    def kept(self, key: Mapping[str, Any], measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The entry of this key, or what `measure()` gives, which is written before it is returned.

        Key and entry are plain values, as JSON has them. A damaged entry (unreadable, of another key, with a wrong
        checksum) is measured again, with a warning that names the file. If nothing can be written there, what was
        measured is returned all the same, with one warning.
        """
        path = self.path(key)
        if path is not None and (found := _entry(path, key)) is not None:
            self.read += 1
            return found
        measured: dict[str, Any] = json.loads(_text(measure()))  # the same whether it was kept or not
        self.measured += 1
        if path is not None:
            self._write(path, key, measured)
        return measured

    def path(self, key: Mapping[str, Any]) -> Path | None:
        """Where the entry of this key is or would be."""
        return None if self.folder is None else self.folder / f"{digest(_text(key))}.json"

    @contextmanager
    def place_for(self, what: str, instead: Path | None = None) -> Iterator[Path]:
        """A folder for large files that can be made again: beside the measurements; where none are kept, in `instead`.

        With neither, one that is removed at the end. It is not made before somebody needs it.
        """
        place = instead if self.folder is None else self.folder
        if place is not None:
            yield place / what
        else:
            with TemporaryDirectory(prefix="kinrank-", ignore_cleanup_errors=True) as folder:
                yield Path(folder) / what

    def _write(self, path: Path, key: Mapping[str, Any], measured: dict[str, Any]) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with replacing(path) as file:
                file.write(_text({"key": key, "measured": measured, "sha256": digest(_text(measured))}).encode())
        except OSError as error:
            if not self._silent:
                warnings.warn(f"what is measured cannot be kept in {self.folder} ({error.strerror})", stacklevel=3)
            self._silent = True


def _entry(path: Path, key: Mapping[str, Any]) -> dict[str, Any] | None:
    """What is kept there; None where there is nothing, or something damaged."""
    try:
        entry = json.loads(path.read_bytes())
        measured = entry["measured"]
        whole = entry["sha256"] == digest(_text(measured)) and entry["key"] == json.loads(_text(key))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        whole = False
    if not whole or not isinstance(measured, dict):
        warnings.warn(f"{path} is damaged; it is measured again", stacklevel=4)
        return None
    return measured


def _text(value: Any) -> str:
    """One text per value: the same keys in the same order, whoever wrote them."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)


def digest(*parts: Any) -> str:
    """The SHA-256 of arrays, Truths, texts, numbers and None, and of lists of them.

    Arrays count with type, shape and bytes. They are read some rows at a time, so that a memory map larger than the
    memory is no trouble.

    Example:
        >>> digest("a", "b") == digest("ab")
        False
    """
    hashed = hashlib.sha256()
    for part in parts:
        _add(hashed, part)
    return hashed.hexdigest()


def _add(hashed: Any, part: Any) -> None:
    if isinstance(part, np.ndarray) and part.dtype.kind != "O":
        hashed.update(f"array {part.dtype.str} {part.shape}\n".encode())
        _add_rows(hashed, part)
    elif isinstance(part, Truth):
        names = [(naming.ids, naming.in_order) if naming else None for naming in (part.items, part.queries)]
        lists = (part.positives.starts, part.positives.items, part.junk.starts, part.junk.items)
        _add(hashed, ["truth", *lists, part.grades, part.gallery_size, part.average_precision, *names])
    elif isinstance(part, (list, tuple, np.ndarray)):
        hashed.update(f"list {len(part)}\n".encode())
        for one in part:
            _add(hashed, one)
    elif isinstance(part, (str, bytes, bool, int, float, type(None), np.generic)):
        content = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass")
        hashed.update(f"{type(part).__name__} {len(content)}\n".encode() + content)
    else:
        raise TypeError(f"a {type(part).__name__} has no digest")


def _add_rows(hashed: Any, array: NDArray[Any]) -> None:
    rows = array.reshape(1) if array.ndim == 0 else array
    step = max(1, BLOCK // max(1, rows[:1].nbytes))
    for start in range(0, len(rows), step):
        hashed.update(np.ascontiguousarray(rows[start : start + step]).data.cast("B") if rows.size else b"")


@lru_cache(maxsize=1)
def code() -> str:
    """The digest of kinrank's source files, so that changed code is measured again.

    Rooms that only call the others are left out: a new word in a help text changes no measurement.
    """
    root = Path(__file__).resolve().parents[1]
    parts: list[Any] = []
    for path in sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if name.split("/")[0] not in CALLERS or name in MEASURING:
            parts += [name, path.read_bytes()]
    return digest(*parts)


def default_folder() -> Path:
    """Where measurements are kept unless another folder is given: among the other caches of this user."""
    if home := os.environ.get("XDG_CACHE_HOME"):
        place = Path(home)
    elif sys.platform == "win32":
        place = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        place = Path.home() / "Library" / "Caches"
    else:
        place = Path.home() / ".cache"
    return place / "kinrank" / "bench"
