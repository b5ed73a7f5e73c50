"""Request queues: limits on running and waiting requests and on time; other requests get BusyError."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra [web]")

from kinrank import deadline
from kinrank.web.request_queues import CHANGE_REMEDY, BusyError, DaemonThreads, RequestQueue, TimedOutError


def test_an_answer_and_an_error_come_through() -> None:
    queue = RequestQueue(1, 2, 5.0, "test")

    async def ask() -> None:
        assert await queue.run(lambda a, b: a + b, 1, 2) == 3
        with pytest.raises(ValueError, match="the original message"):
            await queue.run(_fails)
        await asyncio.sleep(0.05)
        assert queue.inside == 0

    asyncio.run(ask())
    queue.close()


def _fails() -> None:
    raise ValueError("the original message")


def test_too_many_requests_get_busy_errors() -> None:
    queue, going = RequestQueue(1, 3, 5.0, "test"), threading.Event()

    async def ask() -> list[object]:
        tasks = [asyncio.create_task(queue.run(going.wait, 5)) for _ in range(10)]
        await asyncio.sleep(0.1)
        assert queue.inside == 3
        going.set()
        return await asyncio.gather(*tasks, return_exceptions=True)

    answers = asyncio.run(ask())
    assert sum(answer is True for answer in answers) == 3
    assert sum(isinstance(answer, BusyError) for answer in answers) == 7
    queue.close()


def test_late_requests_are_abandoned_and_keep_their_place_until_they_end() -> None:
    queue = RequestQueue(1, 1, 0.1, "test")

    async def ask() -> None:
        with pytest.raises(TimedOutError, match="; ask for less"):
            await queue.run(time.sleep, 0.5)
        assert queue.inside == 1, "the thread still works on it"
        with pytest.raises(BusyError, match="running or waiting"):
            await queue.run(time.sleep, 0.0)
        await asyncio.sleep(0.6)
        assert queue.inside == 0
        await queue.run(time.sleep, 0.0)

    asyncio.run(ask())
    queue.close()


def test_timed_out_changes_report_an_unknown_outcome() -> None:
    queue = RequestQueue(1, 2, 0.1, "test", CHANGE_REMEDY)

    async def ask() -> list[object]:
        return await asyncio.gather(queue.run(time.sleep, 0.5), queue.run(time.sleep, 0.0), return_exceptions=True)

    begun, waiting = asyncio.run(ask())
    assert isinstance(begun, TimedOutError)
    assert isinstance(waiting, BusyError), "this one never began"
    queue.close()


def test_a_timeout_of_the_work_itself_is_its_own() -> None:
    queue = RequestQueue(1, 1, 5.0, "test")

    def work() -> None:
        raise TimeoutError("of the work")

    with pytest.raises(TimeoutError, match="of the work"):
        asyncio.run(queue.run(work))
    queue.close()


def soon(true: Callable[[], bool], seconds: float = 30.0) -> bool:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _endless() -> None:
    while True:
        deadline.check()
        time.sleep(0.01)


def test_the_thread_of_a_late_request_stops() -> None:
    queue = RequestQueue(1, 2, 0.2, "test")

    async def ask() -> None:
        with pytest.raises(TimedOutError, match="; ask for less"):
            await queue.run(_endless)
        while queue.inside:
            await asyncio.sleep(0.01)
        assert await queue.run(lambda: 1) == 1

    asyncio.run(asyncio.wait_for(ask(), 30))
    assert soon(lambda: not queue.busy)
    queue.close()


def test_a_change_is_never_stopped_halfway() -> None:
    queue, done = RequestQueue(1, 2, 0.1, "test", CHANGE_REMEDY, stops=False), list[int]()

    def change() -> None:
        time.sleep(0.4)
        deadline.check()
        done.append(1)

    async def ask() -> None:
        with pytest.raises(TimedOutError, match="may or may not have been made"):
            await queue.run(change)

    asyncio.run(ask())
    assert soon(lambda: done == [1])
    queue.close()


def test_closing_stops_what_runs_and_cancels_what_waits() -> None:
    queue = RequestQueue(1, 5, 60.0, "test")

    async def ask() -> list[object]:
        tasks = [asyncio.create_task(queue.run(_endless)) for _ in range(3)]
        await asyncio.sleep(0.1)
        queue.close()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
        with pytest.raises(BusyError, match="shutting down"):
            await queue.run(lambda: 1)
        return list(answers)

    answers = asyncio.run(asyncio.wait_for(ask(), 30))
    assert isinstance(answers[0], TimedOutError)
    assert all(isinstance(one, BusyError | asyncio.CancelledError) for one in answers[1:]), answers
    assert soon(lambda: not queue.busy)


def test_a_task_that_is_cancelled_says_whether_its_work_had_begun() -> None:
    queue = RequestQueue(1, 5, 60.0, "test")

    async def ask() -> list[object]:
        tasks = [asyncio.create_task(queue.run(_endless)) for _ in range(2)]
        await asyncio.sleep(0.1)
        for one in tasks:
            one.cancel()
        return list(await asyncio.gather(*tasks, return_exceptions=True))

    begun, waiting = asyncio.run(asyncio.wait_for(ask(), 30))
    assert isinstance(begun, asyncio.CancelledError)
    assert isinstance(waiting, BusyError), "it never began, so nothing was changed"
    assert soon(lambda: not queue.busy), "the thread stops, too"
    queue.close()


def test_how_long_no_thread_has_been_free() -> None:
    queue, going = RequestQueue(2, 5, 60.0, "test"), threading.Event()

    async def ask() -> None:
        assert queue.occupied_seconds == 0
        first = asyncio.create_task(queue.run(going.wait, 30))
        await asyncio.sleep(0.1)
        assert queue.occupied_seconds == 0, "one of two is free"
        others = [asyncio.create_task(queue.run(going.wait, 30)) for _ in range(2)]
        while queue.occupied_seconds < 0.2:
            await asyncio.sleep(0.01)
        going.set()
        await asyncio.gather(first, *others)
        while queue.busy:
            await asyncio.sleep(0.01)
        assert queue.occupied_seconds == 0

    asyncio.run(asyncio.wait_for(ask(), 30))
    queue.close()


def test_threads_do_not_keep_the_process_alive() -> None:
    program = (
        "import threading, time\n"
        "from kinrank.web.request_queues import DaemonThreads\n"
        "began = threading.Event()\n"
        "DaemonThreads(1, 'test').submit(lambda: (began.set(), time.sleep(600)))\n"
        "began.wait()\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


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
            assert isinstance(threads.submit(work).exception(30), ValueError)
        threads.submit(int).result(30)  # the thread has finished both
        assert [one() for one in kept] == [None, None]
    finally:
        gc.enable()
        threads.close()
