"""Model that predicts the gain of LPMT from facts about the vectors, and the error of the prediction.

Two things matter, as measured by `kinrank bench diagnosis` on published sets:

* the number of right answers per query. With one, re-ranking loses points almost everywhere; with two it changes
  nothing; from four on it gains, and more with every doubling up to sixteen;
* how thin the data are (mutual - common, see stages/pipeline.py): the more they resemble curves, the larger the
  gain of chains.

The vectors do not tell the number of right answers, unless distances grow sharply after the first few neighbours. So
`diagnose` predicts a gain for each number, or for the one that it is given. Without a number (`right=None`), the
prediction is that of a set with as many right answers as published sets; `kinrank bench diagnosis` measures it.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from kinrank.diagnosis.neighborhood_facts import Facts

# Fitted on published sets by `kinrank bench diagnosis`; gains and errors are points of mAP.
BASE_GAIN, GAIN_PER_THIN = 3.6, 45.9
GAIN_AT_ONE, GAIN_AT_TWO = -4.0, 0.0  # with one and with two right answers per query
MANY_RIGHT_ANSWERS = 16  # right answers from which on the gain is complete
NO_KIN_DROP = 3.8  # from this drop on, items have too few similar ones to gain anything
FALL_WIDTH = 1.6  # the gain begins to fall so far below that drop
LOST_SHARE = 0.15  # share of the possible gain that is lost above that drop
MIN_COMMON = 0.05  # share of common neighbours below which the data look like noise
MIN_AGREEMENT = 0.02  # agreement of two halves of the directions below which the neighbours are random
RMS_ERROR, RMS_ERROR_WITH_RIGHT = 9.9, 3.2  # on sets left out of the fit, without and with `right`
INTERVAL_ERRORS = 1.28  # half width of the interval in errors: it holds 80 of 100 predictions
FEW_KIN_DROP = 2.4  # from this drop on, neighbourhoods of half the usual size are better
PUBLISHED_MUTUAL, PUBLISHED_STABILITY = (0.25, 0.83), (0.17, 0.89)  # ranges of published sets


@dataclass(frozen=True)
class Gain:
    """Expected gain over no re-ranking, joint, in points of mAP, with an interval of 80 %."""

    points: float
    low: float
    high: float

    def __str__(self) -> str:
        interval = f"between {format_whole(self.low)} and {format_whole(self.high)} for 8 sets in 10"
        return f"{format_whole(self.points)} points of mAP ({interval})"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def predict_gain(
    facts: Facts,
    right: float | None = None,
    base: float = BASE_GAIN,
    per_thin: float = GAIN_PER_THIN,
    no_kin: float = NO_KIN_DROP,
) -> Gain:
    """Predict the gain of LPMT with default parameters, joint. `right`: number of right answers per query, if known."""
    most = (base + per_thin * max(facts.thin, 0.0)) * measure_relatedness(facts)
    points = _gain_by_drop(most, facts.drop, no_kin) if right is None else _gain_by_right(most, right)
    spread = INTERVAL_ERRORS * (RMS_ERROR if right is None else RMS_ERROR_WITH_RIGHT)
    return Gain(points, points - spread, points + spread)


def measure_relatedness(facts: Facts) -> float:
    """Return a number from 0, if neighbours are random as in noise, to 1, if they are related.

    High-dimensional noise looks thin, because neighbours list each other and share few. But each half of the directions
    gives other neighbours.
    """
    return min(1.0, facts.common / MIN_COMMON, facts.agreement / MIN_AGREEMENT)


def format_whole(number: float) -> str:
    """Format a number with its sign and without decimals. Numbers that round to zero are +0."""
    return f"{round(number) + 0:+d}"


def _gain_by_drop(most: float, drop: float, no_kin: float) -> float:
    """Return the whole gain for a small drop, less for a larger one, and a loss if distances grow sharply."""
    return most * min(1.0, max((no_kin - drop) / FALL_WIDTH, -LOST_SHARE))


def _gain_by_right(most: float, right: float) -> float:
    """Interpolate between GAIN_AT_ONE, GAIN_AT_TWO and the whole gain, by doublings of the right answers."""
    doublings = math.log2(max(right, 1.0))
    if doublings <= 1.0:
        return GAIN_AT_ONE + (GAIN_AT_TWO - GAIN_AT_ONE) * doublings
    return GAIN_AT_TWO + (most - GAIN_AT_TWO) * min(1.0, (doublings - 1.0) / (math.log2(MANY_RIGHT_ANSWERS) - 1.0))
