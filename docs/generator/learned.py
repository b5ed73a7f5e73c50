"""The record of `kinrank bench learned` -> the table of docs/learned.md, between its two marks."""

from __future__ import annotations

from generator.pages import table
from generator.records import Measurements
from generator.titles import TITLES
from kinrank.bench.learned import rows_of
from kinrank.learned import IMPORTS, RECIPES

COMMAND = "kinrank bench learned --data DIR"


def parts(found: Measurements) -> list[str]:
    """A sentence and a table."""
    if not found.learned:
        return [f"Nothing has been measured yet: `{COMMAND}`, then `make docs`.", *options()]
    seeds = len(found.learned["seeds"])
    return [
        table(rows_of(found.learned, TITLES)),
        f"mAP in percent, joint, the mean over {seeds} seeds with its 95 % interval (Student's t), each at its "
        "last step. Gained: over no re-ranking, with the 95 % interval over queries, paired. Fit: the slowest of the "
        "seeds, pseudo-labels included; rank: all queries, GSS with its training. "
        f"Printed by `{COMMAND}`, {found.machines['learned']}.",
        *options(),
    ]


def options() -> list[str]:
    """What `kinrank fit` can be told of a network, and what published weights do not tell."""
    rows: list[tuple[str, ...]] = [("option", "default", "allowed", "meaning")]
    for title, kinds in (("fit", RECIPES), ("fit --checkpoint", IMPORTS)):
        for name, kind in kinds.items():
            for entry in kind.parameters():
                rows.append((f"`{title} {name}`: `{entry.name}`", f"`{entry.default}`", entry.allowed, entry.meaning))
    return [
        "## Options of a fit",
        "Keywords of `kinrank.fit` and `kinrank.import_weights`, flags of `kinrank fit`.",
        table(rows),
    ]
