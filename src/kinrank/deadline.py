"""Deadline: a moment after which a computation stops at the next check, in whichever thread it runs.

A server sets a deadline around a request. The loops of kinrank call `check` between queries, between stages and
between chunks of rows, so that a computation nobody waits for any more gives its thread back soon. Without a deadline
a check costs a tenth of a microsecond and does nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class DeadlineExceeded(BaseException):
    """Raised by `check` after the deadline.

    Like `asyncio.CancelledError` it derives from BaseException: handlers of ordinary errors must not swallow it.
    """


class Deadline:
    """A moment, and a switch that moves it to now.

    Example:
        >>> with Deadline(30.0).applied():
        ...     ranking = manifold.search(queries)
    """

    def __init__(self, seconds: float = math.inf) -> None:
        self._moment = time.monotonic() + seconds

    def cancel(self) -> None:
        """Stop the computation at its next check."""
        self._moment = -math.inf

    @property
    def passed(self) -> bool:
        return time.monotonic() >= self._moment

    def check(self) -> None:
        """Raise DeadlineExceeded if the moment has passed."""
        if time.monotonic() >= self._moment:
            raise DeadlineExceeded("the time for this computation is over")

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Let `check` look at this deadline, in this thread, while the block runs."""
        token = _current.set(self)
        try:
            yield
        finally:
            _current.reset(token)


_current: ContextVar[Deadline | None] = ContextVar("kinrank_deadline", default=None)


def current() -> Deadline | None:
    """The deadline of the computation in this thread; None if it has none."""
    return _current.get()


def check() -> None:
    """Raise DeadlineExceeded if this computation has a deadline and it has passed."""
    deadline = _current.get()
    if deadline is not None:
        deadline.check()
