"""Requests -> as many at a time as the machine can do; the others wait, and beyond that they are told to come back."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from kinrank.deadline import Deadline, DeadlineExceeded
from kinrank.web.http.threads import Threads
from kinrank.web.settings import Limits

Answer = TypeVar("Answer")


LATE = "ask for less"
CHANGED = "the change may be made or not: look, then try again"
ENDING = "the service is shutting down; try again when it is back"


class Busy(RuntimeError):
    """The request is not answered now; it may be sent again."""


class Late(RuntimeError):
    """What was asked for was begun, and not done in time; whether it will be, nobody knows."""


class Gate:
    """A few threads that compute, and a bounded number of requests that wait for them.

    A request that takes too long is answered with Late, in the words `late`. Its thread stops at the next check of the
    deadline (see `kinrank.deadline`), and only then is its place free. With `stops=False` the thread goes on instead:
    a change that has begun must not end halfway.
    """

    def __init__(
        self, threads: int, waiting: int, seconds: float, name: str, late: str = LATE, stops: bool = True
    ) -> None:
        self.inside = 0
        self._waiting, self._seconds, self._late, self._stops = waiting, seconds, late, stops
        self._threads = Threads(threads, name)
        self._deadlines: set[Deadline] = set()

    async def run(self, work: Callable[..., Answer], *given: Any) -> Answer:
        """What `work(*given)` returns, computed by a thread; Busy where too many wait, or after too long."""
        if self._threads.closed:
            raise Busy(ENDING)
        if self.inside >= self._waiting:
            raise Busy(f"{self.inside} requests are being answered or wait already; try again in a second")
        loop, deadline = asyncio.get_running_loop(), Deadline(self._seconds)

        def limited() -> Answer:
            with deadline.applied():
                return work(*given)

        self.inside += 1
        self._deadlines.add(deadline)
        future = self._threads.submit(limited if self._stops else lambda: work(*given))
        future.add_done_callback(lambda done: self._later(loop, done, deadline))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self._seconds)
        except DeadlineExceeded:
            raise self._too_late(future) from None
        except (TimeoutError, asyncio.TimeoutError):
            finished = future.done() and not future.cancelled()  # just now, or the work itself took too long
            if finished and not isinstance(future.exception(), DeadlineExceeded):
                return future.result()
            raise self._too_late(future) from None
        except asyncio.CancelledError:  # the service ends, and does not wait any longer
            deadline.cancel()
            if future.cancel():
                raise Busy(ENDING) from None
            raise

    def _too_late(self, future: Future[Any]) -> Busy | Late:
        words = f"the request was not answered within {self._seconds:g} seconds"
        return Busy(f"{words}; try again later") if future.cancel() else Late(f"{words}; {self._late}")

    def _later(self, loop: asyncio.AbstractEventLoop, _: Future[Any], deadline: Deadline) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the service has ended
            loop.call_soon_threadsafe(self._left, deadline)

    def _left(self, deadline: Deadline) -> None:
        self.inside -= 1
        self._deadlines.discard(deadline)

    @property
    def busy(self) -> bool:
        """Whether threads still compute."""
        return self._threads.busy

    @property
    def occupied_seconds(self) -> float:
        """For how long no thread has become free; 0 while one is."""
        return self._threads.occupied_seconds

    def close(self) -> None:
        """Take no more requests, and let threads stop at their next check; nobody waits for them."""
        self._threads.close()
        for deadline in list(self._deadlines):
            deadline.cancel()


class Gates:
    """Requests of different kinds wait in lines of their own, so that none of them can keep the others out.

    Attributes:
        searches: what the prepared gallery answers; milliseconds each.
        reranks: methods, parameters and candidates of the client's choice, and pictures and texts; seconds each.
        changes: items added and removed.
        asking: facts about the service.
        pictures: pictures and lists of items.
    """

    def __init__(self, limits: Limits) -> None:
        self.searches = Gate(limits.threads, limits.waiting, limits.seconds, "search")
        self.reranks = Gate(limits.rerank_threads, min(limits.rerank_waiting, limits.waiting), limits.seconds, "rerank")
        self.changes = Gate(8, limits.waiting, limits.seconds, "change", CHANGED, stops=False)
        self.asking = Gate(2, limits.waiting, limits.seconds, "asking")
        self.pictures = Gate(2, 4 * limits.waiting, limits.seconds, "picture")

    @property
    def _all(self) -> tuple[Gate, ...]:
        return self.searches, self.reranks, self.changes, self.asking, self.pictures

    @property
    def computing(self) -> int:
        """Searches and re-rankings that are computed or wait."""
        return self.searches.inside + self.reranks.inside

    @property
    def busy(self) -> bool:
        """Whether threads still compute."""
        return any(gate.busy for gate in self._all)

    def close(self) -> None:
        for gate in self._all:
            gate.close()
