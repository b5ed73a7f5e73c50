"""Bench of scale: time and memory of a build and latency of a query by gallery size, relative to plain searches."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from types import FunctionType, ModuleType
from typing import Annotated, Any

import numpy as np

from kinrank.manifold import Manifold
from kinrank.methods import LPMT
from kinrank.progress import Progress, ProgressOption
from kinrank.stages.pipeline import ListSizes
from kinrank.stores.array import ArrayStore
from kinrank.stores.faiss import FaissStore, IndexOptions
from kinrank_bench.declaration import Option, PathLike, QueryLimit, SetNames, Sizes
from kinrank_bench.fresh_process import peak_bytes, run_fresh
from kinrank_bench.modes import MODE_PANEL, compare_modes
from kinrank_bench.record import Panel, Record, build_panels, make_record, time_call, time_queries
from kinrank_bench.synthetic import curves
from kinrank_bench.tables import Column, Table, fill
from kinrank_bench.time_and_memory import fit_exponent

SETS = ("roxford5k", "caltech101", "coil20", "mpeg7", "orl", "cranfield")
SIZES = (5_000, 50_000, 200_000)
CHANGED_SIZES = (5_000, 50_000)
DIMENSIONS, QUERIES, ROUNDS = 128, 100, 5
SIZE_PANEL = Panel(
    (
        Column("items", "{items}"),
        Column("neighbours, s", "{neighbour_search_seconds:.1f}"),
        Column("build, s", "{build_seconds:.1f}"),
        Column("x", "{build_multiple:.2f}"),
        Column("ms per item", lambda row: f"{1000 * row['build_seconds'] / row['items']:.3f}"),
        Column("memory / vectors", lambda row: _format_memory_multiple(row["build_bytes_per_vector_byte"])),
        Column("kept bytes per item", "{kept_bytes_per_item:.0f}"),
        Column("query, ms", lambda row: f"{1000 * row['latency_seconds']:.2f}"),
        Column("x exact search", "{latency_multiple:.2f}"),
        Column("certain", "{certain:.0%}"),
    ),
    "online, random curves, {dimensions} dimensions, store {store}, k = 10",
)
CHANGE_PANEL = Panel(
    (
        Column("items", "{items}"),
        Column("from", "{store}", left=True),
        Column("build, s", "{build_seconds:.1f}"),
        Column("1 % added, s", "{add_seconds:.2f}"),
        Column("of a build", "{add_share:.1%}"),
        Column("1 % removed, s", "{remove_seconds:.2f}"),
        Column("of a build", "{remove_share:.1%}"),
    ),
    rows="changes",
)
GROWTH = (
    "growth from {first:,} to {last:,} items (1: linear): build items^{exponent:.2f}, without its neighbour search "
    "items^{after_exponent:.2f}; build time per item x {per_item:.2f}; one query x {query:.2f}"
)


def show_scale(record: Record) -> list[Table | str]:
    """Return the modes, the sizes, the growth between the smallest and the largest of them, and the changes."""
    growth = measure_size_growth(record["results"])
    said = [fill(GROWTH, growth)] if growth else []
    return [*build_panels(record, MODE_PANEL, SIZE_PANEL), *said, *build_panels(record, CHANGE_PANEL)]


def measure_size_growth(points: Sequence[Record], largest: int = max(SIZES)) -> Record:
    """Return how build and query grow up to this size; nothing for fewer than two sizes.

    `exponent` is e of build seconds = c * items^e, `after_exponent` the same without the neighbour search; `per_item`
    and `query` are multiples of the smallest size.
    """
    built = [
        {**point, "after_seconds": max(point["build_seconds"] - point["neighbour_search_seconds"], 1e-3)}
        for point in sorted(points, key=lambda point: int(point.get("items", 0)))
        if "build_seconds" in point and point["items"] <= largest
    ]
    if len(built) < 2:
        return {}
    first, last = built[0], built[-1]
    return {
        "first": first["items"],
        "last": last["items"],
        "exponent": fit_exponent(built, "build_seconds"),
        "after_exponent": fit_exponent(built),
        "per_item": last["build_seconds"] / last["items"] / (first["build_seconds"] / first["items"]),
        "query": last["latency_seconds"] / first["latency_seconds"],
    }


@dataclass(frozen=True)
class IndexChoice:
    """The store of the gallery: flat, ivf or hnsw, and the number of cells that an ivf store searches."""

    store: Annotated[str, Option("flat, ivf or hnsw.")] = "ivf"
    probes: Annotated[int | None, Option("Cells that an ivf store searches.", least=1)] = None


def scale(
    folder: Annotated[
        PathLike | None, Option("Folder with published features. Default: measure sizes only.", "data")
    ] = None,
    sets: SetNames = SETS,
    sizes: Sizes = SIZES,
    index: IndexChoice = IndexChoice(),
    most: QueryLimit = 70,
    changed: Annotated[
        Sequence[int], Option("Sizes of galleries to which 1 % is added; '' for none.", "change", least=200)
    ] = CHANGED_SIZES,
    progress: ProgressOption = None,
) -> dict[str, Any]:
    """Measure LPMT in every mode, then builds and queries of galleries of several sizes.

    \b
    kinrank bench scale --data DIR
    kinrank bench scale --sizes 5000,50000 --store hnsw

    Sizes and changes are measured in fresh processes.
    """
    report = Progress(progress)
    results: dict[str, Any] = {}
    if folder is not None:
        results["modes"] = compare_modes(folder, sets, most=most, progress=progress)
    points = [
        run_fresh(measure_point, {"items": size, **asdict(index), "largest": max(sizes, default=0)})
        for size in report.each("sizes", sizes, len(sizes))
    ]
    jobs = [(size, kind) for size in changed for kind in ("array", index.store)]
    results["changes"] = [
        run_fresh(measure_change, {"items": size, **asdict(index), "store": kind})
        for size, kind in report.each("changes", jobs, len(jobs))
    ]
    settings = {**asdict(index), "dimensions": DIMENSIONS, "queries": QUERIES, "method": "lpmt", "mode": "online"}
    return make_record("scale", {**settings, **results, "results": points})


def _format_memory_multiple(multiple: float) -> str:
    """Format a multiple, or - below 1: then the build reused memory that had been freed before."""
    return f"{multiple:.1f}" if multiple >= 1 else "-"


def measure_change(items: int, store: str = "array", probes: int | None = None) -> dict[str, Any]:
    """Add 1 % to a gallery and remove as much, in this process; times as shares of the build, best of three."""

    def source(rows: Any) -> Any:
        return rows if store == "array" else FaissStore(rows, store, options=IndexOptions(probes=probes))

    count = items // 100
    rows = curves(items + 3 * count, DIMENSIONS)
    gallery, new_parts = rows[:items], np.split(rows[items:], 3)
    small = Manifold.build(source(gallery[:400]))  # compiles, or loads compiled loops from disk
    small.add(new_parts[0][:2])
    small.remove([0, 1])
    ready = source(gallery)
    started = time.perf_counter()
    manifold = Manifold.build(ready)
    build = time.perf_counter() - started
    adds = [time_call(partial(manifold.add, part)) for part in new_parts]
    removed = min(time_call(partial(manifold.remove, part)) for part in np.split(np.arange(3 * count), 3))
    return {
        "items": items,
        "store": store,
        "changed": count,
        "build_seconds": build,
        "add_seconds": min(adds),
        "add_share": min(adds) / build,
        "remove_seconds": removed,
        "remove_share": removed / build,
        "staleness": manifold.staleness,
    }


def measure_point(items: int, store: str, probes: int | None, largest: int) -> dict[str, Any]:
    """Measure one size in this process: build relative to its neighbour search, queries relative to an exact search."""
    rows = curves(items + QUERIES, DIMENSIONS)
    queries, gallery = rows[:QUERIES].copy(), np.ascontiguousarray(rows[QUERIES:])
    small = Manifold.build(gallery[:400])  # compiles, or loads compiled loops from disk
    small.search(queries[:2])
    index = FaissStore(gallery, store, options=IndexOptions(probes=probes))
    listed = ListSizes.of(LPMT()).kept
    index.search(gallery[:10], listed)
    search = time_call(lambda: index.search(gallery, listed))
    before = _resident_bytes()
    started = time.perf_counter()
    manifold = Manifold.build(index)
    build = time.perf_counter() - started
    peak = peak_bytes() - before
    latency = _best_round(lambda row: manifold.search(row, k=10), queries)
    answer = manifold.search(queries, k=10)
    exact = ArrayStore(curves(largest, DIMENSIONS))
    plain = _best_round(lambda row: exact.search(row, 10), queries[:20])
    return {
        "items": items,
        "neighbour_search_seconds": search,
        "build_seconds": build,
        "build_multiple": build / search,
        "build_bytes_per_vector_byte": peak / gallery.nbytes,
        "kept_bytes_per_vector_byte": manifold.info()["bytes"] / gallery.nbytes,
        "kept_bytes_per_item": (count_array_bytes(manifold.snapshot.state) - manifold.snapshot.vectors.nbytes) / items,
        "searched_bytes_per_vector_byte": _search_bytes(manifold) / gallery.nbytes,
        "latency_seconds": float(np.median(latency)),
        "latency_95_seconds": float(np.quantile(latency, 0.95)),
        "exact_search_seconds": float(np.median(plain)),
        "latency_multiple": float(np.median(latency) / np.median(plain)),
        "certain": answer.meta["certain"],
    }


def _best_round(work: Callable[[Any], Any], queries: Any) -> list[float]:
    """Return the seconds of each query in the round with the best median, least disturbed by other programs."""
    rounds = [time_queries(work, queries) for _ in range(ROUNDS)]
    return min(rounds, key=lambda seconds: float(np.median(seconds)))


def _search_bytes(manifold: Any) -> int:
    """Return the bytes that searches read, without the record of changes."""
    snapshot = manifold.snapshot
    searched = ("state_", "step_", "lengths")
    arrays = snapshot.state.to_arrays().items()
    return int(snapshot.vectors.nbytes + sum(array.nbytes for name, array in arrays if name.startswith(searched)))


def count_array_bytes(kept: Any) -> int:
    """Return the bytes of all arrays in memory that an object refers to, also those that are never saved."""
    waiting, seen, sizes = [kept], set[int](), dict[int, int]()
    while waiting:
        part = waiting.pop()
        if id(part) in seen or isinstance(part, (type, ModuleType, FunctionType, np.memmap)):
            continue
        seen.add(id(part))
        if isinstance(part, np.ndarray) and part.base is None:
            sizes[id(part)] = part.nbytes
        waiting += gc.get_referents(part) if not isinstance(part, np.ndarray) else [part.base]
    return sum(sizes.values())


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm") as numbers:
            return int(numbers.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # no /proc: the peak is the best estimate
        return peak_bytes()
