"""What `kinrank bench learned` measured -> a table of text."""

from __future__ import annotations

from typing import Any

from kinrank.bench.learned import rows_of
from kinrank.cli.output import table


def learned_table(record: dict[str, Any]) -> str:
    """A row per set, method and way to fit it."""
    about = (
        f"mAP in percent, joint, mean of {len(record['seeds'])} seeds at their last step; gained over no re-ranking, "
        "with the 95 % interval over queries"
    )
    return f"{about}\n{table(rows_of(record), right=range(3, 8))}"
