"""Handling of Ctrl-C during a command: a KeyboardInterrupt, so that the command can clean up."""

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
# An exception inside `__enter__` or `__exit__` of these modules leaves the compiler lock taken forever, and all
# compiling threads wait for it.
LOCK_MODULES = ("llvmlite.binding.ffi", "numba.core.compiler_lock")
MAX_LOCK_FRAMES = 8  # stack depth of such a method and its callees


@contextmanager
def allow_interrupt() -> Iterator[None]:
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
def block_interrupts() -> Iterator[None]:
    """Block SIGINT in this thread and in processes that are started inside the block.

    Ctrl-C reaches every process of a terminal. A worker would print a traceback, even during its imports. Its parent
    gets the signal after the block and ends it. Windows has no such signals.
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
    """Handle the signal: raise KeyboardInterrupt, or retry a moment later while a compiler lock changes hands."""
    for _ in range(MAX_LOCK_FRAMES):
        if frame is None:
            break
        if frame.f_code.co_name in ("__enter__", "__exit__") and frame.f_globals.get("__name__") in LOCK_MODULES:
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
    timer = threading.Timer(RETRY_SECONDS, os.kill, (os.getpid(), signal.SIGINT))
    timer.daemon = True
    timer.start()
