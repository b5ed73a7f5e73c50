"""Progress reports: a bar, lines of text, a callback, or silence."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
ProgressOption = bool | Callable[[str, int, int], None] | None  # a bar or not, or a callable f(label, done, total)
LINE_SECONDS = 10.0  # between two lines of text


class ProgressLines:
    """A callable `f(label, done, total)` that prints a line to stderr every ten seconds, where a bar is of no use.

    A step can take minutes, so a thread prints as well. It ends with the last step of a stage, or with this object.

    Args:
        seconds: between two lines; LINE_SECONDS by default.
        clock: current time in seconds.
    """

    def __init__(self, seconds: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = LINE_SECONDS if seconds is None else seconds
        self._clock, self._lock = clock, threading.Lock()
        self._start = clock()
        self._due = self._start + self._seconds
        self._stage: tuple[str, int, int] = ("", 0, 0)
        self._ended: threading.Event | None = None  # of the thread, if one runs

    def __call__(self, label: str, done: int, total: int) -> None:
        self._stage = label, done, total
        if done < total:
            self.print_if_due()
            if self._ended is None:
                self._ended = threading.Event()
                arguments = (weakref.ref(self), self._ended, self._seconds)
                threading.Thread(target=_print_lines, args=arguments, daemon=True, name="kinrank-progress").start()
        elif self._ended is not None:
            self._ended.set()
            self._ended = None

    def print_if_due(self) -> float:
        """Print a line if the last one is long enough ago. Return the seconds until the next one is due."""
        with self._lock:
            now = self._clock()
            if now >= self._due:
                self._due, (label, done, total) = now + self._seconds, self._stage
                with contextlib.suppress(OSError, ValueError):  # a closed stderr
                    print(
                        f"kinrank: {label}, {done} of {total}, {now - self._start:.0f} s", file=sys.stderr, flush=True
                    )
            return self._due - now


def _print_lines(lines: weakref.ref[ProgressLines], ended: threading.Event, seconds: float) -> None:
    wait = seconds
    while not ended.wait(wait):
        reporter = lines()
        if reporter is None:
            return
        wait = reporter.print_if_due()
        del reporter


class Progress:
    """Reporter of the progress of a long computation.

    `show` is None or False (silence), True (a tqdm bar on stderr), or a callable `f(label, done, total)`, such as
    ProgressLines.
    """

    def __init__(self, show: ProgressOption = None) -> None:
        self._show = show
        self._bar: Any = None

    def each(self, label: str, steps: Iterable[T], total: int) -> Iterator[T]:
        """Yield the steps and report after each one."""
        if callable(self._show):
            if isinstance(self._show, ProgressLines):
                self._show(label, 0, total)  # the first step may take long
            return self._report_each(label, steps, total, self._show)
        if self._show and total > 1:
            from tqdm.auto import tqdm

            return iter(tqdm(steps, desc=label, total=total, leave=False, dynamic_ncols=True))
        return iter(steps)

    def run(self, label: str, work: Callable[[], T]) -> T:
        """Run a function of unknown duration, report its start and its end, and return its result."""
        self.stage(label, 0, 1)
        result = work()
        self.stage(label, 1, 1)
        return result

    def stage(self, label: str, done: int, total: int) -> None:
        """Report the start of a stage; `done` of `total` stages are complete, and the last one closes the bar."""
        if callable(self._show):
            self._show(label, done, total)
        elif self._show:
            from tqdm.auto import tqdm

            if self._bar is None:
                self._bar = tqdm(total=total, leave=False, dynamic_ncols=True)
            self._bar.set_description(label)
            self._bar.total = total
            self._bar.update(done - self._bar.n)
            if done == total:
                self._bar.close()
                self._bar = None

    def _report_each(
        self, label: str, steps: Iterable[T], total: int, callback: Callable[[str, int, int], None]
    ) -> Iterator[T]:
        for done, step in enumerate(steps, start=1):
            yield step
            callback(label, done, total)


SILENT = Progress()


def tee_progress(show: ProgressOption, terminal: ProgressOption) -> ProgressOption:
    """Report to the callback `show` and to `terminal`: a progress bar or lines on stderr, or nothing."""
    if not callable(show) or not terminal:
        return show or terminal
    callback, progress = show, Progress(terminal)

    def report_both(label: str, done: int, total: int) -> None:
        callback(label, done, total)
        progress.stage(label, done, total)

    return report_both
