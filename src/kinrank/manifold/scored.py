"""Scores of the whole gallery -> the best few items of each query: what diffusion methods share when served."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from kinrank.manifold.serving import Answer
from kinrank.manifold.snapshot import Snapshot
from kinrank.methods import Method
from kinrank.neighbors import Neighbors

CELLS = 4_000_000  # queries x items scored at once: 32 MB an array, of which solvers hold a few
MOST = 64  # queries scored at once, however small the gallery


class WithoutChains:
    """What methods share that rank without chains: nothing to refuse, nothing to explain."""

    def check(self, method: Method) -> None:
        """Every choice of hyper-parameters can be served."""

    def explain(self, snapshot: Snapshot, *_: Any, **__: Any) -> NoReturn:
        raise ValueError(
            f"{type(snapshot.method).__name__} ranks without chains, so there is nothing to explain; "
            "build the manifold with LPMT"
        )


def ranked(
    snapshot: Snapshot,
    found: Neighbors,
    entries: int,
    depth: int,
    scores: Callable[[Neighbors], NDArray[np.float64]],
) -> Answer:
    """The `depth` best items of every query: by score, then those without any in the order of the search.

    `scores` turns the `entries` nearest of some queries (m, <= entries) into their scores (m, n), exactly 0 for items
    out of reach. `found` (q, >= depth) is what the search found, from which these follow.
    """
    indices = np.full((len(found.indices), depth), -1, np.int64)
    distances = np.full(indices.shape, np.inf, np.float32)
    size = max(1, min(MOST, CELLS // max(1, len(snapshot))))
    for some, nearest in alike(found, entries):
        for start in range(0, len(some), size):
            part = slice(start, start + size)
            block = scores(Neighbors(nearest.indices[part], nearest.distances[part]))
            for row, values in zip(some[part], block, strict=True):
                best, gaps = _best(values, found.indices[row], found.distances[row], depth)
                indices[row, : len(best)], distances[row, : len(best)] = best, gaps
    return Answer(indices, distances, {"certain": 1.0})


def alike(found: Neighbors, k: int) -> Iterator[tuple[NDArray[np.int64], Neighbors]]:
    """Rows that found equally many of their k nearest, and these without padding; one group for an exact search."""
    first = found.first(k)
    there = (first.indices >= 0).sum(axis=1)
    for count in np.unique(there):
        some = np.flatnonzero(there == count)
        yield some, Neighbors(first.indices[some], first.distances[some]).first(int(count))


def _best(
    scores: NDArray[np.float64], found: NDArray[np.int32], gaps: NDArray[np.float32], depth: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """One query: the order and the distances of stages.fallback.from_scores, without sorting the gallery."""
    from kinrank.stages.fallback import STEP

    reached = np.flatnonzero(scores)
    values = -scores[reached]
    last, least = max(0.0, values.max(initial=0.0)), min(0.0, values.min(initial=0.0))
    if len(reached) > depth:
        few = np.flatnonzero(values <= np.partition(values, depth - 1)[depth - 1])  # more than depth if some are equal
        reached, values = reached[few], values[few]
    order = np.argsort(values, kind="stable")[:depth]  # `reached` ascends: ties to the lower number
    reached, values = reached[order], values[order]
    if len(reached) == depth:
        return reached, values
    rest = np.flatnonzero((found >= 0) & (scores[np.maximum(found, 0)] == 0))[: depth - len(reached)]
    behind = last + STEP * ((last - least) or 1.0) * (1.0 + gaps[rest].astype(np.float64))
    return np.concatenate([reached, found[rest]]), np.concatenate([values, behind])


def kept(arrays: dict[str, NDArray[Any]], name: str, kind: type, shape: tuple[int | None, ...]) -> NDArray[Any]:
    """An array that was kept, or a ValueError if it is missing or of another kind; None allows any length."""
    array = arrays.get(name)
    if array is None:
        raise ValueError(f"{name} is missing")
    fits = array.ndim == len(shape) and all(want in (None, got) for want, got in zip(shape, array.shape, strict=True))
    if not fits or array.dtype != kind:
        raise ValueError(
            f"{name} must have the shape {shape} of {np.dtype(kind)}; it has {array.shape} of {array.dtype}"
        )
    return array


def check_items(name: str, items: NDArray[Any], count: int, missing: bool = False) -> None:
    """A ValueError if item numbers lie outside the gallery: compiled loops follow them without looking.

    `missing` allows -1.
    """
    if items.size and (int(items.min()) < (-1 if missing else 0) or int(items.max()) >= count):
        raise ValueError(f"{name} names items that are not there")
