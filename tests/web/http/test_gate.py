"""The gate: so many at a time, so many waiting, so long; the others are told to come back."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra [web]")

from kinrank.web.http.gate import CHANGED, Busy, Gate, Late


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
