"""The one error of our own; every other mistake is a ValueError or TypeError with a remedy in it."""

from __future__ import annotations


class NotEnoughMemory(MemoryError):
    """Raised before allocating, when an estimate passes `max_memory`; the message names the remedy."""
