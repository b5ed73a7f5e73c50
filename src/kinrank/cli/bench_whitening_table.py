"""What `kinrank bench whitening` measured -> a table of text."""

from __future__ import annotations

from typing import Any

from kinrank.bench.whitening import rows_of
from kinrank.cli.output import table


def whitening_table(record: dict[str, Any]) -> str:
    """A row per set and method: mAP as it is, and what each way to whiten changes."""
    rows, learned = rows_of(record), {"gallery": "the gallery", "others": "other classes"}[record["on"]]
    about = f"mAP in percent, joint, and what whitening learned on {learned} changes"
    about += "; *: no 0 in the 95 % interval, and the same sign in every deal"
    return f"{about}\n{table(rows, right=range(2, len(rows[0])))}"
