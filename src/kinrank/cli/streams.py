"""Replacements for standard streams that the caller has closed, as in `kinrank ... <&-` or `>&-`."""

from __future__ import annotations

import io
import os
import sys
from typing import Any


class ClosedInput(io.RawIOBase):
    """Standard input that refuses to be read."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        raise OSError("standard input is closed; give the path of a file, or pipe the content in")


class ClosedOutput(io.RawIOBase):
    """Standard output that drops its data. The command runs, and reports at its end that output was lost.

    Attributes:
        lost: True if something was written.
    """

    lost = False

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.lost = self.lost or len(data) > 0
        return len(data)


def replace_closed_streams() -> None:
    """Replace the standard streams that are closed, and occupy their file descriptors.

    Otherwise the next opened file gets descriptor 1 or 2, and native code prints into it.
    """
    _occupy_descriptors()
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(ClosedInput()))
    if sys.stdout is None:
        sys.stdout = io.TextIOWrapper(io.BufferedWriter(ClosedOutput()), encoding="utf-8", line_buffering=True)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - as long as the process


def output_was_lost() -> bool:
    """Return True if something was printed to a closed standard output."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return isinstance(raw, ClosedOutput) and raw.lost


def _occupy_descriptors() -> None:
    """Open the null device on each of the descriptors 0, 1 and 2 that is free, lowest first."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
