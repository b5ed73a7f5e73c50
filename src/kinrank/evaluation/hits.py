"""Hits of a ranking: the ranks of the relevant items, after ignored items are removed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank.errors import InputError
from kinrank.evaluation.id_lookup import UNKNOWN_ITEM, match_items, match_queries
from kinrank.evaluation.ragged_lists import Integers, RaggedLists
from kinrank.evaluation.truth import Truth
from kinrank.ids import unwrap_masked_array
from kinrank.ranking import Ranking, refuse_repeats

Values = NDArray[np.float64]
MAX_TABLE_ENTRIES = 4_000_000  # of the lookup table of one block of queries
NEGATIVE, POSITIVE, IGNORED = 0, 1, 2


@dataclass(frozen=True, eq=False)
class Hits:
    """Relevant items that a ranking lists, query by query, best rank first.

    Attributes:
        query: (hits,) number of the query.
        rank: (hits,) number of items before it, without ignored ones.
        before: (hits,) number of relevant items before it.
        grade: (hits,) its relevance.
        positives: (queries,) number of relevant items, found or not.
        listed: (queries,) number of listed items, without ignored ones; -1 for a query without any listed item.
        truth: the truth; its queries are counted here, in its order.
        missing: number of queries of the truth that the ranking does not have.
        unjudged: number of queries of the ranking that the truth does not have.
        unknown: number of listed items, of the other queries, that the truth does not have.
    """

    query: Integers
    rank: Integers
    before: Integers
    grade: Values
    listed: Integers
    truth: Truth
    missing: int = 0
    unjudged: int = 0
    unknown: int = 0

    @cached_property
    def positives(self) -> Integers:
        return self.truth.positives.counts

    def total(self, values: Values | NDArray[np.bool_]) -> Values:
        """Return (queries,) sums over the hits of each query."""
        return np.bincount(self.query, weights=values, minlength=len(self.truth)).astype(np.float64)


def find_hits(ranking: Ranking | ArrayLike, truth: Truth) -> Hits:
    """Look up every listed item in a table of (queries of a block) x (items), without a search or a loop over items."""
    indices, missing, unjudged, unknown = _align_ranking(ranking, truth)
    span = truth.span + 1  # the last column stands for items that the truth does not mention
    rows = max(1, min(len(truth), MAX_TABLE_ENTRIES // span))
    table = np.zeros(rows * span, np.int8)
    blocks: list[tuple[Integers, Integers, Integers]] = []
    listed = np.full(len(truth), -1, np.int64)
    for start in range(0, len(truth), rows):
        block = np.minimum(indices[start : start + rows], span - 1)
        block[block == UNKNOWN_ITEM] = span - 1
        offsets = np.arange(len(block))[:, None] * span
        marks = [
            (_table_positions(lists, start, start + len(block), span), state)
            for lists, state in ((truth.positives, POSITIVE), (truth.junk, IGNORED))
        ]
        for entries, state in marks:
            table[entries] = state
        states = table[np.maximum(block, 0) + offsets]
        states[block < 0] = IGNORED  # padding takes no rank
        for entries, _ in marks:  # clear only the marked entries, which is cheap for large galleries
            table[entries] = NEGATIVE
        counts = (states != IGNORED).sum(axis=1)
        listed[start : start + len(block)] = np.where((block >= 0).any(axis=1), counts, -1)
        row, column = np.nonzero(states == POSITIVE)
        ignored = np.cumsum(states == IGNORED, axis=1, dtype=np.int32)
        blocks.append((row + start, column - ignored[row, column], block[row, column]))
    query, rank, item = (
        np.concatenate([part[field] for part in blocks]) if blocks else np.empty(0, np.int64) for field in range(3)
    )
    starts = np.searchsorted(query, np.arange(len(truth)))
    before = np.arange(len(query)) - starts[query]
    grades = _look_up_grades(truth, query, item, span)
    return Hits(query, rank, before, grades, listed, truth, missing, unjudged, unknown)


def _align_ranking(ranking: Ranking | ArrayLike, truth: Truth) -> tuple[Integers, int, int, int]:
    """Return (queries of the truth, depth) item numbers of the truth, and the last three fields of Hits."""
    if not isinstance(ranking, Ranking):
        ranking = _to_ranking(ranking)
    refuse_repeats(ranking.indices)
    rows = match_queries(ranking, truth.queries, len(truth))
    items = match_items(ranking, truth.items, truth.gallery_size)
    if ranking.has_ids:
        refuse_repeats(items)
    if np.array_equal(rows, np.arange(len(truth))):
        indices = items
    else:
        known = rows >= 0
        indices = np.full((len(truth), ranking.depth), -1, np.int64)
        indices[rows[known]] = items[known]
    answered = len(set(rows[rows >= 0].tolist()))
    unknown = int((indices == UNKNOWN_ITEM).sum()) if ranking.has_ids else 0
    return indices, len(truth) - answered, len(ranking) - answered, unknown


def _to_ranking(indices: ArrayLike) -> Ranking:
    array = np.asarray(unwrap_masked_array(indices, "ranking"))
    if array.ndim != 2 or (array.size and array.dtype.kind not in "iu"):
        raise InputError(
            f"has dtype {array.dtype} and shape {array.shape}",
            parameter="ranking",
            allowed="a 2-d array of item numbers, one row per query",
        )
    return Ranking(array.astype(np.int64), np.zeros(array.shape, np.float32))


def _table_positions(lists: RaggedLists, start: int, stop: int, span: int) -> Integers:
    """Return the positions of the lists of queries start..stop in the flat table of their block."""
    counts = lists.counts[start:stop]
    return np.repeat(np.arange(len(counts)) * span, counts) + lists.items[lists.starts[start] : lists.starts[stop]]


def _look_up_grades(truth: Truth, query: Integers, item: Integers, span: int) -> Values:
    if truth.grades is None:
        return np.ones(len(query))
    keys = truth.positives.owners * span + truth.positives.items  # ascending: lists are sorted
    return np.asarray(truth.grades[np.searchsorted(keys, query * span + item)], np.float64)
