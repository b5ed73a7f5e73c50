"""Ctrl-C while a command works: a KeyboardInterrupt, so that the command can clean up."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from kinrank_entry import exit_at_once

RETRY_SECONDS = 0.02
# An exception inside `__enter__` or `__exit__` of these modules leaves the lock of the compiler taken for ever, and all
# threads that compile wait for it.
LOCKS = ("llvmlite.binding.ffi", "numba.core.compiler_lock")
LOCK_DEPTH = 8  # frames that such a method and what it calls may take


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
        signal.signal(signal.SIGINT, _raise_interrupt)
        yield
    finally:
        signal.signal(signal.SIGINT, exit_at_once)
        sys.unraisablehook = report


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Block SIGINT in this thread; processes that are started inside inherit that, and never get it.

    Ctrl-C reaches every process of a terminal. A worker would answer with a traceback, already during its imports;
    it is up to its parent, which gets the signal after the block, to end it. Windows has no such signals.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _raise_interrupt(number: int, frame: FrameType | None) -> None:
    """Signal handler that raises KeyboardInterrupt, a moment later if a lock of the compiler is changing hands."""
    for _ in range(LOCK_DEPTH):
        if frame is None:
            break
        if frame.f_code.co_name in ("__enter__", "__exit__") and frame.f_globals.get("__name__") in LOCKS:
            _send_again()
            return
        frame = frame.f_back
    raise KeyboardInterrupt


def _retry_interrupt(unraisable: Any) -> None:
    """Send SIGINT again if Python dropped a KeyboardInterrupt because a destructor or a callback cannot raise it."""
    if issubclass(unraisable.exc_type, KeyboardInterrupt):
        _send_again()
    else:
        sys.__unraisablehook__(unraisable)


def _send_again() -> None:
    again = threading.Timer(RETRY_SECONDS, os.kill, (os.getpid(), signal.SIGINT))
    again.daemon = True
    again.start()
