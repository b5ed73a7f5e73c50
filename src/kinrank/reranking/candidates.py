"""Re-ranking per query: the candidates that a store finds, ordered by a small graph of their own."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank import deadline, stages
from kinrank.errors import InputError, MemoryLimitError
from kinrank.filters import IdLookup, parse_marks
from kinrank.ids import to_list
from kinrank.memory_limit import format_bytes
from kinrank.methods import Method
from kinrank.methods.base import rank_in_blocks
from kinrank.neighbors import Neighbors, find_nearest_among, pairwise_distances
from kinrank.parameters import check_whole_number
from kinrank.problem import Items
from kinrank.progress import SILENT, Progress
from kinrank.ranking import Ranking
from kinrank.stages.request import Marks, Mask
from kinrank.stores import ArrayStore, Store
from kinrank.stores.base import (
    QueryHits,
    mask_from_filter,
    parse_item_numbers,
    ranking_from_lists,
    resolve_metric,
    sort_and_dedupe,
    to_id_array,
    unify_id_types,
)
from kinrank.stores.engine import EngineStore
from kinrank.stores.gallery import STORE_VECTORS, Gallery, read_database, read_rows
from kinrank.vector_input import Vectors, check_magnitude, check_vectors, compute_rms_length, to_unit_rows
from kinrank.vector_space import Space, prepare_rows

STORE_CANDIDATES = 500  # re-ranked per query of a vector database, if the caller does not say otherwise
NEAREST_SHARE = 0.5  # share of the candidates that are the nearest items of the query
MEMBERS_PER_ROUND = 50  # members whose neighbours are requested in one batch
NEIGHBORS_PER_MEMBER = 100  # neighbours of each
RANK_OFFSET = 60  # the usual constant of reciprocal rank fusion: places after which a score has halved

CandidateOption = int | Literal["all"] | None  # `candidates` of `rerank`
Ids = NDArray[Any]
Hits = tuple[Ids, NDArray[np.float32]]  # of one query: unique ids, nearest first, and their distances
NO_ITEMS = np.empty(0, np.int64)


def resolve_candidates(
    candidates: CandidateOption, gallery: ArrayLike | Store, every_item_queries: bool = False
) -> int | None:
    """Return the number of candidates per query; None if queries and gallery share one graph.

    By default that graph is for arrays and stores in memory; a vector database is never read as a whole unless the
    caller says so.
    """
    if candidates is None:
        if not isinstance(gallery, Store) or gallery.joint_by_default:
            return None
        if every_item_queries:
            raise InputError(
                "are not given, so every item of the store would query the others, which reads all of its vectors",
                parameter="queries",
                remedy=f"give queries; or `candidates={STORE_CANDIDATES}`, or `candidates='all'` for one graph of all "
                "items, to read them",
            )
        return STORE_CANDIDATES
    if isinstance(candidates, str):
        if candidates != "all":
            raise InputError(parameter="candidates", given=candidates, allowed="a whole number >= 1, or 'all'")
        return None
    return check_whole_number(candidates, "candidates")


class ResultFilter(NamedTuple):
    """A filter and marked items, as given by the user."""

    where: Any
    positives: Any
    negatives: Any

    def parse(self, gallery: Gallery, queries: int) -> tuple[Mask | None, list[Marks] | None]:
        """Return an (items,) mask of possible results, and the marks of every query; None for parts not given."""
        if not isinstance(gallery.store, EngineStore) or gallery.ids is None:
            return self._parse_numbers(len(gallery), queries)
        engine, places = gallery.store, {name: place for place, name in enumerate(gallery.ids.tolist())}

        def find_places(entries: Any, parameter: str) -> NDArray[np.int64]:
            names = _to_ids(entries, parameter).tolist()
            unknown = [name for name in names if name not in places]
            if unknown:
                raise InputError(f"names {unknown[0]!r}, which {engine!r} does not hold", parameter=parameter)
            return np.array([places[name] for name in names], np.int64)

        allowed = None if self.where is None else np.isin(gallery.ids, engine.ids_where(self.where))
        return allowed, self._parse_marks(queries, find_places, gallery)

    def parse_for_store(self, store: Store, queries: int) -> tuple[Any, list[Marks] | None]:
        """Return the filter as the store needs it, and the marks of every query, by item number or engine id."""
        if isinstance(store, EngineStore):
            return self.where, self._parse_marks(queries, _to_ids, store)
        return self._parse_numbers(len(store), queries)

    def _parse_numbers(self, items: int, queries: int) -> tuple[Mask | None, list[Marks] | None]:
        allowed = None if self.where is None else mask_from_filter(self.where, items)
        return allowed, self._parse_marks(queries, partial(parse_item_numbers, items), range(items))

    def _parse_marks(self, queries: int, places: IdLookup, items: Any) -> list[Marks] | None:
        pairs = parse_marks(self.positives, self.negatives, queries, places, items.__len__)
        return None if pairs is None else [Marks(*pair) for pair in pairs]


def _to_ids(entries: Any, parameter: str) -> NDArray[Any]:
    return to_id_array(to_list(entries, parameter))


@dataclass(frozen=True, eq=False)
class RerankInput:
    """The arguments of `rerank`, checked."""

    queries: ArrayLike | None
    gallery: ArrayLike | Store
    method: Method
    k: int | None
    budget: int
    report: Progress
    metric: str | None
    result_filter: ResultFilter | None  # None if neither a filter nor marks are given
    started: float

    def complete(self, meta: dict[str, Any]) -> dict[str, Any]:
        """Return the meta of the ranking, with the method and the seconds so far."""
        return {**meta, "method": repr(self.method), "seconds": time.perf_counter() - self.started}


class CandidateSource:
    """A Store with the operations of candidate re-ranking. Each vector is fetched once.

    Items are identified as in the store: by item number, or by the id of an engine. `seconds` accumulates the time
    spent on searching, fetching and re-ranking.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.engine = store if isinstance(store, EngineStore) else None
        self.seconds = {"search": 0.0, "fetch": 0.0, "rerank": 0.0}
        self.fetched = 0  # number of vectors that an engine returned
        self.deepest = 0  # length of the longest list that a search returned, padding included
        self._known: dict[Any, Vectors] = {}

    def search(self, queries: Vectors, k: int, where: Any = None, fetch: bool = True) -> list[Hits]:
        """Return the k nearest items of every query, among all items or among those that pass a filter.

        If `fetch`, an engine also returns the vectors, which makes the order exact.
        """
        started = time.perf_counter()
        if self.engine is None:
            found = self._search_numbers(queries, k, where)
        else:
            lists = (self.engine.search_lists if fetch else self.engine.nearest_lists)(queries, k, where)
            if fetch:
                known = {name: row for hits in lists for name, row in zip(hits.ids.tolist(), hits.rows, strict=True)}
                self.fetched += len(known.keys() - self._known.keys())
                self._known.update(known)
            self.deepest = max([self.deepest, *(len(hits.ids) for hits in lists)])
            found = [(ids, hits.distances) for ids, hits in zip(unify_id_types(lists), lists, strict=True)]
        self.seconds["search"] += time.perf_counter() - started
        return found

    def _search_numbers(self, queries: Vectors, k: int, where: Any) -> list[Hits]:
        """Search a store by item number. Approximate stores may pad, repeat and misorder their results."""
        if where is None:
            found = self.store.search(queries, k)
        elif self.store.filters:
            found = self.store.search(queries, k, where=where)  # type: ignore[call-arg]
        else:
            found = self._search_filtered(queries, k, where)
        self.deepest = max(self.deepest, found.depth)
        numbers, lengths = sort_and_dedupe(found.indices, found.distances, found.depth)
        exists = numbers >= 0
        return [(row[mask], gaps[mask]) for row, gaps, mask in zip(numbers, lengths, exists, strict=True)]

    def _search_filtered(self, queries: Vectors, k: int, allowed: NDArray[np.bool_]) -> Ranking:
        """Search a store without filters: keep the allowed results, and search exactly if few items are allowed."""
        metric = self.store.metric

        def rows(numbers: NDArray[np.int64]) -> Vectors:
            return prepare_rows(metric, self.store.vectors(numbers), STORE_VECTORS, queries.shape[1])

        def search(block: Vectors, depth: int) -> Neighbors:
            found = self.store.search(block, depth)
            numbers, lengths = sort_and_dedupe(found.indices, found.distances, found.depth)
            return Neighbors(numbers.astype(np.int32), lengths)

        found = find_nearest_among(queries, min(k, int(allowed.sum())), allowed, rows, search, metric == "cosine")
        return Ranking(found.indices.astype(np.int64), found.distances)

    def vectors(self, ids: Ids) -> tuple[NDArray[np.bool_], Vectors]:
        """Return a mask of the items that still exist, and the vectors of these, in this order."""
        started = time.perf_counter()
        if self.engine is None:
            exists, rows = np.ones(len(ids), np.bool_), check_vectors(self.store.vectors(ids), STORE_VECTORS)
        else:
            exists, rows = self._get_vectors(self.engine, ids)
        self.seconds["fetch"] += time.perf_counter() - started
        return exists, rows

    def _get_vectors(self, engine: EngineStore, ids: Ids) -> tuple[NDArray[np.bool_], Vectors]:
        names = ids.tolist()
        missing = np.array([name not in self._known for name in names], np.bool_)
        if missing.any():
            exists, rows = engine.find_vectors(ids[missing])
            self._known.update(zip(ids[missing][exists].tolist(), rows, strict=True))
            self.fetched += len(rows)
        found = [self._known.get(name) for name in names]
        held = [row for row in found if row is not None]
        stacked = np.array(held, np.float32).reshape(len(held), max(1, engine.dimensions))
        return np.array([row is not None for row in found], np.bool_), stacked

    def forget(self) -> None:
        """Drop the cached vectors."""
        self._known = {}


class CandidateQuery(NamedTuple):
    """One query: its row (1, d), its marks, the excluded ids, all hits, and the hits that pass the filter.

    Without a filter, `found` and `listed` are equal.
    """

    row: Vectors
    marked: Marks | None
    left_out: Ids
    found: Hits
    listed: Hits


@dataclass(frozen=True, eq=False)
class CandidateTask:
    """Settings that all queries of one call share."""

    source: CandidateSource
    method: Method
    space: Space
    count: int
    reach: int  # items in the result: candidates and further hits
    expand: int
    budget: int
    where: Any


def rerank_candidates(given: RerankInput, candidates: int, expand: int) -> Ranking:
    """Re-rank the candidates of each query, see `rerank`; further hits follow in search order."""
    depth, budget = given.k, given.budget
    gallery, metric = given.gallery, resolve_metric(given.gallery, given.metric)
    store = gallery if isinstance(gallery, Store) else ArrayStore(gallery, metric)
    source, space = CandidateSource(store), choose_space(gallery, metric)
    own: Ids | None = None
    if given.queries is not None:
        rows = space.rows(given.queries, "queries")
    elif source.engine is not None:
        own, rows = read_database(source.engine, budget, given.report)
    else:
        rows = read_rows(store)
        own = np.arange(len(rows))
    where, marks = None, None
    if given.result_filter is not None:
        where, marks = given.result_filter.parse_for_store(store, len(rows))
    reach = candidates if depth is None else max(candidates, depth)
    searched = reach + (own is not None) + max((len(entry.all) for entry in marks or ()), default=0)
    _check_result_memory(len(rows), searched, source, budget)
    task = CandidateTask(source, given.method, space, candidates, reach, expand, budget, where)
    query_stream = _search_in_blocks(task, rows, own, marks, searched)
    with stages.kernels.compiler.single_blas_thread():  # small problems: BLAS threads would only slow them down
        lists = [_rerank_query(task, entry) for entry in given.report.each("queries", query_stream, len(rows))]
    seconds = source.seconds | {"rest": time.perf_counter() - given.started - sum(source.seconds.values())}
    meta = {"mode": "candidates", "candidates": candidates, "metric": metric, "seconds_in": seconds}
    meta |= {"expand": expand} if expand else {}
    meta |= {"fetched": source.fetched} if source.engine is not None else {}
    width = max(0, min(source.deepest - (own is not None), reach if depth is None else depth))
    cut = [QueryHits(entry.ids[:depth], entry.distances[:depth], entry.rows) for entry in lists]
    return ranking_from_lists(cut, given.complete(meta), width, source.engine is not None)


def choose_space(gallery: ArrayLike | Store, metric: str) -> Space:
    """Return the space of queries and candidates. Without unit length, each graph has its own scale."""
    return replace(Space.of(gallery), scale=None if metric == "cosine" else 1.0)


def _search_in_blocks(
    task: CandidateTask, rows: Vectors, own: Ids | None, marks: list[Marks] | None, k: int
) -> Iterator[CandidateQuery]:
    """Yield every query with its hits; the store is searched in blocks. `own`: the items that the queries are."""
    source, fetch = task.source, not task.expand  # do not fetch vectors of items that are replaced
    size = max(1, len(rows)) if source.engine is None else source.engine.block_size(k)
    for start in range(0, max(1, len(rows)), size):  # search without queries too: that gives the width of the result
        block = rows[start : start + size]
        hits = source.search(block, k, fetch=fetch)
        filtered = hits if task.where is None else source.search(block, k, task.where, fetch)
        for place in range(len(block)):
            marked = None if marks is None else marks[start + place]
            if own is not None and marked is not None:
                marked = marked.without(own[start + place])
            left_out = NO_ITEMS if marked is None else marked.all
            if own is not None:
                left_out = np.append(left_out, own[start + place])
            yield CandidateQuery(block[place : place + 1], marked, left_out, hits[place], filtered[place])
        source.forget()


def _rerank_query(task: CandidateTask, query: CandidateQuery) -> QueryHits:
    """Rank one query: its candidates by the method, then the remaining hits in search order."""
    numbers, lengths = _drop_items(*query.listed, query.left_out)
    numbers, lengths = numbers[: task.reach], np.array(lengths[: task.reach])
    first = numbers[: task.count]
    unchanged = QueryHits(numbers, lengths, query.row[:0])
    if not len(first):
        return unchanged
    others = _drop_items(*query.found, query.left_out)[0][: task.count] if task.where is not None else first[:0]
    if task.expand:
        first = expand_candidates(task, query, numbers)
    marked = NO_ITEMS if query.marked is None else query.marked.all
    pool = np.unique(np.concatenate([first, others, marked.astype(first.dtype)]))  # ties go to the lower id
    present, rows = task.source.vectors(pool)
    gone, pool = pool[~present], pool[present]
    marks = None if query.marked is None else [_find_marks(query.marked, pool, task.source.store)]
    inside = np.isin(pool, first) if task.where is not None else None
    size = int(inside.sum()) if inside is not None else len(pool) - len(marked)
    if not size:
        return unchanged
    items = _build_problem(query.row, _make_comparable(task.source.store, task.space, rows), task.space)
    started = time.perf_counter()
    order, fresh = rank_in_blocks(task.method, items, size, task.budget, SILENT, inside, marks)
    task.source.seconds["rerank"] += time.perf_counter() - started
    best = pool[order[0]]
    remaining = ~np.isin(numbers, np.concatenate([best, gone]))
    numbers, lengths = np.concatenate([best, numbers[remaining]]), np.concatenate([fresh[0], lengths[remaining]])
    _shift_tail(lengths, size)
    return QueryHits(numbers[: task.reach], lengths[: task.reach], query.row[:0])


def _find_marks(marked: Marks, pool: Ids, store: Store) -> Marks:
    """Return marks by position in the pool. Raise InputError for an item that the store does not hold."""
    unknown = np.setdiff1d(marked.all, pool)
    if len(unknown):
        raise InputError(f"`positives` or `negatives` name {unknown.tolist()[0]!r}, which {store!r} does not hold")
    return Marks(*(np.flatnonzero(np.isin(pool, group)) for group in marked))


def build_candidate_graph(
    row: Vectors | None, item: Any, gallery: ArrayLike | Store, candidates: int, space: Space
) -> tuple[Items, Ids]:
    """Return the graph in which `rerank` ranks one query, and the ids of its candidates in their order.

    Args:
        row: (1, d) vector of the query; None if the query is an item of the gallery.
        item: number or id of that item.
        space: see `choose_space`.
    """
    store = gallery if isinstance(gallery, Store) else ArrayStore(gallery, space.metric)
    source, own = CandidateSource(store), NO_ITEMS
    if row is None:
        own = to_id_array([item]) if source.engine else parse_item_numbers(len(store), [item], "query")
        row = space.rows(store.vectors(own), "queries")
    pool = np.unique(_drop_items(*source.search(row, candidates + len(own))[0], own)[0][:candidates])
    present, rows = source.vectors(pool)
    return _build_problem(row, _make_comparable(store, space, rows), space), pool[present]


def _make_comparable(store: Store, space: Space, rows: Vectors) -> Vectors:
    """Return unit rows if directions are compared; the stores of kinrank return them so."""
    ready = isinstance(store, (EngineStore, ArrayStore)) or not space.unit
    return rows if ready else to_unit_rows(rows, STORE_VECTORS)


def _drop_items(ids: Ids, lengths: NDArray[np.float32], left_out: Ids) -> tuple[Ids, NDArray[np.float32]]:
    """Remove excluded items from the hits of one query: its own item, and marked ones."""
    if not len(left_out):
        return ids, lengths
    stay = ~np.isin(ids, left_out)
    return ids[stay], lengths[stay]


def _build_problem(query: Vectors, rows: Vectors, space: Space) -> Items:
    """Combine one query and its candidates."""
    if space.unit:
        return Items.joint(query, rows)
    scale = np.float32(compute_rms_length(np.concatenate([query, check_magnitude(rows, STORE_VECTORS)])))
    return Items.joint(query / scale, rows / scale, unit=False)


def _shift_tail(distances: NDArray[np.float32], size: int) -> None:
    """Shift the distances of items beyond the candidates so that the row never decreases; their order is kept."""
    rest = distances[size:]
    if rest.size and np.isfinite(rest[0]):
        shift = max(0.0, float(distances[size - 1]) - float(rest[0]))
        rest += np.float32(shift)
        np.maximum(rest, distances[size - 1], out=rest)


def _check_result_memory(queries: int, reach: int, source: CandidateSource, budget: int) -> None:
    """Refuse a result that exceeds the budget before the store is searched."""
    if source.engine is None:
        reach = min(reach, len(source.store))
    needed = queries * reach * 24  # hits and result
    if needed > budget:
        raise MemoryLimitError(
            f"{queries} queries with {reach} items each need about {format_bytes(needed)} but `max_memory` allows "
            f"{format_bytes(budget)}; give smaller `candidates` or `k`, fewer queries, or a larger `max_memory`"
        )


def expand_candidates(task: CandidateTask, query: CandidateQuery, nearest: Ids) -> Ids:
    """Return at most `task.count` items: the nearest ones of the query, then neighbours of the best members.

    Every round asks the store for the neighbours of the MEMBERS_PER_ROUND members that are nearest to the query and
    were not used before. Their lists are fused by reciprocal rank: an item scores the sum of 1 / (RANK_OFFSET + its
    place) over all lists. The items with the largest sums that are not members yet join, the same number in every
    round. If there are too few neighbours, the next nearest items of the query fill up. Only vectors of members are
    fetched, each once.

    Args:
        task: number of candidates and of rounds, and the filter that neighbours have to pass.
        query: the query, and the items that may not be candidates.
        nearest: hits of the store for the query, nearest first.
    """
    source, count = task.source, task.count
    pool = nearest[: math.ceil(count * NEAREST_SHARE)]
    start, used = len(pool), pool[:0]
    sums: dict[Any, float] = {}
    for turn in range(1, task.expand + 1):
        deadline.check()
        present, rows = source.vectors(pool)
        pool = pool[present]
        order = np.argsort(pairwise_distances(query.row, rows, task.space.unit)[0], kind="stable")
        order = order[~np.isin(pool[order], used)][:MEMBERS_PER_ROUND]
        used = np.concatenate([used, pool[order]])
        nearest_of_each = source.search(rows[order], NEIGHBORS_PER_MEMBER + 1, task.where, fetch=False)
        for ids, _ in nearest_of_each:  # each finds itself, too
            for place, name in enumerate(ids.tolist()):
                sums[name] = sums.get(name, 0.0) + 1.0 / (RANK_OFFSET + place)
        taken = {*pool.tolist(), *query.left_out.tolist()}
        best = sorted((name for name in sums if name not in taken), key=lambda name: (-sums[name], name))
        missing = start + round((count - start) * turn / task.expand) - len(pool)
        pool = np.concatenate([pool, np.array(best[: max(0, missing)], dtype=pool.dtype)])
    rest = nearest[~np.isin(nearest, pool)]
    return np.concatenate([pool, rest[: max(0, count - len(pool))]])
