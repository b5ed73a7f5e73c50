"""EncodeCheckpoint: a folder with the vectors encoded so far, from which an interrupted run continues.

`rows` contains the vectors one after the other. `done.jsonl` has one line per item, written after its vector: name,
stamp, and the row or the reason why there is no vector. Incomplete data of a killed process is truncated.
`encode_missing` fills it, one batch per thread.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from kinrank.encoders.base import Encoder, encode_items
from kinrank.encoders.item_sources import Source
from kinrank.errors import EncoderOutputError, InputError
from kinrank.files.atomic import atomic_write, folder_lock
from kinrank.pictures.archives import UNREADABLE
from kinrank.progress import Progress
from kinrank.vector_input import Vectors

RECIPE, ROWS, DONE = "recipe.json", "rows", "done.jsonl"
FLUSH_SECONDS = 1.0  # between two writes to disk
MAX_BATCHES_PER_THREAD = 4  # waiting or running, so that memory does not grow with the number of items
EncodedItems = list[tuple[str, Vectors | None, str | None]]  # stamp, vector, reason if there is no vector
log = logging.getLogger(__name__)


class Outcome(NamedTuple):
    """Result of encoding an item: the number of its row, or the reason why it has none."""

    row: int | None
    why: str | None


class EncodeCheckpoint:
    """Vectors of items by name and stamp, stored on disk. Only one process can open it at a time."""

    def __init__(self, folder: Path, dimensions: int) -> None:
        """Read the folder. Call `open_folder` instead, which also locks it."""
        self._folder, self._width = folder, 4 * dimensions
        self.dimensions = dimensions
        self._known: dict[str, tuple[str, Outcome]] = {}
        self._count, self._saved = self._read(), time.monotonic()
        self._rows: IO[bytes] = open(folder / ROWS, "ab")  # noqa: SIM115 - closed by `open_folder`
        self._done: IO[bytes] = open(folder / DONE, "ab")  # noqa: SIM115
        self._lines: list[str] = []

    @classmethod
    @contextlib.contextmanager
    def open_folder(
        cls, folder: Path, facts: dict[str, Any], dimensions: int, source: str
    ) -> Iterator[EncodeCheckpoint]:
        """Open the checkpoint in a folder. Start from scratch if it belongs to another source or encoder.

        After an error in the block, the vectors encoded so far are on disk. After success the folder is deleted.
        """
        with folder_lock(folder, wait=0.0):
            _discard_if_different(folder, {**facts, "source": source})
            part = cls(folder, dimensions)
            try:
                yield part
            finally:
                part.flush()
                part._rows.close()
                part._done.close()
            shutil.rmtree(folder, ignore_errors=True)

    def lookup(self, name: str, stamp: str) -> Outcome | None:
        """Return the outcome of an item with this stamp; None if it is not encoded yet."""
        found = self._known.get(name)
        return found[1] if found is not None and found[0] == stamp else None

    def add(self, name: str, stamp: str, vector: Vectors | None, why: str | None = None) -> None:
        """Store the vector of an item, or the reason why it has none."""
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
        if time.monotonic() - self._saved > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write pending vectors and then their lines to disk."""
        self._rows.flush()
        os.fsync(self._rows.fileno())
        self._done.write("".join(self._lines).encode())
        self._done.flush()
        self._lines, self._saved = [], time.monotonic()

    def vectors(self, numbers: Sequence[int]) -> Vectors:
        """Return the (n, d) rows with these numbers."""
        self.flush()
        if not len(numbers):
            return np.empty((0, self.dimensions), np.float32)
        rows = np.memmap(self._folder / ROWS, "<f4", "r").reshape(-1, self.dimensions)
        return np.ascontiguousarray(rows[np.asarray(numbers)], np.float32)

    def _read(self) -> int:
        """Read the folder, truncate incomplete data, and return the number of rows."""
        rows, done = self._folder / ROWS, self._folder / DONE
        whole = rows.stat().st_size // self._width if rows.exists() else 0
        used_rows, kept_bytes = 0, 0
        if done.exists():
            with done.open("rb") as lines:
                for line in lines:
                    outcome = _parse_outcome(line, whole)
                    if outcome is None:
                        break
                    name, stamp, found = outcome
                    if found.why is None or not found.why.startswith(UNREADABLE):  # may have been repaired since
                        self._known[name] = stamp, found
                    used_rows, kept_bytes = used_rows + (found.row is not None), kept_bytes + len(line)
            os.truncate(done, kept_bytes)
        if rows.exists():
            os.truncate(rows, used_rows * self._width)
        return used_rows


def _discard_if_different(folder: Path, facts: dict[str, Any]) -> None:
    """Delete the content of the folder if another source or encoder created it."""
    recipe = folder / RECIPE
    wanted = json.dumps(facts, sort_keys=True)
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if recipe.read_text("utf-8") == wanted:
            return
        log.warning("%s belongs to another source, encoder or setting: encoding starts from scratch", folder)
    for name in (ROWS, DONE):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(folder / name)
    with atomic_write(recipe) as file:
        file.write(wanted.encode())


def _parse_outcome(line: bytes, rows: int) -> tuple[str, str, Outcome] | None:
    """Parse a line; return None if it is incomplete or refers to a row that does not exist."""
    try:
        entry = json.loads(line) if line.endswith(b"\n") else None
    except ValueError:
        return None
    if not isinstance(entry, dict):
        return None
    name, stamp, row, why = (entry.get(key) for key in ("name", "stamp", "row", "why"))
    numbered = isinstance(row, int) and 0 <= row < rows and why is None
    if (
        not isinstance(name, str)
        or not isinstance(stamp, str)
        or not (numbered or (row is None and isinstance(why, str)))
    ):
        return None
    return name, stamp, Outcome(row, why)


def encode_missing(
    source: Source,
    names: Sequence[str],
    encoder: Encoder,
    part: EncodeCheckpoint,
    batch: int,
    workers: int,
    progress: Progress,
) -> None:
    """Encode the items of these names that are not in the checkpoint yet, in their order."""
    waiting = [name for name in names if not _is_done(source, part, name)]
    batches = [waiting[start : start + batch] for start in range(0, len(waiting), batch)]
    done = len(names) - len(waiting)

    def results() -> Iterator[None]:
        yield from [None] * done  # the progress bar continues where the interrupted one ended
        with ThreadPoolExecutor(workers) as pool:
            ahead: deque[tuple[list[str], Future[EncodedItems]]] = deque()
            try:
                for group in batches:
                    if len(ahead) == MAX_BATCHES_PER_THREAD * workers:
                        yield from _store_results(part, *ahead.popleft())
                    ahead.append((group, pool.submit(_encode_batch, source, encoder, group)))
                while ahead:
                    yield from _store_results(part, *ahead.popleft())
            except BaseException:  # Ctrl-C, or an encoder that fails: do not start the waiting batches
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    for _ in progress.each(f"encoding {source.content}", results(), len(names)):
        pass


def _store_results(part: EncodeCheckpoint, group: list[str], future: Future[EncodedItems]) -> Iterator[None]:
    for name, (stamp, vector, why) in zip(group, future.result(), strict=True):
        part.add(name, stamp, vector, why)
        yield None


def count_cores() -> int:
    """Return the number of available CPU cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _is_done(source: Source, part: EncodeCheckpoint, name: str) -> bool:
    try:
        return part.lookup(name, source.stamp(name)) is not None
    except InputError:  # missing: reported when it is encoded
        return False


def _encode_batch(source: Source, encoder: Encoder, group: list[str]) -> EncodedItems:
    """Encode a batch. An item that cannot be read or encoded gets a reason instead of a vector."""
    made: EncodedItems = []
    loaded: list[Any] = []
    for name in group:
        stamp, item, why = "", None, None
        try:
            stamp = source.stamp(name)
            item = source.load(name, encoder)
            loaded.append(item)
        except InputError as error:
            why = str(error)
        made.append((stamp, None, why))
    rows = iter(_encode_each(source.content, encoder, loaded))
    return [(stamp, *_check_vector(next(rows))) if why is None else (stamp, None, why) for stamp, _, why in made]


def _encode_each(content: str, encoder: Encoder, loaded: list[Any]) -> list[Vectors | str]:
    """Return the vector of each item, or the reason why it cannot be encoded."""
    if not loaded:
        return []
    try:
        return list(encode_items(encoder, content, loaded))
    except EncoderOutputError:
        raise
    except InputError as error:
        if len(loaded) == 1:
            return [str(error)]
        return [vector for item in loaded for vector in _encode_each(content, encoder, [item])]  # find the faulty item


def _check_vector(row: Vectors | str) -> tuple[Vectors | None, str | None]:
    if isinstance(row, str):
        return None, row
    if not np.isfinite(row).all():
        return None, "the encoder returned NaN or infinite numbers"
    if not row.any():
        return None, "the encoder returned only zeros"
    return row, None
