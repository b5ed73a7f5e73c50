"""The words of methods that are served: a gallery, what a method keeps of it, a change of it, the answer to a query."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank import stages
from kinrank.features import Vectors
from kinrank.neighbors import Integers, Neighbors, nearest, nearest_among, pairwise, share_equal
from kinrank.stages.masks import EVERYONE, Mask, Masks

CELLS = 4_000_000  # queries x items scored at once: 32 MB an array, of which solvers hold a few
QUERIES = 64  # scored at once at most, however small the gallery

Numbers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Gallery:
    """The items a method prepares and then searches, and how their neighbours are found.

    Attributes:
        vectors: (n, d) rows.
        lists: `lists(k)`, (n, min(k, n)) neighbours of every item, the item itself first. Each call searches anew and
            keeps nothing, so that whoever calls can free them.
        lists_of: `lists_of(rows, k)`, the same for some items only, k at most n.
        search: `search(queries, k)`, (q, min(k, n)) nearest items of queries (q, d); rows that found fewer are padded
            with -1 and inf.
        exact: whether these find every neighbour; otherwise a store finds them, and may miss some.
        run: who runs the loops; None: the threads of this process.
        unit: whether all vectors have length one, so that inner products alone tell distances.
    """

    vectors: Vectors
    lists: Callable[[int], Neighbors]
    lists_of: Callable[[Numbers, int], Neighbors]
    search: Callable[[Vectors, int], Neighbors]
    exact: bool
    run: Any = None
    unit: bool = True

    def __len__(self) -> int:
        return len(self.vectors)

    def search_among(self, queries: Vectors, k: int, results: Mask) -> Neighbors:
        """(q, k) nearest items of a mask (n,), rows padded where it has fewer."""
        search = None if self.exact else self.search
        return nearest_among(queries, k, results, lambda numbers: self.vectors[numbers], search, self.unit)


@dataclass(frozen=True, eq=False)
class Kept:
    """What a method keeps of a gallery, arrays and single numbers by name; this is what is saved."""

    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)
    facts: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Answer:
    """(q, depth) item numbers and distances, nearest first, -1 and inf behind them; facts for `Ranking.meta`.

    certain: (q,) whether the first items of each query are certain; None where all are.
    """

    indices: NDArray[np.int64]
    distances: NDArray[np.float32]
    facts: dict[str, Any] = field(default_factory=dict)
    certain: NDArray[np.bool_] | None = None


@dataclass(frozen=True, eq=False)
class Chain:
    """The cheapest chain from a query to an item; without items where none leads there.

    Attributes:
        items: the items it leads over, the last one is the item asked for; the query is not among them.
        totals: what it costs to get to each of them.
        flows: per step, (from, to, mass, cost of one unit) of the largest movements of mass, largest first.
        moved: the share of all mass that each step moves.
        entropies: Shannon entropy of the state of the query, then of every item; one more than items.
        shared: how much the wide states of the query and of the item share.
        direct: how much that counts beside the chain.
    """

    items: tuple[int, ...] = ()
    totals: tuple[float, ...] = ()
    flows: tuple[tuple[tuple[int, int, float, float], ...], ...] = ()
    moved: tuple[float, ...] = ()
    entropies: tuple[float, ...] = ()
    shared: float = 0.0
    direct: float = 0.0


def best_scored(
    found: Neighbors, count: int, entries: int, depth: int, scores: Callable[[Neighbors], NDArray[np.float64]],
    masks: Masks = EVERYONE,
) -> Answer:  # fmt: skip
    """The `depth` best of `count` items for every query: by score, then those without any in the order of the search.

    Only items that may be results by `masks`.

    `scores` turns the `entries` nearest of some queries (m, <= entries) into their scores (m, count), exactly 0 for
    items out of reach. `found` (q, >= depth) is what the search found, from which these follow.
    """
    indices = np.full((len(found.indices), depth), -1, np.int64)
    distances = np.full(indices.shape, np.inf, np.float32)
    size = max(1, min(QUERIES, CELLS // max(1, count)))
    for rows, near in equally_many(found, entries):
        for start in range(0, len(rows), size):
            part = slice(start, start + size)
            block = scores(Neighbors(near.indices[part], near.distances[part]))
            for row, values in zip(rows[part], block, strict=True):
                best, behind = _best(values, found.indices[row], found.distances[row], depth, masks.results)
                indices[row, : len(best)], distances[row, : len(best)] = best, behind
    return Answer(indices, distances, {"certain": 1.0})


def halves(left: Vectors, right: Vectors, first: Integers, unit: bool) -> NDArray[np.float64]:
    """|a - b|^2 / 2 - 1 of rows (q, d) and (n, d), (q, n): the negated cosine where all have length one (`unit`).

    Unlike a product it tells near duplicates apart, and float64 keeps that. `first`: see first_equal.
    """
    gaps = pairwise(left, right, unit)
    gaps *= gaps
    gaps *= 0.5
    return share_equal(gaps, first).astype(np.float64) - 1.0


def searched_exactly(queries: Vectors, rows: Vectors, depth: int, masks: Masks, unit: bool) -> Neighbors:
    """(q, depth) nearest of rows (n, d) that no store holds, by `masks`."""
    if masks is EVERYONE:
        return nearest(queries, rows, depth, unit=unit)
    return nearest_among(queries, depth, masks.results, lambda numbers: rows[numbers], unit=unit)


def by_halves(found: Neighbors) -> Answer:
    """What was found, at the distances of `halves`."""
    distances = np.square(found.distances, dtype=np.float64) / 2.0 - 1.0
    return Answer(found.indices.astype(np.int64), distances.astype(np.float32), {"certain": 1.0})


def equally_many(found: Neighbors, k: int) -> Iterator[tuple[Numbers, Neighbors]]:
    """Rows that found equally many of their k nearest, and these without padding; one group for an exact search."""
    first = found.first(k)
    there = (first.indices >= 0).sum(axis=1)
    for count in np.unique(there):
        rows = np.flatnonzero(there == count)
        yield rows, Neighbors(first.indices[rows], first.distances[rows]).first(int(count))


def filled_up(answer: Answer, gallery: Gallery, queries: Vectors, results: Mask) -> Answer:
    """Rows that know too few items of a mask go on with its nearest others, in the order of the search."""
    short = np.flatnonzero((answer.indices < 0).any(axis=1))
    if not len(short):
        return answer
    indices, distances = answer.indices.copy(), answer.distances.copy()
    near = gallery.search_among(queries[short], indices.shape[1], results)
    for row, more, lengths in zip(short, near.indices, near.distances, strict=True):
        known = int((indices[row] >= 0).sum())
        new = np.flatnonzero((more >= 0) & ~np.isin(more, indices[row, :known]))[: indices.shape[1] - known]
        end = known + len(new)
        last = max(0.0, float(distances[row, known - 1])) if known else 0.0
        indices[row, known:end], distances[row, known:end] = more[new], last + 1.0 + lengths[new]
    return replace(answer, indices=indices, distances=distances)


def _best(
    scores: NDArray[np.float64],
    found: NDArray[np.int32],
    lengths: NDArray[np.float32],
    depth: int,
    results: Mask = EVERYONE.results,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """One query: the order and the distances of stages.fallback.from_scores, without sorting the gallery."""
    reached = np.flatnonzero(scores)
    values = -scores[reached]
    last, least = max(0.0, values.max(initial=0.0)), min(0.0, values.min(initial=0.0))
    if len(results):
        values, reached = values[results[reached]], reached[results[reached]]
    if len(reached) > depth:
        few = np.flatnonzero(values <= np.partition(values, depth - 1)[depth - 1])  # more than depth if some are equal
        reached, values = reached[few], values[few]
    order = np.argsort(values, kind="stable")[:depth]  # `reached` ascends: ties to the lower number
    reached, values = reached[order], values[order]
    if len(reached) == depth:
        return reached, values
    rest = (found >= 0) & (scores[np.maximum(found, 0)] == 0)
    if len(results):
        rest &= results[np.maximum(found, 0)]
    rest = np.flatnonzero(rest)[: depth - len(reached)]
    behind = last + stages.fallback.STEP * ((last - least) or 1.0) * (1.0 + lengths[rest].astype(np.float64))
    return np.concatenate([reached, found[rest]]), np.concatenate([values, behind])
