"""The record of `kinrank bench stores` -> a table per part that was measured."""

from __future__ import annotations

from typing import Any

from kinrank.cli.output import table

Record = dict[str, Any]


def stores_parts(record: Record) -> list[str]:
    """One table per part that was measured."""
    parts: list[str] = []
    rows: list[tuple[str, ...]]
    if "same" in record:
        rows = [("engine", "same candidates", "same ranking", "search", "LPMT", "LPMT, array")]
        rows += [
            (
                row["engine"],
                f"{row['same_plain']:.0%}",
                f"{row['same_reranked']:.0%}",
                *(_both(row[way]) for way in ("plain", "reranked", "array")),
            )
            for row in record["same"]
        ]
        first = record["same"][0]
        head = (
            f"{record['set']}, {first['queries']} queries over {first['candidates']} candidates, behind them the order "
            "of the search; mAP medium / hard"
        )
        parts.append(head + "\n" + table(rows, right=range(1, 6)))
    if "growing" in record:
        rows = [("expand", "right ones held", "mAP medium", "95 % interval", "mAP hard")]
        for row in record["growing"]:
            medium = row["medium"]
            interval = f"{100 * medium['low']:.1f} to {100 * medium['high']:.1f}"
            rows.append((str(row["expand"]), f"{medium['held']:.1%}", f"{100 * medium['mAP']:.1f}", interval,
                         f"{100 * row['hard']['mAP']:.1f}"))  # fmt: skip
        first = record["growing"][0]
        head = f"{record['set']}, {first['candidates']} candidates and vectors fetched, LPMT, exact search"
        parts.append(head + "\n" + table(rows, right=range(5)))
    if "times" in record:
        rows = [("engine", "total", "in the engine", "of it fetching", "re-ranking", "rest", "share of rest")]
        names = ("total", "engine", "fetch", "rerank", "rest")
        rows += [
            (row["engine"], *(f"{row[name + '_ms']:.1f}" for name in names), f"{row['rest_share']:.1%}")
            for row in record["times"]
        ]
        first = record["times"][0]
        head = f"milliseconds of one query, {first['candidates']} candidates x {first['dimensions']}, median"
        parts.append(head + "\n" + table(rows, right=range(1, 7)))
    for row in record.get("scale", []):
        parts.append(
            f"{row['engine']}, {row['items']} items x {row['dimensions']}, with an approximate index: filled in "
            f"{row['fill_seconds']:.0f} s, manifold built in {row['build_seconds']:.0f} s, a query takes "
            f"{row['latency_ms']:.1f} ms, {row['engine_ms']:.1f} of them in the engine;\nsync: {row['added']} added, "
            f"{row['removed']} removed, {row['changed']} changed in {row['sync_seconds']:.1f} s; {row['seen']:.1%} of "
            "what came is found first by its own vector"
        )
    return parts


def _both(scores: Record) -> str:
    return " / ".join(f"{100 * scores[truth]['mAP']:.1f}" for truth in ("medium", "hard"))
