"""Tables of docs/diagnose.md, between its two marks, from the record of `kinrank bench diagnosis`."""

from __future__ import annotations

from generator.origins import tell_origin
from generator.pages import table
from generator.records import Measurements
from generator.titles import TITLES
from kinrank_bench.diagnosis import build_diagnosis_tables


def parts(found: Measurements) -> list[str]:
    """Predicted and measured gains, gains by number of relevant items, and the effect of preprocessing."""
    if not found.diagnosis:
        return ["Nothing has been measured yet: `kinrank bench diagnosis --data DIR`, then `make docs`."]
    made = []
    for part in build_diagnosis_tables(found.diagnosis, TITLES):
        made += [part.title, table([part.head, *part.rows]), *part.notes]
    return [*made, f"Printed by `kinrank bench diagnosis --data DIR`. {tell_origin(found.diagnosis)}"]
