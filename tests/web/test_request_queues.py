"""Request queues: limits on running and waiting requests and on time; other requests get BusyError."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra [web]")

from kinrank import deadline
from kinrank.web.request_queues import CHANGE_REMEDY, BusyError, DaemonThreads, RequestQueue, TimedOutError
from reference.waiting import PATIENCE, soon

Answer = TypeVar("Answer")


def test_an_answer_and_an_error_come_through() -> None:
    queue = RequestQueue(1, 2, PATIENCE, "test")

    async def ask() -> None:
        assert await queue.run(lambda a, b: a + b, 1, 2) == 3
        with pytest.raises(ValueError, match="the original message"):
            await queue.run(_fails)
        await until(lambda: queue.inside == 0)

    asyncio.run(ask())
    queue.close()


async def until(true: Callable[[], bool]) -> None:
    """Wait without blocking the event loop; the limit is that of `in_time`."""
    while not true():
        await asyncio.sleep(0.01)


def in_time(work: Coroutine[Any, Any, Answer]) -> Answer:
    """Run this on an event loop of its own, which must not take for ever."""
    return asyncio.run(asyncio.wait_for(work, PATIENCE))


def _fails() -> None:
    raise ValueError("the original message")


def test_too_many_requests_get_busy_errors() -> None:
    queue, going = RequestQueue(1, 3, PATIENCE, "test"), threading.Event()

    async def ask() -> list[object]:
        tasks = [asyncio.create_task(queue.run(going.wait, PATIENCE)) for _ in range(10)]
        await until(lambda: sum(task.done() for task in tasks) == 7)
        assert queue.inside == 3
        going.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    answers = asyncio.run(ask())
    assert sum(answer is True for answer in answers) == 3
    assert sum(isinstance(answer, BusyError) for answer in answers) == 7
    queue.close()


def test_late_requests_are_abandoned_and_keep_their_place_until_they_end() -> None:
    queue, going = RequestQueue(1, 1, 0.1, "test"), threading.Event()

    async def ask() -> None:
        with pytest.raises(TimedOutError, match="; ask for less"):
            await queue.run(going.wait, PATIENCE)
        assert queue.inside == 1, "the thread still works on it"
        with pytest.raises(BusyError, match="running or waiting"):
            await queue.run(int)
        going.set()
        await until(lambda: queue.inside == 0)
        queue._seconds = PATIENCE
        await queue.run(int)

    asyncio.run(ask())
    queue.close()


def test_timed_out_changes_report_an_unknown_outcome() -> None:
    queue, begins, going = RequestQueue(1, 2, 1.0, "test", CHANGE_REMEDY), threading.Event(), threading.Event()

    def change() -> None:
        begins.set()
        going.wait(PATIENCE)

    async def ask() -> list[object]:
        first = asyncio.create_task(queue.run(change))
        await until(begins.is_set)
        return await asyncio.gather(first, queue.run(int), return_exceptions=True)

    begun, waiting = in_time(ask())
    going.set()
    assert isinstance(begun, TimedOutError)
    assert isinstance(waiting, BusyError), "this one never began"
    queue.close()


def test_a_timeout_of_the_work_itself_is_its_own() -> None:
    queue = RequestQueue(1, 1, PATIENCE, "test")

    def work() -> None:
        raise TimeoutError("of the work")

    with pytest.raises(TimeoutError, match="of the work"):
        asyncio.run(queue.run(work))
    queue.close()


class Endless:
    """Work that ends only by its deadline; `begun` is set when a thread starts it."""

    def __init__(self) -> None:
        self.begun = threading.Event()

    def __call__(self) -> None:
        self.begun.set()
        while True:
            deadline.check()
            time.sleep(0.01)


def test_the_thread_of_a_late_request_stops() -> None:
    queue = RequestQueue(1, 2, 0.2, "test")

    async def ask() -> None:
        with pytest.raises(TimedOutError, match="; ask for less"):
            await queue.run(Endless())
        await until(lambda: queue.inside == 0)
        queue._seconds = PATIENCE
        assert await queue.run(lambda: 1) == 1

    in_time(ask())
    assert soon(lambda: not queue.busy)
    queue.close()


def test_a_change_is_never_stopped_halfway() -> None:
    queue, done = RequestQueue(1, 2, 0.1, "test", CHANGE_REMEDY, stops=False), list[int]()
    late = threading.Event()

    def change() -> None:
        late.wait(PATIENCE)
        deadline.check()
        done.append(1)

    async def ask() -> None:
        with pytest.raises(TimedOutError, match="may or may not have been made"):
            await queue.run(change)
        late.set()

    asyncio.run(ask())
    assert soon(lambda: done == [1])
    queue.close()


def test_closing_stops_what_runs_and_cancels_what_waits() -> None:
    queue = RequestQueue(1, 5, PATIENCE, "test")

    async def ask() -> list[object]:
        works = [Endless() for _ in range(3)]
        tasks = [asyncio.create_task(queue.run(work)) for work in works]
        await until(lambda: works[0].begun.is_set() and queue.inside == 3)
        queue.close()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        with pytest.raises(BusyError, match="shutting down"):
            await queue.run(lambda: 1)
        return list(answers)

    answers = in_time(ask())
    assert isinstance(answers[0], TimedOutError)
    assert all(isinstance(one, BusyError | asyncio.CancelledError) for one in answers[1:]), answers
    assert soon(lambda: not queue.busy)


def test_a_task_that_is_cancelled_says_whether_its_work_had_begun() -> None:
    queue = RequestQueue(1, 5, PATIENCE, "test")

    async def ask() -> list[object]:
        works = [Endless() for _ in range(2)]
        tasks = [asyncio.create_task(queue.run(work)) for work in works]
        await until(lambda: works[0].begun.is_set() and queue.inside == 2)
        for one in tasks:
            one.cancel()
        return list(await asyncio.gather(*tasks, return_exceptions=True))

    begun, waiting = in_time(ask())
    assert isinstance(begun, asyncio.CancelledError)
    assert isinstance(waiting, BusyError), "it never began, so nothing was changed"
    assert soon(lambda: not queue.busy), "the thread stops, too"
    queue.close()


def test_how_long_no_thread_has_been_free() -> None:
    queue, going = RequestQueue(2, 5, PATIENCE, "test"), threading.Event()

    async def ask() -> None:
        assert queue.occupied_seconds == 0
        first = asyncio.create_task(queue.run(going.wait, PATIENCE))
        await until(lambda: queue.busy)
        assert queue.occupied_seconds == 0, "one of two is free"
        others = [asyncio.create_task(queue.run(going.wait, PATIENCE)) for _ in range(2)]
        await until(lambda: queue.occupied_seconds > 0.2)
        going.set()
        await asyncio.gather(first, *others)
        await until(lambda: not queue.busy)
        assert queue.occupied_seconds == 0

    in_time(ask())
    queue.close()


def test_threads_do_not_keep_the_process_alive() -> None:
    program = (
        "import threading, time\n"
        "from kinrank.web.request_queues import DaemonThreads\n"
        "began = threading.Event()\n"
        "DaemonThreads(1, 'test').submit(lambda: (began.set(), time.sleep(600)))\n"
        "began.wait()\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=PATIENCE).returncode == 0


class Picture:
    """Stand-in for large data of a request."""


def test_work_that_fails_leaves_nothing_for_the_garbage_collector() -> None:
    """Refused pictures used to stay in memory until a garbage collection, because of a reference cycle."""
    kept: list[weakref.ref[Picture]] = []

    def work() -> None:
        picture = Picture()
        kept.append(weakref.ref(picture))
        raise ValueError("not a picture")

    threads = DaemonThreads(1, "test")
    gc.collect()
    gc.disable()
    try:
        for _ in range(2):
            assert isinstance(threads.submit(work).exception(PATIENCE), ValueError)
        threads.submit(int).result(PATIENCE)  # the thread has finished both
        assert [one() for one in kept] == [None, None]
    finally:
        gc.enable()
        threads.close()
