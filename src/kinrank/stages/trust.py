"""Neighbour lists -> how far chains can be trusted, without labels: the share of the direct comparison beside them.

Two numbers, over the FEW nearest of every item:

    mutual   the share of them that have the item among their FEW nearest, too
    common   the mean share of their FEW nearest that are among those of the item

Where neighbours list each other but share few of their own, data are thin: views along a turn, photographs of a place
from one corner to the next. There chains lead on to what no neighbourhood sees. Where neighbours share what they list,
data are round, and where few list each other, links cannot be trusted; in both, comparing neighbourhoods as a whole is
safer than following links one by one. So chains count by mutual - common.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kinrank.features import evenly

FEW = 5
THIN = 0.33  # mutual - common from which on chains decide; `kinrank bench defaults` says how it was chosen
LEAST, MOST = 0.1, 0.9  # what the share is never beyond
SAMPLE = 20_000  # items that are looked at
BLOCK = 2_000


class Trust(NamedTuple):
    """mutual and common, from 0 to 1; see the head of this file."""

    mutual: float
    common: float


def trust_of(lists: NDArray[np.int32]) -> Trust:
    """What lists (n, k) tell, each item first in its own, -1 where they end sooner; at most SAMPLE items are looked at.

    Example:
        >>> trust_of(np.array([[0, 1], [1, 0], [2, 1]], np.int32))
        Trust(mutual=0.6666666666666666, common=0.0)
    """
    near = lists[:, 1 : FEW + 1]
    if not near.size:
        return Trust(0.0, 0.0)
    rows = evenly(len(lists), SAMPLE)
    pairs = mutual = common = 0.0
    for start in range(0, len(rows), BLOCK):
        some = rows[start : start + BLOCK]
        mine = near[some]
        theirs = near[np.maximum(mine, 0)]  # (rows, FEW, FEW)
        there = mine >= 0
        listed = (theirs == some[:, None, None]).any(axis=2)
        shared = ((theirs[..., None] == mine[:, None, None, :]) & (mine >= 0)[:, None, None, :]).any(axis=3)
        pairs += float(there.sum())
        mutual += float((listed & there).sum())
        common += float(shared.mean(axis=2)[there].sum())
    return Trust(mutual / max(pairs, 1.0), common / max(pairs, 1.0))


def share_of(trust: Trust, thin: float = THIN) -> float:
    """The share of the direct comparison: 1 - (mutual - common) / thin, between LEAST and MOST."""
    return float(np.clip(1.0 - (trust.mutual - trust.common) / thin, LEAST, MOST))
