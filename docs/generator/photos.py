"""Measurements -> how fast pictures are encoded and what re-ranking gains on them, between two marks."""

from __future__ import annotations

from generator.pages import table
from generator.records import Measurements
from kinrank.bench.photos import HEAD, summary, table_rows


def parts(found: Measurements) -> list[str]:
    """A sentence and a table."""
    if not found.photos:
        return ["Nothing has been measured yet: `make demo-photos`, then `make docs`."]
    return [
        summary(found.photos),
        table([HEAD, *table_rows(found.photos)]),
        f"mAP, joint. Printed by `kinrank bench photos --data DIR`, {found.machines['photos']}.",
    ]
