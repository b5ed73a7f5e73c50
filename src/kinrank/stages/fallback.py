"""Distances and who was reached -> distances in which the others follow, in the order of the search."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

STEP = 1e-6  # of the row's span: far below any tolerance on values, far above float64 rounding


def behind(
    distances: NDArray[Any],
    reached: NDArray[np.bool_],
    original: Callable[[], NDArray[Any]],
    last: float | NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """The distances, finite everywhere: unreached items stand behind all reached ones, ordered by `original`.

    An unreached item gets `last + d`, d the original distance, if the method knows a `last` that no reached distance of
    its row exceeds. Otherwise it gets `last + STEP * span * (1 + d)`, where `last` is the largest of 0 and the reached
    distances of its row and `span` their extent including 0: steps so small that methods whose unreached items
    score zero keep their values. All shapes (rows, items), `last` a number or (rows, 1); `original` is only called
    when somebody is out of reach.

    Example:
        >>> reached = np.array([[True, False, False]])
        >>> behind(np.array([[-2.0, 0, 0]]), reached, lambda: np.array([[1, 3, 2]])).argsort()
        array([[0, 2, 1]])
    """
    result = np.array(distances, dtype=np.float64)
    if reached.all():
        return result
    if last is not None:
        return np.where(reached, result, last + original().astype(np.float64))
    known = np.where(reached, result, 0.0)
    largest = known.max(axis=1, keepdims=True, initial=0.0)
    span = largest - known.min(axis=1, keepdims=True, initial=0.0)
    span[span == 0] = 1.0
    return np.where(reached, result, largest + STEP * span * (1.0 + original()))


def from_scores(
    scores: NDArray[Any], original: Callable[[], NDArray[Any]], last: float | None = None
) -> NDArray[np.float64]:
    """Similarities -> distances: the negated score; items without any score (exactly 0) behind the others."""
    return behind(-scores, scores != 0, original, last)
