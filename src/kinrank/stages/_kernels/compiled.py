"""The one way a loop is compiled here: cached on disk, without the interpreter lock, in row chunks over threads."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numba

log = logging.getLogger("kinrank")
_told = False


def _digest() -> str:
    """One name for the present text of all loops."""
    texts = (path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    return hashlib.sha256(b"".join(texts)).hexdigest()[:12]


SOURCES = _digest()


def compiled(function: Callable[..., Any]) -> Any:
    """Compile on first use, keep the machine code on disk, release the lock while running.

    numba files machine code under the function's name and looks only at its own source file for changes, while loops
    of one file are compiled into those of another: the digest in the name makes every change count.
    """
    function.__qualname__ = f"{function.__name__}_{SOURCES}"
    return numba.njit(
        cache=True, nogil=True, fastmath={"contract", "reassoc", "nsz", "arcp"}, error_model="numpy"
    )(function)


def threads() -> int:
    """How many threads the loops use: KINRANK_THREADS, or every core this process may run on."""
    wanted = os.environ.get("KINRANK_THREADS", "")
    if wanted.isdigit() and int(wanted) > 0:
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def in_chunks(kernel: Any, rows: int, *arguments: Any, chunk: int = 64) -> None:
    """Call kernel(start, stop, *arguments) over all rows, chunks spread over threads.

    Each row writes only its own outputs, so the result does not depend on the number of threads.
    """
    say_compiling(kernel)
    spans = [(start, min(start + chunk, rows)) for start in range(0, rows, chunk)]
    if not spans:
        return
    kernel(0, 0, *arguments)  # compiles, or loads from disk, before the threads start
    if threads() == 1 or len(spans) == 1:
        kernel(0, rows, *arguments)
        return
    with ThreadPoolExecutor(threads()) as pool:
        for done in [pool.submit(kernel, start, stop, *arguments) for start, stop in spans]:
            done.result()


def say_compiling(kernel: Any) -> None:
    """One line, once, when the machine code is not on disk yet."""
    global _told
    if _told or kernel.signatures:
        return
    folder = Path(kernel.stats.cache_path)
    if not any(folder.glob(f"*{kernel.py_func.__qualname__}-*.nbi")):
        _told = True
        log.warning("kinrank: compiling its loops, once per installation (about 20 seconds)")
