"""Limits on concurrent requests: a few threads compute, a bounded number of requests wait, others get BusyError."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

from kinrank.deadline import Deadline, DeadlineExceededError
from kinrank.web.settings import Limits

Answer = TypeVar("Answer")
LATE_REMEDY = "ask for less"
CHANGE_REMEDY = "the change may or may not have been made: check, then try again"
SHUTDOWN_MESSAGE = "the service is shutting down; try again when it is back"


class BusyError(RuntimeError):
    """The request is not answered now. It can be sent again."""


class TimedOutError(RuntimeError):
    """The request timed out after it started. Its outcome is unknown."""


class Job(NamedTuple):
    """A function to call, and the future that receives its result."""

    work: Callable[[], Any]
    future: Future[Any]

    def run(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self.work()
        except BaseException as error:  # belongs to the thread that waits for the result
            self.future.set_exception(error)
            # The error refers to this frame, the frame to this job, and the job to its error. Such a cycle would keep
            # the pictures of a refused request in memory until the next garbage collection.
            del self
        else:
            self.future.set_result(result)


class DaemonThreads:
    """Fixed number of daemon threads that run jobs in the order of submission.

    A ThreadPoolExecutor would keep the process alive until its last thread has finished. These threads end with the
    process, whatever they compute.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count, self._name = count, name
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._open = 0  # jobs that wait or run
        self._changed_at = 0.0  # when the last free thread became busy, or when a thread last finished a job
        self.closed = False

    def submit(self, work: Callable[[], Answer]) -> Future[Answer]:
        """Schedule `work()` and return its future result."""
        future: Future[Answer] = Future()
        with self._lock:
            if self.closed:
                raise RuntimeError("these threads are closed and take no more work")
            self._open += 1
            if self._open == self._count:
                self._changed_at = time.monotonic()
            if len(self._threads) < min(self._open, self._count):
                name = f"{self._name}_{len(self._threads)}"
                self._threads.append(threading.Thread(target=self._run, name=name, daemon=True))
                self._threads[-1].start()
            self._jobs.put(Job(work, future))
        return future

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run()
            del job  # otherwise the last request stays in memory until the next one
            self._finish()

    def _finish(self) -> None:
        with self._lock:
            self._open -= 1
            self._changed_at = time.monotonic()

    @property
    def busy(self) -> bool:
        """True if a job waits or runs."""
        return self._open > 0

    @property
    def occupied_seconds(self) -> float:
        """Time for which all threads have been busy without finishing a job; 0 while one is free."""
        with self._lock:
            return time.monotonic() - self._changed_at if self._open >= self._count else 0.0

    def close(self) -> None:
        """Take no more jobs and cancel waiting ones; running jobs are neither stopped nor awaited."""
        with self._lock:
            self.closed = True
        with contextlib.suppress(queue.Empty):
            while True:
                job = self._jobs.get_nowait()
                if job is not None:
                    job.future.cancel()
                    self._finish()
        for _ in range(self._count):
            self._jobs.put(None)


class RequestQueue:
    """A few computing threads, and a bounded number of requests that wait for them.

    A request that takes too long raises TimedOutError with the text `late`. Its thread stops at the next check of the
    deadline (see `kinrank.deadline`), and only then its place is free. With `stops=False` the thread continues instead:
    a change that has begun must not end halfway.
    """

    def __init__(
        self, threads: int, waiting: int, seconds: float, name: str, late: str = LATE_REMEDY, stops: bool = True
    ) -> None:
        self.inside = 0
        self._waiting, self._seconds, self._late, self._stops = waiting, seconds, late, stops
        self._threads = DaemonThreads(threads, name)
        self._deadlines: set[Deadline] = set()

    async def run(self, work: Callable[..., Answer], *args: Any) -> Answer:
        """Compute `work(*args)` in a thread; BusyError if too many requests wait, or if it waits too long."""
        if self._threads.closed:
            raise BusyError(SHUTDOWN_MESSAGE)
        if self.inside >= self._waiting:
            raise BusyError(f"{self.inside} requests are running or waiting; try again in a second")
        loop, deadline = asyncio.get_running_loop(), Deadline(self._seconds)

        def run_with_deadline() -> Answer:
            with deadline.activate():
                return work(*args)

        self.inside += 1
        self._deadlines.add(deadline)
        future = self._threads.submit(run_with_deadline if self._stops else lambda: work(*args))
        future.add_done_callback(lambda done: self._schedule_leave(loop, done, deadline))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self._seconds)
        except DeadlineExceededError:
            raise self._make_timeout_error(future) from None
        except (TimeoutError, asyncio.TimeoutError):
            finished = future.done() and not future.cancelled()  # just now, or the work itself raised TimeoutError
            if finished and not isinstance(future.exception(), DeadlineExceededError):
                return future.result()
            raise self._make_timeout_error(future) from None
        except asyncio.CancelledError:  # the service ends and does not wait any longer
            deadline.cancel()
            if future.cancel():
                raise BusyError(SHUTDOWN_MESSAGE) from None
            raise

    def _make_timeout_error(self, future: Future[Any]) -> BusyError | TimedOutError:
        message = f"the request was not answered within {self._seconds:g} seconds"
        if future.cancel():
            return BusyError(f"{message}; try again later")
        return TimedOutError(f"{message}; {self._late}")

    def _schedule_leave(self, loop: asyncio.AbstractEventLoop, _: Future[Any], deadline: Deadline) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed because the service has ended
            loop.call_soon_threadsafe(self._leave, deadline)

    def _leave(self, deadline: Deadline) -> None:
        self.inside -= 1
        self._deadlines.discard(deadline)

    @property
    def busy(self) -> bool:
        """True if threads still compute."""
        return self._threads.busy

    @property
    def occupied_seconds(self) -> float:
        """Time for which no thread has become free; 0 while one is free."""
        return self._threads.occupied_seconds

    def close(self) -> None:
        """Take no more requests, and let threads stop at their next check without waiting for them."""
        self._threads.close()
        for deadline in list(self._deadlines):
            deadline.cancel()


class RequestQueues:
    """Separate queues per kind of request, so that none can block the others.

    Attributes:
        searches: searches of the prepared gallery; milliseconds each.
        reranks: methods, parameters and candidates chosen by the client, and pictures and texts; seconds each.
        changes: added and removed items.
        facts: information about the service.
        pictures: pictures and lists of items.
    """

    def __init__(self, limits: Limits) -> None:
        waiting, seconds = limits.waiting, limits.seconds
        self.searches = RequestQueue(limits.threads, waiting, seconds, "search")
        self.reranks = RequestQueue(limits.rerank_threads, min(limits.rerank_waiting, waiting), seconds, "rerank")
        self.changes = RequestQueue(8, waiting, seconds, "change", CHANGE_REMEDY, stops=False)
        self.facts = RequestQueue(2, waiting, seconds, "facts")
        self.pictures = RequestQueue(2, 4 * waiting, seconds, "picture")

    @property
    def _all(self) -> tuple[RequestQueue, ...]:
        return self.searches, self.reranks, self.changes, self.facts, self.pictures

    @property
    def computing(self) -> int:
        """Number of searches and re-rankings that run or wait."""
        return self.searches.inside + self.reranks.inside

    @property
    def busy(self) -> bool:
        """True if threads still compute."""
        return any(request_queue.busy for request_queue in self._all)

    def close(self) -> None:
        for request_queue in self._all:
            request_queue.close()
