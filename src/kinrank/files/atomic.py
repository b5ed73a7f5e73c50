"""A path -> a file written beside it and renamed when it is whole: nobody ever sees half of it."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO


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
    number, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    try:
        with os.fdopen(number, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())  # mkstemp hides files from everybody else
        os.replace(name, path)
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        if isinstance(error, OSError) and error.filename is None and error.strerror is not None:
            why = f"{path} could not be written ({error.strerror}); what was there before is untouched"
            raise type(error)(error.errno, why) from error
        raise


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
