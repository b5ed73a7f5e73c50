"""Neighbour lists -> which of their entries are mutual."""

from __future__ import annotations

from typing import Any

from kinrank.stages.kernels.compiled import compiled


@compiled
def mark_mutual(start: Any, stop: Any, lists: Any, mutual: Any) -> None:
    """mutual[i, a] = whether i is among the first k of lists[i, a] as well, for rows start..stop.

    lists (n, k or more) int32 item numbers; mutual (n, k) bool, written.
    """
    k = mutual.shape[1]
    for row in range(start, stop):
        for entry in range(k):
            other = lists[row, entry]
            found = 0
            for back in range(k):  # to the end: many columns at once
                found += lists[other, back] == row
            mutual[row, entry] = found > 0
