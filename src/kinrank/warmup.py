"""Compile every loop once, for images, packages and homes that cannot be written to later."""

from __future__ import annotations

import contextlib
import gc
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import active_children, get_context

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.interrupts import interrupts_blocked
from kinrank.manifold import Manifold
from kinrank.methods import LPMT, METHODS, Method, resolve
from kinrank.methods.learned import Learned
from kinrank.progress import Progress, Show
from kinrank.rerank import rerank

FEW = 90  # items of a gallery that every method works on
DIMENSIONS = 8


def warm_up(processes: int | None = None, progress: Show = None) -> float:
    """Compile all loops that are not on disk yet, on several cores; the seconds it took.

    Args:
        processes: how many to use; one per core unless given.
        progress: True for a bar, or a callable `f(label, done, total)`.
    """
    started = time.perf_counter()
    others = [name for name in METHODS if not issubclass(METHODS[name], (LPMT, Learned)) and name not in ("bsd", "bcd")]
    # the largest first; those that share loops with LPMT last, because this process compiles LPMT's
    jobs = [*sorted(others, key=lambda name: name != "cas"), "served", "bsd", "bcd", "changed"]
    count = (processes or os.cpu_count() or 1) - 1
    collecting = gc.isenabled()
    gc.disable()  # compilers make many objects that live long: looking through them takes a twentieth of the time
    try:
        with contextlib.ExitStack() as stack:
            pool = stack.enter_context(_workers(count)) if count else None
            with interrupts_blocked():
                elsewhere = {} if pool is None else {job: pool.submit(_run, job) for job in jobs}
            steps = ["lpmt", "prepared", *reversed(jobs)]
            for job in Progress(progress).each("compiling", steps, len(steps)):
                if job not in elsewhere or elsewhere[job].cancel():  # nobody has begun with it yet
                    _run(job)
            for begun in elsewhere.values():
                if not begun.cancelled():
                    begun.result()
    finally:
        if collecting:
            gc.enable()
    return time.perf_counter() - started


@contextlib.contextmanager
def _workers(count: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that run jobs; after an error or Ctrl-C they are ended at once, with what they have begun."""
    others = set(active_children())
    # fresh processes: forked ones would inherit threads that are not there
    with ProcessPoolExecutor(count, get_context("spawn"), gc.disable) as pool:
        try:
            yield pool
        except BaseException:
            for worker in set(active_children()) - others:
                worker.terminate()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def warm(method: Method | str) -> None:
    """Compile the loops of one method in a joint graph, or load them from disk."""
    method = _with_loops(resolve(method))
    rows = _rows(FEW)
    rerank(rows[:8], rows[8:], method)
    rerank(None, rows, method)
    if isinstance(method, LPMT):  # larger graphs take other loops
        large = _rows(stages.diffusion.SMALL + 10)
        rerank(large[:2], large, method)


def _run(job: str) -> None:
    if job == "prepared":
        manifold = _serve(LPMT())
        manifold.explain(_rows(1)[0], 5)
        manifold.search(_rows(1), k=3, positives=[1], negatives=[2])
    elif job == "changed":
        manifold = _serve(LPMT())
        manifold.add(_rows(FEW + 2)[-2:])
        manifold.remove([3])
    elif job == "served":
        for kind in METHODS.values():
            if kind.keep is not Method.keep and not issubclass(kind, (LPMT, Learned)):
                _serve(kind())
    else:
        warm(job)


def warm_served(method: Method) -> None:
    """Compile the loops of one method in a prepared gallery, or load them from disk."""
    _serve(_with_loops(method), k=FEW)


def _with_loops(method: Method) -> Method:
    """The method, or AQE for a learned one: its loops are those of its searches, and its weights fit other vectors."""
    return resolve("aqe") if isinstance(method, Learned) else method


def _serve(method: Method, k: int = 3) -> Manifold:
    rows = _rows(FEW)
    manifold = Manifold.build(rows, method)
    manifold.search(rows[:2], k=k)
    return manifold


def _rows(count: int) -> NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal((count, DIMENSIONS)).astype(np.float32)
