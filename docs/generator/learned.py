"""Table of docs/learned.md, between its two marks, from the record of `kinrank bench learned`."""

from __future__ import annotations

from generator.origins import tell_origin
from generator.pages import table
from generator.records import Measurements
from generator.titles import TITLES
from kinrank.learned import IMPORTS, RECIPES
from kinrank_bench.fit_gain import learned_table

COMMAND = "kinrank bench learned --data DIR"


def parts(found: Measurements) -> list[str]:
    """A sentence and a table."""
    if not found.learned:
        return [f"Nothing has been measured yet: `{COMMAND}`, then `make docs`.", *options()]
    measured = learned_table(found.learned, TITLES)
    seeds = len(found.learned["seeds"])
    return [
        table([measured.head, *measured.rows]),
        f"mAP in percent, joint, the mean over {seeds} seeds with its 95 % interval (Student's t), each after its "
        "last step. Gained: the gain over no re-ranking, with the paired 95 % interval over queries. Fit: the slowest "
        "of the seeds, including pseudo-labels; rank: all queries, for GSS including training. "
        f"Printed by `{COMMAND}`. {tell_origin(found.learned)}",
        *options(),
    ]


def options() -> list[str]:
    """The options of `kinrank fit` for a network and for published weights."""
    rows: list[tuple[str, ...]] = [("option", "default", "allowed", "meaning")]
    for title, kinds in (("fit", RECIPES), ("fit --checkpoint", IMPORTS)):
        for name, kind in kinds.items():
            for entry in kind.parameters():
                rows.append((f"`{title} {name}`: `{entry.name}`", f"`{entry.default}`", entry.allowed, entry.meaning))
    return [
        "## Options of a fit",
        "Keyword arguments of `kinrank.fit` and `kinrank.learned.import_weights`, and flags of `kinrank fit`.",
        table(rows),
    ]
