"""A record of `kinrank bench photos` -> a table."""

from __future__ import annotations

from typing import Any

from kinrank.bench.photos import HEAD, summary, table_rows
from kinrank.cli.output import table


def photos_table(record: dict[str, Any]) -> str:
    """What was measured, as a sentence and a table."""
    return "\n".join([summary(record), table([HEAD, *table_rows(record)], right=range(1, len(HEAD))), "mAP, joint."])
