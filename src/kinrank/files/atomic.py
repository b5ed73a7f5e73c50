"""A path -> a file written beside it and renamed when it is whole: nobody ever sees half of it."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from kinrank.files.lock import try_lock

ATTEMPTS = 10  # to lock the temporary file before another writer renames it


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file that becomes `path` at the end of the block; after an error the old one is untouched.

    Example:
        >>> with replacing("ranking.npz") as file:
        ...     file.write(content)
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} is not there; make it, or choose another path")
    number, name, lock = _temporary(path)
    try:
        with os.fdopen(number, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())  # the temporary file is hidden from everybody else
        os.replace(name, path)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        if isinstance(error, OSError) and error.filename is None and error.strerror is not None:
            why = f"{path} could not be written ({error.strerror}); what was there before is untouched"
            raise type(error)(error.errno, why) from error
        raise
    finally:
        if lock is not None:
            os.close(lock)


def _temporary(path: Path) -> tuple[int, str, int | None]:
    """An empty temporary file for `path`: its descriptor, its name, and a descriptor that holds its lock, if any.

    Its name is always the same, so that the next writer takes over what a killed process left behind. While another
    process writes the same path, and where files cannot be locked, it is a name of its own.
    """
    name = str(path.parent / f".{path.name}.new.part")
    for _ in range(ATTEMPTS if os.name == "posix" else 0):
        number = _locked_file(name)
        if number is None:
            break
        with contextlib.suppress(FileNotFoundError):  # another writer has just renamed the file
            if os.path.samestat(os.fstat(number), os.lstat(name)):
                os.ftruncate(number, 0)
                return number, name, os.dup(number)
        os.close(number)
    number, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    return number, name, None


def _locked_file(name: str) -> int | None:
    """The descriptor of a regular file of this user, made if it is missing and locked; None if that cannot be."""
    try:
        number = os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except OSError:  # mkstemp tries again, and says what is wrong
        return None
    found = os.fstat(number)
    own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid() and found.st_nlink <= 1
    try:
        if own and try_lock(number):
            return number
    except OSError:  # a filesystem without locks
        pass
    os.close(number)
    return None


def writable(path: Path, endings: Sequence[str] = ()) -> Path:
    """The path, if a file can be written there: known now, not after an hour of work."""
    if endings and path.suffix.lower() not in endings:
        raise ValueError(f"{path} has the unknown ending {path.suffix!r}; give {' | '.join(endings)}")
    if path.is_dir():
        raise ValueError(f"{path} is a folder; give the name of a file in it")
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} is not there; make it, or choose another path")
    try:
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise OSError(f"the folder {path.parent} cannot be written to ({error.strerror})") from None
    return path


def _umask() -> int:
    """The permissions this process withholds, from /proc, because asking the system means changing it."""
    with contextlib.suppress(OSError, ValueError), open("/proc/self/status") as lines:
        for line in lines:
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return 0o022
