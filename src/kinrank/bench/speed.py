"""Methods -> time as a multiple of an exact neighbour search, memory, growth, import and compile time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.bench.growth import growth
from kinrank.bench.probe import first_use, fresh, import_seconds, warmup_seconds
from kinrank.bench.record import chosen, record
from kinrank.datasets.benchmark import load
from kinrank.features import check, unit
from kinrank.methods import resolve
from kinrank.progress import Progress, Show
from kinrank.rerank import rerank
from kinrank.warmup import warm

SET, K = "roxford5k", 60
SIZES = (5_000, 10_000, 20_000, 40_000)
PARTS = ("search", "memory", "growth", "import", "compile")


def speed(
    folder: str | os.PathLike[str] | None,
    methods: Sequence[str] = ("lpmt",),
    sizes: Sequence[int] = SIZES,
    repetitions: int = 5,
    parts: Sequence[str] = PARTS,
    progress: Show = None,
) -> dict[str, Any]:
    """A record with what was asked for in `parts`; "search" and "memory" need the folder with ROxford5k.

    search: joint re-ranking over an exact search for the 60 nearest of the same items with FAISS, same
    threads, repetitions interleaved, medians, nothing compiled meanwhile. memory: peak of a fresh process.
    growth: see `kinrank.bench.growth`. import: best of several fresh processes. compile: first use with
    nothing on disk, less the second, and `kinrank warmup`, all loops together. Growth and first use are of LPMT only
    where all methods are asked for.
    """
    names = chosen(methods)
    for part in parts:
        if part not in PARTS:
            raise ValueError(f"part {part!r} is not known; give some of: {', '.join(PARTS)}")
    if folder is None and {"search", "memory"} & set(parts):
        raise ValueError("search and memory are measured on ROxford5k; pass its folder with --data, or other parts")
    report = Progress(progress)
    results: dict[str, Any] = {}
    found: dict[str, dict[str, Any]] = {
        name: {"method": name, "parameters": resolve(name).spelled_out()} for name in names
    }
    if "search" in parts:
        assert folder is not None
        results["search"] = _against_search(folder, found, repetitions, report)
    if "import" in parts:
        results["import_seconds"] = import_seconds()
    if "compile" in parts:
        results["warmup_seconds"] = warmup_seconds()
    deep = ["lpmt"] if names == chosen(["all"]) else names
    for name in report.each("speed", names, len(names)):
        if "memory" in parts:
            measured = fresh({"what": "rerank", "method": name, "set": SET, "data": os.fspath(folder or "")})
            found[name]["peak_bytes"] = measured.get("peak_bytes")
        if "growth" in parts and name in deep:
            found[name]["growth"] = growth(name, sizes, report=report)
        if "compile" in parts and name in deep:
            first = first_use(name)
            found[name]["compile_seconds"] = None if "error" in first else first["first"] - first["second"]
    return record("speed", {**results, "set": SET, "mode": "joint", "results": list(found.values())})


def _against_search(
    folder: str | os.PathLike[str], found: dict[str, dict[str, Any]], repetitions: int, report: Progress
) -> dict[str, Any]:
    """Fill in seconds and multiple of every method; return what it is a multiple of."""
    from threadpoolctl import threadpool_limits

    published = load(SET, folder)
    assert published.queries is not None
    rows = unit(check(np.concatenate([published.queries, published.gallery])))
    search, about = _exact_search(rows, stages.kernels.compiled.threads())
    runs: dict[str, Callable[[], Any]] = {"": search}
    for name in found:
        warm(name)
        runs[name] = lambda name=name: rerank(published.queries, published.gallery, name)  # type: ignore[misc]
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    search()  # its first call starts threads
    jobs = [name for _ in range(repetitions) for name in runs]
    with threadpool_limits(stages.kernels.compiled.threads()):
        for name in report.each("search", jobs, len(jobs)):
            started = time.perf_counter()
            runs[name]()
            seconds[name].append(time.perf_counter() - started)
    base = float(np.median(seconds.pop("")))
    for name, times in seconds.items():
        middle = float(np.median(times))
        found[name] |= {"seconds": middle, "multiple": middle / base}
    return {**about, "seconds": base, "repetitions": repetitions}


def _exact_search(rows: NDArray[np.float32], threads: int) -> tuple[Callable[[], Any], dict[str, Any]]:
    try:
        import faiss
    except ImportError as error:
        raise ImportError("the search to compare with needs faiss; pip install 'kinrank[faiss]'") from error
    faiss.omp_set_num_threads(threads)
    index = faiss.IndexFlatL2(rows.shape[1])
    index.add(rows)
    about = {
        "library": f"faiss {faiss.__version__} IndexFlatL2",
        "k": K,
        "items": len(rows),
        "dimensions": rows.shape[1],
        "threads": threads,
    }
    return lambda: index.search(rows, K), about
