"""`kinrank serve` under load, on this machine -> searches per second, latency, memory, overload, changes that last."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kinrank.bench.load import Load, apply
from kinrank.bench.record import record
from kinrank.bench.serving import memory_bytes, processor_seconds, running
from kinrank.bench.synthetic import curves
from kinrank.datasets.benchmark import load as published
from kinrank.files.scratch import scratch_folder
from kinrank.manifold import Manifold
from kinrank.progress import Progress, Show
from kinrank.web.settings import Limits, Settings

SET = "roxford5k"
CLIENTS = (1, 8, 64)
MANY = 64  # clients of the long run
SHORT, LONG, CHANGING = 8.0, 60.0, 15.0  # seconds
CROWD = 600  # clients that are far more than the service takes
READERS, WRITERS = 8, 4  # clients while items come and go
VARIANTS, JITTER = 10, 0.1  # of every query, and how far they are from it, as a share of its length
ITEMS, DIMENSIONS, QUERIES = 5000, 128, 70  # of the made-up set
ADDED = 2000  # vectors that writers choose from


def service(
    folder: str | os.PathLike[str] | None = None,
    workers: int = 2,
    clients: Sequence[int] = CLIENTS,
    seconds: float = SHORT,
    sustained: float = LONG,
    crowd: int = CROWD,
    changing: float = CHANGING,
    progress: Show = None,
    limits: Limits | None = None,
    rows: tuple[Any, Any] | None = None,
) -> dict[str, Any]:
    """A record of a service with several workers, on loopback, asked by clients in one other process.

    clients: online searches per second, and how long a client waits, by the number of clients that ask at once.
    sustained: the same over a longer time, with the memory of all processes at its start, middle and end.
    overload: far more clients than the service takes; they may be told to come back later, and nothing else.
    changes: items come and go while others search; afterwards every one that was acknowledged is looked up.

    Args:
        folder: where ROxford5k's features are; a made-up set of about that size is served without.
        clients: how many at once, one measurement each of so many `seconds`.
        sustained, changing: seconds of the long run, and of the changes; 0 leaves them out.
        crowd: clients of the overload; 0 leaves it out.
        rows: (queries, gallery), to serve something else.
    """
    name, queries, gallery = _set(folder, rows)
    found: dict[str, Any] = {
        "set": name, "items": len(gallery), "dimensions": gallery.shape[1], "method": "lpmt", "mode": "online",
        "workers": workers, "k": 10,
    }  # fmt: skip
    report = Progress(progress)
    with scratch_folder() as place:
        load = _prepared(gallery, queries, place, seconds)
        folder = place / "gallery"
        settings = Settings(str(folder), writable=True, port=0, workers=workers, limits=limits or Limits())
        with running(settings) as (address, process):
            load = replace(load, address=address)
            apply(replace(load, seconds=min(2.0, seconds), readers=8))  # warms up
            parts: list[tuple[str, Any, Callable[[], Any]]] = [
                ("clients", clients, lambda: [_step(load, count, process) for count in clients]),
                ("sustained", sustained, lambda: _sustained(replace(load, seconds=sustained), process)),
                ("overload", crowd, lambda: _step(load, crowd, process)),
                ("changes", changing, lambda: _changing(replace(load, seconds=changing))),
            ]
            wanted = [(part, work) for part, asked, work in parts if asked]
            for done, (part, work) in enumerate(wanted):
                report.stage(part, done, len(wanted))
                found[part] = work()
            report.stage("saving", len(wanted), len(wanted))
        if "changes" in found:
            found["changes"] = _counted(found["changes"], set(Manifold.load(folder).ids.tolist()))
    return record("service", found)


def table_rows(measured: dict[str, Any], unit: str = "") -> list[tuple[str, ...]]:
    """A row per number of clients, then those of the long run and of the overload, as far as they were measured.

    Its cells: clients, seconds, searches per second; milliseconds until 50, 95 and 99 % were answered, with the unit
    behind them; how many were answered 200, how many 503, and how many were answered otherwise or not at all.
    """
    rows: list[tuple[str, ...]] = []
    parts = [measured[part] for part in ("sustained", "overload") if part in measured]
    for one in [*measured.get("clients", ()), *parts]:
        statuses = dict(one["statuses"])
        good, later = statuses.pop("200", 0), statuses.pop("503", 0)
        other = sum(statuses.values()) + sum(one["errors"].values())
        times = (f"{one[name]:.1f}{unit}" for name in ("p50_ms", "p95_ms", "p99_ms"))
        counts = (str(good), str(later), str(other))
        rows.append((str(one["clients"]), f"{one['seconds']:.0f}", f"{one['per_second']:.0f}", *times, *counts))
    return rows


def _set(folder: str | os.PathLike[str] | None, rows: tuple[Any, Any] | None) -> tuple[str, Any, Any]:
    if rows is not None:
        return "given", *rows
    if folder is not None:
        one = published(SET, folder)
        return SET, np.asarray(one.queries, np.float32), np.asarray(one.gallery, np.float32)
    made = curves(ITEMS + QUERIES, DIMENSIONS)
    return "curves", made[:QUERIES], made[QUERIES:]


def _prepared(gallery: Any, queries: Any, place: Path, seconds: float) -> Load:
    """Write the folder that is served, the vectors that ask, and those that are added."""
    chance = np.random.default_rng(0)

    def near(vectors: Any) -> Any:
        far = JITTER * np.linalg.norm(vectors, axis=1, keepdims=True) / np.sqrt(vectors.shape[1])
        return (vectors + far * chance.standard_normal(vectors.shape)).astype(np.float32)

    Manifold.build(gallery, ids=[f"item-{number}" for number in range(len(gallery))]).save(place / "gallery")
    asked, more = place / "asked.npy", place / "more.npy"
    np.save(asked, np.concatenate([queries, *(near(queries) for _ in range(VARIANTS))]))
    np.save(more, near(gallery[chance.permutation(len(gallery))[:ADDED]]))
    return Load("", seconds, str(asked), READERS, more=str(more))


def _step(load: Load, clients: int, process: int) -> dict[str, Any]:
    """So many clients at once, and the time of processors that the service took per answer."""
    before = processor_seconds(process)
    found = apply(replace(load, readers=clients))["readers"]
    after = processor_seconds(process)
    used = None if before is None or after is None else 1000 * (after - before) / max(found["answered"], 1)
    return {"clients": clients, **found, "processor_ms": used}


def _sustained(load: Load, process: int) -> dict[str, Any]:
    """One long run, and the memory at its start, middle and end."""
    seen: list[int | None] = []

    def look() -> None:
        for pause in (0.05, 0.45, 0.45):
            time.sleep(pause * load.seconds)
            seen.append(memory_bytes(process))

    looking = threading.Thread(target=look)
    looking.start()
    found = _step(load, MANY, process)
    looking.join()
    return {**found, "memory_bytes": seen}


def _changing(load: Load) -> dict[str, Any]:
    """Items come and go under load; then every one of them is looked up, in whichever worker answers."""
    items = _asked(load, "GET", "/v1/info")[1]["items"]
    found = apply(replace(load, readers=READERS, writers=WRITERS))
    writers = found["writers"]
    _wait_for(load, writers["version"])
    more = np.load(load.more, allow_pickle=False)
    present = {one: _asked(load, "GET", f"/v1/items/{one}")[0] for one in writers["present"]}
    gone = {one: _asked(load, "GET", f"/v1/items/{one}")[0] for one in writers["gone"]}
    near = {one: _searched(load, more[row]) for one, row in writers["present"].items()}
    after = _asked(load, "GET", "/v1/info")[1]["items"]
    return {
        **writers, "readers": found["readers"],
        "lost": sum(status != 200 for status in present.values()),
        "back": sum(status != 404 for status in gone.values()),
        "not_found": sum(one not in ids for one, ids in near.items()),
        "miscounted": after - items - len(present) if not writers["unknown"] else None,
    }  # fmt: skip


def _counted(changes: dict[str, Any], ids: set[str]) -> dict[str, Any]:
    """Numbers instead of ids; and how many acknowledged changes the folder lacks when the service has ended."""
    lacking = len(set(changes["present"]) - ids) + len(set(changes["gone"]) & ids)
    return {**changes, **{name: len(changes[name]) for name in ("present", "gone", "unknown")}, "lost_on_disk": lacking}


def _wait_for(load: Load, version: int, seconds: float = 60.0) -> None:
    """Return when workers know this version: as many new connections in a row as would hardly all miss one of them."""
    deadline, known = time.monotonic() + seconds, 0
    while known < 20:
        known = known + 1 if _asked(load, "GET", "/v1/info")[1]["version"] >= version else 0
        if time.monotonic() > deadline:
            raise OSError(f"version {version} did not reach all workers within {seconds:g} seconds")
        if not known:
            time.sleep(0.05)


def _asked(load: Load, method: str, path: str, content: Any = None) -> tuple[int, Any]:
    """Status and answer, over a connection of its own, which may lead to any of the workers."""
    import http.client  # with it the command line would start later

    host, port = load.place
    status, answer = 0, None
    for _ in range(50):
        with contextlib.closing(http.client.HTTPConnection(host, port, timeout=60)) as connection:
            body = None if content is None else json.dumps(content)
            connection.request(method, path, body, {} if content is None else {"Content-Type": "application/json"})
            response = connection.getresponse()
            status, answer = response.status, json.load(response)
        if status != 503:
            break
        time.sleep(0.1)
    return status, answer


def _searched(load: Load, row: Any) -> list[str]:
    status, answer = _asked(load, "POST", "/v1/search", {"vectors": [row.tolist()], "k": load.k})
    found: list[str] = answer["ids"][0] if status == 200 else []
    return found
