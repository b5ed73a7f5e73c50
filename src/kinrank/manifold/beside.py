"""A saved folder -> the log that a service keeps beside it: where it is, and up to which change it goes.

`web.log` writes and reads it; here is what `load` and `save` must know of it: a head, then blocks of changes.
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


def last_logged(folder: Path) -> int:
    """The version of the last change in the log of a folder; 0 where there is no log. Reads a few bytes per block."""
    path = log_of(folder)
    try:
        if not path.is_file():  # nor a pipe, whose reading would never end
            return 0
        with path.open("rb") as file:
            size, head = os.fstat(file.fileno()).st_size, read_head(file)
            last = 0 if head is None else head.base
            while head is not None and (block := read_block(file, head.key, size)) is not None:
                count, _, length, _ = block
                last += count
                file.seek(length, os.SEEK_CUR)
            return last
    except OSError:
        return 0


def left_out(folder: Path, position: int, alone: bool = False) -> str | None:
    """What is missing in a folder that holds the changes up to `position`, in a sentence; None where nothing is.

    Nothing is missing while a service runs: it saves them in a moment. `alone`: the folder is locked by the caller.
    """
    missing = last_logged(folder) - position
    if missing <= 0 or (not alone and _in_use(folder)):
        return None
    changes = "1 change" if missing == 1 else f"{missing} changes"
    return (
        f"{folder} lacks {changes} that a service acknowledged before it was killed; they stand in {log_of(folder)}, "
        "and `kinrank serve` on the folder takes them in"
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
