"""A ranking and its truth -> Hits: at which ranks the right items stand, the ignored ones taken out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank import given
from kinrank.evaluation.lists import Integers, Lists
from kinrank.evaluation.names import UNKNOWN, places_of_items, places_of_queries
from kinrank.evaluation.truth import Truth
from kinrank.ranking import Ranking, refuse_repeats

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
        truth: what was right; its queries are those that are counted here, in its order.
        missing: how many of them the ranking does not answer.
        unjudged: how many queries of the ranking the truth does not know.
        unknown: how many entries of the others name an item that the truth does not know.
    """

    query: Integers
    rank: Integers
    before: Integers
    grade: Values
    truth: Truth
    missing: int = 0
    unjudged: int = 0
    unknown: int = 0

    @cached_property
    def positives(self) -> Integers:
        return self.truth.positives.counts

    def total(self, values: Values | NDArray[np.bool_]) -> Values:
        """(queries,) sums over the hits of each query."""
        return np.bincount(self.query, weights=values, minlength=len(self.truth)).astype(np.float64)


def find_hits(ranking: Ranking | ArrayLike, truth: Truth) -> Hits:
    """Look every listed item up in a table of (queries of a block) x (items); no search, no loop."""
    indices, missing, unjudged, unknown = _aligned(ranking, truth)
    span = truth.span + 1  # the last column is every item that the truth does not mention
    rows = max(1, min(len(truth), TABLE // span))
    table = np.zeros(rows * span, np.int8)
    found: list[tuple[Integers, Integers, Integers]] = []
    for start in range(0, len(truth), rows):
        block = np.minimum(indices[start : start + rows], span - 1)
        block[block == UNKNOWN] = span - 1
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
    starts = np.searchsorted(query, np.arange(len(truth)))
    before = np.arange(len(query)) - starts[query]
    return Hits(query, rank, before, _grades(truth, query, item, span), truth, missing, unjudged, unknown)


def _aligned(ranking: Ranking | ArrayLike, truth: Truth) -> tuple[Integers, int, int, int]:
    """(queries of the truth, depth) item numbers of the truth, and the last three fields of Hits."""
    if not isinstance(ranking, Ranking):
        ranking = _as_ranking(ranking)
    refuse_repeats(ranking.indices)
    rows = places_of_queries(ranking, truth.queries, len(truth))
    items = places_of_items(ranking, truth.items, truth.gallery_size)
    if ranking.has_ids:
        refuse_repeats(items)
    if np.array_equal(rows, np.arange(len(truth))):
        indices = items
    else:
        known = rows >= 0
        indices = np.full((len(truth), ranking.depth), -1, np.int64)
        indices[rows[known]] = items[known]
    answered = len(set(rows[rows >= 0].tolist()))
    unknown = int((indices == UNKNOWN).sum()) if ranking.has_ids else 0
    return indices, len(truth) - answered, len(ranking) - answered, unknown


def _as_ranking(indices: ArrayLike) -> Ranking:
    array = np.asarray(given.unmasked(indices, "ranking"))
    if array.ndim != 2 or (array.size and array.dtype.kind not in "iu"):
        raise ValueError(f"ranking must be 2-d item numbers, one row per query; got {array.dtype} of {array.shape}")
    return Ranking(array.astype(np.int64), np.zeros(array.shape, np.float32))


def _entries(lists: Lists, start: int, stop: int, span: int) -> Integers:
    """Where the lists of queries start..stop stand in the flat table of their block."""
    counts = lists.counts[start:stop]
    return np.repeat(np.arange(len(counts)) * span, counts) + lists.items[lists.starts[start] : lists.starts[stop]]


def _grades(truth: Truth, query: Integers, item: Integers, span: int) -> Values:
    if truth.grades is None:
        return np.ones(len(query))
    judged = truth.positives.owners * span + truth.positives.items  # ascending: lists are sorted
    return np.asarray(truth.grades[np.searchsorted(judged, query * span + item)], np.float64)
