"""A saved folder -> the log that a service keeps beside it: where it is, and up to which change it goes.

`log` writes and reads it; here is what `load` and `save` must know of it: a head, then blocks of changes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import struct
import sys
from pathlib import Path
from typing import IO, NamedTuple

from kinrank.files.lock import LOCK
from kinrank.files.paths import resolved

MAGIC = b"kinrank log 1\n\x00\x00"
MARK = b"\xf1log"
HEAD = struct.Struct("<16sQ16s8s")  # MAGIC, the version it begins behind, a random key, checksum of these
BLOCK = struct.Struct("<4sIQQ")  # MARK, how many changes, the version of the first, bytes of all changes
HEAD_SUM, BODY_SUM = 8, 16  # bytes of the two checksums behind that: of these numbers, and of the changes


class NotFolded(UserWarning):
    """A Manifold was loaded without changes that a service acknowledged and could not save before it was killed."""


class Head(NamedTuple):
    """How a log begins: behind which version, and with which key its checksums are made."""

    base: int
    key: bytes


def log_of(folder: Path) -> Path:
    """Where the log of a folder stands: beside it, however the folder was named."""
    home = resolved(folder)
    return home.with_name(f"{home.name}.log")


def packed_head(head: Head) -> bytes:
    content = HEAD.pack(MAGIC, head.base, head.key, b"")[:-8]
    return content + hashlib.blake2b(content, digest_size=8).digest()


def read_head(file: IO[bytes]) -> Head | None:
    """The head at the start of a file; None if that is no log, or a damaged one."""
    content = file.read(HEAD.size)
    if len(content) < HEAD.size:
        return None
    _, base, key, _ = HEAD.unpack(content)
    return Head(base, key) if packed_head(Head(base, key)) == content else None


def checksum(key: bytes, content: bytes, size: int) -> bytes:
    """Made with the key of a log, so that nobody who sends vectors can make one."""
    return hashlib.blake2b(content, digest_size=size, key=key).digest()


def read_block(file: IO[bytes], key: bytes, size: int) -> tuple[int, int, int, bytes] | None:
    """What stands before the changes of a block: how many, the version of the first, bytes, and their checksum.

    None where no block begins, or where it says that it goes beyond the end of the file, at `size`.
    """
    content = file.read(BLOCK.size + HEAD_SUM + BODY_SUM)
    head, own, body = content[: BLOCK.size], content[BLOCK.size : -BODY_SUM], content[-BODY_SUM:]
    if len(content) < BLOCK.size + HEAD_SUM + BODY_SUM or not head.startswith(MARK):
        return None
    _, count, first, length = BLOCK.unpack(head)
    if checksum(key, head, HEAD_SUM) != own or file.tell() + length > size:
        return None
    return count, first, length, body


def has_log(folder: Path) -> bool:
    """Whether something other than an empty file has the name that the log of this folder has."""
    path = log_of(folder)
    return path.exists() and not (path.is_file() and path.stat().st_size == 0)


def last_logged(folder: Path) -> int:
    """The version of the last change in the log of a folder; 0 without a readable log. Reads a few bytes per block."""
    found = _scan(log_of(folder))
    return 0 if found is None else found.last


class LogScan(NamedTuple):
    """The version of the last change in a log, and whether bytes follow it that are not a readable block."""

    last: int
    damaged: bool


def _scan(path: Path) -> LogScan | None:
    """Follow the blocks of a log to its end; None if it cannot be read, or is no log."""
    try:
        if not path.is_file():  # nor a pipe, whose reading would never end
            return None
        with path.open("rb") as file:
            size, head = os.fstat(file.fileno()).st_size, read_head(file)
            if head is None:
                return None
            last, end = head.base, file.tell()
            while (block := read_block(file, head.key, size)) is not None:
                count, _, length, _ = block
                last += count
                end = file.seek(length, os.SEEK_CUR)
            return LogScan(last, end < size)
    except OSError:
        return None


def left_out(folder: Path, position: int, alone: bool = False) -> str | None:
    """A sentence about the logged changes that a folder, saved at `position`, does not hold; None if it holds all.

    While a service runs there is nothing to say: it saves them in a moment. `alone`: the caller has locked the folder.
    """
    missing = last_logged(folder) - position
    if missing <= 0 or (not alone and _in_use(folder)):
        return None
    changes = "1 change" if missing == 1 else f"{missing} changes"
    return (
        f"{folder} lacks {changes} that a service acknowledged before it was killed, in {log_of(folder)}; `kinrank "
        "serve`, any command that changes the folder, and `with Manifold.changing(path)` apply them"
    )


def unapplied(folder: Path, position: int) -> str | None:
    """Why a folder at `position`, locked by the caller, cannot be saved before its log is applied; None if it can."""
    if not has_log(folder):
        return None
    path = log_of(folder)
    found = _scan(path)
    if found is None:
        return f"{path} is not a log that kinrank can read; restore it, or move it away, which discards its changes"
    if found.damaged:
        return (
            f"{path} has bytes at its end that cannot be read, which may hold acknowledged changes; make your change "
            "in `with Manifold.changing(path)`, which looks at them, or save to another path"
        )
    missing = left_out(folder, position, alone=True)
    if missing is None:
        return None
    return (
        f"{missing.partition(';')[0]}, and saving would undo them or be undone by them; make your change in `with "
        "Manifold.changing(path)`, which applies them first, or save to another path"
    )


def _in_use(folder: Path) -> bool:
    """Whether somebody holds the lock of a folder now."""
    if sys.platform == "win32":
        return False
    import fcntl

    with contextlib.suppress(OSError):
        number = os.open(folder / LOCK, os.O_RDONLY)
        try:
            fcntl.flock(number, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(number)
    return False
