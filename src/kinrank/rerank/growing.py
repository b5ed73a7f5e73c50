"""The nearest items of a query -> candidates that also hold neighbours of the best of them, asked from the store."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from kinrank import deadline
from kinrank.features import Vectors
from kinrank.neighbors import pairwise
from kinrank.stores.source import Ids, Source

FIRST = 0.5  # share of the candidates that are the nearest items of the query
ASKED = 50  # members whose neighbours are asked for in a round, in one batch
WIDTH = 100  # neighbours of each
FLAT = 60  # places after which the voice of a list has halved: the usual constant of reciprocal rank fusion


def grown(
    source: Source, query: Vectors, nearest: Ids, count: int, rounds: int, left_out: Ids, where: Any, unit: bool
) -> Ids:
    """At most `count` items: the nearest ones of the query (1, d), then what the neighbours of the best members are.

    Every round asks the store for the neighbours of the ASKED members that are nearest to the query and were not asked
    before. Their lists are fused by reciprocal rank: an item counts the sum of 1 / (FLAT + its place) over all lists.
    Those with the largest sums that are no members yet join, the same number in every round. Where neighbours are too
    few, the next nearest items of the query fill up. Only vectors of members are fetched, each once.

    Args:
        nearest: what the store found for the query, nearest first.
        left_out: items that may not be candidates.
        where: the filter that neighbours have to pass; None for none.
        unit: whether rows have length one.
    """
    pool = nearest[: math.ceil(count * FIRST)]
    start, asked = len(pool), pool[:0]
    sums: dict[Any, float] = {}
    for turn in range(1, rounds + 1):
        deadline.check()
        there, rows = source.vectors(pool)
        pool = pool[there]
        order = np.argsort(pairwise(query, rows, unit)[0], kind="stable")
        order = order[~np.isin(pool[order], asked)][:ASKED]
        asked = np.concatenate([asked, pool[order]])
        for ids, _ in source.neighbours(rows[order], WIDTH + 1, where):  # each finds itself, too
            for place, name in enumerate(ids.tolist()):
                sums[name] = sums.get(name, 0.0) + 1.0 / (FLAT + place)
        taken = {*pool.tolist(), *left_out.tolist()}
        best = sorted((name for name in sums if name not in taken), key=lambda name: (-sums[name], name))
        wanted = start + round((count - start) * turn / rounds) - len(pool)
        pool = np.concatenate([pool, np.array(best[: max(0, wanted)], dtype=pool.dtype)])
    rest = nearest[~np.isin(nearest, pool)]
    return np.concatenate([pool, rest[: max(0, count - len(pool))]])
