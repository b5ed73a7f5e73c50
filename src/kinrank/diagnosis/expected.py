"""Facts -> what LPMT is expected to gain, and how far that may be off.

Two things decide, as measured by `kinrank bench diagnosis` on published sets:

* how many right answers a query has. With one, re-ranking loses points almost everywhere; with two it changes nothing;
  from four on it gains, and more with every doubling up to sixteen;
* how thin the data are (mutual - common, see stages/trust.py): the more they are like curves, the more chains gain.

How many right answers there are is not in the vectors, unless distances drop off sharply after the first few
neighbours. So say it (`right=`) where you know it.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from kinrank.diagnosis.facts import Facts

BASE, PER_THIN = 3.6, 45.9  # points of mAP: fitted on published sets by `kinrank bench diagnosis`
ONE, TWO, MANY = -4.0, 0.0, 16  # points at one and at two right answers; right answers from which on all is gained
NO_KIN = 3.8  # the drop from which on kin are too few to gain by, fitted likewise
FALL = 1.6  # how far below that drop the gain begins to fall
LOST = 0.15  # share of what could be gained that is lost where kin are too few
UNRELATED = 0.05  # neighbours in common below which there is nothing to go by
AGREED = 0.02  # agreement of two halves of the directions below which neighbours are as they happen to be
ERROR, ERROR_RIGHT = 9.9, 3.2  # points: root mean square error on sets left out of the fit; where `right` is known
SURE = 1.28  # times the error: 80 of 100 predictions are as close
FEW = 2.4  # the drop from which on neighbourhoods of half the usual size are better, fitted likewise
MUTUAL, STABILITY = (0.25, 0.83), (0.17, 0.89)  # between which published sets lie


@dataclass(frozen=True)
class Gain:
    """Expected points of mAP over no re-ranking, joint; `low` and `high` are SURE errors away."""

    points: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{whole(self.points)} points of mAP (between {whole(self.low)} and {whole(self.high)} for 8 sets in 10)"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def expected(
    facts: Facts,
    right: float | None = None,
    base: float = BASE,
    per_thin: float = PER_THIN,
    no_kin: float = NO_KIN,
) -> Gain:
    """What LPMT gains at its defaults, joint. `right`: how many right answers a query has, if that is known."""
    most = (base + per_thin * max(facts.thin, 0.0)) * related(facts)
    points = _by_drop(most, facts.drop, no_kin) if right is None else _by_right(most, right)
    spread = SURE * (ERROR if right is None else ERROR_RIGHT)
    return Gain(points, points - spread, points + spread)


def related(facts: Facts) -> float:
    """From 0, neighbours are as they happen to be, as in noise, to 1: there is something to go by.

    Noise of many directions looks thin: neighbours list each other, and share few. But they are other ones in every
    half of the directions.
    """
    return min(1.0, facts.common / UNRELATED, facts.agreement / AGREED)


def whole(number: float) -> str:
    """A number without decimals, with its sign; what rounds to nothing is +0."""
    return f"{round(number) + 0:+d}"


def _by_drop(most: float, drop: float, no_kin: float) -> float:
    """All of it where kin are many; less and less, and then a loss, where distances drop off at once."""
    return most * min(1.0, max((no_kin - drop) / FALL, -LOST))


def _by_right(most: float, right: float) -> float:
    """ONE at one right answer, TWO at two, then by every doubling, up to all of it."""
    doublings = math.log2(max(right, 1.0))
    if doublings <= 1.0:
        return ONE + (TWO - ONE) * doublings
    return TWO + (most - TWO) * min(1.0, (doublings - 1.0) / (math.log2(MANY) - 1.0))
