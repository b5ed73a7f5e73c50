"""A set -> the seconds LPMT takes for one query over its k nearest candidates, by k."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import kinrank
from kinrank.bench.cache import Cache, code, digest
from kinrank.bench.cells import apart, data_digest
from kinrank.bench.record import surroundings
from kinrank.datasets.benchmark import Benchmark
from kinrank.features import evenly
from kinrank.methods import LPMT
from kinrank.rerank import rerank
from kinrank.stores import ArrayStore


def waiting(bench: Benchmark, counts: Sequence[int], queries: int, cache: Cache) -> dict[str, Any]:
    """Median, fastest and slowest seconds per query for each number of candidates, their search included.

    More candidates than the gallery has items are all of them. Measured once per machine: other programs that run at
    the same time make it slower.
    """
    size = len(apart(bench)[1])
    wanted = sorted({min(count, size) for count in counts})
    key = {
        "what": "paper time",
        "data": data_digest(bench),
        "parameters": LPMT().spelled_out(),
        "numbers": [wanted, queries],
        "surroundings": surroundings(),
        "version": kinrank.__version__,
        "code": [code(), digest(Path(__file__).read_bytes())],
    }
    return cache.kept(key, lambda: _measured(bench, wanted, queries))


def _measured(bench: Benchmark, counts: Sequence[int], most: int) -> dict[str, Any]:
    queries, gallery, _ = apart(bench)
    store, asked, points = ArrayStore(gallery), queries[evenly(len(queries), most)], []
    for count in counts:
        rerank(asked[:1], store, LPMT(), candidates=count)  # compiles, or loads from disk
        seconds = []
        for row in asked:
            started = time.perf_counter()
            rerank(row[None, :], store, LPMT(), candidates=count)
            seconds.append(time.perf_counter() - started)
        middle, fast, slow = (float(one(seconds)) for one in (np.median, np.min, np.max))
        points.append({"candidates": count, "seconds": middle, "fastest": fast, "slowest": slow})
    return {"queries": len(asked), "items": len(gallery), "points": points}
