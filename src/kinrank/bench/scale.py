"""Galleries of several sizes -> time and memory of a build, latency of a query, as multiples of searches."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kinrank.bench.probe import fresh, peak_bytes
from kinrank.bench.record import record
from kinrank.bench.synthetic import curves
from kinrank.manifold import Manifold
from kinrank.progress import Progress, Show
from kinrank.stores.array import ArrayStore
from kinrank.stores.faiss import FaissStore

SIZES = (5_000, 50_000, 200_000)
CHANGED = (5_000, 50_000)
DIMENSIONS, QUERIES, ROUNDS = 128, 100, 5


def scale(
    folder: str | os.PathLike[str] | None,
    sets: Sequence[str] = (),
    sizes: Sequence[int] = SIZES,
    store: str = "ivf",
    probes: int | None = None,
    most: int = 70,
    changed: Sequence[int] = CHANGED,
    progress: Show = None,
) -> dict[str, Any]:
    """A record: accuracy of every way to run LPMT on the sets, one point per size, and prices of changes.

    Sizes and changes are measured in fresh processes. `probes`: cells of an ivf store that are looked into.
    """
    report = Progress(progress)
    results: dict[str, Any] = {}
    if folder is not None:
        from kinrank.bench.modes import ways

        results["modes"] = ways(folder, sets, most=most, progress=progress)
    points = [
        fresh(
            {
                "what": "scale",
                "items": size,
                "store": store,
                "probes": probes,
                "largest": max(sizes, default=0),
            }
        )
        for size in report.each("sizes", sizes, len(sizes))
    ]
    jobs = [(size, kind) for size in changed for kind in ("array", store)]
    results["changes"] = [
        fresh({"what": "change", "items": size, "store": kind, "probes": probes})
        for size, kind in report.each("changes", jobs, len(jobs))
    ]
    about = {
        "probes": probes,
        "dimensions": DIMENSIONS,
        "queries": QUERIES,
        "store": store,
        "method": "lpmt",
        "mode": "online",
    }
    return record("scale", {**about, **results, "results": points})


def change(items: int, store: str = "array", probes: int | None = None) -> dict[str, Any]:
    """Add 1 % to a gallery, take as much out again, in this process; as shares of the build. The best of three."""

    def source(rows: Any) -> Any:
        return rows if store == "array" else FaissStore(rows, store, probes=probes)

    some = items // 100
    rows = curves(items + 3 * some, DIMENSIONS)
    gallery, more = rows[:items], np.split(rows[items:], 3)
    small = Manifold.build(source(gallery[:400]))  # compiles, or loads from disk
    small.add(more[0][:2])
    small.remove([0, 1])
    ready = source(gallery)
    started = time.perf_counter()
    manifold = Manifold.build(ready)
    build = time.perf_counter() - started
    adds = [_seconds(lambda part=part: manifold.add(part)) for part in more]  # type: ignore[misc]
    gone = np.split(np.arange(3 * some), 3)
    removed = min(_seconds(lambda part=part: manifold.remove(part)) for part in gone)  # type: ignore[misc]
    return {
        "items": items,
        "store": store,
        "changed": some,
        "build_seconds": build,
        "add_seconds": min(adds),
        "add_share": min(adds) / build,
        "remove_seconds": removed,
        "remove_share": removed / build,
        "stale": manifold.stale,
    }


def point(items: int, store: str, probes: int | None, largest: int) -> dict[str, Any]:
    """Measure one size in this process: build against its neighbour search, queries against an exact search."""
    rows = curves(items + QUERIES, DIMENSIONS)
    queries, gallery = rows[:QUERIES].copy(), np.ascontiguousarray(rows[QUERIES:])
    small = Manifold.build(gallery[:400])  # compiles, or loads from disk
    small.search(queries[:2])
    index = FaissStore(gallery, store, probes=probes)
    index.search(gallery[:10], 61)
    search = _seconds(lambda: index.search(gallery, 61))
    before = _resident()
    started = time.perf_counter()
    manifold = Manifold.build(index)
    build = time.perf_counter() - started
    peak = peak_bytes() - before
    latency = _quietest(lambda row: manifold.search(row, k=10), queries)
    answer = manifold.search(queries, k=10)
    exact = ArrayStore(curves(largest, DIMENSIONS))
    plain = _quietest(lambda row: exact.search(row, 10), queries[:20])
    return {
        "items": items,
        "neighbour_search_seconds": search,
        "build_seconds": build,
        "build_multiple": build / search,
        "build_bytes_per_vector_byte": peak / gallery.nbytes,
        "kept_bytes_per_vector_byte": manifold.info()["bytes"] / gallery.nbytes,
        "searched_bytes_per_vector_byte": _searched_bytes(manifold) / gallery.nbytes,
        "latency_seconds": float(np.median(latency)),
        "latency_95_seconds": float(np.quantile(latency, 0.95)),
        "exact_search_seconds": float(np.median(plain)),
        "latency_multiple": float(np.median(latency) / np.median(plain)),
        "certain": answer.meta["certain"],
    }


def _quietest(work: Callable[[Any], Any], queries: Any) -> list[float]:
    """Seconds of each query, in the best of a few rounds by the median: other programs on the machine are not meant."""
    rounds = [[_seconds(lambda row=row: work(row)) for row in queries[:, None]] for _ in range(ROUNDS)]  # type: ignore[misc]
    return min(rounds, key=lambda seconds: float(np.median(seconds)))


def _searched_bytes(manifold: Any) -> int:
    """What is kept without the record of changes."""
    snapshot = manifold._snapshot
    searched = ("state_", "step_", "lengths")
    arrays = snapshot.kept.arrays.items()
    return int(snapshot.vectors.nbytes + sum(array.nbytes for name, array in arrays if name.startswith(searched)))


def _seconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _resident() -> int:
    try:
        with open("/proc/self/statm") as numbers:
            return int(numbers.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # no /proc: the most there has been is the best we know
        return peak_bytes()
