"""Checks of edge cases: few items, large k, duplicates, disconnected graphs, little memory."""

from __future__ import annotations

import dataclasses
import tracemalloc

import numpy as np

from kinrank.errors import MemoryLimitError
from kinrank.methods.base import Method, for_candidates
from kinrank.ranking import Ranking
from kinrank.reranking import rerank
from kinrank.stores.array import ArrayStore
from kinrank.testing.assertions import (
    rank_and_check,
    require,
    require_identical,
    require_refusal,
    require_same,
    require_valid,
)
from kinrank.testing.sample_data import TOY_KINDS, toy


def rankings_are_complete(method: Method, rtol: float) -> None:
    """Every row lists every item once with finite, ascending distances, on all toy sets."""
    for kind in TOY_KINDS:
        data = toy(kind)
        rank_and_check(method, data.queries, data.gallery, kind)
    rank_and_check(method, None, toy("spread").gallery, "spread, every item a query")


def works_on_what_there_is(method: Method, rtol: float) -> None:
    """0 to 3 items and 0 to 2 queries give a small or an empty result, never an error."""
    data = toy("spread")
    for items in (0, 1, 2, 3):
        for queries in (0, 1, 2):
            rank_and_check(method, data.queries[:queries], data.gallery[:items], f"{queries} queries, {items} items")
        rank_and_check(method, None, data.gallery[:items], f"every one of {items} items a query")
    rank_and_check(method, data.queries[:0], data.gallery, "no queries")
    rank_and_check(method, data.queries[:1], data.gallery, "one query")


def works_in_one_dimension(method: Method, rtol: float) -> None:
    """Vectors of one dimension, which have only two directions, are ranked."""
    data = toy("spread")
    rank_and_check(method, data.queries[:2, :1], data.gallery[:4, :1], "one dimension")


def large_k_is_cut(method: Method, rtol: float) -> None:
    """Integer parameters may be larger than the gallery, one at a time and all at once."""
    data = toy("spread")
    gallery = data.gallery[:7]
    large = {}
    for declared in type(method).parameters():
        if declared.kind is int:
            large[declared.name] = 1000 if declared.high is None else int(min(declared.high, 1000))
    for change in ({}, large, *({name: value} for name, value in large.items())):
        changed = dataclasses.replace(method, **change)
        rank_and_check(changed, data.queries, gallery, f"{change} on 7 items")
        rank_and_check(changed, None, gallery, f"{change} on 7 items, every one a query")


def duplicates_are_items(method: Method, rtol: float) -> None:
    """Equal rows, queries that are gallery rows, and a gallery of one repeated row give complete, finite rankings."""
    data = toy("duplicates")
    rank_and_check(method, data.gallery[:10], data.gallery, "queries that are items")
    same = np.repeat(data.gallery[:1], 70, axis=0)
    rank_and_check(method, data.queries, same, "70 equal items")
    rank_and_check(method, same[:3], same, "queries equal to 70 equal items")


def self_is_left_out_by_identity(method: Method, rtol: float) -> None:
    """With queries=None an item is missing from its own row and from no other, even if it has duplicates."""
    for kind in ("spread", "duplicates"):
        rank_and_check(method, None, toy(kind).gallery, f"{kind}, every item a query")
    same = np.repeat(toy("duplicates").gallery[:1], 20, axis=0)
    rank_and_check(method, None, same, "20 equal items, every one a query")
    for candidates in (3, 10, 100):
        ranking = rerank(None, same, method, candidates=candidates)
        own = ranking.indices == np.arange(len(same))[:, None]
        require(not own.any(), f"candidates={candidates}: item {own.any(axis=1).argmax()} is in its own row")


def islands_are_ranked(method: Method, rtol: float) -> None:
    """A disconnected graph gives neither inf nor NaN, and the component of the query comes first."""
    data = toy("islands", items=150)
    ranking = rank_and_check(method, data.queries, data.gallery, "islands")
    right = data.gallery_labels[ranking.indices] == data.query_labels[:, None]
    for row, count in enumerate(right.sum(axis=1)):
        require(
            right[row, :count].all(),
            f"islands: items of the other component are ranked before some of query {row}'s own",
        )
    opposite = np.concatenate([data.gallery[:10], -data.gallery[:10]])
    rank_and_check(method, data.queries, opposite, "items and their opposites")


def depth_cuts(method: Method, rtol: float) -> None:
    """`k` returns the first k columns of the whole ranking, bit for bit, or all of them if k is larger."""
    data = toy("spread")
    whole = rerank(data.queries, data.gallery, method)
    everyone = rerank(None, data.gallery, method)
    for depth in (1, 7, len(data.gallery), 1000):
        cut = rerank(data.queries, data.gallery, method, k=depth)
        require_identical(whole.head(depth), cut, f"k={depth}")
        cut = rerank(None, data.gallery, method, k=depth)
        require_identical(everyone.head(depth), cut, f"k={depth}, every item a query")


def candidates_come_first(method: Method, rtol: float) -> None:
    """`candidates=c` re-ranks the c nearest of each query among themselves; the others keep their order."""
    data = toy("spread")
    items = len(data.gallery)
    searched = ArrayStore(data.gallery).search(data.queries, items).indices
    for candidates, depth in ((1, items), (15, items), (items, None), (10 * items, None)):
        what = f"candidates={candidates}"
        ranking = rerank(data.queries, data.gallery, method, candidates=candidates, k=depth)
        require_valid(ranking, len(data.queries), items, what)
        first = np.sort(ranking.indices[:, :candidates]), np.sort(searched[:, :candidates])
        require(np.array_equal(*first), f"{what}: the first ranks are not those of the candidates")
        beyond = ranking.indices[:, candidates:], searched[:, candidates:]
        require(np.array_equal(*beyond), f"{what}: items after the candidates do not keep the order of the search")
    joint = rerank(data.queries[:1], data.gallery, for_candidates(method))
    row = Ranking(ranking.indices[:1], ranking.distances[:1])
    require_same(joint, row, "one query with all items as candidates, against the joint graph", rtol)


def too_little_memory_is_refused(method: Method, rtol: float) -> None:
    """A small `max_memory` raises a MemoryLimitError with remedies, before anything large is allocated."""
    data = toy("spread")
    queries, gallery = np.tile(data.queries, (20, 1)), np.tile(data.gallery, (20, 1))
    estimate = method.memory(1000, 10, 64)
    require(isinstance(estimate, int) and estimate >= 0, f"memory() gave {estimate!r}, should be bytes as an int >= 0")
    result = len(queries) * len(gallery) * 12
    remedies = ("max_memory", "`k`", "candidates")
    tracemalloc.start()
    try:
        require_refusal(
            "100 kB allowed", MemoryLimitError, remedies, rerank, queries, gallery, method, max_memory=100_000
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    require(peak < result, f"{peak} bytes were allocated before the refusal; estimate first")
