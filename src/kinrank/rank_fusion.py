"""Reciprocal rank fusion: combine several rankings of the same queries by the ranks of their items."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from kinrank.errors import InputError
from kinrank.ids import parse_ids, pick_ids
from kinrank.parameters import check_whole_number
from kinrank.ranking import Integers, Ranking, refuse_repeats

MAX_SORTED_ENTRIES = 4_000_000  # ranked items sorted at once


def fuse(
    rankings: Sequence[Ranking],
    *,
    k: int | None = None,
    weights: Sequence[float] | None = None,
    rank_constant: float = 60,
) -> Ranking:
    """Combine several rankings into one by reciprocal rank fusion (Cormack, Clarke and Buettcher, SIGIR 2009).

    Only ranks are compared, not distances, so the rankings may come from different models or programs:

        score(item)    = sum over rankings that list the item of weight / (rank_constant + rank of the item, from 1)
        distance(item) = 1 - score(item) / score of an item that is first everywhere

    Items with equal scores are ordered by id: lower numbers first, texts alphabetically. The order of the rankings does
    not matter.

    Args:
        rankings: one or more. If they have ids, items and queries are matched by id; a query that one ranking lacks is
            answered by the others. Without ids, item numbers and query rows are matched.
        k: number of items to return per query; by default all that any ranking lists.
        weights: one number >= 0 per ranking; equal by default.
        rank_constant: a number >= 0; the larger it is, the less the first ranks stand out.

    Example:
        >>> fused = kinrank.fuse([kinrank.rerank(queries, gallery), from_another_model], weights=[2, 1])
    """
    rankings = list(rankings)
    shares = _check_weights(rankings, rank_constant, weights)
    k = None if k is None else check_whole_number(k, "k")
    queries, places = _align_queries(rankings)
    codes, names, numbers_of = _encode_items(rankings)
    parts = [
        _fuse_rows(codes, [place[block] for place in places], rank_constant, shares)
        for block in _split_queries(rankings, len(places[0]))
    ]
    width = max((part[0].shape[1] for part in parts), default=0)
    width = width if k is None else min(width, k)
    codes_found = np.concatenate([_pad_rows(part[0], width, -1) for part in parts] or [np.empty((0, 0), np.int64)])
    distances = np.concatenate([_pad_rows(part[1], width, np.inf) for part in parts] or [np.empty((0, 0))])
    meta = {"mode": "fused", "method": f"reciprocal rank fusion of {len(rankings)}, k={rank_constant:g}"}
    ids = None if names is None else pick_ids(names, codes_found)
    indices = codes_found if names is None else pick_ids(numbers_of, codes_found)
    return Ranking(indices, distances.astype(np.float32), meta, ids=cast(Any, ids), query_ids=queries)


def _check_weights(rankings: list[Ranking], constant: float, weights: Sequence[float] | None) -> list[float]:
    """Check the arguments of `fuse` and return one weight per ranking."""
    for place, ranking in enumerate(rankings):
        if not isinstance(ranking, Ranking):
            raise InputError(
                f"rankings[{place}] is a {type(ranking).__name__}", remedy="give Rankings, see Ranking.load"
            )
    if not rankings:
        raise InputError("is empty", parameter="rankings", allowed="at least one Ranking")
    if isinstance(constant, bool) or not isinstance(constant, numbers.Real) or not 0 <= constant < math.inf:
        raise InputError(parameter="rank_constant", given=constant, allowed="a number >= 0, such as 60")
    shares = [1.0] * len(rankings) if weights is None else list(weights)
    if len(shares) != len(rankings):
        counts = f"has {len(shares)} numbers but there are {len(rankings)} rankings"
        raise InputError(counts, parameter="weights", allowed="one for each")
    if not all(isinstance(share, numbers.Real) and 0 <= share < math.inf for share in shares) or not any(shares):
        raise InputError(parameter="weights", given=weights, allowed="numbers >= 0, at least one of them above 0")
    return [float(share) for share in shares]


def _align_queries(rankings: list[Ranking]) -> tuple[NDArray[Any] | None, list[Integers]]:
    """Return the ids of all queries (None: rows) and, per ranking, the row of each query, -1 if it has none."""
    named = [ranking.query_ids for ranking in rankings]
    if all(names is None for names in named):
        counts = sorted({len(ranking) for ranking in rankings})
        if len(counts) > 1:
            raise InputError(
                f"rankings of {counts[0]} and of {counts[-1]} queries cannot be fused row by row",
                remedy="rank the same queries, or give the rankings `query_ids`",
            )
        return None, [np.arange(counts[0])] * len(rankings)
    if any(names is None for names in named):
        without = next(place for place, names in enumerate(named) if names is None)
        raise InputError(
            f"ranking {without + 1} of {len(rankings)} has no query ids but others have", remedy="give it `query_ids`"
        )
    lists = [[] if names is None else names.tolist() for names in named]
    rows = [{name: row for row, name in enumerate(names)} for names in lists]
    every = list(dict.fromkeys(name for names in lists for name in names))
    if len({type(name) for name in every}) > 1:
        raise InputError(
            "some rankings identify their queries by text and some by number", remedy="give the same ids to all"
        )
    return parse_ids(every, "query_ids"), [np.array([row.get(name, -1) for name in every], np.int64) for row in rows]


def _encode_items(rankings: list[Ranking]) -> tuple[list[Integers], NDArray[Any] | None, Integers]:
    """Return per ranking the codes of its items, in the order of their ids; the ids and item numbers of the codes.

    Without ids the codes are item numbers. Item numbers are kept if all rankings number alike; else they are the codes.
    """
    if all(ranking.has_numbers_only for ranking in rankings):
        return [ranking.indices for ranking in rankings], None, np.empty(0, np.int64)
    masks = [ranking.indices >= 0 for ranking in rankings]
    flat = [ranking.ids[mask] for ranking, mask in zip(rankings, masks, strict=True)]
    if len({isinstance(part[0], str) for part in flat if len(part)}) > 1:
        raise InputError(
            "some rankings identify their items by text and some by number", remedy="give `item_ids` to all of them"
        )
    every, code = np.unique(np.concatenate(flat), return_inverse=True)
    code = code.reshape(-1)
    codes = [np.full(mask.shape, -1, np.int64) for mask in masks]
    ends = np.cumsum([len(part) for part in flat])
    for place, mask, part in zip(codes, masks, np.split(code, ends[:-1]), strict=True):
        place[mask] = part
    given_numbers = np.concatenate([ranking.indices[mask] for ranking, mask in zip(rankings, masks, strict=True)])
    numbers_of = np.zeros(len(every), np.int64)
    numbers_of[code] = given_numbers
    alike = bool((numbers_of[code] == given_numbers).all()) and len(np.unique(numbers_of)) == len(every)
    return codes, every, numbers_of if alike else np.arange(len(every))


def _split_queries(rankings: list[Ranking], count: int) -> Iterator[slice]:
    """Split `count` queries into ranges whose entries can be sorted at once."""
    step = max(1, MAX_SORTED_ENTRIES // max(1, sum(ranking.depth for ranking in rankings)))
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def _fuse_rows(
    codes: list[Integers], rows: list[Integers], k: float, shares: list[float]
) -> tuple[Integers, NDArray[np.float64]]:
    """Return (queries, most items) codes and distances of some queries, best first, padded with -1 and inf."""
    queries, items, gains = [], [], []
    for ranked, row, share in zip(codes, rows, shares, strict=True):
        present = np.flatnonzero(row >= 0)
        block = ranked[row[present]]
        refuse_repeats(block)
        listed = block >= 0
        ranks = np.cumsum(listed, axis=1)
        queries.append(np.repeat(present, listed.sum(axis=1)))
        items.append(block[listed])
        gains.append(share / (k + ranks[listed]))
    query, item, gain = np.concatenate(queries), np.concatenate(items), np.concatenate(gains)
    order = np.lexsort((gain, item, query))  # equal gains are added in the same order, so equal sums stay equal
    query, item, gain = query[order], item[order], gain[order]
    starts = np.flatnonzero(np.r_[True, (query[1:] != query[:-1]) | (item[1:] != item[:-1])][: len(query)])
    scores = np.add.reduceat(gain, starts) if len(starts) else gain
    query, item = query[starts], item[starts]
    best = np.lexsort((item, -scores, query))
    query, item, scores = query[best], item[best], scores[best]
    count = len(rows[0])
    lengths = np.bincount(query, minlength=count)
    column = np.arange(len(query)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    fused = np.full((count, int(lengths.max(initial=0))), -1, np.int64)
    distances = np.full(fused.shape, np.inf)
    fused[query, column] = item
    distances[query, column] = np.maximum(0.0, 1.0 - scores * ((k + 1) / sum(shares)))
    return fused, distances


def _pad_rows(rows: NDArray[Any], width: int, padding: float) -> NDArray[Any]:
    """Cut or pad the rows to a width."""
    cut = rows[:, :width]
    return np.pad(cut, ((0, 0), (0, width - cut.shape[1])), constant_values=padding)
