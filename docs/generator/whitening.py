"""The records of `kinrank bench whitening` -> the tables of docs/whitening.md, between its two marks."""

from __future__ import annotations

from generator.pages import table
from generator.records import Measurements
from generator.titles import TITLES
from kinrank.bench.whitening import rows_of

COMMAND = "kinrank bench whitening --data DIR"
ABOUT = {
    "gallery": "**Learned on the gallery that is searched.**",
    "others": "**Learned on other classes**: the classes of a set are dealt into two halves, five times; each is "
    "searched by itself, with a whitening learned on the other, by variance (pca) or by pairs of the same class "
    "(learned).",
}


def parts(found: Measurements) -> list[str]:
    """A table of whitening learned on the gallery, and one of whitening learned on other classes."""
    if not found.whitening:
        return [f"Nothing has been measured yet: `{COMMAND}`, then `make docs`."]
    made = [
        "mAP in percent, joint, without re-ranking (none) and with LPMT: as it is, and the points that whitening "
        "changes, by its power. A star: the 95 % interval of the change, paired by query, has no 0 in it"
        ", and its sign is the same in every deal."
    ]
    for on, about in ABOUT.items():
        if on in found.whitening:
            rows = rows_of(found.whitening[on], TITLES)
            made += [about, table([tuple(cell.replace("*", "\\*") for cell in row) for row in rows])]
    return [*made, f"Printed by `{COMMAND}`, the second with `--on others`, {found.machines['whitening']}."]
