"""Temporary folders that do not stay forever: those of killed processes are removed by the next process."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kinrank.files.lock import LOCK, alone_in

PREFIX = "kinrank-"


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new temporary folder, locked as long as the block runs and removed at its end.

    Folders of other processes of this user that were killed are removed first. A folder is in use as long as its lock
    is held, and locks end with their process, however that ends.

    Example:
        >>> with scratch_folder() as folder:
        ...     (folder / "part").write_bytes(content)
    """
    remove_abandoned()
    with contextlib.ExitStack() as stack:
        path = stack.enter_context(tempfile.TemporaryDirectory(prefix=PREFIX, ignore_cleanup_errors=True))
        stack.enter_context(alone_in(Path(path)))
        yield Path(path)


def remove_abandoned() -> None:
    """Remove temporary folders of killed processes: only folders of this user that nobody has locked, and no links."""
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX):
                with contextlib.suppress(OSError):
                    _remove_if_abandoned(Path(entry.path))


def _remove_if_abandoned(folder: Path) -> None:
    import fcntl  # not on Windows

    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        return
    number = os.open(folder / LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)  # without a lock it is left alone
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
    finally:
        os.close(number)
