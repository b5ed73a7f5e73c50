"""Measurement of one cell of the accuracy matrix: one set, one method, one mode, scored query by query.

Cells are cached. A method that refuses a set (missing weights, too little memory, ...) gives a cell with `error`. Any
other exception is a bug: it gives a cell with `error` and `failed`, and its traceback goes to the log.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

import kinrank
from kinrank.errors import EXPECTED_ERRORS, InputError
from kinrank.evaluation import Comparison, Truth, evaluate
from kinrank.evaluation.significance import compare_pairs
from kinrank.evaluation.trials import BASELINE
from kinrank.learned import fit
from kinrank.manifold import Manifold
from kinrank.methods import Method, resolve_method
from kinrank.methods.base import full_repr
from kinrank.methods.learned_method import LearnedMethod
from kinrank.ranking import Ranking
from kinrank.reranking import rerank
from kinrank.vector_input import sample_evenly
from kinrank.warmup import warm_up_gallery, warm_up_method
from kinrank_bench.datasets.benchmark import Benchmark
from kinrank_bench.fingerprint import fingerprint_method
from kinrank_bench.measurement_cache import Cache, digest
from kinrank_bench.record import describe_environment, utc_now

log = logging.getLogger(__name__)

MODES = ("joint", "candidates", "online")
MAX_CANDIDATE_QUERIES = 40  # per set in mode candidates
CANDIDATE_COUNT = 500
EVERY_NTH = 4  # if every item queries the others, every fourth item is moved from the gallery to the queries
CONFIDENCE, RESAMPLES = 0.95, 2000
FIT_DESCRIPTION = "pseudo-labels of the gallery, seed 0"  # training data of a learned method without weights
T = TypeVar("T")
Cell = dict[str, Any]
QuerySplit = tuple[Any, Any, dict[str, Truth]]
_digest_cache: WeakKeyDictionary[Benchmark, str] = WeakKeyDictionary()
_split_cache: WeakKeyDictionary[Benchmark, QuerySplit] = WeakKeyDictionary()
_warm_keys: set[tuple[str, str]] = set()
_fit_cache: dict[tuple[str, ...], tuple[Any, Path, float]] = {}


def measure_cell(
    bench: Benchmark,
    method: Method | str,
    mode: str,
    cache: Cache,
    *,
    measures: Sequence[str] | None = None,
    most: int | None = None,
) -> Cell:
    """Score one method on one set in one mode.

    Modes:
        joint: queries and gallery are in one graph.
        candidates: at most `most` (40) queries, evenly spaced, each in its own graph with its 500 nearest items.
        online: the gallery is prepared first; queries are not part of the graph.

    In the last two modes, if every item of a set queries the others, every fourth item is moved from the gallery to the
    queries. A learned method without weights is first fitted on pseudo-labels of the gallery that it then ranks.

    Returns:
        set, mode, method, parameters, queries, items; seconds to rank all these queries, without `build_seconds` (mode
        online) and `fit_seconds` (if the method was fitted; `fitted` names the training data); date;
        truths: label -> measure -> mean, low, high (95 %), per_query (None for a query without positives).
        If the method refuses: set, mode, method, error, and `unserved` if it does not support mode online. If it
        raises any other exception: set, mode, method, error and `failed`. Neither is cached: another machine may have
        the memory or the weights.
    """
    if mode not in MODES:
        raise InputError(parameter="mode", given=mode, allowed=f"one of: {', '.join(MODES)}")
    method = resolve_method(method)
    about = {"set": bench.name, "mode": mode, "method": method.name}
    if mode == "online" and method.name != BASELINE:
        try:
            method.require("prepared_search")
        except InputError as error:
            return {**about, "error": str(error), "unserved": True}
    wanted = list(bench.measures if measures is None else measures)
    few = (MAX_CANDIDATE_QUERIES if most is None else most) if mode == "candidates" else None
    key = {
        "what": "cell",
        "data": data_digest(bench),
        "method": method.name,
        "parameters": full_repr(method),
        "mode": mode,
        "measures": wanted,
        "most": few,
        "candidates": CANDIDATE_COUNT if few else None,
        "fitted": FIT_DESCRIPTION if _needs_weights(method) else None,
        "confidence": [CONFIDENCE, RESAMPLES],
        "surroundings": describe_environment(),
        "version": kinrank.__version__,
        "code": fingerprint_method(type(method), mode),
    }
    try:
        return {**about, **cache.get_or_measure(key, lambda: _measure(bench, method, mode, wanted, few))}
    except EXPECTED_ERRORS as error:
        return {**about, "error": str(error)}
    except Exception as error:
        log.exception("%s failed on %s (%s)", method.name, bench.name, mode)
        return {**about, **describe_failure(error)}


def describe_failure(error: Exception) -> Cell:
    """Return the entries of a row for an exception that is a bug."""
    return {"error": f"{type(error).__name__}: {error}", "failed": True}


def require_scores(cell: Cell) -> None:
    """Raise if the cell has no scores: InputError if its method refused, RuntimeError if it failed."""
    if "error" in cell:
        where = f"{cell['set']} ({cell['mode']})"
        if cell.get("failed"):
            raise RuntimeError(f"{cell['method']} failed on {where}: {cell['error']}")
        raise InputError(f"{cell['method']} refused {where}: {cell['error']}")


def _measure(bench: Benchmark, method: Method, mode: str, measures: list[str], few: int | None) -> Cell:
    _warm_up(method, mode)
    ranking, truths, items, times = _rank_set(bench, method, mode, few)
    chance = {"confidence": CONFIDENCE, "resamples": RESAMPLES}
    scores = {label: evaluate(ranking, truth, measures, **chance) for label, truth in truths.items()}  # type: ignore[arg-type]
    return {
        "parameters": full_repr(method),
        "queries": len(ranking),
        "items": items,
        "date": utc_now(),
        **times,
        "truths": {label: found.to_dict(per_query=True)["measures"] for label, found in scores.items()},
    }


def _rank_set(
    bench: Benchmark, method: Method, mode: str, few: int | None
) -> tuple[Ranking, dict[str, Truth], int, dict[str, Any]]:
    """Return the ranking, its truths, the number of items and the times."""
    if mode == "joint":
        method, times = _fit_if_needed(method, bench.gallery)
        ranking = rerank(bench.queries, bench.gallery, method)
        return ranking, bench.truths, len(bench.gallery), {"seconds": ranking.meta["seconds"], **times}
    queries, gallery, truths = separate_queries(bench)
    method, times = _fit_if_needed(method, gallery)
    if few is not None:
        sample = sample_evenly(len(queries), few)
        truths = {label: truth.subset(sample) for label, truth in truths.items()}
        ranking = rerank(queries[sample], gallery, method, candidates=CANDIDATE_COUNT, k=len(gallery))
    elif method.name == BASELINE:
        ranking = rerank(queries, gallery, method)
    else:
        started = time.perf_counter()
        manifold = Manifold.build(gallery, method)
        times |= {"build_seconds": time.perf_counter() - started}
        ranking = manifold.search(queries, k=len(gallery))
    return ranking, truths, len(gallery), {"seconds": ranking.meta["seconds"], **times}


def _needs_weights(method: Method) -> bool:
    return isinstance(method, LearnedMethod) and method.weights is None


def _fit_if_needed(method: Method, gallery: Any) -> tuple[Method, dict[str, Any]]:
    """Fit a learned method without weights, once per gallery in this process; return the method and the time."""
    if not (isinstance(method, LearnedMethod) and method.weights is None):
        return method, {}
    key = method.weights_name, str(getattr(method, "k", None)), digest(np.asanyarray(gallery))
    if key not in _fit_cache:
        place = tempfile.TemporaryDirectory(prefix="kinrank-")  # removed when the process ends
        started = time.perf_counter()
        path = Path(place.name) / "weights.npz"
        check_fit_complete(fit(method, gallery, "pseudo", path=path))
        _fit_cache[key] = place, path, time.perf_counter() - started
    _, path, seconds = _fit_cache[key]
    return replace(method, weights=str(path)), {"fitted": FIT_DESCRIPTION, "fit_seconds": seconds}


def check_fit_complete(method: Method) -> None:
    """Raise KeyboardInterrupt if the fit was stopped early: interrupting a fit interrupts the bench."""
    if isinstance(method, LearnedMethod) and method.network().record.get("stopped_early"):
        raise KeyboardInterrupt


def _warm_up(method: Method, mode: str) -> None:
    """Compile the loops of a method or load them from disk, once per process, so that times cover ranking only."""
    choices = [str(getattr(method, entry.name)) for entry in method.parameters() if entry.choices is not None]
    kind = " ".join([method.name, *choices])  # numeric parameters do not select other loops
    if (kind, mode) not in _warm_keys:
        if mode == "online" and method.name != BASELINE:
            warm_up_gallery(method)
        elif not {(kind, "joint"), (kind, "candidates")} & _warm_keys:
            warm_up_method(method)
        _warm_keys.add((kind, mode))


def data_digest(bench: Benchmark) -> str:
    """Return the digest of a set's vectors and truths, computed once per loaded set."""
    if bench not in _digest_cache:
        truths = [part for label in sorted(bench.truths) for part in (label, bench.truths[label])]
        queries = None if bench.queries is None else np.asanyarray(bench.queries)
        _digest_cache[bench] = digest(queries, np.asanyarray(bench.gallery), truths)
    return _digest_cache[bench]


def compare_cells(first: dict[str, Any], second: dict[str, Any], truth: str, measure: str) -> Comparison:
    """Compare two cells, paired by query."""
    before, after = (_per_query_values(cell, truth, measure) for cell in (first, second))
    return compare_pairs(before, after, measure, confidence=CONFIDENCE, resamples=RESAMPLES)


def _per_query_values(cell: dict[str, Any], truth: str, measure: str) -> NDArray[np.float64]:
    """Return one measure of a cell, query by query."""
    require_scores(cell)
    values = cell["truths"][truth][measure]["per_query"]
    return np.array([np.nan if value is None else value for value in values], np.float64)


def drop_easy(truths: dict[str, T]) -> dict[str, T]:
    """Copy a dict of truths, or of results by truth, without `easy`, which papers report less and less."""
    return {label: found for label, found in truths.items() if label != "easy"}


def separate_queries(bench: Benchmark) -> QuerySplit:
    """Return queries that are not in the gallery, the gallery, and the truths."""
    if bench.queries is not None:
        return np.asanyarray(bench.queries), np.asanyarray(bench.gallery), bench.truths
    if bench not in _split_cache:
        rows = np.asarray(bench.gallery)
        is_query = np.arange(len(rows)) % EVERY_NTH == 0
        truths = {
            label: restrict_truth(truth, np.flatnonzero(is_query), ~is_query) for label, truth in bench.truths.items()
        }
        _split_cache[bench] = rows[is_query], rows[~is_query], truths
    return _split_cache[bench]


def restrict_truth(truth: Truth, queries: NDArray[np.int64], kept: NDArray[np.bool_]) -> Truth:
    """Restrict a truth to some queries and to the kept items of the gallery, which are numbered again."""
    place = np.cumsum(kept) - 1
    right, junk = (
        [place[items[kept[items]]] for items in (lists[query] for query in queries)]
        for lists in (truth.positives, truth.junk)
    )
    return Truth.from_lists(right, junk, gallery_size=int(kept.sum()), average_precision=truth.average_precision)
