"""The record of `kinrank bench learned` -> the table of docs/learned.md, between its two marks."""

from __future__ import annotations

from generator.pages import table
from generator.records import Measurements
from generator.titles import TITLES
from kinrank.bench.learned import rows_of

COMMAND = "kinrank bench learned --data DIR"


def parts(found: Measurements) -> list[str]:
    """A sentence and a table."""
    if not found.learned:
        return [f"Nothing has been measured yet: `{COMMAND}`, then `make docs`."]
    seeds = len(found.learned["seeds"])
    return [
        table(rows_of(found.learned, TITLES)),
        f"mAP in percent, joint, the mean over {seeds} seeds with its 95 % interval (Student's t), each at its "
        "last step. Gained: over no re-ranking, with the 95 % interval over queries, paired. Fit: the slowest of the "
        "seeds, pseudo-labels included; rank: all queries, GSS with its training. "
        f"Printed by `{COMMAND}`, {found.machines['learned']}.",
    ]
