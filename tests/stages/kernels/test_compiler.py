"""Compilation and execution of kernels: same bits cold and warm, every row once, BLAS setting restored."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinrank.stages.kernels import compiler
from kinrank.stages.kernels.compiler import run_in_chunks, single_blas_thread
from reference.waiting import soon

pytestmark = pytest.mark.slow

BITS = """
import hashlib, kinrank
from kinrank_bench.synthetic import curves
for count in (500, 1100):  # on both sides of where LPMT's loops change
    rows = curves(count, 24)
    ranking = kinrank.rerank(rows[:20], rows[20:])
    print(hashlib.sha256(ranking.distances.tobytes() + ranking.indices.tobytes()).hexdigest())
"""


def test_the_first_process_gets_the_bits_of_all_later_ones(tmp_path: Path) -> None:
    """The first process compiles, the others read machine code from disk; for any number of threads."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", BITS]
    runs = [
        subprocess.run(command, env={**environment, "KINRANK_THREADS": count}, capture_output=True, text=True)
        for count in ("2", "2", "1")
    ]
    assert [run.returncode for run in runs] == [0, 0, 0], runs[0].stderr
    assert len(runs[0].stdout.split()) == 2
    assert runs[0].stdout == runs[1].stdout == runs[2].stdout
    assert "compiling" in runs[0].stderr
    assert "compiling" not in runs[1].stderr


class Counting:
    """Stands in for a kernel: counts how often each row was done, and on which threads."""

    signatures = ("compiled",)

    def __init__(self, fail: int | None = None, helpers: int = 1) -> None:
        self.done = np.zeros(1000, np.int64)
        self.threads: set[int] = set()
        self.fail, self.helpers = fail, helpers

    def __call__(self, start: int, stop: int) -> None:
        if start <= (self.fail if self.fail is not None else -1) < stop:
            raise ZeroDivisionError
        self.threads.add(threading.get_ident())
        self.done[start:stop] += 1
        assert soon(lambda: len(self.threads) >= self.helpers)  # the others have something left to do


@pytest.mark.parametrize("count", ["1", "2", "5"])
def test_every_row_once_on_every_thread(count: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINRANK_THREADS", count)
    loop = Counting(helpers=int(count))
    run_in_chunks(loop, 1000, chunk=10)
    assert (loop.done == 1).all()
    assert len(loop.threads) == int(count)


def test_many_callers_share_the_threads() -> None:
    loops = [Counting() for _ in range(12)]
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda loop: run_in_chunks(loop, 1000, chunk=50), loops))
    assert all((loop.done == 1).all() for loop in loops)


def test_an_error_reaches_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINRANK_THREADS", "2")
    for row in (0, 500, 999):
        with pytest.raises(ZeroDivisionError):
            run_in_chunks(Counting(row), 1000, chunk=10)


def test_blas_is_left_as_it_was_found_however_callers_overlap() -> None:
    """The setting is process-wide: overlapping callers must not leave BLAS limited to one thread."""

    def limits() -> list[int]:
        """Of those with threads of the process; OpenMP keeps a setting for each thread that asks."""
        found = compiler._find_blas_libraries().info()
        return [library["num_threads"] for library in found if library.get("threading_layer") == "pthreads"]

    def use(wait: float) -> list[int]:
        time.sleep(wait / 3)
        with single_blas_thread():
            time.sleep(wait)
            return limits()

    before = limits()
    with ThreadPoolExecutor(8) as pool:
        inside: list[Any] = list(pool.map(use, np.linspace(0.001, 0.03, 40)))
    assert all(set(found) == {1} for found in inside)
    assert limits() == before


def test_blas_has_one_thread_inside_a_setting_of_the_caller() -> None:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(2, "blas"):
        with single_blas_thread():
            assert compiler._is_blas_limited()
        assert not compiler._is_blas_limited()
