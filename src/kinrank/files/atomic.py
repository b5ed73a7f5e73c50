"""Safe writing: one writer of a folder at a time, by locks, and files that are replaced when they are complete.

A lock is released when its process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from kinrank.errors import InputError, MissingFileError

MAX_ATTEMPTS = 10  # attempts to lock the temporary file before another writer renames it
LOCK_NAME = ".lock"  # is never deleted: a lock file that is deleted and created again can be locked twice
LOCK_WAIT_SECONDS = 60.0
RETRY_SECONDS = 0.02
WINDOWS_LOCK_OFFSET = 2**30  # Windows locks the byte here, after the text that other processes must be able to read


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a binary file that becomes `path` at the end of the block. After an error the old file is unchanged.

    Example:
        >>> with atomic_write("ranking.npz") as file:
        ...     file.write(content)
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise MissingFileError(f"the folder {path.parent} does not exist; create it, or choose another path")
    number, name, lock = _open_temporary(path)
    try:
        with os.fdopen(number, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_read_umask())  # only the owner can read the temporary file
        os.replace(name, path)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        if isinstance(error, OSError) and error.filename is None and error.strerror is not None:
            message = f"{path} could not be written ({error.strerror}); its previous content is unchanged"
            raise type(error)(error.errno, message) from error
        raise
    finally:
        if lock is not None:
            os.close(lock)


def _open_temporary(path: Path) -> tuple[int, str, int | None]:
    """Open an empty temporary file for `path`. Return its descriptor, its name, and a descriptor that holds its lock.

    The name is always the same, so that the next writer reuses the file that a killed process left. While another
    process writes the same path, and where files cannot be locked, the name is unique and the lock None.
    """
    name = str(path.parent / f".{path.name}.new.part")
    for _ in range(MAX_ATTEMPTS if os.name == "posix" else 0):
        number = _open_with_lock(name)
        if number is None:
            break
        with contextlib.suppress(FileNotFoundError):  # another writer has just renamed the file
            if os.path.samestat(os.fstat(number), os.lstat(name)):
                os.ftruncate(number, 0)
                return number, name, os.dup(number)
        os.close(number)
    number, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    return number, name, None


def _open_with_lock(name: str) -> int | None:
    """Open and lock a regular file of this user, creating it if needed. Return its descriptor; None if impossible."""
    try:
        number = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except OSError:  # mkstemp tries again and reports the error
        return None
    status = os.fstat(number)
    own = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and status.st_nlink <= 1
    try:
        if own and try_lock(number):
            return number
    except OSError:  # a filesystem without locks
        pass
    os.close(number)
    return None


def flush_folder(folder: Path) -> None:
    """Flush the names in a folder to the disk, if the system supports it."""
    with contextlib.suppress(OSError, AttributeError):
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def check_writable(path: Path, endings: Sequence[str] = ()) -> Path:
    """Return the path if a file can be written there, so that errors come now and not after an hour of work."""
    if endings and path.suffix.lower() not in endings:
        raise InputError(f"{path} has the unknown ending {path.suffix!r}", allowed=" | ".join(endings))
    if path.is_dir():
        raise InputError(f"{path} is a folder", allowed="the name of a file in it")
    if not path.parent.is_dir():
        raise MissingFileError(f"the folder {path.parent} does not exist; create it, or choose another path")
    try:
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise OSError(f"the folder {path.parent} cannot be written to ({error.strerror})") from None
    return path


def _read_umask() -> int:
    """Read the umask of this process from /proc, because the system call would have to change it."""
    with contextlib.suppress(OSError, ValueError), open("/proc/self/status") as lines:
        for line in lines:
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return 0o022


def check_seconds(wait: float) -> float:
    """Check the number of seconds to wait."""
    if isinstance(wait, bool) or not isinstance(wait, int | float) or not 0 <= wait < math.inf:
        raise InputError(parameter="wait", given=wait, allowed="a number of seconds >= 0")
    return float(wait)


def resolve_path(path: str | os.PathLike[str]) -> Path:
    """Return the absolute path without links. Raises an OSError with the path if its links form a loop.

    `Path.resolve` raises a RuntimeError for such links before Python 3.13.
    """
    try:
        return Path(path).resolve()
    except RuntimeError:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path)) from None
    except ValueError:  # a null byte
        raise InputError(f"{str(path)!r} is not a path") from None


@contextlib.contextmanager
def folder_lock(folder: Path, wait: float = LOCK_WAIT_SECONDS, make: bool = True) -> Iterator[bool]:
    """Lock a folder for a `with` block against other threads and processes. Yield True if the folder was created.

    The folder is created if it does not exist, and again if it is deleted while we wait; with `make=False` this raises
    a FileNotFoundError. After `wait` seconds a TimeoutError names the owner of the lock. Readers, and writers that do
    not use the lock, are not affected.

    The lock is flock's on a file in the folder if the system has it (Linux, macOS, also over NFS), else that of
    Windows. A filesystem without locks raises an OSError.
    """
    deadline, created, number = time.monotonic() + wait, False, None
    while number is None:
        created = make and not folder.is_dir()
        with contextlib.suppress(FileNotFoundError):  # deleted just now
            if make:
                folder.mkdir(exist_ok=True)
            number = _acquire_lock(folder, created, wait, deadline)
        if number is None and not (make and folder.parent.is_dir()):
            raise FileNotFoundError(f"another process deleted {folder}; nothing was written")
    try:
        _write_owner(number)
        yield created
    finally:
        os.close(number)


def remove_unused_folder(folder: Path) -> None:
    """Remove a folder that contains only the lock, which the caller must hold. Waiting processes create it again."""
    with contextlib.suppress(OSError):
        if os.listdir(folder) == [LOCK_NAME]:
            os.unlink(folder / LOCK_NAME)
            os.rmdir(folder)


def _acquire_lock(folder: Path, created: bool, wait: float, deadline: float) -> int | None:
    """Open and lock the lock file. Return None, or raise a FileNotFoundError, if it was deleted while we waited."""
    number = _open_lock_file(folder, created)
    try:
        while True:
            locked = try_lock(number)
            if not os.path.samestat(os.fstat(number), os.stat(folder / LOCK_NAME)):
                os.close(number)
                return None
            if locked:
                return number
            if time.monotonic() > deadline:
                raise TimeoutError(_describe_owner(folder, wait))
            time.sleep(RETRY_SECONDS)
    except BaseException:
        os.close(number)
        raise


def _open_lock_file(folder: Path, created: bool) -> int:
    """Open or create the lock file. If the disk is full, remove the folder that was created for it."""
    try:
        return os.open(folder / LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError:
        if created:
            with contextlib.suppress(OSError):
                os.rmdir(folder)
        raise


def try_lock(number: int) -> bool:
    """Lock an open file if possible. Return True if it was locked."""
    if sys.platform == "win32":
        import msvcrt

        os.lseek(number, WINDOWS_LOCK_OFFSET, os.SEEK_SET)
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


def _write_owner(number: int) -> None:
    """Write the owner of the lock, for error messages of other processes; ignore a full disk."""
    import socket  # imported here, because only writers need it

    with contextlib.suppress(OSError):
        os.ftruncate(number, 0)
        os.lseek(number, 0, os.SEEK_SET)
        os.write(number, f"process {os.getpid()} on {socket.gethostname()}".encode())


def _describe_owner(folder: Path, wait: float) -> str:
    """Describe the process that holds the lock."""
    owner = "another process"
    with contextlib.suppress(OSError, UnicodeDecodeError):
        owner = " ".join((folder / LOCK_NAME).read_text().split())[:100] or owner
    return (
        f"{folder} is being changed by {owner}, which did not finish within {wait:g} seconds; nothing was written: try "
        "again later, or with a longer wait"
    )
