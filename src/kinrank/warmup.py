"""Compilation of all loops in advance, for images, packages and home folders that are read-only later."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import active_children, get_context
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.errors import InputError
from kinrank.interrupts import block_interrupts
from kinrank.manifold import Manifold
from kinrank.methods import LPMT, METHODS, Method, resolve_method
from kinrank.methods.learned_method import LearnedMethod
from kinrank.methods.lpmt import JointState
from kinrank.problem import Items
from kinrank.progress import Progress, ProgressOption
from kinrank.reranking import rerank
from kinrank.stages.csr import Rows
from kinrank.stages.kernels import compiler, shipped_code
from kinrank.stages.sparse_rows import Pattern

ITEM_COUNT = 90  # size of the sample gallery
DIMENSIONS = 8
LAST_KERNELS = {"lpmt": "mix_rows", "steps": "solve_exactly", "prepared": "search_best_first"}  # compiled last by a job


def warm_up(processes: int | None = None, progress: ProgressOption = None) -> float:
    """Compile all loops that are not on disk yet on several cores; return the seconds it took.

    Args:
        processes: number of processes; one per core by default.
        progress: True for a bar, or a callable `f(label, done, total)`.
    """
    started = time.perf_counter()
    names = [name for name, kind in METHODS.items() if not issubclass(kind, (LPMT, LearnedMethod))]
    # the largest first; jobs that share loops with LPMT last, because this process compiles those of LPMT but the steps
    jobs = ["steps", *sorted(names, key=lambda name: (name != "cas", name in ("bsd", "bcd"))), "served"]
    count = (processes or os.cpu_count() or 1) - 1
    collecting = gc.isenabled()
    gc.disable()  # compilation creates many long-lived objects: scanning them takes 5 % of the time
    try:
        with contextlib.ExitStack() as stack:
            pool = stack.enter_context(_start_workers(count)) if count else None
            with block_interrupts():
                futures = {} if pool is None else {job: pool.submit(_run_job, job) for job in jobs}
            queue = ["lpmt", "prepared", "changed", *reversed(jobs)]
            for job in Progress(progress).each("compiling", queue, len(queue)):
                if job not in futures or futures[job].cancel():  # no worker has started it
                    _run_job(job)
            for future in futures.values():
                if not future.cancelled():
                    future.result()
    finally:
        if collecting:
            gc.enable()
    return time.perf_counter() - started


@contextlib.contextmanager
def compile_meanwhile(*jobs: str, needed: bool = False) -> Iterator[Callable[[], object]]:
    """Compile loops of LPMT in another process until the block ends, which does something else meanwhile.

    Yields a function that waits until all of them are compiled.

    Args:
        jobs: what to compile: "lpmt" for joint re-ranking, "steps" for its second half, "prepared" for a gallery.
        needed: the block needs these loops at its end; otherwise only later, so it has priority, and no time is logged.
    """
    if (os.cpu_count() or 1) == 1 or all(shipped_code.is_stored(LAST_KERNELS[job]) for job in jobs):
        yield lambda: None
        return
    niceness = 0 if needed else 19
    program = f"import gc, os; gc.disable(); getattr(os, 'nice', int)({niceness}); from kinrank import warmup; "
    program += f"warmup.compiler.COMPILATION_LOG.announces = False; [warmup._run_job(job) for job in {jobs!r}]"
    messages = None if needed and compiler.log.isEnabledFor(logging.WARNING) else subprocess.DEVNULL
    with block_interrupts():
        child = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.DEVNULL, stderr=messages)
    try:
        yield child.wait
    finally:
        child.terminate()
        child.wait()


def write_baseline_code() -> Path:
    """Compile all loops for the baseline processor into the package, for a wheel; return the folder.

    A process of its own compiles, one loop after the other, because Numba chooses its processor when it is imported.
    """
    processor = shipped_code.describe_baseline()["processor"]
    if not processor:
        raise InputError(f"there is no baseline processor for {platform.machine()}")
    shutil.rmtree(shipped_code.FOLDER, ignore_errors=True)
    shipped_code.FOLDER.mkdir()
    choice = {"NUMBA_CPU_NAME": processor, "NUMBA_CPU_FEATURES": "", shipped_code.WRITE_VARIABLE: "1"}
    program = "from kinrank import warmup; warmup.warm_up(processes=1)"
    subprocess.run([sys.executable, "-c", program], env={**os.environ, **choice}, check=True)
    shipped_code.write_manifest(shipped_code.FOLDER)
    return shipped_code.FOLDER


@contextlib.contextmanager
def _start_workers(count: int) -> Iterator[ProcessPoolExecutor]:
    """Start processes that run jobs; an error or Ctrl-C ends them at once, with their current jobs."""
    existing = set(active_children())
    # fresh processes: forked ones would inherit locks of threads that they do not have
    with ProcessPoolExecutor(count, get_context("spawn"), gc.disable) as pool:
        try:
            yield pool
            for _ in range(count):  # otherwise a worker that ends scans all its objects once more, for a second
                pool.submit(gc.freeze)
        except BaseException:
            for worker in set(active_children()) - existing:
                worker.terminate()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def warm_up_method(method: Method | str, count: int | None = None) -> None:
    """Compile the loops of one method in a joint graph, or load them from disk.

    Args:
        method: the method or its name.
        count: number of items and queries to come: only the loops for a graph of that size. Default: all loops.
    """
    method = _replace_learned_method(resolve_method(method))
    rows, limit = _random_rows(ITEM_COUNT), stages.diffusion.MAX_BLOCK_ITEMS
    if count is None or count <= limit:
        rerank(rows[:8], rows[8:], method)
        rerank(None, rows, method)
    if isinstance(method, LPMT) if count is None else count > limit:  # larger graphs use other loops
        large = _random_rows(limit + 10)
        rerank(large[:2], large, method)
    if isinstance(method, LPMT) and count is None:  # candidates use other layouts
        rerank(rows[:2], rows[8:], method, candidates=ITEM_COUNT // 2)


def _run_job(job: str) -> None:
    if job == "prepared":
        manifold = _build_and_search(LPMT())
        manifold.explain(_random_rows(1)[0], 5)
        manifold.search(_random_rows(1), k=3, positives=[1], negatives=[2])
    elif job == "changed":
        manifold = _build_and_search(LPMT())
        manifold.add(_random_rows(ITEM_COUNT + 2)[-2:])
        manifold.remove([3])
    elif job == "steps":
        _compile_steps()
    elif job == "served":
        for kind in METHODS.values():
            if kind.capabilities.prepared_search and not issubclass(kind, (LPMT, LearnedMethod)):
                _build_and_search(kind())
    else:
        warm_up_method(job)


def _compile_steps() -> None:
    """Compile the second half of joint LPMT and flows of explanations, from made-up states, without the first half."""
    method, powers = LPMT(), stages.pipeline.Powers(rho=1.0, gamma=2.0, share=0.0, direct=0.5)
    items = Items.from_gallery(_random_rows(ITEM_COUNT))
    others = np.sort((items.queries[:, None] + [-1, 1]) % ITEM_COUNT, axis=1).astype(np.int32)
    pattern = Pattern(np.arange(0, others.size + 1, 2), others.ravel())
    states = Rows(*pattern, np.full(others.size, 0.5, np.float32))
    settings = stages.pipeline.transport_settings(method, powers)
    prices = stages.step_costs.price_steps(pattern, states, items.vectors, settings)
    method.distances(JointState(items, states, Rows(*pattern, prices), states, powers, method.k), items.queries)
    stages.states.build_wide_states(items.queries, states, states, method, powers.direct)
    pair = stages.transport.get_state(states, 0), stages.transport.get_state(states, 2)
    stages.transport.solve_exact_flows(*pair, items.vectors, powers.rho)


def warm_up_gallery(method: Method) -> None:
    """Compile the loops of one method in a prepared gallery, or load them from disk."""
    _build_and_search(_replace_learned_method(method), k=ITEM_COUNT)


def _replace_learned_method(method: Method) -> Method:
    """Return the method, or AQE for a learned one, which uses the same search loops and needs no weights."""
    return resolve_method("aqe") if isinstance(method, LearnedMethod) else method


def _build_and_search(method: Method, k: int = 3) -> Manifold:
    rows = _random_rows(ITEM_COUNT)
    manifold = Manifold.build(rows, method)
    manifold.search(rows[:2], k=k)
    return manifold


def _random_rows(count: int) -> NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal((count, DIMENSIONS)).astype(np.float32)
