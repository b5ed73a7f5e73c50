"""Measurements -> the numbers on the page of the stores, between two marks."""

from __future__ import annotations

from typing import Any

from generator.pages import table
from generator.records import Measurements


def parts(found: Measurements) -> list[str]:
    """Where the ranking is the same, where time goes, what growing finds, and large collections."""
    stores = found.stores
    if not stores:
        return ["Nothing has been measured yet: `make bench-stores`, then `make docs`."]
    made = [*_same(stores), *_times(stores), *_growing(stores), *_scale(stores)]
    return [*made, f"Printed by `kinrank bench stores --data DIR`, {found.machines['stores']}."]


def _same(stores: dict[str, Any]) -> list[str]:
    rows: list[tuple[str, ...]] = [("engine", "rankings that are those of the array", "no re-ranking", "LPMT")]
    for row in stores.get("same", ()):
        rows.append((row["engine"], f"{row['same_reranked']:.0%}", _scores(row["plain"]), _scores(row["reranked"])))
    if len(rows) == 1:
        return []
    first = stores["same"][0]
    return [
        f"ROxford5k, {first['queries']} queries over {first['candidates']} candidates, behind them the order of the "
        "search; mAP, medium / hard. The array holds what the engine gives back, and is searched exactly. Chroma has "
        "no exact search: its `ef_search` is set so high that it looks at everything.",
        table(rows),
    ]


def _times(stores: dict[str, Any]) -> list[str]:
    rows: list[tuple[str, ...]] = [("engine", "total, ms", "in the engine", "fetching more", "re-ranking", "rest")]
    for row in stores.get("times", ()):
        cells = (f"{row[name + '_ms']:.1f}" for name in ("total", "engine", "fetch", "rerank"))
        rows.append((row["engine"], *cells, f"{row['rest_ms']:.1f} ({row['rest_share']:.1%})"))
    if len(rows) == 1:
        return []
    first = stores["times"][0]
    return [
        f"One query at a time over {first['candidates']} candidates of {first['dimensions']} dimensions, median. The "
        "rest is what is neither the engine's nor the method's.",
        table(rows),
    ]


def _growing(stores: dict[str, Any]) -> list[str]:
    rows: list[tuple[str, ...]] = [("`expand`", "right images held, medium", "mAP medium", "95 % interval", "mAP hard")]
    for row in stores.get("growing", ()):
        medium = row["medium"]
        interval = f"{100 * medium['low']:.1f} to {100 * medium['high']:.1f}"
        rows.append((str(row["expand"]), f"{medium['held']:.1%}", f"{100 * medium['mAP']:.1f}", interval,
                     f"{100 * row['hard']['mAP']:.1f}"))  # fmt: skip
    if len(rows) == 1:
        return []
    return [
        "Candidates that grow (`expand`): 1000 candidates, and as many vectors fetched; LPMT, candidates only, exact "
        "search.",
        table(rows),
    ]


def _scale(stores: dict[str, Any]) -> list[str]:
    rows: list[tuple[str, ...]] = [
        ("engine", "items", "manifold built", "a query online", "of it in the engine", "sync", "found by own vector")
    ]
    for row in stores.get("scale", ()):
        counts = f"{row['added']} added, {row['removed']} removed, {row['changed']} changed"
        changed = f"{counts}: {row['sync_seconds']:.0f} s"
        rows.append(
            (row["engine"], f"{row['items']:,} x {row['dimensions']}", f"{row['build_seconds']:.0f} s",
             f"{row['latency_ms']:.1f} ms", f"{row['engine_ms']:.1f} ms", changed, f"{row['seen']:.1%}")
        )  # fmt: skip
    if len(rows) == 1:
        return []
    return ["A Manifold from a large collection with an approximate index, and after rows changed there:", table(rows)]


def _scores(scores: dict[str, Any]) -> str:
    return " / ".join(f"{100 * scores[truth]['mAP']:.1f}" for truth in ("medium", "hard"))
