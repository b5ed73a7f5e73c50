"""The gate: so many at a time, so many waiting, so long; the others are told to come back."""

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
from kinrank.web.http.gate import CHANGED, Busy, Gate, Late
from kinrank.web.http.threads import Threads


def test_an_answer_and_an_error_come_through() -> None:
    gate = Gate(1, 2, 5.0, "test")

    async def ask() -> None:
        assert await gate.run(lambda a, b: a + b, 1, 2) == 3
        with pytest.raises(ValueError, match="as it was said"):
            await gate.run(_fails)
        await asyncio.sleep(0.05)
        assert gate.inside == 0

    asyncio.run(ask())
    gate.close()


def _fails() -> None:
    raise ValueError("as it was said")


def test_too_many_are_told_to_come_back() -> None:
    gate, going = Gate(1, 3, 5.0, "test"), threading.Event()

    async def ask() -> list[object]:
        asked = [asyncio.create_task(gate.run(going.wait, 5)) for _ in range(10)]
        await asyncio.sleep(0.1)
        assert gate.inside == 3
        going.set()
        return await asyncio.gather(*asked, return_exceptions=True)

    answers = asyncio.run(ask())
    assert sum(answer is True for answer in answers) == 3
    assert sum(isinstance(answer, Busy) for answer in answers) == 7
    gate.close()


def test_what_takes_too_long_is_given_up_and_keeps_its_place_until_it_ends() -> None:
    gate = Gate(1, 1, 0.1, "test")

    async def ask() -> None:
        with pytest.raises(Late, match="; ask for less"):
            await gate.run(time.sleep, 0.5)
        assert gate.inside == 1, "the thread still works on it"
        with pytest.raises(Busy, match="wait already"):
            await gate.run(time.sleep, 0.0)
        await asyncio.sleep(0.6)
        assert gate.inside == 0
        await gate.run(time.sleep, 0.0)

    asyncio.run(ask())
    gate.close()


def test_who_changes_something_is_told_that_it_may_have_happened() -> None:
    gate = Gate(1, 2, 0.1, "test", CHANGED)

    async def ask() -> list[object]:
        return await asyncio.gather(gate.run(time.sleep, 0.5), gate.run(time.sleep, 0.0), return_exceptions=True)

    begun, waiting = asyncio.run(ask())
    assert isinstance(begun, Late)
    assert isinstance(waiting, Busy), "this one never began"
    gate.close()


def test_a_timeout_of_the_work_itself_is_its_own() -> None:
    gate = Gate(1, 1, 5.0, "test")

    def work() -> None:
        raise TimeoutError("of the work")

    with pytest.raises(TimeoutError, match="of the work"):
        asyncio.run(gate.run(work))
    gate.close()


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


def test_a_thread_whose_request_is_late_stops() -> None:
    gate = Gate(1, 2, 0.2, "test")

    async def ask() -> None:
        with pytest.raises(Late, match="; ask for less"):
            await gate.run(_endless)
        while gate.inside:
            await asyncio.sleep(0.01)
        assert await gate.run(lambda: 1) == 1

    asyncio.run(asyncio.wait_for(ask(), 30))
    assert soon(lambda: not gate.busy)
    gate.close()


def test_a_change_is_never_stopped_halfway() -> None:
    gate, done = Gate(1, 2, 0.1, "test", CHANGED, stops=False), list[int]()

    def change() -> None:
        time.sleep(0.4)
        deadline.check()
        done.append(1)

    async def ask() -> None:
        with pytest.raises(Late, match="may be made or not"):
            await gate.run(change)

    asyncio.run(ask())
    assert soon(lambda: done == [1])
    gate.close()


def test_closing_stops_what_runs_and_cancels_what_waits() -> None:
    gate = Gate(1, 5, 60.0, "test")

    async def ask() -> list[object]:
        asked = [asyncio.create_task(gate.run(_endless)) for _ in range(3)]
        await asyncio.sleep(0.1)
        gate.close()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        with pytest.raises(Busy, match="shutting down"):
            await gate.run(lambda: 1)
        return list(answers)

    answers = asyncio.run(asyncio.wait_for(ask(), 30))
    assert isinstance(answers[0], Late)
    assert all(isinstance(one, Busy | asyncio.CancelledError) for one in answers[1:]), answers
    assert soon(lambda: not gate.busy)


def test_a_task_that_is_cancelled_says_whether_its_work_had_begun() -> None:
    gate = Gate(1, 5, 60.0, "test")

    async def ask() -> list[object]:
        asked = [asyncio.create_task(gate.run(_endless)) for _ in range(2)]
        await asyncio.sleep(0.1)
        for one in asked:
            one.cancel()
        return list(await asyncio.gather(*asked, return_exceptions=True))

    begun, waiting = asyncio.run(asyncio.wait_for(ask(), 30))
    assert isinstance(begun, asyncio.CancelledError)
    assert isinstance(waiting, Busy), "it never began, so nothing was changed"
    assert soon(lambda: not gate.busy), "the thread stops, too"
    gate.close()


def test_how_long_no_thread_has_been_free() -> None:
    gate, going = Gate(2, 5, 60.0, "test"), threading.Event()

    async def ask() -> None:
        assert gate.occupied_seconds == 0
        first = asyncio.create_task(gate.run(going.wait, 30))
        await asyncio.sleep(0.1)
        assert gate.occupied_seconds == 0, "one of two is free"
        others = [asyncio.create_task(gate.run(going.wait, 30)) for _ in range(2)]
        while gate.occupied_seconds < 0.2:
            await asyncio.sleep(0.01)
        going.set()
        await asyncio.gather(first, *others)
        while gate.busy:
            await asyncio.sleep(0.01)
        assert gate.occupied_seconds == 0

    asyncio.run(asyncio.wait_for(ask(), 30))
    gate.close()


def test_threads_do_not_keep_the_process_alive() -> None:
    program = (
        "import threading, time\n"
        "from kinrank.web.http.threads import Threads\n"
        "began = threading.Event()\n"
        "Threads(1, 'test').submit(lambda: (began.set(), time.sleep(600)))\n"
        "began.wait()\n"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


class Picture:
    """Something large that a request works on."""


def test_work_that_fails_leaves_nothing_for_the_garbage_collector() -> None:
    """Refused pictures used to stay in memory until a collection, because their errors referred to themselves."""
    kept: list[weakref.ref[Picture]] = []

    def work() -> None:
        picture = Picture()
        kept.append(weakref.ref(picture))
        raise ValueError("not a picture")

    threads = Threads(1, "test")
    gc.collect()
    gc.disable()
    try:
        for _ in range(2):
            assert isinstance(threads.submit(work).exception(30), ValueError)
        threads.submit(int).result(30)  # the thread is done with both
        assert [one() for one in kept] == [None, None]
    finally:
        gc.enable()
        threads.close()
