"""Waiting for other threads and processes: often checked, with a limit that even a very busy machine does not reach."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 180.0  # seconds


def soon(true: Callable[[], bool], seconds: float = PATIENCE) -> bool:
    """Wait until `true()`, and return True then; False if it takes longer than these seconds."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
