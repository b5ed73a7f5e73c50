"""Sizes -> how the time of everything after the neighbour search grows with the number of items."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kinrank.bench.synthetic import curves
from kinrank.items import Items
from kinrank.methods import Method, resolve
from kinrank.neighbors import Neighbors
from kinrank.progress import SILENT, Progress
from kinrank.ranking import rank_rows
from kinrank.warmup import warm

BLOCK = 64  # queries answered at once
AGAIN = 5.0  # seconds below which a measurement is repeated


@dataclass(eq=False)
class TimedItems(Items):
    """Items that note how long their neighbour searches took."""

    seconds: float = 0.0

    def _cached(self, *arguments: Any) -> Neighbors:
        started = time.perf_counter()
        lists = super()._cached(*arguments)
        self.seconds += time.perf_counter() - started
        return lists


def growth(
    name: str, sizes: Sequence[int], queries: int = 100, dimensions: int = 128, report: Progress = SILENT
) -> dict[str, Any]:
    """For each size the seconds of the neighbour searches and of everything after; and the exponent e of

        seconds after = c * items^e,

    fitted by least squares on logarithms. The number of queries stays the same.
    """
    warm(name)
    method, points = resolve(name), []
    for size in report.each(f"growth of {name}", sizes, len(sizes)):
        rows = curves(size, dimensions)
        items = TimedItems.joint(rows[:queries], rows[queries:])
        assert isinstance(items, TimedItems)
        after = _after(method, items)
        search = items.seconds
        if after < AGAIN:  # the lists are there now: only the rest is run again
            after = float(np.median([after, _after(method, items), _after(method, items)]))
        points.append({"items": size, "search_seconds": search, "after_seconds": after})
    return {"queries": queries, "dimensions": dimensions, "points": points, "exponent": exponent(points)}


def exponent(points: Sequence[dict[str, Any]]) -> float | None:
    """The slope of the straight line through the logarithms; None of a single point."""
    if len(points) < 2:
        return None
    size, seconds = (np.log([point[key] for point in points]) for key in ("items", "after_seconds"))
    return float(np.polyfit(size, seconds, 1)[0])


def _after(method: Method, items: TimedItems) -> float:
    """Seconds of preparing and of ranking all queries, the neighbour searches not counted."""
    searched, started = items.seconds, time.perf_counter()
    prepared = method.prepare(items, SILENT)
    count = len(items.queries)
    for start in range(0, count, BLOCK):
        block: NDArray[np.int64] = np.arange(start, min(start + BLOCK, count))
        rank_rows(method.distances(prepared, block), len(items.gallery))
    return time.perf_counter() - started - (items.seconds - searched)
