"""Methods -> peak memory and time on forty thousand items, each in a fresh process, or why they refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kinrank.bench.probe import fresh
from kinrank.bench.record import chosen, record
from kinrank.memory import parse_bytes
from kinrank.methods import method_named
from kinrank.progress import Progress, Show

PATIENCE = 1800.0  # seconds that one method may take
FEWER: dict[str, dict[str, Any]] = {"gss": {"epochs": 2}}  # memory is the same for 200, at seconds each


def memory(
    methods: Sequence[str] = ("all",),
    items: int = 40_000,
    queries: int = 100,
    dimensions: int = 128,
    limit: int | str = "3GB",
    progress: Show = None,
) -> dict[str, Any]:
    """A record with one result per method: peak_bytes and seconds, or the refusal as `error`.

    `limit` is handed to the method as `max_memory`; `within` says whether the whole process, interpreter and
    compiled loops included, stayed below it.
    """
    most = parse_bytes(limit)
    names = chosen(methods)
    size = {"items": items, "queries": queries, "dimensions": dimensions}
    results = []
    for name in Progress(progress).each("memory", names, len(names)):
        fewer = FEWER.get(name, {})
        about = {"method": name, "parameters": method_named(name)(**fewer).spelled_out()}
        first = fresh({"what": "first", "method": name}, PATIENCE)  # compiling must not count as the method's
        job = {"what": "rerank", "method": name, "parameters": fewer, "max_memory": most, **size}
        found = first if "error" in first else fresh(job, PATIENCE)
        within = found["peak_bytes"] <= most if "peak_bytes" in found else None
        results.append({**about, **found, "within": within})
    return record("memory", {**size, "mode": "joint", "limit_bytes": most, "results": results})
