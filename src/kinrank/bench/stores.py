"""Real vector databases -> whether re-ranking over them is that over an array, what growing finds, where time goes."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kinrank.bench.engines import FILL, Filled, filled
from kinrank.bench.record import record
from kinrank.bench.synthetic import curves
from kinrank.datasets.benchmark import load
from kinrank.evaluation import Truth, evaluate
from kinrank.manifold import Manifold
from kinrank.progress import Progress, Show
from kinrank.ranking import Ranking
from kinrank.rerank import rerank
from kinrank.stores import ArrayStore
from kinrank.stores.engine import EngineStore

SET = "roxford5k"
PARTS = ("same", "growing", "times", "scale")
MANY, FEW = 1000, 500  # candidates
ROUNDS = (0, 1, 2, 3)
SIZE, DIMENSIONS, QUERIES = 200_000, 128, 50
LARGE = ("pgvector", "lancedb")  # engines that are filled with SIZE vectors


def stores(
    folder: str | os.PathLike[str] | None,
    engines: Sequence[str] = tuple(FILL),
    parts: Sequence[str] = PARTS,
    size: int = SIZE,
    large: Sequence[str] = LARGE,
    progress: Show = None,
) -> dict[str, Any]:
    """A record of some parts.

    same: the ranking of LPMT over MANY candidates from each engine, against that from an array of what it holds; behind
        the candidates, the order of the search.
    growing: how many right items the candidates hold with and without `expand`, and what LPMT makes of them.
    times: of one query over FEW candidates, in the engine, in fetching, in re-ranking, and the rest.
    scale: a Manifold from `size` vectors in an engine with an approximate index; searched, and brought up to date.

    Args:
        folder: where ROxford5k's features are; all parts but scale need it.
        engines: names; each runs on this machine for the time of the measurement.
        large: engines of the part scale.
    """
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        raise ValueError(f"part {unknown[0]!r} is not known; give some of: {', '.join(PARTS)}")
    if folder is None and set(parts) != {"scale"}:
        raise ValueError("the parts same, growing and times need ROxford5k's features; give their folder")
    report = Progress(progress)
    found: dict[str, Any] = {"method": "lpmt", "set": SET, "mode": "candidates"}
    if folder is not None and set(parts) - {"scale"}:
        published = load(SET, folder)
        queries, gallery = np.asarray(published.queries, np.float32), np.asarray(published.gallery, np.float32)
        truths = {name: published.truths[name] for name in ("medium", "hard")}
        if {"same", "times"} & set(parts):
            for name in report.each("engines", engines, len(engines)):
                with tempfile.TemporaryDirectory() as place:
                    one = filled(name, gallery, Path(place))
                    with one.store as store:
                        if "same" in parts:
                            found.setdefault("same", []).append(_same(name, store, queries, truths))
                        if "times" in parts:
                            found.setdefault("times", []).append(_times(name, store, queries))
        if "growing" in parts:
            found["growing"] = _growing(gallery, queries, truths, report)
    if "scale" in parts:
        found["scale"] = [_scale(name, size) for name in report.each("scale", large, len(large))]
    return record("stores", found)


def _numbered(ranking: Ranking) -> Ranking:
    """The ids of an engine, which are the numbers of the rows, as numbers."""
    there = ranking.indices >= 0
    return Ranking(np.where(there, np.where(there, ranking.ids, -1).astype(np.int64), -1), ranking.distances)


def _same(name: str, store: EngineStore, queries: Any, truths: dict[str, Truth]) -> dict[str, Any]:
    ways: list[tuple[str, str]] = [("plain", "none"), ("reranked", "lpmt")]
    depth = len(store)
    found = {way: rerank(queries, store, method, MANY, depth) for way, method in ways}
    # Read afterwards: some engines bring vectors to length one, and Qdrant's local mode does so at every search.
    array = ArrayStore.over(store.everything()[1], store.metric)
    truth = {way: rerank(queries, array, method, MANY, depth) for way, method in ways}
    same = {
        f"same_{way}": float((_numbered(found[way]).indices[:, :MANY] == truth[way].indices[:, :MANY]).all(1).mean())
        for way in found
    }
    scores = {
        way: {label: _score(_numbered(ranking), one) for label, one in truths.items()}
        for way, ranking in (found | {"array": truth["reranked"]}).items()
    }
    about = {"engine": name, "exact": store.exact, "candidates": MANY, "queries": len(queries)}
    return about | same | scores


def _times(name: str, store: EngineStore, queries: Any) -> dict[str, Any]:
    """Median milliseconds of one query after the other, by where they are spent."""
    engine, running = [0.0], [False]
    for part in ("_search", "_fetch"):
        setattr(store, part, _timed(getattr(store, part), engine, running))
    rerank(queries[:2], store, candidates=FEW)
    rows = []
    for query in queries:
        engine[0] = 0.0
        started = time.perf_counter()
        ranking = rerank(query[None, :], store, candidates=FEW)
        total, inside = time.perf_counter() - started, ranking.meta["seconds_in"]
        rows.append((total, engine[0], inside["fetch"], inside["rerank"], total - engine[0] - inside["rerank"]))
    total, search, fetch, ranked, rest = (1000 * float(value) for value in np.median(rows, axis=0))
    about = {"engine": name, "candidates": FEW, "dimensions": store.dimensions, "queries": len(queries)}
    times = {"total_ms": total, "engine_ms": search, "fetch_ms": fetch, "rerank_ms": ranked, "rest_ms": rest}
    return about | times | {"rest_share": float(np.median([row[4] / row[0] for row in rows]))}


def _timed(call: Any, spent: list[float], running: list[bool]) -> Any:
    """The same function, which adds up its seconds; one that is called by another counts once."""

    def timed(*args: Any) -> Any:
        if running[0]:
            return call(*args)
        started, running[0] = time.perf_counter(), True
        try:
            return call(*args)
        finally:
            spent[0] += time.perf_counter() - started
            running[0] = False

    return timed


def _growing(gallery: Any, queries: Any, truths: dict[str, Truth], report: Progress) -> list[dict[str, Any]]:
    """The share of right items among the candidates, and mAP, by rounds; over an exact search."""
    store, results = ArrayStore(gallery), []
    for rounds in report.each("growing", ROUNDS, len(ROUNDS)):
        ranking = rerank(queries, store, candidates=MANY, expand=rounds)
        row: dict[str, Any] = {"expand": rounds, "candidates": MANY, "queries": len(queries)}
        for label, truth in truths.items():
            rights = (truth.positives[place] for place in range(len(ranking)))
            shares = [
                float(np.isin(right, found).mean())
                for right, found in zip(rights, ranking.indices, strict=True)
                if len(right)
            ]
            row[label] = _score(ranking, truth) | {"held": float(np.mean(shares))}
        results.append(row)
    return results


def _score(ranking: Ranking, truth: Truth) -> dict[str, float]:
    score = evaluate(ranking, truth, ["mAP"])["mAP"]
    return {"mAP": float(score.mean), "low": float(score.low), "high": float(score.high)}


def _scale(name: str, size: int) -> dict[str, Any]:
    some = size // 200
    rows = curves(size + 2 * some + QUERIES, DIMENSIONS)
    gallery, more, queries = rows[:size], rows[size : size + 2 * some], rows[size + 2 * some :]
    Manifold.build(gallery[:400]).search(queries[:2])  # compiles, or loads from disk
    with tempfile.TemporaryDirectory() as place:
        started = time.perf_counter()
        engine = filled(name, gallery, Path(place), index=True)
        fill = time.perf_counter() - started
        with engine.store as store:
            started = time.perf_counter()
            manifold = Manifold.build(store)
            build = time.perf_counter() - started
            latency = _latency(lambda row: manifold.search(row, k=10), queries)
            search = _latency(lambda row: store.nearest_ids(row, 68), queries)
            sync, seconds, seen = _changed(engine, manifold, gallery, more, some)
            return {
                "engine": name, "items": size, "dimensions": DIMENSIONS, "exact": store.exact, "fill_seconds": fill,
                "build_seconds": build, "latency_ms": latency, "engine_ms": search,
                "added": sync.added, "removed": sync.removed, "changed": sync.changed, "sync_seconds": seconds,
                "seen": seen,
            }  # fmt: skip


def _changed(engine: Filled, manifold: Manifold, gallery: Any, more: Any, some: int) -> tuple[Any, float, float]:
    """Rows come, leave and get other vectors in the database; what sync says, its time, and the share that is seen."""
    size = len(gallery)
    engine.put(np.arange(size, size + some), more[:some])
    engine.delete(np.arange(some))
    engine.put(np.arange(some, 2 * some), more[some:])
    started = time.perf_counter()
    sync = manifold.sync()
    seconds = time.perf_counter() - started
    best = manifold.search(more, k=1).ids[:, 0].astype(np.int64)
    expected = np.concatenate([np.arange(size, size + some), np.arange(some, 2 * some)])
    return sync, seconds, float((best == expected).mean())


def _latency(work: Any, queries: Any) -> float:
    """Median milliseconds of one query."""
    times = []
    for row in queries[:, None]:
        started = time.perf_counter()
        work(row)
        times.append(time.perf_counter() - started)
    return 1000 * float(np.median(times))
