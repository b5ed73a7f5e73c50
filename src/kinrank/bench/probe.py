"""One job -> its time and peak memory, measured in a fresh process of its own.

`python -m kinrank.bench.probe JOB` is the child; `fresh(job)` starts it and reads its one line of JSON.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from typing import Any

Job = dict[str, Any]


def fresh(job: Job, timeout: float | None = None, environment: dict[str, str] | None = None) -> dict[str, Any]:
    """What the child measured, or {"error": why not}."""
    command = [sys.executable, "-m", "kinrank.bench.probe", json.dumps(job)]
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
        said = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return {"error": f"ended with code {done.returncode}: {said[:200]}"}
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


def first_use(name: str) -> dict[str, Any]:
    """Seconds of the first call in a fresh process with nothing compiled on disk, and of the second."""
    with tempfile.TemporaryDirectory() as folder:
        return fresh({"what": "first", "method": name}, environment={"NUMBA_CACHE_DIR": folder})


def warmup_seconds() -> float | None:
    """Seconds of `kinrank warmup` with nothing compiled on disk; None where it failed."""
    with tempfile.TemporaryDirectory() as folder:
        return fresh({"what": "warmup"}, environment={"NUMBA_CACHE_DIR": folder}).get("seconds")


def import_seconds(repetitions: int = 3) -> float:
    """The best time of `import kinrank` in fresh processes: what is left when nothing else disturbs it."""
    program = "import time; t = time.perf_counter(); import kinrank; print(time.perf_counter() - t)"
    runs = (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
        for _ in range(repetitions)
    )
    return min(float(run.stdout) for run in runs)


def peak_bytes() -> int:
    """The most memory this process has had resident.

    From /proc where there is one: getrusage there also counts what the parent held when it started us.
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


def _first(job: Job) -> dict[str, Any]:
    from kinrank.warmup import warm

    started = time.perf_counter()
    warm(job["method"])
    middle = time.perf_counter()
    warm(job["method"])
    return {"first": middle - started, "second": time.perf_counter() - middle}


def _warmup(job: Job) -> dict[str, Any]:
    from kinrank.warmup import warm_up

    return {"seconds": warm_up()}


def _rerank(job: Job) -> dict[str, Any]:
    """Re-rank a published set (`data`) or a made-up one (`items`, `queries`, `dimensions`)."""
    import kinrank
    from kinrank.methods import method_named
    from kinrank.warmup import warm

    warm(job["method"])
    if "data" in job:
        from kinrank.datasets.benchmark import load

        published = load(job["set"], job["data"])
        queries, gallery = published.queries, published.gallery
    else:
        from kinrank.bench.synthetic import curves

        rows = curves(job["items"] + job["queries"], job["dimensions"])
        queries, gallery = rows[: job["queries"]], rows[job["queries"] :]
    try:
        method = method_named(job["method"])(**job.get("parameters", {}))
        ranking = kinrank.rerank(queries, gallery, method, max_memory=job.get("max_memory"))
    except MemoryError as error:
        return {"error": str(error), "peak_bytes": peak_bytes()}
    return {"seconds": ranking.meta["seconds"], "peak_bytes": peak_bytes()}


def _scale(job: Job) -> dict[str, Any]:
    from kinrank.bench.scale import point

    return point(job["items"], job["store"], job["probes"], job["largest"])


def _change(job: Job) -> dict[str, Any]:
    from kinrank.bench.scale import change

    return change(job["items"], job["store"], job["probes"])


if __name__ == "__main__":
    order = json.loads(sys.argv[1])
    jobs = {"first": _first, "warmup": _warmup, "rerank": _rerank, "scale": _scale, "change": _change}
    print(json.dumps(jobs[order["what"]](order)))
