"""Deadlines: a computation stops soon after its deadline, in any thread."""

from __future__ import annotations

import contextlib
import threading
import time

import numpy as np
import pytest

import kinrank
from kinrank import deadline
from kinrank.deadline import Deadline, DeadlineExceededError
from kinrank.stages.kernels.compiler import run_in_chunks, run_on_threads, split_rows

LONG = 60.0  # seconds; no test waits this long


def test_there_is_none_unless_it_is_applied() -> None:
    deadline.check()
    assert deadline.CURRENT.get() is None
    with Deadline(0.0).activate(), pytest.raises(DeadlineExceededError):
        deadline.check()
    deadline.check()


def test_ordinary_handlers_do_not_swallow_it() -> None:
    def careless() -> None:
        with contextlib.suppress(Exception):
            deadline.check()

    with Deadline(0.0).activate(), pytest.raises(DeadlineExceededError):
        careless()


def test_cancelling_moves_it_to_now() -> None:
    one = Deadline(LONG)
    one.check()
    one.cancel()
    with pytest.raises(DeadlineExceededError):
        one.check()


@pytest.mark.parametrize("threads", ["1", "3"])
def test_loops_stop_between_chunks(threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINRANK_THREADS", threads)
    limit, done = Deadline(LONG), list[int]()

    def kernel(start: int, stop: int) -> None:
        done.append(start)
        limit.cancel()

    with limit.activate(), pytest.raises(DeadlineExceededError):
        run_in_chunks(kernel, 1000, chunk=10)
    assert 1 <= len(done) <= int(threads)


def test_it_holds_inside_the_threads_that_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINRANK_THREADS", "2")
    seen, both = dict[str, Deadline | None](), threading.Barrier(2, timeout=LONG)

    def task(start: int, stop: int) -> None:
        both.wait()
        seen[threading.current_thread().name] = deadline.CURRENT.get()

    limit = Deadline(LONG)
    with limit.activate():
        run_on_threads(task, split_rows(2, 1))
    assert len(seen) == 2
    assert set(seen.values()) == {limit}
    run_on_threads(task, split_rows(2, 1))
    assert set(seen.values()) == {None}, "it ends with the call"


@pytest.mark.parametrize("method", [kinrank.LPMT(), kinrank.CAS(), kinrank.KReciprocal()])
@pytest.mark.parametrize("candidates", [None, 50])
def test_every_way_to_rerank_stops(method: kinrank.Method, candidates: int | None) -> None:
    rows = np.random.default_rng(0).normal(size=(200, 16)).astype(np.float32)
    with Deadline(0.0).activate(), pytest.raises(DeadlineExceededError):
        kinrank.rerank(rows[:3], rows, method, candidates=candidates)


def test_a_prepared_gallery_stops() -> None:
    rows = np.random.default_rng(0).normal(size=(200, 16)).astype(np.float32)
    manifold = kinrank.Manifold.build(rows)
    with Deadline(0.0).activate(), pytest.raises(DeadlineExceededError):
        manifold.search(rows[:40])
    with Deadline(LONG).activate():
        assert np.array_equal(manifold.search(rows[:40]).indices, manifold.search(rows[:40]).indices)


@pytest.mark.parametrize("threads", ["1", "2"])
def test_results_do_not_depend_on_a_deadline(threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINRANK_THREADS", threads)
    rows = np.random.default_rng(0).normal(size=(300, 16)).astype(np.float32)
    for method in (kinrank.LPMT(), kinrank.CAS()):
        free = kinrank.rerank(rows[:3], rows, method)
        with Deadline(LONG).activate():
            limited = kinrank.rerank(rows[:3], rows, method)
        assert np.array_equal(free.indices, limited.indices)
        assert free.distances.tobytes() == limited.distances.tobytes()


def test_a_long_computation_in_another_thread_ends_soon() -> None:
    """Cancel from outside, as a service does after the timeout of a client."""
    rows = np.random.default_rng(0).normal(size=(1500, 32)).astype(np.float32)
    limit, ended = Deadline(LONG), list[BaseException | None]()

    def compute() -> None:
        try:
            with limit.activate():
                while True:
                    kinrank.rerank(rows[:2], rows, kinrank.CAS(), candidates=1000)
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=compute, daemon=True)
    thread.start()
    time.sleep(0.5)
    limit.cancel()
    thread.join(LONG)
    assert [type(one) for one in ended] == [DeadlineExceededError]
