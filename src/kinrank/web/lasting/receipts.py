"""What is said of a change that somebody asked for: a receipt, or why it was not made."""

from __future__ import annotations

import errno
import os

from kinrank.client import Receipt

__all__ = ["InDoubt", "InUse", "Receipt", "Refused", "Unavailable", "reason"]

OVER_STORE = (
    "queries cannot be observed by a service over a vector database; serve the folder without --store, or observe them "
    "with `kinrank observe` while the service is stopped"
)


class Refused(ValueError):
    """The change is not allowed; nothing was done."""


class Unavailable(RuntimeError):
    """The change cannot be made now, and was not made, unless it is `InDoubt`."""


class InDoubt(Unavailable):
    """Nobody knows whether the change was made: who asked must look before asking again."""


class InUse(OSError):
    """Somebody else holds the lock of the folder."""


def reason(error: BaseException) -> str:
    """A few words about an error that a client may read: the system's own, or the name of its class."""
    number = error.errno if isinstance(error, OSError) else None
    return type(error).__name__ if number is None or number not in errno.errorcode else os.strerror(number)
