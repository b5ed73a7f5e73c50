"""A record of `kinrank bench photos` -> a table."""

from __future__ import annotations

from typing import Any

from kinrank.cli.output import table


def photos_table(record: dict[str, Any]) -> str:
    """What was measured, as a sentence and a table."""
    made = record["encoder"]
    called = " ".join(str(made[key]) for key in ("encoder", "model") if made.get(key))
    rows = [("truth", "queries", "no re-ranking", "LPMT", "gained", "95 % interval")]
    for row in record["results"]:
        before, after, gain, low, high = (100 * row[key] for key in ("before", "after", "gain", "low", "high"))
        rows.append(
            (
                row["truth"],
                str(row["queries"]),
                f"{before:.1f}",
                f"{after:.1f}",
                f"{gain:+.1f}",
                f"{low:+.1f} to {high:+.1f}",
            )
        )
    skipped = f", {record['skipped']} skipped" if record["skipped"] else ""
    threads = record["machine"]["threads"]
    return "\n".join([
        f"{record['set']}: {record['pictures']} pictures{skipped} x {record['dimensions']} dimensions by {called} in "
        f"{record['seconds']:.0f} s, {record['rate']:.1f} a second, {threads} threads (ready after "
        f"{record['opened']:.1f} s)",
        table(rows, right=range(1, 6)),
        "mAP, joint.",
    ])  # fmt: skip
