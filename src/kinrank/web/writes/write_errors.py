"""Errors of a requested change. An InputError says that it is not allowed."""

from __future__ import annotations

import errno
import os

OBSERVE_OVER_STORE = (
    "a service over a vector database cannot observe queries; serve the folder without --store, or use `kinrank "
    "observe` while the service is stopped"
)


class UnavailableError(RuntimeError):
    """The change cannot be made now and was not made, unless the error is an `OutcomeUnknownError`."""


class OutcomeUnknownError(UnavailableError):
    """The change may or may not have been made. The client must check before it tries again."""


class FolderInUseError(OSError):
    """Another process holds the lock of the folder."""


def describe_error(error: BaseException) -> str:
    """Return a short reason that a client may read: the message of the operating system, or the class name."""
    number = error.errno if isinstance(error, OSError) else None
    return type(error).__name__ if number is None or number not in errno.errorcode else os.strerror(number)
