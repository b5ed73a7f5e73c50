"""Memory limits: parse texts such as "2GB", and estimate the memory that is free."""

from __future__ import annotations

import numbers
import os
import re

from kinrank.errors import InputError

UNIT_BYTES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
UNIT_BYTES |= {"KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40}


def parse_bytes(limit: int | str) -> int:
    """Parse a number of bytes from a whole number or a text.

    Example:
        >>> parse_bytes("2GB")
        2000000000
    """
    if isinstance(limit, str):
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?I?)B?\s*", limit.upper())
        count = int(float(match[1]) * UNIT_BYTES[match[2]]) if match and match[2] in UNIT_BYTES else 0
    else:
        whole = isinstance(limit, numbers.Integral) and not isinstance(limit, bool)
        count = int(limit) if whole else 0
    if count > 0:
        return count
    raise InputError(
        parameter="max_memory", given=limit, allowed='bytes as a whole number > 0, or a text such as "2GB"'
    )


def default_limit_bytes() -> int:
    """Return four fifths of the memory that is free now, or 4 GB if the system does not report it."""
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024 * 4 // 5
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (OSError, ValueError, AttributeError):
        return 4 * 10**9


def format_bytes(count: int) -> str:
    """Format a number of bytes for people: 1.5 GB."""
    size = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
