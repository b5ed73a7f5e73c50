"""Measurement of time and peak memory of one job in a fresh process.

`python -m kinrank_bench.fresh_process MODULE:FUNCTION ARGUMENTS` is the child; `run_fresh` starts it and reads its one
line of JSON.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from kinrank.errors import EXPECTED_ERRORS
from kinrank_bench.record import Record, time_call

log = logging.getLogger(__name__)


def run_fresh(
    function: Callable[..., Record],
    arguments: Record,
    timeout: float | None = None,
    environment: dict[str, str] | None = None,
) -> Record:
    """Call a function of a module in a fresh process and return what it measured, or {"error": reason}.

    A process that ends with an error code has `failed` as well: the function raised an unexpected exception.
    """
    called = f"{function.__module__}:{function.__name__}"
    command = [sys.executable, "-m", "kinrank_bench.fresh_process", called, json.dumps(arguments)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env={**os.environ, **(environment or {})},
        )
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {timeout:g} s"}
    if done.returncode:
        log.error("a benchmark process failed:\n%s", done.stderr)
        message = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"error": f"ended with code {done.returncode}: {message[:200]}", "failed": True}
    result: Record = json.loads(done.stdout.splitlines()[-1])
    return result


def measure_first_use(name: str) -> Record:
    """Measure the first and the second call in a fresh process with an empty compilation cache, in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        return run_fresh(use_twice, {"method": name}, environment={"NUMBA_CACHE_DIR": folder})


def warmup_seconds() -> float | None:
    """Measure `kinrank warmup` with an empty compilation cache, in seconds; None if it failed."""
    with tempfile.TemporaryDirectory() as folder:
        return run_fresh(compile_all, {}, environment={"NUMBA_CACHE_DIR": folder}).get("seconds")


def import_seconds(repetitions: int = 3) -> float:
    """Return the best time of `import kinrank` in fresh processes, the one least disturbed by other programs."""
    program = "import time; t = time.perf_counter(); import kinrank; print(time.perf_counter() - t)"
    runs = (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        for _ in range(repetitions)
    )
    return min(float(run.stdout) for run in runs)


def peak_bytes() -> int:
    """Return the peak resident memory of this process.

    Read /proc if it exists: getrusage on Linux also counts the memory of the parent process at the start.
    """
    try:
        with open("/proc/self/status") as lines:
            for line in lines:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024


def use_twice(method: str) -> Record:
    """Measure the first and the second call of a method in this process, in seconds."""
    from kinrank.warmup import warm_up_method

    first, second = (time_call(lambda: warm_up_method(method)) for _ in range(2))
    return {"first": first, "second": second}


def compile_all() -> Record:
    """Measure `kinrank warmup` in this process, in seconds."""
    from kinrank.warmup import warm_up

    return {"seconds": warm_up()}


def rerank_set(
    method: str, data: str, parameters: Record | None = None, max_memory: int | None = None, **size: int
) -> Record:
    """Measure re-ranking of ROxford5k in the folder `data`, or if it is empty, of random curves of this `size`."""
    import kinrank
    from kinrank.methods import find_method
    from kinrank.warmup import warm_up_method
    from kinrank_bench.datasets.benchmark import load
    from kinrank_bench.synthetic import curves

    warm_up_method(method)
    queries: Any
    if data:
        published = load("roxford5k", data)
        queries, gallery = published.queries, published.gallery
    else:
        queries, gallery = np.split(curves(size["items"] + size["queries"], size["dimensions"]), [size["queries"]])
    try:
        made = find_method(method)(**(parameters or {}))
        ranking = kinrank.rerank(queries, gallery, made, max_memory=max_memory)
    except EXPECTED_ERRORS as error:
        return {"error": str(error), "peak_bytes": peak_bytes()}
    return {"seconds": ranking.meta["seconds"], "peak_bytes": peak_bytes()}


if __name__ == "__main__":
    module, name = sys.argv[1].split(":")
    print(json.dumps(getattr(importlib.import_module(module), name)(**json.loads(sys.argv[2]))))
