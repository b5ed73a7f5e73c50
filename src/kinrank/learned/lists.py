"""Rows and what is relevant to what -> lists to train on: an item, its nearest others, which of these are relevant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.features import Vectors
from kinrank.learned.relevance import Relevance, Signs
from kinrank.neighbors import Integers, nearest

BLOCK = 1024  # items whose neighbours are searched at once
RIGHT = 0.95  # average precision from which a list has nothing left to learn (SSR)


class Lists(NamedTuple):
    """queries (m,) item numbers, items (m, k) their nearest others, signs (m, k) 1 relevant, 0 not, -1 not known."""

    queries: Integers
    items: NDArray[np.int32]
    signs: Signs

    def take(self, places: Integers) -> Lists:
        return Lists(self.queries[places], self.items[places], self.signs[places])


def gathered(rows: Vectors, relevance: Relevance, k: int, wanted: int, least: int, hard: bool, seed: int) -> Lists:
    """At most `wanted` lists, their queries drawn at random; items are searched only until there are so many.

    A list is of use if it holds something relevant and something that is not. With `hard` only lists that the search
    gets wrong in part are taken, unless there are fewer than `least` of them.
    """
    order = np.random.default_rng(seed).permutation(np.flatnonzero(relevance.asks))
    kept: dict[bool, list[Lists]] = {True: [], False: []}  # hard ones, and all that are of use
    there = {True: 0, False: 0}
    for start in range(0, len(order), BLOCK):
        queries = order[start : start + BLOCK]
        items = nearest(rows[queries], rows, k, own=queries, self_first=False).indices
        lists = Lists(queries, items, relevance.of(queries, items))
        useful = (lists.signs == 1).any(axis=1) & (lists.signs == 0).any(axis=1)
        for kind, mask in ((True, useful & is_hard(lists.signs)), (False, useful)):
            kept[kind].append(lists.take(np.flatnonzero(mask)[: wanted - there[kind]]))
            there[kind] += len(kept[kind][-1].queries)
        if there[hard] >= wanted:
            break
    made = Lists(*map(np.concatenate, zip(*kept[hard and there[True] >= least], strict=True)))
    if not len(made.queries):
        raise ValueError(
            f"labels: no item has both something relevant and something else among its {k} nearest, so there is "
            "nothing to learn; give more items, or other labels"
        )
    return made


def is_hard(signs: Signs) -> NDArray[np.bool_]:
    """(m,) whether more than 2 items are relevant and their average precision is below 0.95; (m, k) nearest first."""
    relevant = signs == 1
    count = relevant.sum(axis=1)
    precision = np.cumsum(relevant, axis=1) / np.maximum(np.cumsum(signs >= 0, axis=1), 1)
    return np.asarray((count > 2) & ((precision * relevant).sum(axis=1) < RIGHT * count))


def passes(count: int, wanted: int, batch: int, seed: int) -> Iterator[Integers]:
    """Places of lists, a batch at a time, `wanted` in all: every list once, in random order, then every list again."""
    rng = np.random.default_rng((seed, 1))
    rounds = -(-wanted // count)
    left = np.empty(0, np.int64)
    for number in range(rounds):
        left = np.concatenate([left, rng.permutation(count)[: wanted - number * count]])
        while len(left) >= batch:
            yield left[:batch]
            left = left[batch:]
    if len(left):
        yield left
