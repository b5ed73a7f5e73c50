"""Progress reports: a bar, a callable of yours, or silence."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")
log = logging.getLogger("kinrank")


class Progress:
    """Told how far a long piece of work is.

    `show` is None or False (silence), True (a tqdm bar on stderr), or a callable `f(label, done, total)`.
    """

    def __init__(self, show: bool | Callable[[str, int, int], None] | None = None) -> None:
        self._show = show

    def each(self, label: str, steps: Iterable[T], total: int) -> Iterator[T]:
        """Pass the steps through, reporting after each one."""
        if callable(self._show):
            return self._tell(label, steps, total, self._show)
        if self._show and total > 1:
            from tqdm.auto import tqdm

            return iter(tqdm(steps, desc=label, total=total, leave=False, dynamic_ncols=True))
        return iter(steps)

    def _tell(
        self, label: str, steps: Iterable[T], total: int, tell: Callable[[str, int, int], None]
    ) -> Iterator[T]:
        for done, step in enumerate(steps, start=1):
            yield step
            tell(label, done, total)


SILENT = Progress()
