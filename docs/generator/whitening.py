"""Tables of docs/whitening.md, between its two marks, from the records of `kinrank bench whitening`."""

from __future__ import annotations

from generator.origins import tell_origin
from generator.pages import table
from generator.records import Measurements
from generator.titles import TITLES
from kinrank_bench.whitening_gain import whitening_table

COMMAND = "kinrank bench whitening --data DIR"
ABOUT = {
    "gallery": "**Learned from the gallery that is searched.**",
    "others": "**Learned from other classes**: the classes of a set are split into two halves, five times; each half "
    "is searched separately, with a whitening learned from the other, by variance (pca) or from pairs of one class "
    "(learned).",
}


def parts(found: Measurements) -> list[str]:
    """A table of whitening learned from the gallery, and one of whitening learned from other classes."""
    if not found.whitening:
        return [f"Nothing has been measured yet: `{COMMAND}`, then `make docs`."]
    made = [
        "mAP in percent, joint, without re-ranking (none) and with LPMT: without whitening (as it is), and the change "
        "in points with whitening, by power. A star: the paired 95 % interval of the change does not contain 0, "
        "and its sign is the same in every split."
    ]
    for on, about in ABOUT.items():
        if on in found.whitening:
            measured = whitening_table(found.whitening[on], TITLES)
            made += [
                about,
                table([tuple(cell.replace("*", "\\*") for cell in row) for row in (measured.head, *measured.rows)]),
            ]
    return [
        *made,
        f"Printed by `{COMMAND}`, a second table with `--on others`. {tell_origin(*found.whitening.values())}",
    ]
