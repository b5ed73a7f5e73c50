"""One query over its candidates -> milliseconds of LPMT and of other methods, as a multiple of k-reciprocal's."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from kinrank.bench.record import chosen, record
from kinrank.bench.synthetic import curves
from kinrank.datasets.benchmark import load
from kinrank.progress import Progress, Show
from kinrank.rerank import rerank
from kinrank.stores import ArrayStore

SET, BASE = "roxford5k", "k-reciprocal"
ITEMS, DIMENSIONS = 5_000, 512  # of the made-up set
ROUNDS = 3  # the quietest round counts: other programs on the machine are not meant


def candidates(
    folder: str | os.PathLike[str] | None,
    methods: Sequence[str] = ("none", "lpmt"),
    counts: Sequence[int] = (200, 500),
    queries: int = 20,
    progress: Show = None,
) -> dict[str, Any]:
    """A record with the median time of one query per method and number of candidates, and its multiple of BASE's.

    The search for the candidates is part of every time, BASE's too; so is everything a caller of `kinrank.rerank` waits
    for. Methods take turns, query by query, in one process.

    Args:
        folder: where ROxford5k's features are; made-up curves of the same size without.
        methods: names, beside BASE.
        counts: how many candidates.
        queries: how many queries are timed.
    """
    names = list(dict.fromkeys([BASE, *chosen(methods)]))
    if folder is None:
        rows = curves(ITEMS + queries, DIMENSIONS)
        asked, gallery = rows[:queries], rows[queries:]
    else:
        published = load(SET, folder)
        assert published.queries is not None
        asked, gallery = np.asarray(published.queries)[:queries], np.asarray(published.gallery)
    store, results = ArrayStore(gallery), []
    report = Progress(progress)
    for count in counts:
        for name in names:
            rerank(asked[:2], store, name, candidates=count)  # compiles, or loads from disk
        rounds = [_round(asked, store, names, count) for _ in report.each(f"{count} candidates", range(ROUNDS), ROUNDS)]
        for name in names:
            seconds = min(found[name] for found in rounds)
            base = min(found[BASE] for found in rounds)
            about = {"method": name, "candidates": count, "seconds": seconds, "multiple": seconds / base}
            results.append(about)
    about = {"set": "made-up curves" if folder is None else SET, "base": BASE, "mode": "candidates"}
    sizes = {"items": len(gallery), "dimensions": int(gallery.shape[1]), "queries": len(asked)}
    return record("candidates", {**about, **sizes, "results": results})


def _round(asked: Any, store: ArrayStore, names: Sequence[str], count: int) -> dict[str, float]:
    """The median seconds of one query per method."""
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for row in asked:
        for name in names:
            started = time.perf_counter()
            rerank(row[None, :], store, name, candidates=count)
            seconds[name].append(time.perf_counter() - started)
    return {name: float(np.median(times)) for name, times in seconds.items()}
