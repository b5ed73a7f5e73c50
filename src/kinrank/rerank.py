"""The entry point: queries and a gallery -> a better Ranking, joint or per query over candidates."""

from __future__ import annotations

import time
from collections.abc import Sized
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank import given, stages
from kinrank.features import Vectors, bounded, check, scale_of, unit
from kinrank.items import Items
from kinrank.memory import NotEnoughMemory, allowed_bytes, in_words, parse_bytes
from kinrank.methods import LPMT, Method, resolve
from kinrank.neighbors import Neighbors, nearest_among
from kinrank.parameters import whole_number
from kinrank.progress import SILENT, Progress, Show
from kinrank.ranking import Ranking, rank_rows
from kinrank.space import Space, rows_by
from kinrank.stages.marks import Marks
from kinrank.stages.masks import Mask
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
    *,
    where: Any = None,
    positives: Any = None,
    negatives: Any = None,
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
        where: only these items are results: a mask over the gallery, or item numbers. The others are in the graph all
            the same; over candidates, the graph holds the c nearest of these and, beside them, the c nearest of all.
            Rows are padded where fewer are left.
        positives: items that are right, by number: a list for one query, or a list of such lists, one per query; LPMT
            only. Chains start from them, too. Marked items, right or wrong, are not returned.
        negatives: items that are wrong, given likewise; no chain passes through them, and where there are positives,
            what is nearer to a wrong one than to the query and the right ones moves back.

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
    wanted = Wanted(where, positives, negatives)
    if positives is not None or negatives is not None:
        method.check_marked()
    if candidates is None:
        ranking = _joint(queries, gallery_or_store, method, depth, budget, report, metric, wanted)
    else:
        ranking = _per_query(queries, gallery_or_store, method, candidates, depth, budget, report, metric, wanted)
    meta = {**ranking.meta, "method": repr(method), "seconds": time.perf_counter() - started}
    return Ranking(ranking.indices, ranking.distances, meta)


class Wanted(NamedTuple):
    """A filter and marked items, as users give them."""

    where: Any
    positives: Any
    negatives: Any

    @property
    def nothing(self) -> bool:
        return all(part is None for part in self)

    def checked(self, items: int, queries: int) -> tuple[Mask | None, list[Marks] | None]:
        """(items,) who may be a result, and for every query who is marked; None where nothing was given."""

        def numbers(entries: Any, parameter: str) -> NDArray[np.int64]:
            entries = given.listed(entries, parameter)
            for entry in entries:
                whole = isinstance(entry, (int, np.integer)) and not isinstance(entry, bool)
                if not whole or not 0 <= entry < items:
                    raise ValueError(
                        f"{parameter} names {entry!r}, which is no item; give numbers from 0 to {items - 1}"
                    )
            return np.array(entries, np.int64)

        allowed = None if self.where is None else given.mask(self.where, items, numbers)
        marks = given.marks(self.positives, self.negatives, queries, numbers)
        return allowed, None if marks is None else [Marks(*one) for one in marks]


def _joint(
    queries: ArrayLike | None,
    gallery_or_store: ArrayLike | Store,
    method: Method,
    depth: int | None,
    budget: int,
    report: Progress,
    metric: str | None,
    wanted: Wanted,
) -> Ranking:
    gallery, space = gallery_rows(gallery_or_store, metric)
    if queries is None:
        items = Items.everyone(gallery, space.unit)
        longest = max(len(gallery) - 1, 0)
    else:
        asked = space.rows(queries, "queries", gallery.shape[1])
        items = Items.joint(asked, gallery, space.unit)
        longest = len(gallery)
    allowed, marks = wanted.checked(len(gallery), len(items.queries))
    longest = longest if allowed is None else min(longest, int(allowed.sum()))
    depth = longest if depth is None else min(depth, longest)
    rows = _fit(method, items, depth, budget)
    indices, distances = _answer(method, items, depth, rows, report, allowed, marks)
    return Ranking(indices, distances, {"mode": "joint", **space.meta})


def _answer(
    method: Method,
    items: Items,
    depth: int,
    rows: int,
    report: Progress,
    allowed: Mask | None = None,
    marks: list[Marks] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Prepare once, then rank block after block of queries; -1 and inf behind rows in which too few may be results."""
    count = len(items.queries)
    indices = np.empty((count, depth), np.int64)
    distances = np.empty((count, depth), np.float32)
    if not indices.size:
        return indices, distances
    prepared = method.prepare(items, report)
    blocks = [np.arange(start, min(start + rows, count)) for start in range(0, count, rows)]
    for block in report.each("queries", blocks, len(blocks)):
        if marks is None:
            values = method.distances(prepared, block)
        else:
            values = np.array([method.distances_marked(prepared, int(row), marks[row]) for row in block])
        own = block if items.self_query else None
        if own is not None or allowed is not None or marks is not None:
            values = np.array(values)  # the method may hand out an array it keeps
            _leave_out(values, own, allowed, None if marks is None else [marks[row] for row in block])
        found, lengths = rank_rows(values, depth)
        indices[block], distances[block] = np.where(np.isinf(lengths), -1, found), lengths
    return indices, distances


def _leave_out(
    values: NDArray[Any], own: NDArray[np.int64] | None, allowed: Mask | None, marks: list[Marks] | None
) -> None:
    """Put those behind all others, at inf, that are no results: each query's own item, by identity and not by rank."""
    if own is not None:
        values[np.arange(len(values)), own] = np.inf
    if allowed is not None:
        values[:, ~allowed] = np.inf
    for row, marked in enumerate(marks or ()):
        values[row, marked.all] = np.inf


def _per_query(
    queries: ArrayLike | None,
    gallery_or_store: ArrayLike | Store,
    method: Method,
    candidates: int,
    depth: int | None,
    budget: int,
    report: Progress,
    metric: str | None,
    wanted: Wanted,
) -> Ranking:
    """A small graph per query: itself and its candidates. Beyond them, the order of the search."""
    metric = metric_of(gallery_or_store, metric)
    store: Store = gallery_or_store if isinstance(gallery_or_store, Store) else ArrayStore(gallery_or_store, metric)
    everyone = queries is None
    space = replace(Space.of(gallery_or_store), scale=None if metric == "cosine" else 1.0)  # each graph has its own
    asked = given_rows(store) if queries is None else space.rows(queries, "queries")
    allowed, marks = None, None
    if not wanted.nothing:
        allowed, marks = wanted.checked(_length(store), len(asked))
    reach = candidates if depth is None else max(candidates, depth)
    searched = reach + everyone + max((len(one.all) for one in marks or ()), default=0)
    _fit_result(len(asked), searched, store, budget)
    found = store.search(asked, searched)
    listed = found
    if allowed is not None:  # with a place for the item that asks, which may not be allowed
        listed = _among(store, metric, asked, min(searched, int(allowed.sum()) + everyone), allowed)
    width = max(min(listed.depth - everyone, reach), 0)
    indices = np.full((len(asked), width), -1, np.int64)
    distances = np.full((len(asked), width), np.inf, np.float32)
    with stages.kernels.compiled.one_blas_thread():  # small problems: the threads of BLAS would only be in the way
        for row in report.each("queries", range(len(asked)), len(asked)):
            own = row if everyone else -1
            marked = Marks(*(np.empty(0, np.int64),) * 2) if marks is None else marks[row].without(own)
            numbers, lengths = _tidy_row(listed, row, everyone, marked.all)
            size = min(len(numbers), width)
            indices[row, :size], distances[row, :size] = numbers[:size], lengths[:size]
            first = indices[row, : min(size, candidates)]
            if not first.size:
                continue
            others = [] if allowed is None else _tidy_row(found, row, everyone, marked.all)[0][:candidates].tolist()
            pool = np.unique([*first.tolist(), *others, *marked.all.tolist()])  # ties go to the lower item number
            items = _around(asked[row : row + 1], check(store.vectors(pool), VECTORS, asked.shape[1]), space)
            inside = None if allowed is None else allowed[pool]
            here = None if marks is None else [Marks(*(np.searchsorted(pool, some) for some in marked))]
            size = len(first)
            order, lengths = _answer(method, items, size, _fit(method, items, size, budget), SILENT, inside, here)
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


def _tidy_row(
    found: Ranking, row: int, everyone: bool, left_out: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """What was found for one query, nearest first, each item once; not the item that asks, nor those left out."""
    own = np.array([row]) if everyone else None
    (numbers,), (lengths,) = tidied(found.indices[[row]], found.distances[[row]], found.depth, own)
    numbers, lengths = numbers[everyone:], lengths[everyone:]
    there = (numbers >= 0) & ~np.isin(numbers, left_out)
    return numbers[there], lengths[there]


def _among(store: Store, metric: str, queries: Vectors, k: int, allowed: Mask) -> Ranking:
    """(q, k) nearest items of a mask, as a store finds them; exactly where few are allowed."""

    def rows(numbers: NDArray[np.int64]) -> Vectors:
        return rows_by(metric, store.vectors(numbers), VECTORS, queries.shape[1])

    def search(some: Vectors, depth: int) -> Neighbors:
        found = store.search(some, depth)
        numbers, lengths = tidied(found.indices, found.distances, found.depth)
        return Neighbors(numbers.astype(np.int32), lengths)

    exact = isinstance(store, ArrayStore)
    found = nearest_among(queries, k, allowed, rows, None if exact else search, metric == "cosine")
    return Ranking(found.indices.astype(np.int64), found.distances)


def _length(store: Store) -> int:
    if isinstance(store, Sized):
        return len(store)
    raise ValueError(
        "this store does not tell how many vectors it holds; give it a __len__, or leave out where=, positives= and "
        "negatives="
    )


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
