"""Numbers of the page of the stores, between its two marks."""

from __future__ import annotations

from typing import Any

from generator.origins import tell_origin
from generator.pages import table
from generator.records import Measurements


def parts(found: Measurements) -> list[str]:
    """Equality of rankings, time per part, expansion of candidates, and large collections."""
    stores = found.stores
    if not stores:
        return ["Nothing has been measured yet: `make bench-stores`, then `make docs`."]
    made = [*_same(stores), *_times(stores), *_growing(stores), *_scale(stores)]
    rows = [row for part in stores.values() for row in part]
    return [*made, f"Printed by `kinrank bench stores --data DIR`. {tell_origin(*rows)}"]


def _same(stores: dict[str, Any]) -> list[str]:
    rows: list[tuple[str, ...]] = [("engine", "rankings equal to the array's", "no re-ranking", "LPMT")]
    for row in stores.get("same", ()):
        rows.append((row["engine"], f"{row['same_reranked']:.0%}", _scores(row["plain"]), _scores(row["reranked"])))
    if len(rows) == 1:
        return []
    first = stores["same"][0]
    return [
        f"ROxford5k, {first['queries']} queries with {first['candidates']} candidates, followed by the other items in "
        "the order of the search; mAP, medium / hard. The array holds the vectors that the engine returns, and is "
        "searched exactly. Chroma has no exact search: its `ef_search` is set high enough to examine everything.",
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
        f"One query at a time with {first['candidates']} candidates of {first['dimensions']} dimensions, median. The "
        "rest is time spent neither in the engine nor in the method.",
        table(rows),
    ]


def _growing(stores: dict[str, Any]) -> list[str]:
    rows: list[tuple[str, ...]] = [("`expand`", "relevant included, medium", "mAP medium", "95 % interval", "mAP hard")]
    for row in stores.get("growing", ()):
        medium = row["medium"]
        interval = f"{100 * medium['low']:.1f} to {100 * medium['high']:.1f}"
        rows.append((str(row["expand"]), f"{medium['held']:.1%}", f"{100 * medium['mAP']:.1f}", interval,
                     f"{100 * row['hard']['mAP']:.1f}"))  # fmt: skip
    if len(rows) == 1:
        return []
    return [
        "Expanding the candidates (`expand`): 1000 candidates, and the same number of vectors fetched; LPMT, "
        "candidates only, exact search.",
        table(rows),
    ]


def _scale(stores: dict[str, Any]) -> list[str]:
    rows: list[tuple[str, ...]] = [
        ("engine", "items", "build", "query, online", "of it in the engine", "sync", "items found by own vector")
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
    return ["A Manifold over a large collection with an approximate index, and a sync after changes:", table(rows)]


def _scores(scores: dict[str, Any]) -> str:
    return " / ".join(f"{100 * scores[truth]['mAP']:.1f}" for truth in ("medium", "hard"))
