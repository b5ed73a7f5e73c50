"""A value per query before and after -> the queries that are worth showing, gains and losses alike."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def choose(
    before: NDArray[np.float64],
    after: NDArray[np.float64],
    labels: NDArray[np.int64],
    best: int = 5,
    typical: int = 1,
    worst: int = 2,
) -> list[tuple[int, str]]:
    """Queries to show, at most one per label, with reasons: largest gains, typical ones, the worst ones."""
    gain = after - before
    order = np.argsort(-gain, kind="stable")
    middle = np.argsort(np.abs(gain - np.median(gain)), kind="stable")
    chosen: list[tuple[int, str]] = []
    seen: set[int] = set()

    def take(candidates: NDArray[np.int64], count: int, reason: str) -> None:
        for query in candidates:
            if count and int(labels[query]) not in seen:
                seen.add(int(labels[query]))
                chosen.append((int(query), reason))
                count -= 1

    # the worst choose first: a label shown for its gain must not hide its failures
    lost = order[::-1]
    take(lost[gain[lost] < 0], worst, "among the largest losses")
    # where little or nothing got worse, what is still bad afterwards is the honest thing to show
    take(np.argsort(after, kind="stable"), worst - len(chosen), "among the worst results after re-ranking")
    last = len(chosen)
    take(order, best, "among the largest gains")
    take(middle, typical, "a typical query: the median gain" if typical == 1 else "a typical query: near the median")
    return chosen[last:] + chosen[:last]
