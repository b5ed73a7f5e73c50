"""Two cells and the order the paper has them in -> whether that order holds here, with the paired interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kinrank.bench.cells import gained
from kinrank.evaluation import Comparison

HOLDS, FAILS, OPEN = "holds", "does not hold", "cannot be told"


def judged(compared: Comparison) -> str:
    """Whether b is better than a: its whole 95 % interval above 0, below 0, or neither."""
    return HOLDS if compared.low > 0 else FAILS if compared.high < 0 else OPEN


def order(weaker: dict[str, Any], stronger: dict[str, Any], truth: str, measure: str = "mAP") -> dict[str, Any]:
    """What going from the weaker to the stronger brings, and the verdict; `error` where one of them refused."""
    for one in (weaker, stronger):
        if "error" in one:
            return {"verdict": OPEN, "error": str(one["error"])}
    found = gained(weaker, stronger, truth, measure)
    known = found.to_dict()
    return {"verdict": judged(found), **{part: known[part] for part in ("difference", "low", "high", "p", "queries")}}


def signed(share: float) -> str:
    """A difference in points, with two decimals: some intervals just miss 0. None of them is -0.00."""
    return f"{round(100 * share, 2) + 0.0:+.2f}"


def counted(rows: Sequence[dict[str, Any]]) -> str:
    """How many pairs hold, do not hold, and cannot be told."""
    count = {word: sum(row["verdict"] == word for row in rows) for word in (HOLDS, FAILS, OPEN)}
    return (
        f"holds for {count[HOLDS]} of {len(rows)} pairs, does not for {count[FAILS]}, cannot be told for {count[OPEN]}"
    )


def changed(rows: Sequence[dict[str, Any]]) -> str:
    """For which pairs, of one truth, kinrank's defaults and the paper's own settings lead to different verdicts."""
    found: dict[str, set[str]] = {}
    for row in rows:
        found.setdefault(f"{row['stronger']} over {row['weaker']}", set()).add(row["verdict"])
    depends = [pair for pair, verdicts in found.items() if len(verdicts) > 1]
    if not depends:
        return "both settings lead to the same verdicts."
    return f"the verdict depends on the settings for {len(depends)} of {len(found)} pairs: {', '.join(depends)}."
