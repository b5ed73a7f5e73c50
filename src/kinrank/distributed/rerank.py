"""Re-ranking of many queries on a Dask cluster, with the same Ranking as `kinrank.rerank`."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kinrank.distributed.dask_runner import WORKER_TIMEOUT_SECONDS, Cluster, check_wait, connect_client
from kinrank.distributed.worker_tasks import (
    StoreFactory,
    make_exchange_folder,
    open_store_once,
    read_array,
    share_gallery,
)
from kinrank.errors import InputError
from kinrank.methods import Method, resolve_method
from kinrank.methods.base import for_candidates
from kinrank.parameters import check_whole_number
from kinrank.progress import Progress, ProgressOption
from kinrank.ranking import Ranking
from kinrank.reranking import rerank as rerank_here
from kinrank.stores import ArrayStore, Store
from kinrank.stores.base import QueryHits, ranking_from_lists
from kinrank.vector_input import Vectors, check_vectors, to_unit_rows
from kinrank.vector_space import check_metric

GALLERY_HINT = "give a feature file, (n, d) rows, or a function without arguments that opens a Store on a worker"


def rerank(
    queries: ArrayLike,
    gallery: ArrayLike | str | os.PathLike[str] | Callable[[], Store],
    method: Method | str | None = None,
    *,
    candidates: int = 100,
    k: int | None = None,
    client: Any = None,
    block: int = 64,
    folder: str | os.PathLike[str] | None = None,
    max_memory: int | str | None = None,
    progress: ProgressOption = None,
    wait: float = WORKER_TIMEOUT_SECONDS,
    metric: str = "cosine",
) -> Ranking:
    """Re-rank the candidates of every query, with blocks of queries spread over a Dask cluster.

    The result equals `kinrank.rerank(queries, gallery, method, candidates=candidates, k=k)`, bit by bit on processors
    of one kind, because queries are independent.

    Args:
        queries: (q, d) rows.
        gallery: a feature file or (n, d) rows, searched exactly; or a function without arguments that opens a
            Store on a worker; it is called once per worker.
        method: a Method, or its name in METHODS; default LPMT().
        candidates: number of nearest items of each query that form a graph of their own.
        k: number of items to return per query; the candidates by default.
        client: a `distributed.Client`; by default the current one, or a local cluster for this call.
        block: queries per task.
        folder: folder for the rows of the gallery; every worker must see it under this name.
        max_memory: memory limit of each task; see `kinrank.rerank`.
        progress: True for a bar, or a callable `f(label, done, total)`.
        wait: seconds without any worker after which a TimeoutError ends the work.
        metric: "cosine", or "euclidean" if the length of vectors matters; an opened Store must have the same metric.

    Example:
        >>> ranking = kinrank.distributed.rerank(queries, "gallery.npy", kinrank.LPMT(), candidates=500)
    """
    method, size, wait = for_candidates(resolve_method(method)), check_whole_number(block, "block"), check_wait(wait)
    method.load_weights()
    candidates = check_whole_number(candidates, "candidates")
    k = None if k is None else check_whole_number(k, "k")
    if queries is None or isinstance(gallery, Store):
        given = "queries=None" if queries is None else f"a {type(gallery).__name__}"
        raise InputError(f"{given} cannot be sent to workers", remedy=f"pass `queries`, and {GALLERY_HINT}")
    query_rows = check_vectors(queries, "queries")
    metric = check_metric(metric)
    if metric == "cosine":
        to_unit_rows(query_rows, "queries")  # refuse a zero row by its number before blocks hide it
    started = time.perf_counter()
    with connect_client(client) as running, make_exchange_folder(folder) as place:
        run = Cluster(running, place, size, Progress(progress), wait)
        factory: StoreFactory
        if callable(gallery):
            factory = gallery
        else:
            share_gallery(gallery, place, metric)
            factory = partial(_open_mapped_store, str(place), metric)
        options = {"candidates": candidates, "k": k, "max_memory": max_memory, "metric": metric}
        shared = uuid.uuid4().hex, factory, method, options
        blocks = [query_rows[start : start + size] for start in range(0, max(len(query_rows), 1), size)]
        calls = run.calls(_rerank_block, [(rows, *shared) for rows in blocks])
        parts = dict(run.report.each("queries", calls, len(blocks)))
    results = [parts[number] for number in range(len(blocks))]
    meta = {"mode": "candidates", "candidates": candidates, "method": repr(method), "metric": metric}
    inside = [result.meta["seconds_in"] for result in results]
    meta["seconds_in"] = {part: sum(seconds[part] for seconds in inside) for part in inside[0]}
    return _join_blocks(results, {**meta, "seconds": time.perf_counter() - started})


def _open_mapped_store(folder: str, metric: str) -> ArrayStore:
    """Return an exact store over the rows of the file `vectors`, which are read as needed."""
    return ArrayStore.over(read_array(folder, "vectors"), metric)


def _rerank_block(
    queries: Vectors,
    token: str,
    factory: StoreFactory,
    method: Method,
    options: dict[str, Any],
) -> Ranking:
    """Re-rank one block of queries as a task. `options` are those of `kinrank.rerank`."""
    return rerank_here(queries, open_store_once(token, factory), method, **options)


def _join_blocks(parts: list[Ranking], meta: dict[str, Any]) -> Ranking:
    """Join blocks of rows, padded to the widest: a store may find fewer items for the queries of one block."""
    lists = [
        QueryHits(part.ids[row][present], part.distances[row][present], np.empty((0, 0), np.float32))
        for part in parts
        for row, present in enumerate(part.indices >= 0)
    ]
    return ranking_from_lists(lists, meta, max(part.depth for part in parts), any(part.has_ids for part in parts))
