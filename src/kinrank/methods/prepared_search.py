"""Helpers for methods that search a prepared gallery: ranking by score, exact search, filling of short rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kinrank.methods.base import UNREACHED_STEP, Answer, GalleryIndex
from kinrank.neighbors import (
    Integers,
    Neighbors,
    find_nearest,
    find_nearest_among,
    pairwise_distances,
    share_equal_columns,
)
from kinrank.stages.request import UNRESTRICTED, Mask, Request
from kinrank.vector_input import Vectors

MAX_SCORES_PER_BLOCK = 4_000_000  # queries x items: 32 MB per array, of which solvers hold a few
MAX_QUERIES_PER_BLOCK = 64  # even for small galleries

Numbers = NDArray[np.int64]


def rank_by_score(
    request: Request, count: int, entries: int, scores: Callable[[Neighbors], NDArray[np.float64]]
) -> Answer:
    """Return the best of `count` items for every query: by score, then items without score in search order.

    `scores` converts the `entries` nearest items of some queries (m, <= entries) to scores (m, count), exactly 0 for
    items out of reach. The request has at least `depth` neighbours per query.
    """
    found, results = request.neighbors, request.masks.results
    indices = np.full((len(found.indices), request.depth), -1, np.int64)
    distances = np.full(indices.shape, np.inf, np.float32)
    size = max(1, min(MAX_QUERIES_PER_BLOCK, MAX_SCORES_PER_BLOCK // max(1, count)))
    for rows, near in group_by_found_count(found, entries):
        for start in range(0, len(rows), size):
            part = slice(start, start + size)
            block = scores(Neighbors(near.indices[part], near.distances[part]))
            for row, values in zip(rows[part], block, strict=True):
                best, gaps = _rank_one_query(values, found.indices[row], found.distances[row], request.depth, results)
                indices[row, : len(best)], distances[row, : len(best)] = best, gaps
    return Answer(indices, distances, {"certain": 1.0})


def half_squared_distances(left: Vectors, right: Vectors, first: Integers, unit: bool) -> NDArray[np.float64]:
    """Return (q, n) |a - b|^2 / 2 - 1 of rows (q, d) and (n, d): the negated cosine if all have length one (`unit`).

    Unlike a product it distinguishes near duplicates, and float64 preserves that. `first`: see find_first_equal.
    """
    gaps = pairwise_distances(left, right, unit)
    gaps *= gaps
    gaps *= 0.5
    return share_equal_columns(gaps, first).astype(np.float64) - 1.0


def search_rows_exactly(request: Request, rows: Vectors, unit: bool) -> Neighbors:
    """Find the (q, depth) nearest of rows (n, d) that are not in a store."""
    if request.masks is UNRESTRICTED:
        return find_nearest(request.queries, rows, request.depth, unit=unit)
    allowed = request.masks.results
    return find_nearest_among(request.queries, request.depth, allowed, lambda numbers: rows[numbers], unit=unit)


def answer_by_half_squares(found: Neighbors) -> Answer:
    """Convert neighbours to an Answer with the distances of `half_squared_distances`."""
    distances = np.square(found.distances, dtype=np.float64) / 2.0 - 1.0
    return Answer(found.indices.astype(np.int64), distances.astype(np.float32), {"certain": 1.0})


def group_by_found_count(found: Neighbors, k: int) -> Iterator[tuple[Numbers, Neighbors]]:
    """Yield groups of rows with equally many of their k nearest items, without padding."""
    first = found.first(k)
    counts = (first.indices >= 0).sum(axis=1)
    for count in np.unique(counts):
        rows = np.flatnonzero(counts == count)
        yield rows, Neighbors(first.indices[rows], first.distances[rows]).first(int(count))


def fill_short_rows(answer: Answer, gallery: GalleryIndex, queries: Vectors, results: Mask) -> Answer:
    """Fill rows with too few items of a mask with its nearest other items, in search order."""
    short = np.flatnonzero((answer.indices < 0).any(axis=1))
    if not len(short):
        return answer
    indices, distances = answer.indices.copy(), answer.distances.copy()
    near = gallery.search_among(queries[short], indices.shape[1], results)
    for row, extra, lengths in zip(short, near.indices, near.distances, strict=True):
        known = int((indices[row] >= 0).sum())
        new = np.flatnonzero((extra >= 0) & ~np.isin(extra, indices[row, :known]))[: indices.shape[1] - known]
        end = known + len(new)
        last = max(0.0, float(distances[row, known - 1])) if known else 0.0
        indices[row, known:end], distances[row, known:end] = extra[new], last + 1.0 + lengths[new]
    return replace(answer, indices=indices, distances=distances)


def _rank_one_query(
    scores: NDArray[np.float64],
    found: NDArray[np.int32],
    lengths: NDArray[np.float32],
    depth: int,
    results: Mask = UNRESTRICTED.results,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Rank one query as stages.unreached does, but without sorting the gallery."""
    reached = np.flatnonzero(scores)
    values = -scores[reached]
    last, least = max(0.0, values.max(initial=0.0)), min(0.0, values.min(initial=0.0))
    if len(results):
        values, reached = values[results[reached]], reached[results[reached]]
    if len(reached) > depth:
        # more than `depth` if some are equal
        best = np.flatnonzero(values <= np.partition(values, depth - 1)[depth - 1])
        reached, values = reached[best], values[best]
    order = np.argsort(values, kind="stable")[:depth]  # `reached` ascends: ties go to the lower number
    reached, values = reached[order], values[order]
    if len(reached) == depth:
        return reached, values
    rest = (found >= 0) & (scores[np.maximum(found, 0)] == 0)
    if len(results):
        rest &= results[np.maximum(found, 0)]
    rest = np.flatnonzero(rest)[: depth - len(reached)]
    tail = last + UNREACHED_STEP * ((last - least) or 1.0) * (1.0 + lengths[rest].astype(np.float64))
    return np.concatenate([reached, found[rest]]), np.concatenate([values, tail])
