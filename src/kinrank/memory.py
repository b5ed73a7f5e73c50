"""Memory limits: words such as "2GB" -> bytes, what this machine has free, and the error when that is too little."""

from __future__ import annotations

import numbers
import os
import re


class NotEnoughMemory(MemoryError):
    """Raised before allocating, when an estimate passes `max_memory`; the message says what to do."""


UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
UNITS |= {"KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}


def parse_bytes(limit: int | str) -> int:
    """A number of bytes from itself or from words.

    Example:
        >>> parse_bytes("2GB")
        2000000000
    """
    if isinstance(limit, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?I?)B?\s*", limit.upper())
        count = int(float(match[1]) * UNITS[match[2]]) if match and match[2] in UNITS else 0
    else:
        whole = isinstance(limit, numbers.Integral) and not isinstance(limit, bool)
        count = int(limit) if whole else 0
    if count > 0:
        return count
    raise ValueError(f'max_memory={limit!r} is not allowed; give bytes as a whole number > 0, or words such as "2GB"')


def allowed_bytes() -> int:
    """Four fifths of the memory that is free now, or 4 GB where the system does not say."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024 * 4 // 5
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (OSError, ValueError, AttributeError):
        return 4 * 10**9


def in_words(count: int) -> str:
    """Bytes for people: 1.5 GB."""
    size = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
