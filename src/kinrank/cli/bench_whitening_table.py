"""What `kinrank bench whitening` measured -> a table of text."""

from __future__ import annotations

from typing import Any

from kinrank.bench.whitening import rows_of
from kinrank.cli.output import table


def whitening_table(record: dict[str, Any]) -> str:
    """A row per set: mAP as they are, and what each power changes."""
    rows = rows_of(record)
    kept = "" if record["dimensions"] is None else f" (at most {record['dimensions']} directions)"
    about = f"mAP in percent, joint, and what whitening by the gallery{kept} changes"
    return f"{about}; *: the 95 % interval has no 0 in it\n{table(rows, right=range(1, len(rows[0])))}"
