"""Deadline of a computation: a moment after which it stops at the next check, in any thread.

A server sets a deadline around a request. The loops of kinrank call `check` between queries, between stages and
between chunks of rows, so an abandoned computation soon gives its thread back. Without a deadline a check costs a tenth
of a microsecond and does nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class DeadlineExceededError(BaseException):
    """Raised by `check` after the deadline.

    Like `asyncio.CancelledError` it derives from BaseException: handlers of ordinary errors must not swallow it.
    """


class Deadline:
    """A moment in time that can be moved to now.

    Example:
        >>> with Deadline(30.0).activate():
        ...     ranking = manifold.search(queries)
    """

    def __init__(self, seconds: float = math.inf) -> None:
        self._moment = time.monotonic() + seconds

    def cancel(self) -> None:
        """Stop the computation at its next check."""
        self._moment = -math.inf

    def check(self) -> None:
        """Raise DeadlineExceeded if the moment has passed."""
        if time.monotonic() >= self._moment:
            raise DeadlineExceededError("the deadline of this computation has passed")

    @contextmanager
    def activate(self) -> Iterator[None]:
        """Make `check` use this deadline in this thread while the block runs."""
        token = CURRENT.set(self)
        try:
            yield
        finally:
            CURRENT.reset(token)


CURRENT: ContextVar[Deadline | None] = ContextVar("kinrank_deadline", default=None)  # of the computation in this thread


def check() -> None:
    """Raise DeadlineExceeded if this computation has a deadline and it has passed."""
    deadline = CURRENT.get()
    if deadline is not None:
        deadline.check()
