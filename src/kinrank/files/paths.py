"""Paths as users give them -> absolute paths without links."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def resolved(path: str | os.PathLike[str]) -> Path:
    """The absolute path without links; an OSError that names the path if its links lead in a circle.

    `Path.resolve` raises a RuntimeError for such links before Python 3.13.
    """
    try:
        return Path(path).resolve()
    except RuntimeError:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(path)) from None
