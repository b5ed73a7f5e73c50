"""Benches of time and memory: `speed`, `memory` and `candidates`.

speed: time as a multiple of an exact neighbour search, of k-reciprocal and of the matrix product of all pairs; peak
memory, growth with the number of items, import and compile time. memory: peak memory on forty thousand items.
candidates: latency of one query over its candidates.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.errors import InputError
from kinrank.memory_limit import parse_bytes
from kinrank.methods import Method, find_method, resolve_method
from kinrank.methods.base import full_repr
from kinrank.neighbors import Neighbors, find_nearest
from kinrank.problem import Items
from kinrank.progress import SILENT, Progress, ProgressOption
from kinrank.ranking import rank_rows
from kinrank.reranking import rerank
from kinrank.stores import ArrayStore
from kinrank.vector_input import check_vectors, to_unit_rows
from kinrank.warmup import warm_up_method
from kinrank_bench.datasets.benchmark import load
from kinrank_bench.declaration import MethodNames, Option, OxfordFolder, OxfordOrRandom, Sizes
from kinrank_bench.fresh_process import (
    import_seconds,
    measure_first_use,
    rerank_set,
    run_fresh,
    use_twice,
    warmup_seconds,
)
from kinrank_bench.record import Panel, Record, check_names, error_entries, make_record, resolve_method_names, time_call
from kinrank_bench.synthetic import curves
from kinrank_bench.tables import Column, Table, fill

SPEED_SET, SEARCH_K = "roxford5k", 60
PRODUCT = "matrix product"
PARTS = ("search", "memory", "growth", "import", "compile")
QUERY_BLOCK = 64  # queries ranked at once
REPEAT_BELOW_SECONDS = 5.0  # shorter measurements are repeated
METHOD_TIMEOUT_SECONDS = 1800.0
REDUCED_PARAMETERS: dict[str, dict[str, Any]] = {"gss": {"epochs": 2}}  # 200 epochs need the same memory, but hours
CANDIDATE_SET, BASE_METHOD = "roxford5k", "k-reciprocal"
SYNTHETIC_ITEMS, SYNTHETIC_DIMENSIONS = 5_000, 512
ROUNDS = 3  # the fastest round counts, the one least disturbed by other programs
METHOD_COLUMN = Column("method", "{method}", left=True)
SPEED_PANEL = Panel(
    (
        METHOD_COLUMN,
        Column("seconds", "{seconds:.3f}"),
        Column("x search", "{multiple:.2f}"),
        Column("x k-reciprocal", "{base_multiple:.2f}"),
        Column("x product", "{product_multiple:.2f}"),
        Column("peak memory", "{peak_bytes:bytes}"),
        Column("compiling", "{compile_seconds:.1f} s"),
        Column("growth exponent", "{growth[exponent]:.2f}"),
    ),
    "{set}, {mode}",
)
SPEED_FACTS = (
    "exact search: {search[library]}, {search[k]} nearest of {search[items]} items x {search[dimensions]}, "
    "{search[threads]} threads: {search[seconds]:.3f} s (median of {search[repetitions]})",
    "slower: {search[other_library]}, {search[other_seconds]:.3f} s",
    "lower limit: float32 matrix product of all pairs, {search[product_seconds]:.3f} s",
    "{base}: {search[base_seconds]:.3f} s",
    "import kinrank: {import_seconds:.3f} s",
    "kinrank warmup, all loops of all methods: {warmup_seconds:.1f} s",
)
GROWTH_PANEL = Panel(
    (
        Column("items", "{items}"),
        Column("neighbour search, s", "{search_seconds:.2f}"),
        Column("everything after, s", "{after_seconds:.3f}"),
    ),
    "{method}: random curves, {dimensions} dimensions, {queries} of them queries, joint",
    rows="points",
)
CANDIDATE_PANEL = Panel(
    (
        Column("candidates", "{candidates}"),
        METHOD_COLUMN,
        Column("ms per query", lambda row: f"{1000 * row['seconds']:.1f}"),
        Column("x {base}", "{multiple:.2f}"),
    ),
    "{set}, {items} items x {dimensions}, one query at a time, with its search, median of {queries}",
)
MEMORY_PANEL = Panel(
    (
        METHOD_COLUMN,
        Column("peak memory", "{peak_bytes:bytes}"),
        Column("seconds", "{seconds:.2f}"),
        Column("", lambda row: row.get("error") or ("" if row["within"] else "over the limit"), left=True),
    ),
    "{items} items x {dimensions}, {queries} queries, {mode}, limit {limit_bytes:bytes}, each in a fresh process",
)


def speed(
    folder: OxfordFolder = None,
    methods: MethodNames = ("all",),
    sizes: Sizes = (5_000, 10_000, 20_000, 40_000),
    repetitions: Annotated[int, Option("Repetitions of each timed run.", least=1)] = 5,
    parts: Annotated[Sequence[str], Option("Parts to measure; search and memory need --data.")] = PARTS,
    progress: ProgressOption = None,
) -> dict[str, Any]:
    """Measure time as a multiple of an exact 60-nearest-neighbour search, peak memory, growth, import, compilation.

    \b
    kinrank bench speed --data DIR
    kinrank bench speed --parts growth,import --sizes 5000,10000

    search: joint re-ranking relative to an exact search for the 60 nearest of the same items, by FAISS or by kinrank,
    whichever is faster here; to k-reciprocal; and to the matrix product of all pairs, the lower limit. Same threads,
    interleaved repetitions, medians, nothing left to compile. memory: peak of a fresh process. growth: by the number
    of items. import: best of several fresh processes. compile: first use with an empty compilation cache minus second
    use, and `kinrank warmup` for all loops. With all methods, growth and first use are measured for LPMT.
    """
    names = resolve_method_names(methods)
    check_names("part", parts, PARTS)
    if folder is None and {"search", "memory"} & set(parts):
        raise InputError(
            "search and memory are measured on ROxford5k", remedy="give its folder with `data`, or other `parts`"
        )
    report = Progress(progress)
    results: dict[str, Any] = {}
    rows: dict[str, dict[str, Any]] = {
        name: {"method": name, "parameters": full_repr(resolve_method(name))} for name in names
    }
    if "search" in parts:
        assert folder is not None
        results["search"] = _measure_against_search(folder, rows, repetitions, report)
    if "import" in parts:
        results["import_seconds"] = import_seconds()
    if "compile" in parts:
        results["warmup_seconds"] = warmup_seconds()
    deep = ["lpmt"] if names == resolve_method_names(["all"]) else names
    for name in report.each("speed", names, len(names)):
        if "memory" in parts:
            peak = run_fresh(rerank_set, {"method": name, "data": os.fspath(folder or "")})
            rows[name] |= {"peak_bytes": peak.get("peak_bytes"), **_failure(peak)}
        if "growth" in parts and name in deep:
            rows[name]["growth"] = measure_growth(name, sizes, report=report)
        if "compile" in parts and name in deep:
            first = measure_first_use(name)
            seconds = None if "error" in first else first["first"] - first["second"]
            rows[name] |= {"compile_seconds": seconds, **_failure(first)}
    about = {"set": SPEED_SET, "mode": "joint", "base": BASE_METHOD}
    return make_record("speed", {**results, **about, "results": list(rows.values())})


def show_speed(record: Record) -> Iterator[Table | str]:
    """Yield the facts that hold for all methods, the methods, and the growth of some of them."""
    facts = [fill(template, record, missing="") for template in SPEED_FACTS]
    yield "\n".join(filter(None, facts))
    yield from SPEED_PANEL.build(record)
    for row in record["results"]:
        if "growth" in row:
            yield from GROWTH_PANEL.build({"method": row["method"], **row["growth"]})


def _failure(measured: dict[str, Any]) -> dict[str, Any]:
    """Return the entries of a failed process for the row of its method; nothing for other results."""
    return error_entries(measured) if measured.get("failed") else {}


def _measure_against_search(
    folder: str | os.PathLike[str], rows_by_method: dict[str, dict[str, Any]], repetitions: int, report: Progress
) -> dict[str, Any]:
    """Add seconds and multiples to every method; return the description of what they are multiples of."""
    from threadpoolctl import threadpool_limits

    threads = stages.kernels.compiler.thread_count()
    published = load(SPEED_SET, folder)
    assert published.queries is not None
    rows = to_unit_rows(check_vectors(np.concatenate([published.queries, published.gallery])))
    products = np.empty((len(rows), len(rows)), np.float32)
    searches = _exact_searches(rows, threads)
    runs: dict[str, Callable[[], Any]] = {**searches, PRODUCT: partial(np.matmul, rows, rows.T, out=products)}
    for work in runs.values():
        work()  # the first call starts threads, or compiles
    for name in dict.fromkeys([BASE_METHOD, *rows_by_method]):
        warm_up_method(name)
        runs[name] = partial(rerank, published.queries, published.gallery, name)
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    jobs = [name for _ in range(repetitions) for name in runs]
    with threadpool_limits(threads):
        for name in report.each("search", jobs, len(jobs)):
            seconds[name].append(time_call(runs[name]))
    median = {name: float(np.median(times)) for name, times in seconds.items()}
    library, *others = sorted(searches, key=lambda name: median[name])
    for name, row in rows_by_method.items():
        bases = {"multiple": library, "base_multiple": BASE_METHOD, "product_multiple": PRODUCT}
        row |= {"seconds": median[name], **{key: median[name] / median[base] for key, base in bases.items()}}
    return {
        "library": library,
        "k": SEARCH_K,
        "items": len(rows),
        "dimensions": rows.shape[1],
        "threads": threads,
        "seconds": median[library],
        **{key: value for name in others for key, value in (("other_library", name), ("other_seconds", median[name]))},
        "product_seconds": median[PRODUCT],
        "base_seconds": median[BASE_METHOD],
        "repetitions": repetitions,
    }


def _exact_searches(rows: NDArray[np.float32], threads: int) -> dict[str, Callable[[], Any]]:
    """Return exact searches by library: kinrank, and FAISS if it is installed."""
    searches: dict[str, Callable[[], Any]] = {"kinrank": partial(find_nearest, rows, rows, SEARCH_K)}
    try:
        import faiss
    except ImportError:
        return searches
    faiss.omp_set_num_threads(threads)
    index = faiss.IndexFlatL2(rows.shape[1])
    index.add(rows)
    return {f"faiss {faiss.__version__} IndexFlatL2": partial(index.search, rows, SEARCH_K), **searches}


@dataclass(eq=False)
class TimedItems(Items):
    """Items that add up the time of their neighbour searches."""

    seconds: float = 0.0

    def _cached(self, *arguments: Any) -> Neighbors:
        started = time.perf_counter()
        lists = super()._cached(*arguments)
        self.seconds += time.perf_counter() - started
        return lists


def measure_growth(
    name: str, sizes: Sequence[int], queries: int = 100, dimensions: int = 128, report: Progress = SILENT
) -> dict[str, Any]:
    """Measure, for each size, the seconds of the neighbour searches and of everything after; fit the exponent e of

        seconds after = c * items^e

    by least squares on logarithms. The number of queries is constant.
    """
    warm_up_method(name)
    method, points = resolve_method(name), []
    for size in report.each(f"growth of {name}", sizes, len(sizes)):
        rows = curves(size, dimensions)
        items = TimedItems.joint(rows[:queries], rows[queries:])
        assert isinstance(items, TimedItems)
        after = _seconds_after_search(method, items)
        search = items.seconds
        if after < REPEAT_BELOW_SECONDS:  # repeat only what follows the search: the lists are cached now
            after = float(
                np.median([after, _seconds_after_search(method, items), _seconds_after_search(method, items)])
            )
        points.append({"items": size, "search_seconds": search, "after_seconds": after})
    return {"queries": queries, "dimensions": dimensions, "points": points, "exponent": fit_exponent(points)}


def fit_exponent(points: Sequence[dict[str, Any]], key: str = "after_seconds") -> float | None:
    """Return the slope of the straight line through the logarithms; None for a single point."""
    if len(points) < 2:
        return None
    size, seconds = (np.log([point[name] for point in points]) for name in ("items", key))
    return float(np.polyfit(size, seconds, 1)[0])


def _seconds_after_search(method: Method, items: TimedItems) -> float:
    """Return the seconds to prepare and to rank all queries, without the neighbour searches."""
    searched, started = items.seconds, time.perf_counter()
    prepared = method.prepare(items, SILENT)
    count = len(items.queries)
    for start in range(0, count, QUERY_BLOCK):
        block: NDArray[np.int64] = np.arange(start, min(start + QUERY_BLOCK, count))
        rank_rows(method.distances(prepared, block), len(items.gallery))
    return time.perf_counter() - started - (items.seconds - searched)


def memory(
    methods: MethodNames = ("all",),
    items: Annotated[int, Option("Number of items.", least=1)] = 40_000,
    queries: Annotated[int, Option("Number of queries.", least=1)] = 100,
    dimensions: Annotated[int, Option("Dimensions of the vectors.", least=1)] = 128,
    limit: Annotated[str, Option("Memory limit of each method.")] = "3GB",
    progress: ProgressOption = None,
) -> dict[str, Any]:
    """Measure peak memory and time of each method in a fresh process, or the reason why it refuses.

    \b
    kinrank bench memory
    kinrank bench memory --methods lpmt,aqe --items 10000

    The limit also includes the interpreter and compiled loops: `within` is True if the process stayed below it.
    """
    limit_bytes = parse_bytes(limit)
    names = resolve_method_names(methods)
    size = {"items": items, "queries": queries, "dimensions": dimensions}
    results = []
    for name in Progress(progress).each("memory", names, len(names)):
        parameters = REDUCED_PARAMETERS.get(name, {})
        row = {"method": name, "parameters": full_repr(find_method(name)(**parameters))}
        first = run_fresh(use_twice, {"method": name}, METHOD_TIMEOUT_SECONDS)  # compile before measuring
        job = {"method": name, "data": "", "parameters": parameters, "max_memory": limit_bytes, **size}
        measured = first if "error" in first else run_fresh(rerank_set, job, METHOD_TIMEOUT_SECONDS)
        within = measured["peak_bytes"] <= limit_bytes if "peak_bytes" in measured else None
        results.append({**row, **measured, "within": within})
    return make_record("memory", {**size, "mode": "joint", "limit_bytes": limit_bytes, "results": results})


def candidates(
    folder: OxfordOrRandom = None,
    methods: MethodNames = ("none", "lpmt"),
    counts: Annotated[Sequence[int], Option("Numbers of candidates.", least=1)] = (200, 500),
    queries: Annotated[int, Option("Number of timed queries.", least=1)] = 20,
    progress: ProgressOption = None,
) -> dict[str, Any]:
    """Measure the latency of re-ranking one query over candidates, as a multiple of the time of k-reciprocal.

    \b
    kinrank bench candidates --data DIR
    kinrank bench candidates --methods lpmt,cas --counts 200

    Every time includes the search for the candidates and everything else that a caller of `kinrank.rerank` waits for.
    Methods take turns, query by query, in one process.
    """
    names = list(dict.fromkeys([BASE_METHOD, *resolve_method_names(methods)]))
    if folder is None:
        rows = curves(SYNTHETIC_ITEMS + queries, SYNTHETIC_DIMENSIONS)
        timed, gallery = rows[:queries], rows[queries:]
    else:
        published = load(CANDIDATE_SET, folder)
        assert published.queries is not None
        timed, gallery = np.asarray(published.queries)[:queries], np.asarray(published.gallery)
    store, results = ArrayStore(gallery), []
    report = Progress(progress)
    for count in counts:
        for name in names:
            rerank(timed[:2], store, name, candidates=count)  # compiles, or loads compiled loops from disk
        rounds = [
            _measure_round(timed, store, names, count)
            for _ in report.each(f"{count} candidates", range(ROUNDS), ROUNDS)
        ]
        for name in names:
            seconds = min(medians[name] for medians in rounds)
            base = min(medians[BASE_METHOD] for medians in rounds)
            results.append({"method": name, "candidates": count, "seconds": seconds, "multiple": seconds / base})
    about = {"set": "made-up curves" if folder is None else CANDIDATE_SET, "base": BASE_METHOD, "mode": "candidates"}
    sizes = {"items": len(gallery), "dimensions": int(gallery.shape[1]), "queries": len(timed)}
    return make_record("candidates", {**about, **sizes, "results": results})


def _measure_round(timed: Any, store: ArrayStore, names: Sequence[str], count: int) -> dict[str, float]:
    """Return the median seconds of one query per method."""
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for row in timed:
        for name in names:
            seconds[name].append(time_call(partial(rerank, row[None, :], store, name, candidates=count)))
    return {name: float(np.median(times)) for name, times in seconds.items()}
