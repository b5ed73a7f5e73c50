"""Rankings of the same queries -> one Ranking, by the ranks that items have in each (reciprocal rank fusion)."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterator, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from kinrank import given
from kinrank.parameters import whole_number
from kinrank.ranking import Integers, Ranking, chosen, refuse_repeats

ENTRIES = 4_000_000  # ranked items that are sorted at once


def fuse(
    rankings: Sequence[Ranking],
    k: float = 60,
    weights: Sequence[float] | None = None,
    depth: int | None = None,
) -> Ranking:
    """One ranking out of several, by reciprocal rank fusion (Cormack, Clarke and Buettcher, SIGIR 2009).

    Distances of the rankings are not compared, only ranks, so that they may come from different models or programs:

        score(item)    = sum over rankings of weight / (k + rank of the item, from 1); nothing where it is not listed
        distance(item) = 1 - score(item) / score of an item that is first everywhere

    Items with equal scores are ordered by id: lower numbers first, texts by the alphabet. The order in which the
    rankings are given does not matter.

    Args:
        rankings: one or more. Where they carry ids, items are the same if their ids are, and queries likewise; a query
            that one ranking lacks is answered by the others. Without ids, item numbers and places of queries count.
        k: a number >= 0; the larger it is, the less the first ranks stand out.
        weights: one number >= 0 for each ranking; all equal unless given.
        depth: how many items per query to return; all that any ranking lists unless given.

    Example:
        >>> fused = kinrank.fuse([kinrank.rerank(queries, gallery), from_another_model], weights=[2, 1])
    """
    rankings = list(rankings)
    shares = _shares(rankings, k, weights)
    depth = None if depth is None else whole_number(depth, "depth")
    queries, places = _queries(rankings)
    codes, names, numbers_of = _items(rankings)
    parts = [
        _fused_rows(codes, [place[block] for place in places], k, shares) for block in _blocks(rankings, len(places[0]))
    ]
    width = max((part[0].shape[1] for part in parts), default=0)
    width = width if depth is None else min(width, depth)
    found = np.concatenate([_widened(part[0], width, -1) for part in parts] or [np.empty((0, 0), np.int64)])
    distances = np.concatenate([_widened(part[1], width, np.inf) for part in parts] or [np.empty((0, 0))])
    meta = {"mode": "fused", "method": f"reciprocal rank fusion of {len(rankings)}, k={k:g}"}
    ids = None if names is None else chosen(names, found)
    indices = found if names is None else chosen(numbers_of, found)
    return Ranking(indices, distances.astype(np.float32), meta, cast(Any, ids), queries)


def _shares(rankings: list[Ranking], k: float, weights: Sequence[float] | None) -> list[float]:
    """The weights, checked like everything else that is given beside the rankings."""
    for place, ranking in enumerate(rankings):
        if not isinstance(ranking, Ranking):
            raise ValueError(
                f"rankings[{place}] is a {type(ranking).__name__}; give Rankings, see kinrank.load_ranking"
            )
    if not rankings:
        raise ValueError("rankings is empty; give at least one Ranking")
    if isinstance(k, bool) or not isinstance(k, numbers.Real) or not 0 <= k < math.inf:
        raise ValueError(f"k={k!r} is not allowed; give a number >= 0, such as 60")
    shares = [1.0] * len(rankings) if weights is None else [float(weight) for weight in weights]
    if len(shares) != len(rankings):
        raise ValueError(f"weights has {len(shares)} numbers but there are {len(rankings)} rankings; give one for each")
    if not all(0 <= share < math.inf for share in shares) or not any(shares):
        raise ValueError(f"weights={weights!r} is not allowed; give numbers >= 0, at least one of them above 0")
    return shares


def _queries(rankings: list[Ranking]) -> tuple[NDArray[Any] | None, list[Integers]]:
    """The names of all queries (None: rows), and per ranking the row of each of them, -1 where it has none."""
    named = [ranking.query_ids for ranking in rankings]
    if all(names is None for names in named):
        counts = sorted({len(ranking) for ranking in rankings})
        if len(counts) > 1:
            raise ValueError(
                f"rankings of {counts[0]} and of {counts[-1]} queries cannot be fused row by row; "
                "rank the same queries, or give the rankings query_ids="
            )
        return None, [np.arange(counts[0])] * len(rankings)
    if any(names is None for names in named):
        without = next(place for place, names in enumerate(named) if names is None)
        raise ValueError(
            f"ranking {without + 1} of {len(rankings)} has no names of its queries but others have; give it query_ids="
        )
    lists = [[] if names is None else names.tolist() for names in named]
    rows = [{name: row for row, name in enumerate(names)} for names in lists]
    every = list(dict.fromkeys(name for names in lists for name in names))
    if len({type(name) for name in every}) > 1:
        raise ValueError("some rankings name their queries by texts and some by numbers; give the same names to all")
    return given.names(every, "query_ids"), [np.array([row.get(name, -1) for name in every], np.int64) for row in rows]


def _items(rankings: list[Ranking]) -> tuple[list[Integers], NDArray[Any] | None, Integers]:
    """Per ranking the codes of its items, which ascend with their ids; the ids of the codes, and their item numbers.

    Without ids the codes are item numbers. Item numbers stay where all rankings number alike; else they are the codes.
    """
    if all(ranking.numbered for ranking in rankings):
        return [ranking.indices for ranking in rankings], None, np.empty(0, np.int64)
    listed = [ranking.indices >= 0 for ranking in rankings]
    flat = [ranking.ids[there] for ranking, there in zip(rankings, listed, strict=True)]
    if len({isinstance(part[0], str) for part in flat if len(part)}) > 1:
        raise ValueError("some rankings name their items by texts and some by numbers; give item_ids= to all of them")
    every, code = np.unique(np.concatenate(flat), return_inverse=True)
    code = code.reshape(-1)
    codes = [np.full(there.shape, -1, np.int64) for there in listed]
    ends = np.cumsum([len(part) for part in flat])
    for place, there, part in zip(codes, listed, np.split(code, ends[:-1]), strict=True):
        place[there] = part
    given_numbers = np.concatenate([ranking.indices[there] for ranking, there in zip(rankings, listed, strict=True)])
    numbers_of = np.zeros(len(every), np.int64)
    numbers_of[code] = given_numbers
    alike = bool((numbers_of[code] == given_numbers).all()) and len(np.unique(numbers_of)) == len(every)
    return codes, every, numbers_of if alike else np.arange(len(every))


def _blocks(rankings: list[Ranking], count: int) -> Iterator[slice]:
    """Ranges of the `count` queries with so many entries that they can be sorted at once."""
    step = max(1, ENTRIES // max(1, sum(ranking.depth for ranking in rankings)))
    return (slice(start, min(start + step, count)) for start in range(0, count, step))


def _fused_rows(
    codes: list[Integers], rows: list[Integers], k: float, shares: list[float]
) -> tuple[Integers, NDArray[np.float64]]:
    """(queries, most items) codes and distances of some queries, best first, -1 and inf behind them."""
    queries, items, gains = [], [], []
    for ranked, row, share in zip(codes, rows, shares, strict=True):
        there = np.flatnonzero(row >= 0)
        block = ranked[row[there]]
        refuse_repeats(block)
        listed = block >= 0
        ranks = np.cumsum(listed, axis=1)
        queries.append(np.repeat(there, listed.sum(axis=1)))
        items.append(block[listed])
        gains.append(share / (k + ranks[listed]))
    query, item, gain = np.concatenate(queries), np.concatenate(items), np.concatenate(gains)
    order = np.lexsort((gain, item, query))  # equal gains are then added in the same order: equal sums stay equal
    query, item, gain = query[order], item[order], gain[order]
    starts = np.flatnonzero(np.r_[True, (query[1:] != query[:-1]) | (item[1:] != item[:-1])][: len(query)])
    scores = np.add.reduceat(gain, starts) if len(starts) else gain
    query, item = query[starts], item[starts]
    best = np.lexsort((item, -scores, query))
    query, item, scores = query[best], item[best], scores[best]
    count = len(rows[0])
    lengths = np.bincount(query, minlength=count)
    column = np.arange(len(query)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    found = np.full((count, int(lengths.max(initial=0))), -1, np.int64)
    distances = np.full(found.shape, np.inf)
    found[query, column] = item
    distances[query, column] = np.maximum(0.0, 1.0 - scores * ((k + 1) / sum(shares)))
    return found, distances


def _widened(rows: NDArray[Any], width: int, padding: float) -> NDArray[Any]:
    """The rows cut or padded to a width."""
    cut = rows[:, :width]
    return np.pad(cut, ((0, 0), (0, width - cut.shape[1])), constant_values=padding)
