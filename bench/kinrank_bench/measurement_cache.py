"""Cache of measurements: a folder with one JSON file per measurement."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import InputError
from kinrank.evaluation import Truth
from kinrank.files.atomic import atomic_write

BLOCK_BYTES = 1 << 24  # read at once from an array


class Cache:
    """A folder with one JSON file per measurement, named by the SHA-256 of its key.

    Attributes:
        folder: path of the folder, or None to keep nothing.
        measured, read: number of measurements made and read from the folder since this Cache was created.

    Example:
        >>> cache = Cache(Path("kept"))
        >>> cache.get_or_measure({"what": "answer"}, lambda: {"value": 42})
        {'value': 42}
    """

    def __init__(self, folder: Path | None, scratch: Path | None = None) -> None:
        """Open the folder, which need not exist yet; None keeps nothing, and writes large files to `scratch`."""
        if folder is not None and folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file", remedy="give the path of a folder for the measurements")
        self.folder, self._scratch = folder, scratch
        self.measured = self.read = 0
        self._silent = False  # True after the first warning that nothing can be written

    def get_or_measure(self, key: Mapping[str, Any], measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the entry for `key`, or call `measure()` and write its result before returning it.

        Key and entry consist of plain JSON values. A damaged entry (unreadable, for another key, or with a wrong
        checksum) is measured again, with a warning that names the file. If the folder cannot be written, the result is
        returned all the same, with one warning.
        """
        path = self.path(key)
        if path is not None and (entry := _read_entry(path, key)) is not None:
            self.read += 1
            return entry
        measured: dict[str, Any] = json.loads(_canonical_json(measure()))  # identical to what a later read returns
        self.measured += 1
        if path is not None:
            self._write(path, key, measured)
        return measured

    def path(self, key: Mapping[str, Any]) -> Path | None:
        """Return the path of the entry for `key`, whether it exists or not; None if nothing is kept."""
        return None if self.folder is None else self.folder / f"{digest(_canonical_json(key))}.json"

    @contextmanager
    def open_scratch(self, what: str) -> Iterator[Path]:
        """Yield a folder for large files that can be recreated: inside the cache, else in `scratch`.

        With neither, yield a temporary folder that is removed at the end. The folder is not created in advance.
        """
        place = self._scratch if self.folder is None else self.folder
        if place is not None:
            yield place / what
        else:
            with TemporaryDirectory(prefix="kinrank-", ignore_cleanup_errors=True) as folder:
                yield Path(folder) / what

    def _write(self, path: Path, key: Mapping[str, Any], measured: dict[str, Any]) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as file:
                file.write(
                    _canonical_json(
                        {"key": key, "measured": measured, "sha256": digest(_canonical_json(measured))}
                    ).encode()
                )
        except OSError as error:
            if not self._silent:
                warnings.warn(f"measurements cannot be written to {self.folder} ({error.strerror})", stacklevel=3)
            self._silent = True


def _read_entry(path: Path, key: Mapping[str, Any]) -> dict[str, Any] | None:
    """Read an entry; return None if it does not exist or is damaged."""
    try:
        entry = json.loads(path.read_bytes())
        measured = entry["measured"]
        whole = entry["sha256"] == digest(_canonical_json(measured)) and entry["key"] == json.loads(
            _canonical_json(key)
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        whole = False
    if not whole or not isinstance(measured, dict):
        warnings.warn(f"{path} is damaged; measuring again", stacklevel=4)
        return None
    return measured


def _canonical_json(value: Any) -> str:
    """Encode a value as JSON with sorted keys, so that equal values give equal texts."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, allow_nan=False)


def digest(*parts: Any) -> str:
    """Return the SHA-256 of arrays, Truths, strings, numbers and None, and of lists of these.

    Arrays count with dtype, shape and bytes. They are read a few rows at a time, so a memory map may be larger than
    the memory.

    Example:
        >>> digest("a", "b") == digest("ab")
        False
    """
    hashed = hashlib.sha256()
    for part in parts:
        _update_hash(hashed, part)
    return hashed.hexdigest()


def _update_hash(hashed: Any, part: Any) -> None:
    if isinstance(part, np.ndarray) and part.dtype.kind != "O":
        hashed.update(f"array {part.dtype.str} {part.shape}\n".encode())
        _update_hash_rows(hashed, part)
    elif isinstance(part, Truth):
        names = [(naming.ids, naming.in_order) if naming else None for naming in (part.items, part.queries)]
        lists = (part.positives.starts, part.positives.items, part.junk.starts, part.junk.items)
        _update_hash(hashed, ["truth", *lists, part.grades, part.gallery_size, part.average_precision, *names])
    elif isinstance(part, (list, tuple, np.ndarray)):
        hashed.update(f"list {len(part)}\n".encode())
        for element in part:
            _update_hash(hashed, element)
    elif isinstance(part, (str, bytes, bool, int, float, type(None), np.generic)):
        content = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogatepass")
        hashed.update(f"{type(part).__name__} {len(content)}\n".encode() + content)
    else:
        raise TypeError(f"a {type(part).__name__} has no digest")


def _update_hash_rows(hashed: Any, array: NDArray[Any]) -> None:
    rows = array.reshape(1) if array.ndim == 0 else array
    step = max(1, BLOCK_BYTES // max(1, rows[:1].nbytes))
    for start in range(0, len(rows), step):
        hashed.update(np.ascontiguousarray(rows[start : start + step]).data.cast("B") if rows.size else b"")
