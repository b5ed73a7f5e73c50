"""Ctrl-C while a command works: a KeyboardInterrupt, so that the command can clean up."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kinrank_entry import exit_at_once

RETRY_SECONDS = 0.02


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt on Ctrl-C inside the block, and exit at once after it.

    Does nothing where `exit_at_once` is not installed: a program that calls the command line keeps its own handling.
    """
    if signal.getsignal(signal.SIGINT) is not exit_at_once:
        yield
        return
    report = sys.unraisablehook
    try:
        sys.unraisablehook = _retry_interrupt
        signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
    finally:
        signal.signal(signal.SIGINT, exit_at_once)
        sys.unraisablehook = report


def _retry_interrupt(unraisable: Any) -> None:
    """Send SIGINT again if Python dropped a KeyboardInterrupt because a destructor or a callback cannot raise it."""
    if not issubclass(unraisable.exc_type, KeyboardInterrupt):
        sys.__unraisablehook__(unraisable)
        return
    again = threading.Timer(RETRY_SECONDS, os.kill, (os.getpid(), signal.SIGINT))
    again.daemon = True
    again.start()
