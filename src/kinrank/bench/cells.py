"""One set, one method, one mode -> its scores query by query, measured once and kept."""

from __future__ import annotations

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
from kinrank.bench.cache import Cache, code, digest
from kinrank.bench.record import now, surroundings
from kinrank.datasets.benchmark import Benchmark
from kinrank.evaluation import Comparison, Truth, evaluate
from kinrank.evaluation.compare import paired
from kinrank.evaluation.trials import PLAIN, REFUSALS
from kinrank.features import evenly
from kinrank.learned import fit
from kinrank.manifold import Manifold
from kinrank.methods import Method, resolve
from kinrank.methods.learned import Learned
from kinrank.ranking import Ranking
from kinrank.rerank import rerank
from kinrank.warmup import warm, warm_served

MODES = ("joint", "candidates", "online")
FEW = 40  # queries of a set whose candidates are re-ranked
CANDIDATES = 500
FOURTH = 4  # where every item queries the others, every fourth is taken out of the gallery and asks
CONFIDENCE, RESAMPLES = 0.95, 2000
FITTED = "pseudo-labels of the gallery, seed 0"  # what a learned method learns from that comes without weights
T = TypeVar("T")
Apart = tuple[Any, Any, dict[str, Truth]]
_digests: WeakKeyDictionary[Benchmark, str] = WeakKeyDictionary()
_apart: WeakKeyDictionary[Benchmark, Apart] = WeakKeyDictionary()
_warmed: set[tuple[str, str]] = set()
_fitted: dict[tuple[str, ...], tuple[Any, Path, float]] = {}


class Refused(Exception):
    """A method cannot rank this set in this mode; the text says why."""


def cell(
    bench: Benchmark,
    method: Method | str,
    mode: str,
    cache: Cache,
    *,
    measures: Sequence[str] | None = None,
    most: int | None = None,
) -> dict[str, Any]:
    """How one method does on one set in one mode.

    joint: queries and gallery in one graph. candidates: at most `most` (40) queries, evenly taken, each in a graph of
    its own over its 500 nearest. online: queries that are in no graph; the gallery was prepared without them. In the
    last two, where every item of a set queries the others, every fourth is taken out of the gallery and asks. A learned
    method without weights is fitted first, on pseudo-labels of the gallery that it then ranks.

    Returns:
        set, mode, method, parameters, queries, items; seconds, what ranking all these queries took (`build_seconds`
        apart, online, and `fit_seconds`, where `fitted` says on what it was fitted); date, when that was; truths: label
        -> measure -> mean, low, high (95 %), per_query (None where a query has no positives). Where the method refuses:
        set, mode, method, error; `unserved` where it is not made to be online. Refusals are not kept: another machine
        may have the memory, or the weights.
    """
    if mode not in MODES:
        raise ValueError(f"mode {mode!r} is not known; give some of: {', '.join(MODES)}")
    method = resolve(method)
    about = {"set": bench.name, "mode": mode, "method": method.name}
    if mode == "online" and method.name != PLAIN:
        try:
            method.check_served()
        except ValueError as error:
            return {**about, "error": str(error), "unserved": True}
    wanted = list(bench.measures if measures is None else measures)
    few = (FEW if most is None else most) if mode == "candidates" else None
    key = {
        "what": "cell",
        "data": data_digest(bench),
        "method": method.name,
        "parameters": method.spelled_out(),
        "mode": mode,
        "measures": wanted,
        "most": few,
        "candidates": CANDIDATES if few else None,
        "fitted": FITTED if _needs_weights(method) else None,
        "confidence": [CONFIDENCE, RESAMPLES],
        "surroundings": surroundings(),
        "version": kinrank.__version__,
        "code": code(),
    }
    try:
        return {**about, **cache.kept(key, lambda: _measured(bench, method, mode, wanted, few))}
    except Refused as error:
        return {**about, "error": str(error)}


def _measured(bench: Benchmark, method: Method, mode: str, measures: list[str], few: int | None) -> dict[str, Any]:
    try:
        _warm(method, mode)
        ranking, truths, items, times = _ranked(bench, method, mode, few)
    except REFUSALS as error:
        raise Refused(str(error)) from error
    chance = {"confidence": CONFIDENCE, "resamples": RESAMPLES}
    scores = {label: evaluate(ranking, truth, measures, **chance) for label, truth in truths.items()}  # type: ignore[arg-type]
    return {
        "parameters": method.spelled_out(),
        "queries": len(ranking),
        "items": items,
        "date": now(),
        **times,
        "truths": {label: found.to_dict(per_query=True)["measures"] for label, found in scores.items()},
    }


def _ranked(
    bench: Benchmark, method: Method, mode: str, few: int | None
) -> tuple[Ranking, dict[str, Truth], int, dict[str, Any]]:
    """The ranking, its truths, how many items there are, and what it took."""
    if mode == "joint":
        method, times = _with_weights(method, bench.gallery)
        ranking = rerank(bench.queries, bench.gallery, method)
        return ranking, bench.truths, len(bench.gallery), {"seconds": ranking.meta["seconds"], **times}
    queries, gallery, truths = apart(bench)
    method, times = _with_weights(method, gallery)
    if few is not None:
        some = evenly(len(queries), few)
        truths = {label: truth.subset(some) for label, truth in truths.items()}
        ranking = rerank(queries[some], gallery, method, candidates=CANDIDATES, depth=len(gallery))
    elif method.name == PLAIN:
        ranking = rerank(queries, gallery, method)
    else:
        started = time.perf_counter()
        manifold = Manifold.build(gallery, method)
        times |= {"build_seconds": time.perf_counter() - started}
        ranking = manifold.search(queries, k=len(gallery))
    return ranking, truths, len(gallery), {"seconds": ranking.meta["seconds"], **times}


def _needs_weights(method: Method) -> bool:
    return isinstance(method, Learned) and method.weights is None


def _with_weights(method: Method, gallery: Any) -> tuple[Method, dict[str, Any]]:
    """The method, fitted where it has no weights, and what that took; once for every gallery in this process."""
    if not (isinstance(method, Learned) and method.weights is None):
        return method, {}
    key = method.fitted_as, str(getattr(method, "k", None)), digest(np.asanyarray(gallery))
    if key not in _fitted:
        place = tempfile.TemporaryDirectory(prefix="kinrank-")  # gone with the process
        started = time.perf_counter()
        path = Path(place.name) / "weights.npz"
        check_whole(fit(method, gallery, "pseudo", path))
        _fitted[key] = place, path, time.perf_counter() - started
    _, path, seconds = _fitted[key]
    return replace(method, weights=str(path)), {"fitted": FITTED, "fit_seconds": seconds}


def check_whole(method: Method) -> None:
    """What was fitted halfway is not measured: who interrupts a fit, interrupts the bench."""
    if isinstance(method, Learned) and method.network().record.get("stopped_early"):
        raise KeyboardInterrupt


def _warm(method: Method, mode: str) -> None:
    """Compile the loops of a method, or load them from disk, once in this process: times are of ranking alone."""
    choices = [str(getattr(method, entry.name)) for entry in method.parameters() if entry.choices is not None]
    kind = " ".join([method.name, *choices])  # numbers lead to no other loops
    if (kind, mode) not in _warmed:
        if mode == "online" and method.name != PLAIN:
            warm_served(method)
        elif not {(kind, "joint"), (kind, "candidates")} & _warmed:
            warm(method)
        _warmed.add((kind, mode))


def data_digest(bench: Benchmark) -> str:
    """The digest of a set's vectors and truths, computed once for each set that is loaded."""
    if bench not in _digests:
        truths = [part for label in sorted(bench.truths) for part in (label, bench.truths[label])]
        queries = None if bench.queries is None else np.asanyarray(bench.queries)
        _digests[bench] = digest(queries, np.asanyarray(bench.gallery), truths)
    return _digests[bench]


def gained(plain: dict[str, Any], other: dict[str, Any], truth: str, measure: str) -> Comparison:
    """What going from one cell to another brings, paired by query."""
    before, after = (_values(one, truth, measure) for one in (plain, other))
    return paired(before, after, measure, confidence=CONFIDENCE, resamples=RESAMPLES)


def _values(one: dict[str, Any], truth: str, measure: str) -> NDArray[np.float64]:
    """One measure of a cell, query by query."""
    if "error" in one:
        raise ValueError(f"{one['method']} refused {one['set']} ({one['mode']}), so it cannot be compared")
    found = one["truths"][truth][measure]["per_query"]
    return np.array([np.nan if value is None else value for value in found], np.float64)


def judged(truths: dict[str, T]) -> dict[str, T]:
    """Truths, or what was found under their labels, but for `easy`, which the field reports less and less."""
    return {label: found for label, found in truths.items() if label != "easy"}


def apart(bench: Benchmark) -> Apart:
    """Queries that are not in the gallery, the gallery, and what is right."""
    if bench.queries is not None:
        return np.asanyarray(bench.queries), np.asanyarray(bench.gallery), bench.truths
    if bench not in _apart:
        _apart[bench] = _taken_out(np.asarray(bench.gallery), bench.truths)
    return _apart[bench]


def _taken_out(rows: NDArray[Any], truths: dict[str, Truth]) -> Apart:
    """Every fourth item leaves the gallery and asks."""
    asks = np.arange(len(rows)) % FOURTH == 0
    place = np.cumsum(~asks) - 1  # of an item in the gallery that is left
    left = {}
    for label, truth in truths.items():
        right, junk = (
            [place[lists[query][~asks[lists[query]]]] for query in range(0, len(rows), FOURTH)]
            for lists in (truth.positives, truth.junk)
        )
        left[label] = Truth.from_lists(
            right, junk, gallery_size=int((~asks).sum()), average_precision=truth.average_precision
        )
    return rows[asks], rows[~asks], left
