"""Changes -> a file beside the folder, on the disk before anybody is told that they are made; and back at the start.

    head     what the file is, the version it begins behind, a random key, their checksum
    block    how many changes, the version of the first, how many bytes; checksums of these and of the changes
      change   a line of JSON: kind, ids, shape; and behind it the numbers of the vectors, float32

All changes that wait at the same time are one block, written and flushed at once. A block that is not whole, with no
whole one behind it, was left by a killed process, and never acknowledged: it is cut off. (That the disk has damaged the
very last block looks the same.) One that is not whole and has
others behind it was damaged on the disk, and the log is refused. Checksums are made with the key, so that nobody can
send vectors whose bytes would pass for a block.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from kinrank.files.atomic import replacing
from kinrank.manifold.beside import (
    BLOCK,
    BODY_SUM,
    HEAD,
    HEAD_SUM,
    MARK,
    Head,
    checksum,
    packed_head,
    read_block,
    read_head,
)
from kinrank.manifold.log_records import Change, packed, unpacked

said = logging.getLogger("kinrank")


class Log:
    """The log of one folder, opened by the one process that holds its lock. Not for several threads at once.

    Attributes:
        path: the file.
        version: that of the last change in it, or that it begins behind.
        left: changes that the folder does not hold, oldest first, as they were found at the start.
        broken: why nothing more can be appended, without the path, for clients; empty as long as it can.
    """

    def __init__(self, path: Path, position: int) -> None:
        """Open the log of a folder that holds the changes up to `position`; it is made if it is not there."""
        self.path, self.version, self.broken = path, position, ""
        self.left: list[Change] = []
        self._key, self._number = os.urandom(16), -1
        self._ends: list[tuple[int, int]] = []  # of each block, the last version and where it ends
        for part in path.parent.glob(f".{_escaped(path.name)}.*.part"):  # from a process that was killed
            part.unlink(missing_ok=True)
        if path.exists():
            self._read(position)
        if self.version <= position:  # nothing in it is needed
            self.version = position
            self._ends.clear()
            self._renew(position, b"")
        else:
            self._open()

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._ends[-1][1] if self._ends else HEAD.size

    def folded(self, position: int) -> int:
        """Bytes of the file that are not needed once the folder holds the changes up to `position`."""
        return max((end for last, end in self._ends if last <= position), default=HEAD.size) - HEAD.size

    def append(self, changes: Sequence[Change]) -> None:
        """Write changes, numbered behind `version`, and flush them to the disk.

        After an OSError none of them is in the log. After one from flushing it is `broken`, because nobody knows what
        the disk has then: only reading it anew can tell.
        """
        content = _block(self._key, self.version + 1, changes)
        if self.broken:
            raise OSError(self.broken)
        try:
            _write_at(self._number, content, self.size)
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
        """Begin anew with the blocks behind `position`, up to which the folder holds everything; in one step.

        After an OSError the log is as it was.
        """
        start = HEAD.size + self.folded(position)
        os.lseek(self._number, start, os.SEEK_SET)
        kept = os.read(self._number, self.size - start)
        if len(kept) != self.size - start:
            raise OSError(f"{self.path} was cut short by somebody else")
        ends = [(last, end - start + HEAD.size) for last, end in self._ends if end > start]
        if ends and start == HEAD.size:  # all of it is needed
            return
        base = max(last for last, end in self._ends if end <= start) if ends else position
        self._renew(base, kept)
        self._ends, self.version = ends, ends[-1][0] if ends else position

    def close(self, remove: bool = False) -> None:
        """Close the file, and `remove` it where the folder holds everything."""
        if self._number >= 0:
            os.close(self._number)
            self._number = -1
            self.broken = "the log is closed"
            if remove:
                self.path.unlink(missing_ok=True)

    def _break(self, error: BaseException) -> None:
        why = error.strerror if isinstance(error, OSError) else None
        self.broken = f"the log could not be written ({why or type(error).__name__}); start the service again"
        said.error("%s could not be written (%s); nothing more is appended", self.path, error)

    def _renew(self, base: int, blocks: bytes) -> None:
        """Replace the file in one step, and go on with the new one: it is open before it takes the old one's place."""
        number = -1
        try:
            with replacing(self.path) as file:
                file.write(packed_head(Head(base, self._key)) + blocks)
                number = os.dup(file.fileno())
        except BaseException:
            if number >= 0:
                os.close(number)
            raise
        before, self._number = self._number, number
        if before >= 0:
            os.close(before)
        _flush(self.path.parent)

    def _open(self) -> None:
        before, self._number = self._number, os.open(self.path, os.O_RDWR | getattr(os, "O_BINARY", 0))
        if before >= 0:
            os.close(before)

    def _read(self, position: int) -> None:
        """Find the blocks, and the changes that are `left`; cut off what was never acknowledged."""
        if not stat.S_ISREG(self.path.stat().st_mode):
            raise ValueError(f"{self.path} is not a file, and a log is to stand there; move it away")
        with self.path.open("r+b") as file:
            head = read_head(file)
            if head is None:
                raise ValueError(
                    f"{self.path} is not a log that kinrank wrote, or its beginning is damaged; restore it, or move it "
                    "away, which gives up the changes in it"
                )
            self._key, self.version = head.key, head.base
            while (changes := self._block(file)) is not None:
                self._ends.append((self.version, file.tell()))
                self.left += [change for change in changes if change.version > position]
            self._check_rest(file)
        if head.base > position and (self.left or self._ends):
            raise ValueError(
                f"{self.path} begins behind change {head.base}, but the folder is an older copy: it holds the changes "
                f"up to {position}; restore the folder that belongs to the log, or move the log away, which gives up "
                f"its {len(self.left)} changes"
            )

    def _block(self, file: IO[bytes]) -> list[Change] | None:
        """The changes of the next block, counted; None, and the file where it was, if it is not whole."""
        start, size = file.tell(), os.fstat(file.fileno()).st_size
        content = _whole(file, self._key, size)
        if content is None:
            file.seek(start)
            return None
        count, first, body = content
        if first != self.version + 1:
            raise ValueError(
                f"{self.path} goes from change {self.version} to change {first}; restore it, or move it away"
            )
        try:
            changes = unpacked(body, first)
        except ValueError as error:
            raise ValueError(f"{self.path} holds changes that kinrank would not have written: {error}") from error
        if len(changes) != count:
            raise ValueError(
                f"{self.path} holds {len(changes)} changes where it says {count}; restore it, or move it away"
            )
        self.version += count
        return changes

    def _check_rest(self, file: IO[bytes]) -> None:
        """Cut off the rest of the file behind the last whole block; a ValueError if there is a whole one in it."""
        start, size = file.tell(), os.fstat(file.fileno()).st_size
        rest = file.read()
        place = rest.find(MARK, 1)
        while place >= 0:
            file.seek(start + place)
            if _whole(file, self._key, size) is not None:
                raise ValueError(
                    f"{self.path} is damaged from byte {start} to byte {start + place}, and what stands there and "
                    "behind it was acknowledged; restore it from a copy, or move it away, which gives up everything "
                    f"behind change {self.version}"
                )
            place = rest.find(MARK, place + 1)
        if rest:
            said.error(  # printed even where the user asked for quiet
                "%s: the last %d bytes are not a complete change and were removed; no client received a confirmation "
                "for it, unless the disk has damaged it since",
                self.path,
                len(rest),
            )
            file.truncate(start)
            os.fsync(file.fileno())


def _block(key: bytes, first: int, changes: Sequence[Change]) -> bytes:
    """A block as it stands in the file."""
    body = packed(changes)
    head = BLOCK.pack(MARK, len(changes), first, len(body))
    return head + checksum(key, head, HEAD_SUM) + checksum(key, body, BODY_SUM) + body


def _whole(file: IO[bytes], key: bytes, size: int) -> tuple[int, int, bytes] | None:
    """How many changes the block that begins here has, the version of the first, and their bytes; None if it is not
    whole. No more is read than the file holds."""
    block = read_block(file, key, size)
    if block is None:
        return None
    count, first, length, expected = block
    body = file.read(length)
    return (count, first, body) if checksum(key, body, BODY_SUM) == expected else None


def _write_at(number: int, content: bytes, offset: int) -> None:
    """All of it, however many bytes the system takes at a time."""
    rest = memoryview(content)
    os.lseek(number, offset, os.SEEK_SET)
    while len(rest):
        rest = rest[os.write(number, rest) :]


def _flush(folder: Path) -> None:
    """Make the names in a folder survive a crash of the machine, where the system can."""
    with contextlib.suppress(OSError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def _escaped(name: str) -> str:
    """A name in which no letter means anything to `glob`."""
    return "".join(f"[{letter}]" if letter in "[*?" else letter for letter in name)
