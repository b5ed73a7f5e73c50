"""The entry point: queries and a gallery -> a better Ranking, joint or per query over candidates."""

from __future__ import annotations

import time
from collections.abc import Sized
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank import stages
from kinrank.features import Vectors, bounded, check, scale_of, unit
from kinrank.items import Items
from kinrank.memory import NotEnoughMemory, allowed_bytes, in_words, parse_bytes
from kinrank.methods import LPMT, Method, resolve
from kinrank.parameters import whole_number
from kinrank.progress import SILENT, Progress, Show
from kinrank.ranking import Ranking, rank_rows
from kinrank.space import Space
from kinrank.stores import Store
from kinrank.stores.array import ArrayStore
from kinrank.stores.found import tidied
from kinrank.stores.rows import VECTORS, gallery_rows, given_rows
from kinrank.stores.scaled import metric_of


def rerank(
    queries: ArrayLike | None,
    gallery_or_store: ArrayLike | Store,
    method: Method | str | None = LPMT(),  # noqa: B008 - frozen
    candidates: int | None = None,
    depth: int | None = None,
    max_memory: int | str | None = None,
    progress: Show = None,
    metric: str | None = None,
) -> Ranking:
    """Re-rank the gallery for every query. Smaller distances are nearer.

    Args:
        queries: (q, d) rows; None lets every gallery item query the others, itself left out by identity.
        gallery_or_store: (n, d) rows, or a Store.
        method: a Method, or its name in METHODS; LPMT() unless given.
        candidates: None puts queries and gallery in one graph (joint). A number c instead takes the c nearest
            items of each query from the store and re-ranks those in a graph of their own; the rest keeps the
            order of the search.
        depth: how many items per query to return; all of them unless given.
        max_memory: bytes, or words such as "2GB", that working arrays and result may take together; four
            fifths of what the machine has free unless given. Checked before anything is allocated.
        progress: True for a bar, or a callable `f(label, done, total)`.
        metric: "cosine" compares directions, whatever the length of vectors; "euclidean" where length matters: all are
            then divided by one number, the root mean square length of the gallery. Cosine unless given, or what a
            Store says of itself.

    Returns:
        Ranking with `meta["mode"]` "joint" or "candidates", and `meta["metric"]`. Its distances order the items of one
        query; they are not comparable between queries, and copies of one vector may differ in them (see `Ranking`).

    Example:
        >>> ranking = kinrank.rerank(queries, gallery, kinrank.LPMT(k2=7))
    """
    method = resolve(method)
    candidates = None if candidates is None else whole_number(candidates, "candidates")
    depth = None if depth is None else whole_number(depth, "depth")
    budget = allowed_bytes() if max_memory is None else parse_bytes(max_memory)
    report = Progress(progress)
    started = time.perf_counter()
    if candidates is None:
        ranking = _joint(queries, gallery_or_store, method, depth, budget, report, metric)
    else:
        ranking = _per_query(queries, gallery_or_store, method, candidates, depth, budget, report, metric)
    meta = {**ranking.meta, "method": repr(method), "seconds": time.perf_counter() - started}
    return Ranking(ranking.indices, ranking.distances, meta)


def _joint(
    queries: ArrayLike | None,
    gallery_or_store: ArrayLike | Store,
    method: Method,
    depth: int | None,
    budget: int,
    report: Progress,
    metric: str | None,
) -> Ranking:
    gallery, space = gallery_rows(gallery_or_store, metric)
    if queries is None:
        items = Items.everyone(gallery, space.unit)
        longest = max(len(gallery) - 1, 0)
    else:
        asked = space.rows(queries, "queries", gallery.shape[1])
        items = Items.joint(asked, gallery, space.unit)
        longest = len(gallery)
    depth = longest if depth is None else min(depth, longest)
    rows = _fit(method, items, depth, budget)
    indices, distances = _answer(method, items, depth, rows, report)
    return Ranking(indices, distances, {"mode": "joint", **space.meta})


def _answer(
    method: Method, items: Items, depth: int, rows: int, report: Progress
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Prepare once, then rank block after block of queries."""
    count = len(items.queries)
    indices = np.empty((count, depth), np.int64)
    distances = np.empty((count, depth), np.float32)
    if not indices.size:
        return indices, distances
    prepared = method.prepare(items, report)
    blocks = [np.arange(start, min(start + rows, count)) for start in range(0, count, rows)]
    for block in report.each("queries", blocks, len(blocks)):
        values = method.distances(prepared, block)
        if items.self_query:
            found, lengths = _without_self(values, block, depth)
        else:
            found, lengths = rank_rows(values, depth)
        indices[block], distances[block] = found, lengths
    return indices, distances


def _without_self(
    values: NDArray[Any], block: NDArray[np.int64], depth: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Rank the block with each query's own item left out, by identity and not by its rank."""
    values = np.array(values)  # the method may hand out an array it keeps
    values[np.arange(len(block)), block] = np.inf
    found, lengths = rank_rows(values, values.shape[1])
    return found[:, :depth], lengths[:, :depth]


def _per_query(
    queries: ArrayLike | None,
    gallery_or_store: ArrayLike | Store,
    method: Method,
    candidates: int,
    depth: int | None,
    budget: int,
    report: Progress,
    metric: str | None,
) -> Ranking:
    """A small graph per query: itself and its candidates. Beyond them, the order of the search."""
    metric = metric_of(gallery_or_store, metric)
    store: Store = gallery_or_store if isinstance(gallery_or_store, Store) else ArrayStore(gallery_or_store, metric)
    everyone = queries is None
    space = replace(Space.of(gallery_or_store), scale=None if metric == "cosine" else 1.0)  # each graph has its own
    asked = given_rows(store) if queries is None else space.rows(queries, "queries")
    reach = candidates if depth is None else max(candidates, depth)
    _fit_result(len(asked), reach + everyone, store, budget)
    found = store.search(asked, reach + everyone)
    width = max(found.depth - everyone, 0)
    indices = np.full((len(asked), width), -1, np.int64)
    distances = np.full((len(asked), width), np.inf, np.float32)
    with stages.kernels.compiled.one_blas_thread():  # small problems: the threads of BLAS would only be in the way
        for row in report.each("queries", range(len(asked)), len(asked)):
            own = np.array([row]) if everyone else None
            (numbers,), (lengths,) = tidied(found.indices[[row]], found.distances[[row]], width + everyone, own)
            indices[row], distances[row] = numbers[everyone:], lengths[everyone:]
            numbers = indices[row][indices[row] >= 0]
            pool = np.sort(numbers[:candidates])  # ascending, so that ties go to the lower item number
            if not pool.size:
                continue
            items = _around(asked[row : row + 1], check(store.vectors(pool), VECTORS, asked.shape[1]), space)
            size = len(pool)
            order, lengths = _answer(method, items, size, _fit(method, items, size, budget), SILENT)
            indices[row, :size], distances[row, :size] = pool[order[0]], lengths[0]
            _continue_row(distances[row], size)
    meta = {"mode": "candidates", "candidates": candidates, "metric": metric}
    return Ranking(indices[:, :depth], distances[:, :depth], meta)


def _around(query: Vectors, rows: Vectors, space: Space) -> Items:
    """One query and its candidates."""
    if space.unit:
        return Items.joint(query, unit(rows, VECTORS))
    scale = np.float32(scale_of(np.concatenate([query, bounded(rows, VECTORS)])))
    return Items.joint(query / scale, rows / scale, unit=False)


def _continue_row(distances: NDArray[np.float32], size: int) -> None:
    """Items beyond the candidates keep their order: shift their distances so that the row never decreases."""
    rest = distances[size:]
    if rest.size and np.isfinite(rest[0]):
        shift = max(0.0, float(distances[size - 1]) - float(rest[0]))
        rest += np.float32(shift)
        np.maximum(rest, distances[size - 1], out=rest)


def _fit(method: Method, items: Items, depth: int, budget: int) -> int:
    """How many queries to answer at once within the budget; refuses before anything is allocated."""
    count, gallery = len(items.queries), len(items.gallery)
    result = count * depth * 12
    work = method.limited(len(items)).memory(len(items), count, items.vectors.shape[1])
    per_row = max(1, gallery * 40)  # a block of distances, its order and the copies that sorting makes
    left = budget - result - work
    if left < per_row and count:
        needed = result + work + per_row
        raise NotEnoughMemory(
            f"{method.name} on {len(items)} items needs about {in_words(needed)} but max_memory allows "
            f"{in_words(budget)}; pass depth= for shorter results, candidates= to work on a few items per "
            "query, or a larger max_memory="
        )
    return int(max(1, min(count, left // per_row, 64_000_000 // per_row + 1)))


def _fit_result(queries: int, reach: int, store: Store, budget: int) -> None:
    """Refuse a candidates result that passes the budget, before the store is asked."""
    if isinstance(store, Sized):
        reach = min(reach, len(store))
    needed = queries * reach * 24  # what was found, and the result
    if needed > budget:
        raise NotEnoughMemory(
            f"{queries} queries with {reach} items each need about {in_words(needed)} but max_memory allows "
            f"{in_words(budget)}; pass smaller candidates= or depth=, fewer queries, or a larger max_memory="
        )
