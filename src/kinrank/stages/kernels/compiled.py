"""The one way a loop is compiled here: cached on disk, without the interpreter lock, in row chunks over threads."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba

from kinrank import deadline
from kinrank.stages.kernels.cache import MachineCode
from kinrank.stages.kernels.parts import PartCompiler

if getattr(numba.config, "DISABLE_JIT", 0):
    raise ImportError(
        "the environment variable NUMBA_DISABLE_JIT switches off numba's compiler, which kinrank needs; unset it, or "
        "set it to 0"
    )

_pools: dict[tuple[int, int, str], ThreadPoolExecutor] = {}
_pools_lock = threading.Lock()
_blas = threading.Lock()
_blas_users: list[object] = []
_blas_before: list[Any] = []


def _digest() -> str:
    """One name for the present text of all loops."""
    texts = (path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    return hashlib.sha256(b"".join(texts)).hexdigest()[:12]


SOURCES = _digest()


OPTIONS: dict[str, Any] = {
    "nogil": True,
    "forceinline": True,
    "fastmath": {"contract", "reassoc", "nsz", "arcp"},
    "error_model": "numpy",
    "no_cfunc_wrapper": True,
}


def compiled(function: Callable[..., Any]) -> Any:
    """A loop that Python calls: compiled on first use, its machine code kept on disk, without the interpreter's lock.

    numba files machine code under the function's name and looks only at its own source file for changes, while loops
    of one file are compiled into those of another: the digest in the name makes every change count.
    """
    function.__qualname__ = f"{function.__name__}_{SOURCES}"
    loop: Any = numba.njit(**OPTIONS)(function)
    loop._cache = MachineCode(function)
    return loop


def inner(function: Callable[..., Any]) -> Any:
    """A part of loops, which only they call: it gets neither an entry for Python nor machine code of its own.

    It is always compiled into its callers. Where it was not, there were two versions, rounded differently, and the
    process that compiled got other last bits than those that read its code from disk.
    """
    return numba.njit(**OPTIONS, pipeline_class=PartCompiler)(function)


MOST_THREADS = 1024


def threads() -> int:
    """How many threads the loops use: KINRANK_THREADS, or every core this process may run on."""
    wanted = os.environ.get("KINRANK_THREADS", "")
    if not wanted:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    if wanted.isascii() and wanted.isdecimal() and 1 <= int(wanted) <= MOST_THREADS:
        return int(wanted)
    raise ValueError(
        f"the environment variable KINRANK_THREADS={wanted!r} is not allowed; set it to a whole number from 1 to "
        f"{MOST_THREADS}, or unset it to use every core"
    )


Span = tuple[int, int]


def in_chunks(kernel: Any, rows: int, *arguments: Any, chunk: int = 64) -> None:
    """Call kernel(start, stop, *arguments) over all rows, chunks of them, spread over threads.

    Each row writes only its own outputs, so the result does not depend on the number of threads. One thread takes all
    rows in one call, unless there is a deadline, which is checked between chunks.
    """
    spans = chunks(rows, chunk)
    if not spans:
        return
    if threads() == 1 and deadline.current() is None:
        spans = [(0, rows)]
    over_threads(lambda start, stop: kernel(start, stop, *arguments), spans)


def chunks(rows: int, size: int) -> list[Span]:
    return [(start, min(start + size, rows)) for start in range(0, rows, size)]


def over_threads(task: Callable[[int, int], None], spans: Sequence[Span]) -> None:
    """Call task(start, stop) for all spans, on as many threads as the loops may use.

    The deadline of the caller, if there is one, is checked before every span and also holds inside the tasks.
    """
    limit = deadline.current()
    if threads() == 1 or len(spans) == 1:
        for start, stop in spans:
            if limit is not None:
                limit.check()
            task(start, stop)
        return
    upcoming = iter(spans)  # shared: whoever is free takes the next

    def work() -> None:
        for start, stop in upcoming:
            if limit is not None:
                limit.check()
            task(start, stop)

    def help_out() -> None:  # contextvars do not follow work into another thread
        with contextlib.nullcontext() if limit is None else limit.applied():
            work()

    helpers = [_pool(threads() - 1).submit(help_out) for _ in range(min(threads(), len(spans)) - 1)]
    try:
        work()
    finally:
        for helper in helpers:
            if not helper.cancel():  # a busy pool may not have begun it: then there is nothing left to do
                helper.result()


def _pool(count: int, what: str = "loops") -> ThreadPoolExecutor:
    """Threads that wait for work, so that a loop of a millisecond need not start its own; one pool per process."""
    key = os.getpid(), count, what  # threads do not survive a fork
    with _pools_lock:
        if key not in _pools:
            _pools[key] = ThreadPoolExecutor(count, thread_name_prefix=f"kinrank-{what}")
        return _pools[key]


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """While the threads are ours, BLAS inside them must not start more.

    The setting belongs to the process: the first who comes makes it, the last who leaves takes it back. Both through
    one thread of ours, because threadpoolctl lets only the thread that made a setting take it back. Inside a setting of
    the caller's own nobody else may make one: then the caller makes ours, too.
    """
    me = object()
    with _blas:
        if not _blas_users:
            _blas_before.append(_pool(1, "blas").submit(_limit).result())
        _blas_users.append(me)
    own = None if _limited() else _limit()
    try:
        yield
    finally:
        if own is not None:
            own.__exit__(None, None, None)
        with _blas:
            _blas_users.remove(me)
            if not _blas_users:
                _pool(1, "blas").submit(_blas_before.pop().__exit__, None, None, None).result()


def _limit() -> Any:
    return _libraries().limit(limits=1, user_api="blas").__enter__()


def _limited() -> bool:
    """Whether the libraries whose setting belongs to the process have one thread."""
    found = _libraries().info()
    return all(one["num_threads"] == 1 for one in found if one.get("threading_layer") == "pthreads")


@functools.cache
def _libraries() -> Any:
    """The libraries whose threads can be set; found once, because looking for them takes a millisecond."""
    import scipy.linalg.cython_blas  # noqa: F401 - what compiled loops call: it must be there to be found
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
