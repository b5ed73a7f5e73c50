"""A method and its Items -> the order of the gallery for every query, a block of queries at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank import deadline
from kinrank.items import Items
from kinrank.memory import NotEnoughMemory, in_words
from kinrank.methods import Method
from kinrank.progress import Progress
from kinrank.ranking import rank_rows
from kinrank.stages.marks import Marks
from kinrank.stages.masks import Mask


def answered(
    method: Method,
    items: Items,
    depth: int,
    budget: int,
    report: Progress,
    allowed: Mask | None = None,
    marks: list[Marks] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Prepare once, then rank block after block of queries; -1 and inf behind rows in which too few may be results."""
    rows = _at_once(method, items, depth, budget)
    count = len(items.queries)
    indices = np.empty((count, depth), np.int64)
    distances = np.empty((count, depth), np.float32)
    if not indices.size:
        return indices, distances
    prepared = method.prepare(items, report)
    blocks = [np.arange(start, min(start + rows, count)) for start in range(0, count, rows)]
    for block in report.each("queries", blocks, len(blocks)):
        deadline.check()
        if marks is None:
            values = method.distances(prepared, block)
        else:
            values = np.array([method.distances_marked(prepared, int(row), marks[row]) for row in block])
        own = block if items.self_query else None
        if own is not None or allowed is not None or marks is not None:
            values = np.array(values)  # the method may hand out an array it keeps
            _leave_out(values, own, allowed, None if marks is None else [marks[row] for row in block])
        found, lengths = rank_rows(values, depth)
        indices[block], distances[block] = np.where(np.isinf(lengths), -1, found), lengths
    return indices, distances


def _leave_out(
    values: NDArray[Any], own: NDArray[np.int64] | None, allowed: Mask | None, marks: list[Marks] | None
) -> None:
    """Put those behind all others, at inf, that are no results: each query's own item, by identity and not by rank."""
    if own is not None:
        values[np.arange(len(values)), own] = np.inf
    if allowed is not None:
        values[:, ~allowed] = np.inf
    for row, marked in enumerate(marks or ()):
        values[row, marked.all] = np.inf


def _at_once(method: Method, items: Items, depth: int, budget: int) -> int:
    """How many queries to answer at once within the budget; refuses before anything is allocated."""
    count, gallery = len(items.queries), len(items.gallery)
    result = count * depth * 12
    work = method.limited(len(items)).memory(len(items), count, items.vectors.shape[1])
    per_row = max(1, gallery * 40)  # a block of distances, its order and the copies that sorting makes
    left = budget - result - work
    if left < per_row and count:
        needed = result + work + per_row
        raise NotEnoughMemory(
            f"{method.name} on {len(items)} items needs about {in_words(needed)} but max_memory allows "
            f"{in_words(budget)}; pass depth= for shorter results, candidates= to work on a few items per "
            "query, or a larger max_memory="
        )
    return int(max(1, min(count, left // per_row, 64_000_000 // per_row + 1)))
