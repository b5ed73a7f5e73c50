"""Ctrl-C ends a command with one line and exit code 130, also during imports and at exit."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

INTERRUPTED = 130  # exit code after Ctrl-C
MESSAGE = "kinrank: interrupted"
RETRY_SECONDS = 0.02


def exit_at_once(number: int, frame: FrameType | None) -> None:
    """Signal handler that ends the process without an exception, which an import could swallow or wrap.

    It is installed only while there is nothing to clean up: before a command starts, and after it has finished.
    """
    try:
        os.write(2, f"{MESSAGE}\n".encode())
    finally:
        os._exit(INTERRUPTED)


def exit_on_interrupt() -> None:
    """Install `exit_at_once`, unless SIGINT is ignored, as in background jobs of a shell, or handled by a caller."""
    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, exit_at_once)


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise KeyboardInterrupt on Ctrl-C inside the block, so that a command can clean up; exit at once after it.

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
