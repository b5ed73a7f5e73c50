"""Queries and a mask of items -> the nearest of these, for answers that may hold only them."""

from __future__ import annotations

import numpy as np

from kinrank.features import Vectors
from kinrank.methods.served import Answer, Gallery
from kinrank.neighbors import Neighbors, nearest
from kinrank.stages.masks import Mask

ROWS = 65_536  # items of a mask that are copied and searched at once
TRIES = 3  # searches of a store for items of a mask, each four times as deep; then exactly


def search_among(gallery: Gallery, queries: Vectors, k: int, results: Mask) -> Neighbors:
    """(q, k) nearest items of a mask, padded where it has fewer; a store is asked for more until it found enough."""
    if gallery.exact:
        return nearest_among(queries, gallery.vectors, k, results)
    indices, distances = np.full((len(queries), k), -1, np.int32), np.full((len(queries), k), np.inf, np.float32)
    left, wanted = np.arange(len(queries)), min(k, int(results.sum()))
    for depth in (4**attempt * k for attempt in range(1, TRIES + 1)):
        if not len(left) or depth > len(gallery) // 2:
            break
        found = gallery.search(queries[left], depth)
        inside = (found.indices >= 0) & results[np.maximum(found.indices, 0)]
        enough = inside.sum(axis=1) >= wanted
        order = np.argsort(~inside, axis=1, kind="stable")[enough, :wanted]  # those outside go behind
        indices[left[enough], :wanted] = np.take_along_axis(found.indices[enough], order, axis=1)
        distances[left[enough], :wanted] = np.take_along_axis(found.distances[enough], order, axis=1)
        left = left[~enough]
    if len(left):
        exact = nearest_among(queries[left], gallery.vectors, k, results)
        indices[left, : exact.k], distances[left, : exact.k] = exact.indices, exact.distances
    return Neighbors(indices, distances)


def nearest_among(queries: Vectors, vectors: Vectors, k: int, results: Mask) -> Neighbors:
    """(q, <= k) exactly the nearest items of a mask (n,) over the vectors (n, d), by their numbers in these."""
    numbers = np.flatnonzero(results).astype(np.int32)
    indices, distances = np.empty((len(queries), 0), np.int32), np.empty((len(queries), 0), np.float32)
    for start in range(0, len(numbers), ROWS):
        some = numbers[start : start + ROWS]
        found = nearest(queries, vectors[some], k)
        indices = np.concatenate([indices, some[found.indices]], axis=1)
        distances = np.concatenate([distances, found.distances], axis=1)
        order = np.argsort(distances, axis=1, kind="stable")[:, :k]  # numbers ascend: ties to the lower one
        indices, distances = np.take_along_axis(indices, order, axis=1), np.take_along_axis(distances, order, axis=1)
    return Neighbors(indices, distances)


def filled_up(answer: Answer, gallery: Gallery, queries: Vectors, results: Mask) -> Answer:
    """Rows that know too few items of a mask go on with its nearest others, in the order of the search."""
    short = np.flatnonzero((answer.indices < 0).any(axis=1))
    if not len(short):
        return answer
    indices, distances = answer.indices.copy(), answer.distances.copy()
    near = search_among(gallery, queries[short], indices.shape[1], results)
    for row, more, lengths in zip(short, near.indices, near.distances, strict=True):
        known = int((indices[row] >= 0).sum())
        new = np.flatnonzero((more >= 0) & ~np.isin(more, indices[row, :known]))[: indices.shape[1] - known]
        end = known + len(new)
        last = max(0.0, float(distances[row, known - 1])) if known else 0.0
        indices[row, known:end], distances[row, known:end] = more[new], last + 1.0 + lengths[new]
    return Answer(indices, distances, answer.facts)
