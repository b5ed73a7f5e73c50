"""Folders of the user: temporary ones, which the next process removes if theirs was killed, and the cache."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kinrank.files.atomic import LOCK_NAME, folder_lock

FOLDER_PREFIX = "kinrank-"


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """Create a temporary folder that is locked during the block and removed at its end.

    First removes the folders that killed processes of this user left. A folder is in use as long as its lock is held,
    and locks end with their process, however that ends.

    Example:
        >>> with scratch_folder() as folder:
        ...     (folder / "part").write_bytes(content)
    """
    remove_abandoned_folders()
    with contextlib.ExitStack() as stack:
        path = stack.enter_context(tempfile.TemporaryDirectory(prefix=FOLDER_PREFIX, ignore_cleanup_errors=True))
        stack.enter_context(folder_lock(Path(path)))
        yield Path(path)


def remove_abandoned_folders() -> None:
    """Remove the temporary folders of killed processes: only unlocked folders of this user, and no links."""
    if sys.platform == "win32":
        return
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as entries:
        for entry in entries:
            if entry.name.startswith(FOLDER_PREFIX):
                with contextlib.suppress(OSError):
                    _remove_if_abandoned(Path(entry.path))


def _remove_if_abandoned(folder: Path) -> None:
    """Remove a folder of this user that is not locked."""
    import fcntl  # does not exist on Windows

    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        return
    number = os.open(folder / LOCK_NAME, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)  # keep a folder without a lock file
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
    finally:
        os.close(number)


def cache_folder(kind: str) -> Path:
    """Return the folder for a kind of cached files, which may not exist yet.

    It is in XDG_CACHE_HOME if that is set, else where the system has such folders.
    """
    home = Path(os.path.expanduser("~"))
    if chosen := os.environ.get("XDG_CACHE_HOME"):
        place = Path(chosen)
    elif sys.platform == "win32":
        place = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        place = home / "Library" / "Caches"
    else:
        place = home / ".cache"
    return place / "kinrank" / kind
