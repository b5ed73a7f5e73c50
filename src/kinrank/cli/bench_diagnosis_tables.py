"""What `kinrank bench diagnosis` measured -> tables of text."""

from __future__ import annotations

from typing import Any

from kinrank.bench.diagnosis_tables import parts_of
from kinrank.cli.output import table


def diagnosis_tables(record: dict[str, Any]) -> str:
    """A table per part."""
    made = []
    for part in parts_of(record):
        lines = [part.about, table(part.rows, right=range(1, len(part.rows[0]))), part.note]
        made.append("\n".join(line for line in lines if line))
    return "\n\n".join(made)
