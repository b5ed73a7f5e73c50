"""What users ask a search for -> its answer: filters, marked items, several vectors of one query."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kinrank import given
from kinrank.features import Vectors
from kinrank.manifold.snapshot import Snapshot
from kinrank.methods.served import Answer
from kinrank.stages.marks import Marks
from kinrank.stages.masks import Masks


def answered(
    snapshot: Snapshot,
    queries: Vectors,
    k: int,
    depth: int,
    budget: int | None,
    where: Any = None,
    positives: Any = None,
    negatives: Any = None,
    groups: ArrayLike | None = None,
) -> tuple[Answer, NDArray[Any] | None]:
    """The answer to checked queries (q, d), and the labels of its rows if the queries are grouped.

    Rows are as long as `depth`, or as the gallery if it is smaller, and padded where fewer items may be results.
    """
    masks = masks_of(snapshot, where)
    marks = given.marks(positives, negatives, len(queries), snapshot.names.places_of, snapshot.__len__)
    if marks is not None:
        snapshot.method.check_marked()
        if groups is not None:
            raise ValueError("groups= does not go with positives= or negatives=; give one or the other")
    labels, members = (None, None) if groups is None else given.labels(groups, len(queries))
    if marks is None or not any(len(one) for marked in marks for one in marked):
        answer = snapshot.search(queries, k, depth, budget, masks)
    else:
        answer = snapshot.search_marked(queries, [Marks(*one) for one in marks], k, depth, budget, masks)
    if members is not None and labels is not None:
        answer = _one_per_group(answer, members, len(labels))
    return _padded(answer, min(depth, len(snapshot))), labels


def masks_of(snapshot: Snapshot, where: Any) -> Masks:
    """Who may be a result, from a filter as users give it; everyone for None.

    Over a vector database, what is neither a mask nor a list of ids is a filter of its own: it says whom that leaves.
    """
    if where is None:
        return snapshot.masks()
    engine = snapshot.engine
    if engine is None or _items_listed(where):
        return snapshot.masks(given.mask(where, len(snapshot), snapshot.names.places_of))
    left = np.zeros(len(snapshot), np.bool_)
    places = snapshot.names.places_there(engine.ids_where(where))
    left[places[places >= 0]] = True
    return snapshot.masks(left)


def _items_listed(where: Any) -> bool:
    """Whether a filter is a mask or a list of ids, and no filter of a vector database."""
    condition = isinstance(where, (list, tuple)) and len(where) == 2 and isinstance(where[1], (list, tuple))
    listed = isinstance(where, (list, tuple, set, frozenset)) or hasattr(where, "__array__")
    return listed and not condition


def _one_per_group(answer: Answer, members: NDArray[np.int64], count: int) -> Answer:
    """One row per group, each item by the least of its distances; certain where all rows of the group are.

    The best k of a group are among the best k of its rows: who is among the first k by the least distance is among the
    first k of the row that has it.
    """
    depth = answer.indices.shape[1]
    indices, distances = np.full((count, depth), -1, np.int64), np.full((count, depth), np.inf, np.float32)
    certain = np.ones(count, np.bool_)
    for group in range(count):
        rows = members == group
        items, lengths = answer.indices[rows].ravel(), answer.distances[rows].ravel()
        order = np.lexsort((items, lengths))
        order = order[items[order] >= 0]
        _, first = np.unique(items[order], return_index=True)  # the nearest of each item
        order = order[np.sort(first)][:depth]
        indices[group, : len(order)], distances[group, : len(order)] = items[order], lengths[order]
        certain[group] = answer.certain is None or bool(answer.certain[rows].all())
    facts = answer.facts | ({"certain": float(certain.mean())} if "certain" in answer.facts and count else {})
    return Answer(indices, distances, facts, certain)


def _padded(answer: Answer, depth: int) -> Answer:
    """Rows of `depth` entries, -1 and inf behind the items."""
    missing = ((0, 0), (0, depth - answer.indices.shape[1]))
    if not missing[1][1]:
        return answer
    indices = np.pad(answer.indices, missing, constant_values=-1)
    distances = np.pad(answer.distances, missing, constant_values=np.inf)
    return Answer(indices, distances, answer.facts, answer.certain)


def within(answer: Answer, farthest: float) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The items that are no farther, and their distances; -1 and inf in the places of the others."""
    near = answer.distances <= farthest
    return np.where(near, answer.indices, -1), np.where(near, answer.distances, np.float32(np.inf))


def a_distance(value: float | None) -> float:
    """The largest distance that is wanted, infinite for None; a ValueError for what is no number."""
    if value is None:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating) or math.isnan(value):
        raise ValueError(f"max_distance={value!r} is not allowed; give a number, or None for no limit")
    with np.errstate(over="ignore"):  # beyond what distances can be
        return float(np.float32(value))
