"""Requests -> as many at a time as the machine can do; the others wait, and beyond that they are told to come back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from kinrank.web.settings import Limits

Answer = TypeVar("Answer")


LATE = "ask for less"
CHANGED = "the change may be made or not: look, then try again"


class Busy(RuntimeError):
    """The request is not answered now; it may be sent again."""


class Late(RuntimeError):
    """What was asked for was begun, and not done in time; whether it will be, nobody knows."""


class Gate:
    """A few threads that compute, and a bounded number of requests that wait for them.

    A request that takes too long is given up, and its place becomes free when its thread is done with it. If it was
    begun, who asked is told so, in the words `late`: it is no use to ask for the same again, or no good.
    """

    def __init__(self, threads: int, waiting: int, seconds: float, name: str, late: str = LATE) -> None:
        self.inside = 0
        self._waiting, self._seconds, self._late = waiting, seconds, late
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def run(self, work: Callable[..., Answer], *given: Any) -> Answer:
        """What `work(*given)` returns, computed by a thread; Busy where too many wait, or after too long."""
        if self.inside >= self._waiting:
            raise Busy(f"{self.inside} requests are being answered or wait already; try again in a second")
        loop = asyncio.get_running_loop()
        self.inside += 1
        future = self._pool.submit(work, *given)
        future.add_done_callback(lambda done: self._later(loop, done))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self._seconds)
        except (TimeoutError, asyncio.TimeoutError):
            if future.done() and not future.cancelled():  # just now, or the work itself took too long for somebody
                return future.result()
            words = f"the request was not answered within {self._seconds:g} seconds"
            if future.cancelled():
                raise Busy(f"{words}; try again later") from None
            raise Late(f"{words}; {self._late}") from None

    def _later(self, loop: asyncio.AbstractEventLoop, _: Future[Any]) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(self._left)

    def _left(self) -> None:
        self.inside -= 1

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class Gates:
    """Searches, changes and pictures wait in lines of their own: none of them can keep the others out."""

    def __init__(self, limits: Limits) -> None:
        self.searches = Gate(limits.threads, limits.waiting, limits.seconds, "search")
        self.changes = Gate(8, limits.waiting, limits.seconds, "change", CHANGED)
        self.asking = Gate(2, limits.waiting, limits.seconds, "asking")
        self.pictures = Gate(2, 4 * limits.waiting, limits.seconds, "picture")

    def close(self) -> None:
        for gate in (self.searches, self.changes, self.asking, self.pictures):
            gate.close()
