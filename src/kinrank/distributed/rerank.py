"""Many queries, candidates from a store, and a cluster -> a Ranking, the same as `kinrank.rerank` makes."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinrank.distributed.cluster import WAIT, Cluster, connected, seconds
from kinrank.distributed.files import read, share_gallery, workplace
from kinrank.distributed.tasks import Factory, opened
from kinrank.features import Vectors, check, unit
from kinrank.methods import Method, resolve
from kinrank.parameters import whole_number
from kinrank.progress import Progress, Show
from kinrank.ranking import Ranking
from kinrank.rerank import rerank as rerank_here
from kinrank.space import check_metric
from kinrank.stores import ArrayStore, Store
from kinrank.stores.ids import named
from kinrank.stores.ordered import Listed

NEEDED = "give a feature file, (n, d) rows, or a function without arguments that opens a Store on a worker"


def rerank(
    queries: ArrayLike,
    gallery_or_store: ArrayLike | str | os.PathLike[str] | Callable[[], Store],
    method: Method | str | None = None,
    candidates: int = 100,
    depth: int | None = None,
    client: Any = None,
    block: int = 64,
    folder: str | os.PathLike[str] | None = None,
    max_memory: int | str | None = None,
    progress: Show = None,
    wait: float = WAIT,
    metric: str = "cosine",
) -> Ranking:
    """Re-rank the candidates of every query, blocks of queries spread over a Dask cluster.

    The same answer as `kinrank.rerank(queries, gallery, method, candidates, depth)`, to the bit on processors of one
    kind: queries do not know each other.

    Args:
        queries: (q, d) rows.
        gallery_or_store: a feature file or (n, d) rows, searched exactly; or a function without arguments that opens a
            Store on a worker, where a connection or an index is made once per worker.
        method: a Method, or its name in METHODS; LPMT() unless given.
        candidates: how many nearest items of each query are put in a graph of their own.
        depth: how many items per query to return; the candidates unless given.
        client: a `distributed.Client`; the one in force, or a cluster on this machine for this call, unless given.
        block: queries per task.
        folder: where the gallery's rows are put for the workers; every worker must see it under this name.
        max_memory: what each task may take; see `kinrank.rerank`.
        progress: True for a bar, or a callable `f(label, done, total)`.
        wait: seconds after which the work is given up, with a TimeoutError, when the cluster has no worker.
        metric: "cosine", or "euclidean" where the length of vectors matters; a Store that is opened must have the same.

    Example:
        >>> ranking = kinrank.distributed.rerank(queries, "gallery.npy", kinrank.LPMT(), candidates=500)
    """
    method, size, wait = resolve(method).over_candidates(), whole_number(block, "block"), seconds(wait)
    method.check_ready()
    candidates = whole_number(candidates, "candidates")
    depth = None if depth is None else whole_number(depth, "depth")
    if queries is None or isinstance(gallery_or_store, Store):
        given = "queries=None" if queries is None else f"a {type(gallery_or_store).__name__}"
        raise ValueError(f"{given} cannot be sent to workers; pass queries, and {NEEDED}")
    asked = check(queries, "queries")
    metric = check_metric(metric)
    if metric == "cosine":
        unit(asked, "queries")  # refuses a zero row by its number, before blocks hide it
    started = time.perf_counter()
    with connected(client) as running, workplace(folder) as place:
        run = Cluster(running, place, size, Progress(progress), wait)
        factory: Factory
        if callable(gallery_or_store):
            factory = gallery_or_store
        else:
            share_gallery(gallery_or_store, place, metric)
            factory = partial(_mapped, str(place), metric)
        shared = uuid.uuid4().hex, factory, method, candidates, depth, max_memory, metric
        blocks = [asked[start : start + size] for start in range(0, max(len(asked), 1), size)]
        calls = run.calls(_ranked, [(rows, *shared) for rows in blocks])
        parts = dict(run.report.each("queries", calls, len(blocks)))
    found = [parts[number] for number in range(len(blocks))]
    meta = {"mode": "candidates", "candidates": candidates, "method": repr(method), "metric": metric}
    inside = [one.meta["seconds_in"] for one in found]
    meta["seconds_in"] = {part: sum(seconds[part] for seconds in inside) for part in inside[0]}
    return _together(found, {**meta, "seconds": time.perf_counter() - started})


def _mapped(folder: str, metric: str) -> ArrayStore:
    """Exact search over the rows of the file `vectors`, read as needed."""
    return ArrayStore.over(read(folder, "vectors"), metric)


def _ranked(
    queries: Vectors,
    token: str,
    factory: Factory,
    method: Method,
    candidates: int,
    depth: int | None,
    max_memory: int | str | None,
    metric: str,
) -> Ranking:
    """The task: one block of queries, re-ranked as on one machine."""
    return rerank_here(queries, opened(token, factory), method, candidates, depth, max_memory, metric=metric)


def _together(parts: list[Ranking], meta: dict[str, Any]) -> Ranking:
    """Blocks below each other, as wide as the widest: a store may find fewer items for the queries of one block."""
    lists = [
        Listed(part.ids[row][there], part.distances[row][there], np.empty((0, 0), np.float32))
        for part in parts
        for row, there in enumerate(part.indices >= 0)
    ]
    ranking = named(lists, meta, max(part.depth for part in parts))
    return ranking if any(part.has_ids for part in parts) else Ranking(ranking.indices, ranking.distances, meta)
