"""Vectors made so far -> a folder from which an interrupted run goes on.

`rows` holds the vectors, one behind the other; `done.jsonl` has a line per item, written after its vector: name, stamp,
and why it has no vector where it has none. What a killed process left half written is cut off.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from kinrank.features import Vectors
from kinrank.files.atomic import replacing
from kinrank.files.lock import alone_in
from kinrank.pictures.archives import UNREADABLE

RECIPE, ROWS, DONE = "recipe.json", "rows", "done.jsonl"
EVERY = 1.0  # seconds between two times that what is done reaches the disk
log = logging.getLogger("kinrank")


class Outcome(NamedTuple):
    """What became of an item: the number of its row, or why it has none."""

    row: int | None
    why: str | None


class Part:
    """Vectors of items by their names and stamps, kept on disk; one process at a time."""

    def __init__(self, folder: Path, dimensions: int) -> None:
        """Not called by users: see `opened`."""
        self._folder, self._width = folder, 4 * dimensions
        self.dimensions = dimensions
        self._known: dict[str, tuple[str, Outcome]] = {}
        self._count, self._saved = self._read(), time.monotonic()
        self._rows: IO[bytes] = open(folder / ROWS, "ab")  # noqa: SIM115 - closed by `opened`
        self._done: IO[bytes] = open(folder / DONE, "ab")  # noqa: SIM115
        self._lines: list[str] = []

    @classmethod
    @contextlib.contextmanager
    def opened(cls, folder: Path, facts: dict[str, Any], dimensions: int, source: str) -> Iterator[Part]:
        """What is in the folder, if it is of the same source and an encoder with the same facts; else it begins anew.

        After an error in the block what is done is on disk. After a block without one the folder is deleted.
        """
        with alone_in(folder, wait=0.0):
            _begin(folder, {**facts, "source": source})
            part = cls(folder, dimensions)
            try:
                yield part
            finally:
                part.flush()
                part._rows.close()
                part._done.close()
            shutil.rmtree(folder, ignore_errors=True)

    def known(self, name: str, stamp: str) -> Outcome | None:
        """What became of an item when it had this stamp; None if it is still to be done."""
        found = self._known.get(name)
        return found[1] if found is not None and found[0] == stamp else None

    def add(self, name: str, stamp: str, vector: Vectors | None, why: str | None = None) -> None:
        """Keep the vector of an item, or why it has none."""
        line: dict[str, Any] = {"name": name, "stamp": stamp}
        if vector is None:
            self._known[name] = stamp, Outcome(None, why)
            line["why"] = why
        else:
            self._known[name] = stamp, Outcome(self._count, None)
            line["row"] = self._count
            self._count += 1
            self._rows.write(np.ascontiguousarray(vector, "<f4").tobytes())
        self._lines.append(json.dumps(line) + "\n")
        if time.monotonic() - self._saved > EVERY:
            self.flush()

    def flush(self) -> None:
        """Write what is done: the vectors first."""
        self._rows.flush()
        os.fsync(self._rows.fileno())
        self._done.write("".join(self._lines).encode())
        self._done.flush()
        self._lines, self._saved = [], time.monotonic()

    def vectors(self, numbers: Sequence[int]) -> Vectors:
        """(n, d) the rows of these numbers."""
        self.flush()
        if not len(numbers):
            return np.empty((0, self.dimensions), np.float32)
        rows = np.memmap(self._folder / ROWS, "<f4", "r").reshape(-1, self.dimensions)
        return np.ascontiguousarray(rows[np.asarray(numbers)], np.float32)

    def _read(self) -> int:
        """Learn what is there, and cut off what is not whole; the number of rows."""
        rows, done = self._folder / ROWS, self._folder / DONE
        whole = rows.stat().st_size // self._width if rows.exists() else 0
        used, kept = 0, 0
        if done.exists():
            with done.open("rb") as lines:
                for line in lines:
                    outcome = _outcome(line, whole)
                    if outcome is None:
                        break
                    name, stamp, found = outcome
                    if found.why is None or not found.why.startswith(UNREADABLE):  # that may have been mended
                        self._known[name] = stamp, found
                    used, kept = used + (found.row is not None), kept + len(line)
            os.truncate(done, kept)
        if rows.exists():
            os.truncate(rows, used * self._width)
        return used


def _begin(folder: Path, facts: dict[str, Any]) -> None:
    """Throw away what another encoder made."""
    recipe = folder / RECIPE
    wanted = json.dumps(facts, sort_keys=True)
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if recipe.read_text("utf-8") == wanted:
            return
        log.warning("%s is of another source, encoder or setting: everything is encoded anew", folder)
    for name in (ROWS, DONE):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(folder / name)
    with replacing(recipe) as file:
        file.write(wanted.encode())


def _outcome(line: bytes, rows: int) -> tuple[str, str, Outcome] | None:
    """What a line says; None where it is not whole, or speaks of a row that is not there."""
    try:
        said = json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return None
    if not isinstance(said, dict):
        return None
    name, stamp, row, why = (said.get(key) for key in ("name", "stamp", "row", "why"))
    numbered = isinstance(row, int) and 0 <= row < rows and why is None
    if (
        not isinstance(name, str)
        or not isinstance(stamp, str)
        or not (numbered or (row is None and isinstance(why, str)))
    ):
        return None
    return name, stamp, Outcome(row, why)
