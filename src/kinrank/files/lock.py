"""A folder -> one writer in it at a time. A process that ends releases its lock, however it ends."""

from __future__ import annotations

import contextlib
import math
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

LOCK = ".lock"  # stays in the folder: a lock file that comes and goes can be locked twice
WAIT = 60.0  # seconds
PAUSE = 0.02  # seconds between two attempts
FAR = 2**30  # where Windows locks a byte: behind the text, which others must be able to read


def seconds(wait: float) -> float:
    """How long to wait, as a number from 0, or a ValueError."""
    if isinstance(wait, bool) or not isinstance(wait, int | float) or not 0 <= wait < math.inf:
        raise ValueError(f"wait={wait!r} is not allowed; give seconds from 0")
    return float(wait)


@contextlib.contextmanager
def alone_in(folder: Path, wait: float = WAIT, make: bool = True) -> Iterator[bool]:
    """Nobody else is in such a block for this folder, in this process or another; True if the folder was made for it.

    The folder is made if it is not there, and made again if somebody deletes it while we wait; unless `make` is False:
    then that is a FileNotFoundError. After `wait` seconds a TimeoutError says who is in there. Readers are not kept
    out, nor is anybody who does not ask.

    The lock is flock's on a file in the folder, where the system has it (Linux, macOS, also over NFS), else that of
    Windows. A filesystem that knows no locks is an OSError.
    """
    deadline, made, number = time.monotonic() + wait, False, None
    while number is None:
        made = make and not folder.is_dir()
        with contextlib.suppress(FileNotFoundError):  # deleted just now
            if make:
                folder.mkdir(exist_ok=True)
            number = _acquired(folder, made, wait, deadline)
        if number is None and not (make and folder.parent.is_dir()):
            raise FileNotFoundError(f"{folder} was deleted by somebody else; nothing was written")
    try:
        _sign(number)
        yield made
    finally:
        os.close(number)


def forget(folder: Path) -> None:
    """Remove a folder that holds nothing but the lock, which the caller must have; others who wait make it again."""
    with contextlib.suppress(OSError):
        if os.listdir(folder) == [LOCK]:
            os.unlink(folder / LOCK)
            os.rmdir(folder)


def _acquired(folder: Path, made: bool, wait: float, deadline: float) -> int | None:
    """The open lock file, locked; None, or a FileNotFoundError, if it was deleted while we waited."""
    number = _opened(folder, made)
    try:
        while True:
            locked = try_lock(number)
            if not os.path.samestat(os.fstat(number), os.stat(folder / LOCK)):
                os.close(number)
                return None
            if locked:
                return number
            if time.monotonic() > deadline:
                raise TimeoutError(_busy(folder, wait))
            time.sleep(PAUSE)
    except BaseException:
        os.close(number)
        raise


def _opened(folder: Path, made: bool) -> int:
    """The lock file, made if it is not there; on a full disk the folder that was made for it goes again."""
    try:
        return os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:
        if made:
            with contextlib.suppress(OSError):
                os.rmdir(folder)
        raise


def try_lock(number: int) -> bool:
    """Whether the open file could be locked now."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(number, FAR, os.SEEK_SET)
        try:
            msvcrt.locking(number, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True
    import fcntl

    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _sign(number: int) -> None:
    """Write who has the lock, for the message to others; a full disk is no reason to fail here."""
    import socket  # only who writes needs it

    with contextlib.suppress(OSError):
        os.ftruncate(number, 0)
        os.lseek(number, 0, os.SEEK_SET)
        os.write(number, f"process {os.getpid()} on {socket.gethostname()}".encode())


def _busy(folder: Path, wait: float) -> str:
    who = "another process"
    with contextlib.suppress(OSError, UnicodeDecodeError):
        who = " ".join((folder / LOCK).read_text().split())[:100] or who
    return (
        f"{folder} is being changed by {who}, which did not finish within {wait:g} seconds; nothing was written: try "
        "again later, or with a longer wait"
    )
