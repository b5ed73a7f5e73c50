"""A ranking and its truth -> Hits: at which ranks the right items stand, the ignored ones taken out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.evaluation.lists import Integers, Lists
from kinrank.evaluation.truth import Truth
from kinrank.ranking import Ranking

Values = NDArray[np.float64]
TABLE = 4_000_000  # entries of the lookup table of one block of queries
NEGATIVE, POSITIVE, IGNORED = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Hits:
    """Every right item that a ranking found, query after query, best rank first.

    Attributes:
        query: (hits,) which query found it.
        rank: (hits,) how many items, not counting ignored ones, stand before it.
        before: (hits,) how many right items stand before it.
        grade: (hits,) its relevance.
        positives: (queries,) how many right items there are, found or not.
        truth: what was right.
    """

    query: Integers
    rank: Integers
    before: Integers
    grade: Values
    truth: Truth

    @cached_property
    def positives(self) -> Integers:
        return self.truth.positives.counts

    def total(self, values: Values | NDArray[np.bool_]) -> Values:
        """(queries,) sums over the hits of each query."""
        return np.bincount(self.query, weights=values, minlength=len(self.truth)).astype(np.float64)


def find_hits(ranking: Ranking | ArrayLike, truth: Truth) -> Hits:
    """Look every listed item up in a table of (queries of a block) x (items); no search, no loop."""
    indices = _indices(ranking, truth)
    span = max(truth.span, int(indices.max(initial=-1)) + 1)
    rows = max(1, min(len(truth), TABLE // span))
    table = np.zeros(rows * span, np.int8)
    found: list[tuple[Integers, Integers, Integers]] = []
    for start in range(0, len(truth), rows):
        block = indices[start : start + rows]
        offsets = np.arange(len(block))[:, None] * span
        marks = [
            (_entries(lists, start, start + len(block), span), state)
            for lists, state in ((truth.positives, POSITIVE), (truth.junk, IGNORED))
        ]
        for entries, state in marks:
            table[entries] = state
        states = table[np.maximum(block, 0) + offsets]
        states[block < 0] = IGNORED  # padding is nothing, and takes no rank
        for entries, _ in marks:  # only what was marked is wiped: cheap however large the gallery
            table[entries] = NEGATIVE
        row, column = np.nonzero(states == POSITIVE)
        ignored = np.cumsum(states == IGNORED, axis=1, dtype=np.int32)
        found.append((row + start, column - ignored[row, column], block[row, column]))
    query, rank, item = (
        np.concatenate([part[field] for part in found]) if found else np.empty(0, np.int64) for field in range(3)
    )
    _refuse_repeats(query, item, span)
    starts = np.searchsorted(query, np.arange(len(truth)))
    return Hits(query, rank, np.arange(len(query)) - starts[query], _grades(truth, query, item, span), truth)


def _indices(ranking: Ranking | ArrayLike, truth: Truth) -> Integers:
    indices = ranking.indices if isinstance(ranking, Ranking) else np.asarray(ranking)
    if indices.ndim != 2 or (indices.size and indices.dtype.kind not in "iu"):
        raise ValueError(f"ranking must be 2-d item numbers, one row per query; got {indices.dtype} of {indices.shape}")
    if len(indices) != len(truth):
        raise ValueError(
            f"ranking has {len(indices)} queries but truth has {len(truth)}; "
            "rank exactly the queries of the truth, in its order, or cut the truth with truth.subset"
        )
    size = truth.gallery_size
    wrong = indices < -1
    if size is not None:
        wrong |= indices >= size
    if wrong.any():
        query, rank = (int(number) for number in np.argwhere(wrong)[0])
        allowed = "-1 (padding) or more" if size is None else f"-1 (padding) to {size - 1}"
        raise ValueError(
            f"ranking of query {query} lists item {indices[query, rank]} at rank {rank + 1}, but item "
            f"numbers go from {allowed}; was it made from the gallery of this truth?"
        )
    return indices.astype(np.int64, copy=False)


def _entries(lists: Lists, start: int, stop: int, span: int) -> Integers:
    """Where the lists of queries start..stop stand in the flat table of their block."""
    counts = lists.counts[start:stop]
    return np.repeat(np.arange(len(counts)) * span, counts) + lists.items[lists.starts[start] : lists.starts[stop]]


def _refuse_repeats(query: Integers, item: Integers, span: int) -> None:
    """An item listed twice would be found twice and lift every measure."""
    keys = np.sort(query * span + item)
    twice = np.flatnonzero(keys[1:] == keys[:-1])
    if twice.size:
        first, number = divmod(int(keys[twice[0]]), span)
        raise ValueError(f"ranking of query {first} lists item {number} twice; every item may stand in a row once")


def _grades(truth: Truth, query: Integers, item: Integers, span: int) -> Values:
    if truth.grades is None:
        return np.ones(len(query))
    judged = truth.positives.owners * span + truth.positives.items  # ascending: lists are sorted
    return np.asarray(truth.grades[np.searchsorted(judged, query * span + item)], np.float64)
