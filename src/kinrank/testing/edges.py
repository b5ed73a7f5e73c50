"""Few items, large k, duplicates, islands, short results, little memory -> complete and finite answers."""

from __future__ import annotations

import dataclasses
import tracemalloc

import numpy as np

from kinrank.memory import NotEnoughMemory
from kinrank.methods.base import Method
from kinrank.ranking import Ranking
from kinrank.rerank import rerank
from kinrank.stores.array import ArrayStore
from kinrank.testing.comparing import ranked, refused, require, require_identical, require_same, require_valid
from kinrank.testing.toys import KINDS, toy


def rankings_are_complete(method: Method, rtol: float) -> None:
    """Every row holds every item once at finite, never falling distances, on all toy sets."""
    for kind in KINDS:
        data = toy(kind)
        ranked(method, data.queries, data.gallery, kind)
    ranked(method, None, toy("spread").gallery, "spread, every item a query")


def works_on_what_there_is(method: Method, rtol: float) -> None:
    """0, 1, 2 or 3 items, 0 or 1 queries: a small or an empty result, never an error."""
    data = toy("spread")
    for items in (0, 1, 2, 3):
        for queries in (0, 1, 2):
            ranked(method, data.queries[:queries], data.gallery[:items], f"{queries} queries, {items} items")
        ranked(method, None, data.gallery[:items], f"every one of {items} items a query")
    ranked(method, data.queries[:0], data.gallery, "no queries")
    ranked(method, data.queries[:1], data.gallery, "one query")


def works_in_one_dimension(method: Method, rtol: float) -> None:
    """Vectors of one number each, which are all on two sides of nothing, are ranked."""
    data = toy("spread")
    ranked(method, data.queries[:2, :1], data.gallery[:4, :1], "one dimension")


def large_k_is_cut(method: Method, rtol: float) -> None:
    """Whole numbers among the parameters may be larger than the gallery: each alone, and all at once."""
    data = toy("spread")
    gallery = data.gallery[:7]
    large = {}
    for declared in type(method).parameters():
        if declared.kind is int:
            large[declared.name] = 1000 if declared.high is None else int(min(declared.high, 1000))
    for change in ({}, large, *({name: value} for name, value in large.items())):
        changed = dataclasses.replace(method, **change)
        ranked(changed, data.queries, gallery, f"{change} on 7 items")
        ranked(changed, None, gallery, f"{change} on 7 items, every one a query")


def duplicates_are_items(method: Method, rtol: float) -> None:
    """Many equal rows, queries that are gallery rows, a gallery of one repeated row: complete and finite."""
    data = toy("duplicates")
    ranked(method, data.gallery[:10], data.gallery, "queries that are items")
    same = np.repeat(data.gallery[:1], 70, axis=0)
    ranked(method, data.queries, same, "70 equal items")
    ranked(method, same[:3], same, "queries equal to 70 equal items")


def self_is_left_out_by_identity(method: Method, rtol: float) -> None:
    """With queries=None an item is missing from its own row and from no other, also among its duplicates."""
    for kind in ("spread", "duplicates"):
        ranked(method, None, toy(kind).gallery, f"{kind}, every item a query")
    same = np.repeat(toy("duplicates").gallery[:1], 20, axis=0)
    ranked(method, None, same, "20 equal items, every one a query")
    for candidates in (3, 10, 100):
        ranking = rerank(None, same, method, candidates=candidates)
        own = ranking.indices == np.arange(len(same))[:, None]
        require(not own.any(), f"candidates={candidates}: item {own.any(axis=1).argmax()} is in its own row")


def islands_are_ranked(method: Method, rtol: float) -> None:
    """A graph that falls apart gives neither inf nor NaN, and the query's own part comes first."""
    data = toy("islands", items=150)
    ranking = ranked(method, data.queries, data.gallery, "islands")
    right = data.gallery_labels[ranking.indices] == data.query_labels[:, None]
    for row, count in enumerate(right.sum(axis=1)):
        require(
            right[row, :count].all(),
            f"islands: items of the other one stand before some of query {row}'s own",
        )
    opposite = np.concatenate([data.gallery[:10], -data.gallery[:10]])
    ranked(method, data.queries, opposite, "items and their opposites")


def depth_cuts(method: Method, rtol: float) -> None:
    """`depth=k` is the first k columns of the whole ranking, bit for bit; more than there is gives all."""
    data = toy("spread")
    whole = rerank(data.queries, data.gallery, method)
    everyone = rerank(None, data.gallery, method)
    for depth in (1, 7, len(data.gallery), 1000):
        cut = rerank(data.queries, data.gallery, method, depth=depth)
        require_identical(whole.top(depth), cut, f"depth={depth}")
        cut = rerank(None, data.gallery, method, depth=depth)
        require_identical(everyone.top(depth), cut, f"depth={depth}, every item a query")


def candidates_come_first(method: Method, rtol: float) -> None:
    """`candidates=c` re-ranks the c nearest of each query among themselves; the rest keeps its order."""
    data = toy("spread")
    items = len(data.gallery)
    searched = ArrayStore(data.gallery).search(data.queries, items).indices
    for candidates, depth in ((1, items), (15, items), (items, None), (10 * items, None)):
        what = f"candidates={candidates}"
        ranking = rerank(data.queries, data.gallery, method, candidates=candidates, depth=depth)
        require_valid(ranking, len(data.queries), items, what)
        first = np.sort(ranking.indices[:, :candidates]), np.sort(searched[:, :candidates])
        require(np.array_equal(*first), f"{what}: the first places are not taken by the candidates")
        beyond = ranking.indices[:, candidates:], searched[:, candidates:]
        require(np.array_equal(*beyond), f"{what}: items beyond the candidates left the order of the search")
    one = rerank(data.queries[:1], data.gallery, method.over_candidates())
    row = Ranking(ranking.indices[:1], ranking.distances[:1])
    require_same(one, row, "one query with all items as candidates, against the joint graph", rtol)


def too_little_memory_is_refused(method: Method, rtol: float) -> None:
    """`max_memory` too small: NotEnoughMemory that names the remedies, before anything large is allocated."""
    data = toy("spread")
    queries, gallery = np.tile(data.queries, (20, 1)), np.tile(data.gallery, (20, 1))
    estimate = method.memory(1000, 10, 64)
    require(
        isinstance(estimate, int) and estimate >= 0,
        f"memory() gave {estimate!r}, should be bytes as an int >= 0",
    )
    result = len(queries) * len(gallery) * 12
    remedies = ("max_memory=", "depth=", "candidates=")
    tracemalloc.start()
    try:
        refused(
            lambda: rerank(queries, gallery, method, max_memory=100_000),
            NotEnoughMemory,
            remedies,
            "100 kB allowed",
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    require(peak < result, f"{peak} bytes were allocated before the refusal; estimate first")
