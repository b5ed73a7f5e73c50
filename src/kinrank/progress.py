"""Progress reports: a bar, a callback, or silence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
ProgressOption = bool | Callable[[str, int, int], None] | None  # a bar or not, or a callable f(label, done, total)


class Progress:
    """Reporter of the progress of a long computation.

    `show` is None or False (silence), True (a tqdm bar on stderr), or a callable `f(label, done, total)`.
    """

    def __init__(self, show: ProgressOption = None) -> None:
        self._show = show
        self._bar: Any = None

    def each(self, label: str, steps: Iterable[T], total: int) -> Iterator[T]:
        """Yield the steps and report after each one."""
        if callable(self._show):
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


def tee_progress(show: ProgressOption, bar: bool) -> ProgressOption:
    """Report to the callback `show` and, if `bar`, to a progress bar on stderr."""
    if not callable(show) or not bar:
        return show if callable(show) else bool(show) or bar
    callback, progress = show, Progress(True)

    def report_both(label: str, done: int, total: int) -> None:
        callback(label, done, total)
        progress.stage(label, done, total)

    return report_both
