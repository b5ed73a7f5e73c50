"""Progress reports: a bar, a callable of yours, or silence."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

T = TypeVar("T")
Show = bool | Callable[[str, int, int], None] | None  # a bar or not, or a callable f(label, done, total)
log = logging.getLogger("kinrank")


class Progress:
    """Told how far a long piece of work is.

    `show` is None or False (silence), True (a tqdm bar on stderr), or a callable `f(label, done, total)`.
    """

    def __init__(self, show: Show = None) -> None:
        self._show = show
        self._bar: Any = None

    def each(self, label: str, steps: Iterable[T], total: int) -> Iterator[T]:
        """Pass the steps through, reporting after each one."""
        if callable(self._show):
            return self._tell(label, steps, total, self._show)
        if self._show and total > 1:
            from tqdm.auto import tqdm

            return iter(tqdm(steps, desc=label, total=total, leave=False, dynamic_ncols=True))
        return iter(steps)

    def one(self, label: str, work: Callable[[], T]) -> T:
        """What a piece of work of unknown length returns; it is said that it begins and that it is over."""
        self.stage(label, 0, 1)
        made = work()
        self.stage(label, 1, 1)
        return made

    def stage(self, label: str, done: int, total: int) -> None:
        """Say which of a few unequal stages begins; `done` of `total` are over, the last one closes the bar."""
        if callable(self._show):
            self._show(label, done, total)
        elif self._show:
            from tqdm.auto import tqdm

            if self._bar is None:
                self._bar = tqdm(total=total, leave=False, dynamic_ncols=True)
            self._bar.set_description(label)
            self._bar.update(done - self._bar.n)
            if done == total:
                self._bar.close()
                self._bar = None

    def _tell(self, label: str, steps: Iterable[T], total: int, tell: Callable[[str, int, int], None]) -> Iterator[T]:
        for done, step in enumerate(steps, start=1):
            yield step
            tell(label, done, total)


SILENT = Progress()


def both(show: Show, bar: bool) -> Show:
    """What is told to a callable is also shown as a bar on stderr, if so."""
    if not callable(show) or not bar:
        return show if callable(show) else bool(show) or bar
    tell = show
    drawn: list[Any] = []  # the bar of the present label

    def told(label: str, done: int, total: int) -> None:
        from tqdm.auto import tqdm

        tell(label, done, total)
        if drawn and drawn[0].desc != f"{label}: ":
            drawn.pop().close()
        if not drawn:
            drawn.append(tqdm(desc=label, total=total, leave=False, dynamic_ncols=True))
        drawn[0].total = total
        drawn[0].update(done - drawn[0].n)
        if done >= total:
            drawn.pop().close()

    return told
