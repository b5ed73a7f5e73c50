"""What is said of a change that somebody asked for: a receipt, or why it was not made."""

from __future__ import annotations

from typing import Any, NamedTuple


class Refused(ValueError):
    """The change is not allowed; nothing was done."""


class Unavailable(RuntimeError):
    """The change cannot be made now, and was not made, unless it is `InDoubt`."""


class InDoubt(Unavailable):
    """Nobody knows whether the change was made: who asked must look before asking again."""


class InUse(OSError):
    """Somebody else holds the lock of the folder."""


class Receipt(NamedTuple):
    """What a change did.

    Attributes:
        version: how many changes there were in all, this one included.
        added, replaced, removed: how many items.
        items: how many there are then.
        ids: names, or numbers, of the items that were put; None for other changes.
    """

    version: int
    added: int
    replaced: int
    removed: int
    items: int
    ids: list[Any] | None = None
