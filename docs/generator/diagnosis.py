"""The record of `kinrank bench diagnosis` -> the tables of docs/diagnose.md, between its two marks."""

from __future__ import annotations

from generator.pages import table
from generator.records import Measurements
from generator.titles import TITLES
from kinrank.bench.diagnosis_tables import parts_of


def parts(found: Measurements) -> list[str]:
    """Predicted and measured gains, gains by right answers, and what preparing the vectors changes."""
    if not found.diagnosis:
        return ["Nothing has been measured yet: `kinrank bench diagnosis --data DIR`, then `make docs`."]
    made = []
    for part in parts_of(found.diagnosis, TITLES):
        made += [part.about, table(part.rows), *([part.note] if part.note else [])]
    return [*made, f"Printed by `kinrank bench diagnosis --data DIR`, {found.machines['diagnosis']}."]
