"""A fixed number of threads that compute -> the results of what they are given, and for how long none has been free."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple, TypeVar

Answer = TypeVar("Answer")


class Job(NamedTuple):
    """Work, and the future that receives its result."""

    work: Callable[[], Any]
    future: Future[Any]

    def run(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            found = self.work()
        except BaseException as error:  # it belongs to whoever waits for the result
            self.future.set_exception(error)
            # The error knows this frame, the frame this job, and the job its error. Such a circle would keep the
            # pictures of a refused request in memory until the next garbage collection.
            del self
        else:
            self.future.set_result(found)


class Threads:
    """Daemon threads that take work in the order in which it is submitted.

    A ThreadPoolExecutor would keep the process alive until its last thread has finished. These threads end with the
    process, whatever they compute.
    """

    def __init__(self, count: int, name: str) -> None:
        self._count, self._name = count, name
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._open = 0  # jobs that wait or run
        self._changed = 0.0  # when the last free thread became busy, or when a thread last finished a job
        self.closed = False

    def submit(self, work: Callable[[], Answer]) -> Future[Answer]:
        """The future result of `work()`."""
        future: Future[Answer] = Future()
        with self._lock:
            if self.closed:
                raise RuntimeError("these threads are closed and take no more work")
            self._open += 1
            if self._open == self._count:
                self._changed = time.monotonic()
            if len(self._threads) < min(self._open, self._count):
                name = f"{self._name}_{len(self._threads)}"
                self._threads.append(threading.Thread(target=self._run, name=name, daemon=True))
                self._threads[-1].start()
            self._jobs.put(Job(work, future))
        return future

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job.run()
            del job  # else the last request stays in memory until the next one comes
            self._finish()

    def _finish(self) -> None:
        with self._lock:
            self._open -= 1
            self._changed = time.monotonic()

    @property
    def busy(self) -> bool:
        """Whether a job waits or runs."""
        return self._open > 0

    @property
    def occupied_seconds(self) -> float:
        """For how long all threads have been busy without one of them finishing a job; 0 while one is free."""
        with self._lock:
            return time.monotonic() - self._changed if self._open >= self._count else 0.0

    def close(self) -> None:
        """Take no more work and cancel what waits; what runs is neither stopped nor waited for."""
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
