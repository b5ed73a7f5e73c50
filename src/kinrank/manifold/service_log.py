"""The write-ahead log that a service keeps next to a saved folder, written and flushed before a change is acknowledged.

    head     magic bytes, the version before the first change, a random key, checksum of these
    block    number of changes, version of the first, bytes; checksums of these numbers and of the changes
      change   a record: kind, version, ids, first, shape; followed by the vectors as float32

All changes that wait at the same time form one block, which is written and flushed at once. An incomplete block that no
complete block follows was left by a killed process and never acknowledged: it is cut off. (Damage to the very last
block on the disk looks the same.) An incomplete block that others follow was damaged on the disk, and the log is
refused. Checksums use the key, so that a client cannot send vectors whose bytes look like a block.
"""

from __future__ import annotations

import glob
import hashlib
import logging
import os
import stat
import struct
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from kinrank.errors import InputError
from kinrank.files.atomic import atomic_write, flush_folder
from kinrank.manifold.deltas import RecordReader, pack_record

PUT, REMOVE, OBSERVE = "put", "remove", "observe"  # kinds of changes; logs of version 0.1.0 contain only the first two
LOG_MAGIC = b"kinrank log 1\n\x00\x00"
BLOCK_MARK = b"\xf1log"
HEAD_FORMAT = struct.Struct("<16sQ16s8s")  # LOG_MAGIC, version before the first change, random key, checksum of these
BLOCK_FORMAT = struct.Struct("<4sIQQ")  # BLOCK_MARK, number of changes, version of the first, bytes; then two checksums

log = logging.getLogger(__name__)


class Rule(Enum):
    """Permissions of a change: `ADD` only puts new ids, `REMOVE` only removes existing ones; the others replace items.

    The value completes the message of a gallery that cannot be changed.
    """

    ADD = "add items"
    REMOVE = "remove items"
    UPSERT = "upsert items"
    SYNC = "bring items up to date"
    OBSERVE = "observe queries"
    LOGGED = "change items"  # checked before it was logged; ids to remove that do not exist are ignored


class Change(NamedTuple):
    """A change of a gallery: items to remove, items to put, queries to forget and to observe, in this order.

    Attributes:
        removed: ids of the items to remove, or their numbers if items have no ids.
        vectors: (n, d) rows to put; None for none.
        ids: one id per row; None if new items get the next numbers.
        queries: (n, d) queries to observe; None for none.
        forgotten: numbers of the observed queries to forget, the oldest is 0; slice(None) for all, None for none.
        rule: which ids are allowed.
        version: number of all changes so far, including this one; 0 if it is not logged.
        first: number of the first new item when the change was logged, if items have no ids.
    """

    removed: Any = ()
    vectors: Any = None
    ids: Any = None
    queries: Any = None
    forgotten: Any = None
    rule: Rule = Rule.LOGGED
    version: int = 0
    first: int | None = None

    @property
    def rows(self) -> Any:
        """The vectors or the queries; None for a removal. A logged change has only one of the three."""
        return self.vectors if self.queries is None else self.queries

    @property
    def kind(self) -> str:
        """PUT, REMOVE or OBSERVE, for a logged change."""
        return REMOVE if self.rows is None else PUT if self.queries is None else OBSERVE

    @property
    def items(self) -> int:
        """Number of items or queries in a logged change."""
        return len(self.removed if self.rows is None else self.rows)


def pack_changes(changes: Sequence[Change]) -> bytes:
    """Write each change as a record with its vectors."""
    records = []
    for change in changes:
        rows = change.rows
        ids = change.removed if rows is None else change.ids
        shape = None if rows is None else rows.shape
        fields = {"kind": change.kind, "version": change.version, "ids": ids, "first": change.first, "shape": shape}
        records.append(pack_record(fields, [] if rows is None else [np.asarray(rows, "<f4")]))
    return b"".join(records)


def unpack_changes(content: bytes, first: int) -> list[Change]:
    """Read what `pack_changes` wrote, with changes numbered from `first`. Raises an InputError for anything else."""
    changes, record = list[Change](), RecordReader(content)
    while not record.is_at_end:
        change = _unpack_change(record)
        if change.version != first + len(changes):
            raise InputError(f"change {first + len(changes)} claims to be change {change.version}")
        changes.append(change)
    return changes


def _unpack_change(record: RecordReader) -> Change:
    fields = record.read_fields()
    try:
        version, ids, first, shape = (fields[key] for key in ("version", "ids", "first", "shape"))
    except (KeyError, TypeError) as error:
        raise InputError(f"a line is not JSON of a change ({type(error).__name__})") from error
    kind, is_removal = fields.get("kind"), shape is None
    kinds = (REMOVE,) if is_removal else (PUT, OBSERVE) if isinstance(shape, list) and len(shape) == 2 else ()
    if type(version) is not int or not _are_valid_ids(ids) or kind not in kinds:
        raise InputError("a line does not describe a change")
    if is_removal:
        if ids is None:
            raise InputError("a removal does not give the ids of its items")
        return Change(removed=ids, version=version)
    if kind == OBSERVE and (ids is not None or first is not None):
        raise InputError("queries to observe have no ids")
    rows = record.read_array("<f4", shape)
    if kind == OBSERVE:
        return Change(queries=rows, version=version)
    if (ids is None) != (type(first) is int) or (ids is not None and len(ids) != len(rows)):
        raise InputError("a change does not give the ids of its items")
    return Change(vectors=rows, ids=ids, version=version, first=first if ids is None else None)


def _are_valid_ids(ids: Any) -> bool:
    """True for None and for a list of texts and whole numbers."""
    return ids is None or (isinstance(ids, list) and all(type(name) in (str, int) for name in ids))


def pack_head(base: int, key: bytes) -> bytes:
    """Return the head of a log: the version before its first change, and the key of its checksums."""
    content = HEAD_FORMAT.pack(LOG_MAGIC, base, key, b"")[:-8]
    return content + hashlib.blake2b(content, digest_size=8).digest()


def _read_head(file: IO[bytes]) -> tuple[int, bytes] | None:
    """Read base and key at the start of a file. Return None if the file is not a log or is damaged."""
    content = file.read(HEAD_FORMAT.size)
    if len(content) < HEAD_FORMAT.size:
        return None
    _, base, key, _ = HEAD_FORMAT.unpack(content)
    return (base, key) if pack_head(base, key) == content else None


def _pack_block(key: bytes, count: int, first: int, body: bytes) -> bytes:
    """Return a block of `count` changes, the first of which has the version `first`."""
    numbers = BLOCK_FORMAT.pack(BLOCK_MARK, count, first, len(body))
    return numbers + _compute_checksum(key, numbers, 8) + _compute_checksum(key, body, 16) + body


def _compute_checksum(key: bytes, content: bytes, size: int) -> bytes:
    """Compute a checksum with the key of a log, so that clients cannot forge it with the vectors they send."""
    return hashlib.blake2b(content, digest_size=size, key=key).digest()


def _read_block_head(file: IO[bytes], key: bytes) -> tuple[int, int, int, bytes] | None:
    """Read the head of a block: number of changes, version of the first, bytes and checksum of the changes.

    Return None if no block starts here, or if it claims to extend beyond the end of the file.
    """
    numbers, own, body = file.read(BLOCK_FORMAT.size), file.read(8), file.read(16)
    if len(body) < 16 or not numbers.startswith(BLOCK_MARK) or _compute_checksum(key, numbers, 8) != own:
        return None
    _, count, first, length = BLOCK_FORMAT.unpack(numbers)
    return (count, first, length, body) if file.tell() + length <= os.fstat(file.fileno()).st_size else None


def _read_block(file: IO[bytes], key: bytes) -> tuple[int, int, bytes] | None:
    """Read the block that starts here: number of changes, version of the first, bytes of the changes.

    Return None if it is not complete. Never reads beyond the end of the file.
    """
    block = _read_block_head(file, key)
    if block is None:
        return None
    count, first, length, expected = block
    body = file.read(length)
    return (count, first, body) if _compute_checksum(key, body, 16) == expected else None


class LogScan(NamedTuple):
    """Version of the last change in a log, and whether bytes follow it that are not a readable block."""

    last: int
    damaged: bool


def scan_log(path: Path) -> LogScan | None:
    """Follow the blocks of a log to its end. Return None if it cannot be read or is not a log."""
    try:
        if not path.is_file():  # reading a pipe would never end
            return None
        with path.open("rb") as file:
            head = _read_head(file)
            if head is None:
                return None
            (last, key), end = head, file.tell()
            while (block := _read_block_head(file, key)) is not None:
                last += block[0]
                end = file.seek(block[2], os.SEEK_CUR)
            return LogScan(last, end < os.fstat(file.fileno()).st_size)
    except OSError:
        return None


class ChangeLog:
    """Log of one folder, open in the process that holds the folder's lock. Not thread-safe.

    Attributes:
        path: the file.
        version: version of the last change in it, or the version before its first change if it is empty.
        left: changes that the folder lacked when the log was opened, oldest first.
        broken: why nothing more can be appended, without the path so that clients can see it; empty if it can.
    """

    def __init__(self, path: Path, position: int) -> None:
        """Open the log of a folder that includes the changes up to `position`; create it if it does not exist."""
        self.path, self.version, self.broken = path, position, ""
        self.left: list[Change] = []
        self._key, self._number = os.urandom(16), -1
        self._ends: list[tuple[int, int]] = []  # last version and end offset of each block
        for part in path.parent.glob(f".{glob.escape(path.name)}.*.part"):  # left by a killed process
            part.unlink(missing_ok=True)
        if path.exists():
            self._read(position)
        if self.version <= position:  # the folder includes everything
            self.version = position
            self._ends.clear()
            self._renew(position, b"")
        else:
            self._open()

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return self._ends[-1][1] if self._ends else HEAD_FORMAT.size

    def folded(self, position: int) -> int:
        """Return the bytes that are not needed once the folder includes the changes up to `position`."""
        return max((end for last, end in self._ends if last <= position), default=HEAD_FORMAT.size) - HEAD_FORMAT.size

    def append(self, changes: Sequence[Change]) -> None:
        """Append changes, numbered after `version`, and flush them to the disk.

        After an OSError from writing, none of them is in the log. After an OSError from flushing, the log is `broken`,
        because only reading it again can tell what reached the disk.
        """
        content = _pack_block(self._key, len(changes), self.version + 1, pack_changes(changes))
        if self.broken:
            raise OSError(self.broken)
        try:
            _write_at_offset(self._number, content, self.size)
        except BaseException as error:
            try:
                os.ftruncate(self._number, self.size)
            except OSError:
                self._break(error)
            raise
        try:
            os.fsync(self._number)
        except BaseException as error:
            self._break(error)
            raise
        self.version += len(changes)
        self._ends.append((self.version, self.size + len(content)))

    def restart(self, position: int) -> None:
        """Drop the blocks up to `position`, which the folder includes, in one atomic step.

        After an OSError the log is unchanged.
        """
        start = HEAD_FORMAT.size + self.folded(position)
        os.lseek(self._number, start, os.SEEK_SET)
        rest = os.read(self._number, self.size - start)
        if len(rest) != self.size - start:
            raise OSError(f"another process truncated {self.path}")
        ends = [(last, end - start + HEAD_FORMAT.size) for last, end in self._ends if end > start]
        if ends and start == HEAD_FORMAT.size:  # every block is needed
            return
        base = max(last for last, end in self._ends if end <= start) if ends else position
        self._renew(base, rest)
        self._ends, self.version = ends, ends[-1][0] if ends else position

    def close(self, remove: bool = False) -> None:
        """Close the file. `remove` also deletes it, if the folder includes everything."""
        if self._number >= 0:
            os.close(self._number)
            self._number = -1
            self.broken = "the log is closed"
            if remove:
                self.path.unlink(missing_ok=True)

    def _break(self, error: BaseException) -> None:
        """Record that nothing more can be appended."""
        reason = error.strerror if isinstance(error, OSError) else None
        self.broken = f"the log could not be written ({reason or type(error).__name__}); restart the service"
        log.error("%s could not be written (%s); nothing more is appended", self.path, error)

    def _renew(self, base: int, blocks: bytes) -> None:
        """Replace the file atomically and continue with the new one, which is opened before it replaces the old one."""
        number = -1
        try:
            with atomic_write(self.path) as file:
                file.write(pack_head(base, self._key) + blocks)
                number = os.dup(file.fileno())
        except BaseException:
            if number >= 0:
                os.close(number)
            raise
        before, self._number = self._number, number
        if before >= 0:
            os.close(before)
        flush_folder(self.path.parent)

    def _open(self) -> None:
        """Open the existing file."""
        before, self._number = self._number, os.open(self.path, os.O_RDWR | getattr(os, "O_BINARY", 0))
        if before >= 0:
            os.close(before)

    def _read(self, position: int) -> None:
        """Find the blocks and the changes that are `left`; cut off what was never acknowledged."""
        if not stat.S_ISREG(self.path.stat().st_mode):
            raise InputError(f"{self.path} is not a file, but this is the path of the log", remedy="move it away")
        with self.path.open("r+b") as file:
            head = _read_head(file)
            if head is None:
                raise InputError(
                    f"{self.path} is not a log that kinrank wrote, or its beginning is damaged",
                    remedy="restore it, or move it away, which discards the changes in it",
                )
            base, self._key = head
            self.version = base
            while (changes := self._block(file)) is not None:
                self._ends.append((self.version, file.tell()))
                self.left += [change for change in changes if change.version > position]
            self._check_rest(file)
        if base > position and (self.left or self._ends):
            raise InputError(
                f"{self.path} starts after change {base}, but the folder is an older copy: it includes the "
                f"changes up to {position}",
                remedy="restore the folder that belongs to the log, or move the log away, which discards its "
                f"{len(self.left)} changes",
            )

    def _block(self, file: IO[bytes]) -> list[Change] | None:
        """Read the changes of the next block and count them. Return None and stay in place if it is not complete."""
        start = file.tell()
        block = _read_block(file, self._key)
        if block is None:
            file.seek(start)
            return None
        count, first, body = block
        if first != self.version + 1:
            raise InputError(
                f"{self.path} jumps from change {self.version} to change {first}", remedy="restore it, or move it away"
            )
        try:
            changes = unpack_changes(body, first)
        except InputError as error:
            raise InputError(f"{self.path} contains changes that kinrank did not write: {error}") from error
        if len(changes) != count:
            raise InputError(
                f"{self.path} contains {len(changes)} changes but claims {count}", remedy="restore it, or move it away"
            )
        self.version += count
        return changes

    def _check_rest(self, file: IO[bytes]) -> None:
        """Cut off what follows the last complete block. Raise an InputError if it contains another complete block."""
        start, rest = file.tell(), file.read()
        place = rest.find(BLOCK_MARK, 1)
        while place >= 0:
            file.seek(start + place)
            if _read_block(file, self._key) is not None:
                raise InputError(
                    f"{self.path} is damaged from byte {start} to byte {start + place}, where acknowledged changes are",
                    remedy="restore it from a copy, or move it away, which discards everything after change "
                    f"{self.version}",
                )
            place = rest.find(BLOCK_MARK, place + 1)
        if rest:
            log.error(  # printed even with --quiet
                "%s: the last %d bytes are not a complete change and were removed; no client received a confirmation "
                "for it, unless the disk has damaged it since",
                self.path,
                len(rest),
            )
            file.truncate(start)
            os.fsync(file.fileno())


def _write_at_offset(number: int, content: bytes, offset: int) -> None:
    """Write all bytes, however many the system accepts at a time."""
    rest = memoryview(content)
    os.lseek(number, offset, os.SEEK_SET)
    while len(rest):
        rest = rest[os.write(number, rest) :]
