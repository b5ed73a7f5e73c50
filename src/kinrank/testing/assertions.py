"""Assertions shared by the checks: conditions, valid rankings, equal rankings, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.methods.base import Method
from kinrank.ranking import Ranking
from kinrank.reranking import rerank


def require(holds: Any, message: str) -> None:
    """Raise an AssertionError with the message unless `holds`. Unlike `assert`, this works under `python -O`."""
    if not holds:
        raise AssertionError(message)


def rank_and_check(method: Method, queries: Any, gallery: Any, what: str, **options: Any) -> Ranking:
    """Rank with the method, and require a valid ranking of the whole gallery. `what` describes the case."""
    ranking = rerank(queries, gallery, method, **options)
    items = len(gallery)
    if queries is None:
        require_valid(ranking, items, items, what, own=True)
    else:
        require_valid(ranking, len(queries), items, what)
    return ranking


def require_valid(ranking: Ranking, queries: int, items: int, what: str, own: bool = False) -> None:
    """Require that every row lists every item once (`own`: except its own) with finite, ascending distances."""
    indices, distances = ranking.indices, ranking.distances
    shape = (queries, max(items - own, 0))
    require(
        indices.shape == distances.shape == shape,
        f"{what}: indices {indices.shape} and distances {distances.shape} should have shape {shape}",
    )
    require(indices.dtype == np.int64, f"{what}: indices are {indices.dtype}, should be int64")
    require(distances.dtype == np.float32, f"{what}: distances are {distances.dtype}, should be float32")
    bad = np.argwhere(~np.isfinite(distances))
    if len(bad):
        row, place = bad[0]
        require(False, f"{what}: the distance of query {row} to item {indices[row, place]} is {distances[row, place]}")
    for row in range(queries):
        expected = np.arange(items)
        if own:
            expected = np.delete(expected, row)
        require(
            np.array_equal(np.sort(indices[row]), expected),
            f"{what}: query {row} should list each of {len(expected)} {'other ' if own else ''}items once; "
            f"got {indices[row].tolist()[:12]}",
        )
    descents = np.argwhere(np.diff(distances, axis=1) < 0)
    if len(descents):
        row, place = descents[0]
        require(False, f"{what}: the distances of query {row} decrease after rank {place}")


def distances_by_item(ranking: Ranking, items: int) -> NDArray[np.float64]:
    """Return (q, items) distances in the order of the items; NaN for one that is not listed."""
    values = np.full((len(ranking), items), np.nan)
    np.put_along_axis(values, ranking.indices, ranking.distances.astype(np.float64), axis=1)
    return values


def require_same(
    expected: Ranking, got: Ranking, what: str, rtol: float, names: NDArray[np.int64] | None = None
) -> None:
    """Require the same distances of the same items, to `rtol` of the range of the row, and the same order.

    `names[j]` is the item of `expected` that item j of `got` is. Only items whose distances differ by no more than the
    tolerance may be swapped.
    """
    items = max(int(expected.indices.max(initial=-1)), int(got.indices.max(initial=-1))) + 1
    indices = got.indices if names is None else names[got.indices]
    left = distances_by_item(expected, items)
    right = distances_by_item(Ranking(indices, got.distances), items)
    extent = np.maximum(np.ptp(expected.distances, axis=1, keepdims=True), 1e-12) if items else np.ones((len(left), 1))
    worst = np.nan_to_num(np.abs(left - right) / extent)
    if worst.size and worst.max() > rtol:
        row, item = np.unravel_index(int(worst.argmax()), worst.shape)
        require(
            False,
            f"{what}: query {row}, item {item}: {left[row, item]:.6g} became {right[row, item]:.6g}, "
            f"{worst[row, item]:.2g} of the range of the row; allowed is rtol={rtol:g}",
        )
    along = np.take_along_axis(left, indices, axis=1)
    descents = np.argwhere(np.diff(along, axis=1) < -2 * rtol * extent)
    if len(descents):
        row, place = descents[0]
        require(
            False,
            f"{what}: query {row}: items {indices[row, place]} and {indices[row, place + 1]} swapped ranks "
            "although their distances differ by more than the tolerance",
        )


def require_identical(expected: Ranking, got: Ranking, what: str) -> None:
    """Require that both are equal, bit for bit."""
    for part in ("indices", "distances"):
        left, right = getattr(expected, part), getattr(got, part)
        differ = left.shape != right.shape or left.tobytes() != right.tobytes()
        require(not differ, f"{what}: {part} differ in some bits")


def require_refusal(
    what: str, kind: type[Exception], words: tuple[str, ...], action: Callable[..., Any], *values: Any, **options: Any
) -> None:
    """Require that the action raises this kind of error for these values, with a message that contains all words."""
    try:
        action(*values, **options)
    except kind as error:
        missing = [word for word in words if word not in str(error)]
        require(not missing, f"{what}: the message should contain {missing}; it is: {error}")
    except Exception as error:
        raise AssertionError(f"{what}: should be a {kind.__name__}, got {type(error).__name__}: {error}") from error
    else:
        raise AssertionError(f"{what}: should be refused with a {kind.__name__}, but nothing was raised")
