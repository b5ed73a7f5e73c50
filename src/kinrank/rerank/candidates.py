"""Queries and a Store -> the candidates of each query in a better order, by a small graph of their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank import deadline, stages
from kinrank.features import Vectors, bounded, scale_of, unit
from kinrank.items import Items
from kinrank.memory import NotEnoughMemory, in_words
from kinrank.methods import Method
from kinrank.progress import SILENT, Progress
from kinrank.ranking import Ranking
from kinrank.rerank.answering import answered
from kinrank.rerank.growing import grown
from kinrank.rerank.wanted import Wanted
from kinrank.space import Space
from kinrank.stages.marks import Marks
from kinrank.stores import ArrayStore, Store
from kinrank.stores.engine import EngineStore
from kinrank.stores.ids import named
from kinrank.stores.ordered import Listed
from kinrank.stores.rows import VECTORS
from kinrank.stores.scaled import metric_of
from kinrank.stores.source import Ids, Lists, Source

NOBODY = Marks(*(np.empty(0, np.int64),) * 2)


class Asked(NamedTuple):
    """One query: its row (1, d), its marks, what may be no result, what was found, and that which may be one.

    `found` and `listed` are ids and distances, nearest first; the same where nothing is filtered.
    """

    row: Vectors
    marked: Marks
    left_out: Ids
    found: tuple[Ids, NDArray[np.float32]]
    listed: tuple[Ids, NDArray[np.float32]]


@dataclass(frozen=True, eq=False)
class Candidates:
    """What is the same for all queries of one call: how many candidates they have, and what is done with them."""

    source: Source
    method: Method
    space: Space
    count: int
    reach: int  # items in the answer: candidates, and what the search found behind them
    expand: int
    budget: int
    where: Any


def per_query(
    queries: ArrayLike | None,
    gallery_or_store: ArrayLike | Store,
    method: Method,
    candidates: int,
    depth: int | None,
    budget: int,
    report: Progress,
    metric: str | None,
    wanted: Wanted,
    expand: int,
) -> Ranking:
    """See `rerank`. Behind the candidates of a query, the order of the search."""
    started = time.perf_counter()
    metric = metric_of(gallery_or_store, metric)
    store: Store = gallery_or_store if isinstance(gallery_or_store, Store) else ArrayStore(gallery_or_store, metric)
    source = Source(store, metric)
    space = replace(Space.of(gallery_or_store), scale=None if metric == "cosine" else 1.0)  # each graph has its own
    own: Ids | None = None
    if queries is None:
        own, asked = source.everything()
    else:
        asked = space.rows(queries, "queries")
    where, marks = _checked(source, wanted, len(asked))
    reach = candidates if depth is None else max(candidates, depth)
    searched = reach + (own is not None) + max((len(one.all) for one in marks or ()), default=0)
    _fit_result(len(asked), searched, source, budget)
    task = Candidates(source, method, space, candidates, reach, expand, budget, where)
    ask = source.neighbours if expand else source.search  # vectors of those that do not stay need not come along
    one_by_one = _searched(source, ask, asked, own, marks, where, searched)
    with stages.kernels.compiled.one_blas_thread():  # small problems: the threads of BLAS would only be in the way
        lists = [_reranked(task, one) for one in report.each("queries", one_by_one, len(asked))]
    seconds = source.seconds | {"rest": time.perf_counter() - started - sum(source.seconds.values())}
    meta = {"mode": "candidates", "candidates": candidates, "metric": metric, "seconds_in": seconds}
    meta |= {"expand": expand} if expand else {}
    meta |= {"fetched": source.fetched} if source.engine is not None else {}
    width = max(0, min(source.deepest - (own is not None), reach if depth is None else depth))
    ranking = named([Listed(one.ids[:depth], one.distances[:depth], one.rows) for one in lists], meta, width)
    return ranking if source.engine is not None else Ranking(ranking.indices, ranking.distances, meta)


def _checked(source: Source, wanted: Wanted, queries: int) -> tuple[Any, list[Marks] | None]:
    """The filter, and for every query who is marked; by item numbers, or by the ids of an engine."""
    if wanted.nothing:
        return None, None
    if source.engine is not None:
        return wanted.by_ids(source.engine, queries)
    return wanted.checked(len(source), queries)


def _searched(
    source: Source,
    ask: Callable[..., Lists],
    asked: Vectors,
    own: Ids | None,
    marks: list[Marks] | None,
    where: Any,
    k: int,
) -> Iterator[Asked]:
    """Query after query with what the store found for it; asked for in blocks."""
    size = source.block(k) or max(1, len(asked))
    for start in range(0, max(1, len(asked)), size):  # no query asks too: the width of the answer is known then
        block = asked[start : start + size]
        found = ask(block, k)
        listed = found if where is None else ask(block, k, where)
        for place in range(len(block)):
            marked = NOBODY if marks is None else marks[start + place]
            if own is not None and marks is not None:
                marked = marked.without(own[start + place])
            left_out = marked.all if own is None else np.append(marked.all, own[start + place])
            yield Asked(block[place : place + 1], marked, left_out, found[place], listed[place])
        source.forget()


def _reranked(task: Candidates, one: Asked) -> Listed:
    """The answer to one query: its candidates by the method, then what the search found behind them."""
    deadline.check()
    numbers, lengths = _without(*one.listed, one.left_out)
    numbers, lengths = numbers[: task.reach], np.array(lengths[: task.reach])
    first = numbers[: task.count]
    nothing = Listed(numbers, lengths, one.row[:0])
    if not len(first):
        return nothing
    others = _without(*one.found, one.left_out)[0][: task.count] if task.where is not None else first[:0]
    if task.expand:
        first = grown(task.source, one.row, numbers, task.count, task.expand, one.left_out, task.where, task.space.unit)
    pool = np.unique(np.concatenate([first, others, one.marked.all.astype(first.dtype)]))  # ties to the lower id
    there, rows = task.source.vectors(pool)
    unknown = np.setdiff1d(one.marked.all, pool[there])
    if len(unknown):
        raise ValueError(
            f"positives or negatives name {unknown.tolist()[0]!r}, which {task.source.store!r} does not hold"
        )
    gone, pool = pool[~there], pool[there]
    inside = np.isin(pool, first) if task.where is not None else None
    marked = Marks(*(np.flatnonzero(np.isin(pool, some)) for some in one.marked))
    size = int(inside.sum()) if inside is not None else len(pool) - len(marked.all)
    if not size:
        return nothing
    items = _around(one.row, _comparable(task, rows), task.space)
    marks = None if one.marked is NOBODY else [marked]
    started = time.perf_counter()
    order, fresh = answered(task.method, items, size, task.budget, SILENT, inside, marks)
    task.source.seconds["rerank"] += time.perf_counter() - started
    best = pool[order[0]]
    behind = ~np.isin(numbers, np.concatenate([best, gone]))
    numbers, lengths = np.concatenate([best, numbers[behind]]), np.concatenate([fresh[0], lengths[behind]])
    _continue_row(lengths, size)
    return Listed(numbers[: task.reach], lengths[: task.reach], one.row[:0])


def _comparable(task: Candidates, rows: Vectors) -> Vectors:
    """Unit rows where directions are compared; our own stores give them so."""
    ready = isinstance(task.source.store, (EngineStore, ArrayStore)) or not task.space.unit
    return rows if ready else unit(rows, VECTORS)


def _without(ids: Ids, lengths: NDArray[np.float32], left_out: Ids) -> tuple[Ids, NDArray[np.float32]]:
    """What was found for one query but for some items: the one that asks, and those marked."""
    if not len(left_out):
        return ids, lengths
    stay = ~np.isin(ids, left_out)
    return ids[stay], lengths[stay]


def _around(query: Vectors, rows: Vectors, space: Space) -> Items:
    """One query and its candidates."""
    if space.unit:
        return Items.joint(query, rows)
    scale = np.float32(scale_of(np.concatenate([query, bounded(rows, VECTORS)])))
    return Items.joint(query / scale, rows / scale, unit=False)


def _continue_row(distances: NDArray[np.float32], size: int) -> None:
    """Items beyond the candidates keep their order: shift their distances so that the row never decreases."""
    rest = distances[size:]
    if rest.size and np.isfinite(rest[0]):
        shift = max(0.0, float(distances[size - 1]) - float(rest[0]))
        rest += np.float32(shift)
        np.maximum(rest, distances[size - 1], out=rest)


def _fit_result(queries: int, reach: int, source: Source, budget: int) -> None:
    """Refuse a candidates result that passes the budget, before the store is asked."""
    if source.engine is None and source.sized:
        reach = min(reach, len(source))
    needed = queries * reach * 24  # what was found, and the result
    if needed > budget:
        raise NotEnoughMemory(
            f"{queries} queries with {reach} items each need about {in_words(needed)} but max_memory allows "
            f"{in_words(budget)}; pass smaller candidates= or depth=, fewer queries, or a larger max_memory="
        )
