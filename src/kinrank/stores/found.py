"""What a Store found -> in order, each item once, nothing missing in between."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Found = tuple[NDArray[np.int64], NDArray[np.float32]]


def tidied(
    indices: NDArray[np.int64], distances: NDArray[np.float32], k: int, own: NDArray[np.int64] | None = None
) -> Found:
    """(q, k) item numbers and distances, nearest first, then lower number first, -1 and inf behind them.

    Approximate indexes pad with -1, and may list an item twice, out of order, or not at all. With `own` (q,) that item
    is put first in its row, at distance 0, whether it was found or not.
    """
    if own is None and _is_tidy(indices, distances, k):
        return indices, distances
    numbers = indices.astype(np.int64)
    lengths = np.maximum(distances.astype(np.float32), 0.0)  # a copy; rounding may leave a little below 0
    lengths[(numbers < 0) | ~np.isfinite(lengths)] = np.inf
    if own is not None:
        lengths[numbers == own[:, None]] = np.inf
        numbers = np.concatenate([own[:, None], numbers], axis=1)
        lengths = np.concatenate([np.full((len(own), 1), -1.0, np.float32), lengths], axis=1)
    numbers, lengths = _taken(numbers, lengths, np.lexsort((numbers, lengths), axis=1))
    by_number = np.argsort(numbers, axis=1, kind="stable")  # of equal numbers the nearest stays first
    ordered = np.take_along_axis(numbers, by_number, axis=1)
    again = np.zeros(numbers.shape, np.bool_)
    np.put_along_axis(again, by_number[:, 1:], ordered[:, 1:] == ordered[:, :-1], axis=1)
    lengths[again] = np.inf
    numbers[np.isinf(lengths)] = -1
    numbers, lengths = _taken(numbers, lengths, np.argsort(lengths, axis=1, kind="stable")[:, :k])
    missing = k - numbers.shape[1]
    if missing > 0:
        numbers = np.pad(numbers, ((0, 0), (0, missing)), constant_values=-1)
        lengths = np.pad(lengths, ((0, 0), (0, missing)), constant_values=np.inf)
    return numbers, np.maximum(lengths, 0.0)


def _is_tidy(indices: NDArray[Any], distances: NDArray[Any], k: int) -> bool:
    """Whether nothing is left to do: k items each, ascending by distance, then by number, none twice."""
    if indices.shape[1] != k or not k or int(indices.min(initial=0)) < 0 or float(distances[:, 0].min(initial=0)) < 0:
        return False
    step, ahead = np.diff(distances, axis=1), np.diff(indices, axis=1)
    ascending = bool(((step > 0) | ((step == 0) & (ahead > 0))).all())
    return ascending and bool(np.isfinite(distances[:, -1]).all()) and not bool((np.diff(np.sort(indices)) == 0).any())


def _taken(numbers: NDArray[np.int64], lengths: NDArray[np.float32], order: NDArray[np.int64]) -> Found:
    return np.take_along_axis(numbers, order, axis=1), np.take_along_axis(lengths, order, axis=1)
