"""The records of `kinrank bench whitening` -> the tables of docs/whitening.md, between its two marks."""

from __future__ import annotations

from generator.pages import table
from generator.records import Measurements
from generator.titles import TITLES
from kinrank.bench.whitening import rows_of

COMMAND = "kinrank bench whitening --data DIR"


def parts(found: Measurements) -> list[str]:
    """A table with all directions, and one for each number of them that was measured."""
    if not found.whitening:
        return [f"Nothing has been measured yet: `{COMMAND}`, then `make docs`."]
    made = [
        "mAP in percent, joint, no re-ranking (none) and LPMT: as it is, and points that whitening by the gallery "
        "changes. A star: the 95 % interval of the change, paired by query, has no 0 in it."
    ]
    for dimensions in sorted(found.whitening, key=lambda count: -1 if count is None else count):
        record = found.whitening[dimensions]
        kept = "All directions that vary:" if dimensions is None else f"The {dimensions} strongest of them:"
        made += [kept, table([tuple(cell.replace("*", "\\*") for cell in row) for row in rows_of(record, TITLES)])]
    return [*made, f"Printed by `{COMMAND}`, also with `--dimensions`, {found.machines['whitening']}."]
