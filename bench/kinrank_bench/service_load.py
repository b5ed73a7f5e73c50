"""Bench of `kinrank serve` under load: searches per second, latency, memory, overload, durability of changes."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from kinrank.files.user_folders import scratch_folder
from kinrank.lazy_import import import_extra
from kinrank.manifold import Manifold
from kinrank.progress import Progress, ProgressOption
from kinrank.web.settings import Limits, Settings
from kinrank_bench.datasets.benchmark import load as published
from kinrank_bench.declaration import Option, OxfordOrRandom
from kinrank_bench.load_generator import Load, run_load
from kinrank_bench.record import Record, make_record
from kinrank_bench.synthetic import curves
from kinrank_bench.tables import Column, Table, fill

SET = "roxford5k"
SUSTAINED_CLIENTS = 64
READERS, WRITERS = 8, 4  # clients while items are added and removed
VARIANTS, JITTER = 10, 0.1  # per query: number of variants, and their distance as a share of its length
ITEMS, DIMENSIONS, QUERIES = 5000, 128, 70  # of the synthetic set
ADDED_VECTORS = 2000  # vectors that writers choose from
STOP_TIMEOUT_SECONDS = 60.0  # to save everything
CLIENT_COLUMNS = (
    Column("clients", "{clients}"),
    Column("seconds", "{seconds:.0f}"),
    Column("searches/s", "{per_second:.0f}"),
    Column("p50, ms", "{p50_ms:.1f}"),
    Column("p95, ms", "{p95_ms:.1f}"),
    Column("p99, ms", "{p99_ms:.1f}"),
    Column("200", lambda row: str(row["statuses"].get("200", 0))),
    Column("503", lambda row: str(row["statuses"].get("503", 0))),
    Column("other", lambda row: _count_other_answers(row)),
)
SERVICE_TITLE = "{set}, {items} items x {dimensions}, {workers} workers, online, k 10"
CHANGES_TEXT = (
    "while {added} items were added and {gone} removed: {readers[per_second]:.0f} searches/s; of the acknowledged "
    "{lost} lost, {back} back, {lost_on_disk} lost on disk"
)


@dataclass(frozen=True)
class ServiceRuns:
    """The runs of one measurement of a service.

    Attributes:
        clients: numbers of simultaneous clients, one measurement of `seconds` each.
        sustained, changing: seconds of the long run and of the changes; 0 skips them.
        crowd: number of clients of the overload, far more than the service accepts; 0 skips it.
    """

    clients: Annotated[Sequence[int], Option("Numbers of concurrent clients, one run each.", least=1)] = (1, 8, 64)
    seconds: Annotated[float, Option("Seconds of each of these runs.", least=1, most=600)] = 8.0
    sustained: Annotated[float, Option("Seconds of the long run.", least=0, most=3600)] = 60.0
    crowd: int = 600
    changing: float = 15.0


def service(
    folder: OxfordOrRandom = None,
    workers: Annotated[int, Option("Number of worker processes.", least=1, most=64)] = 2,
    runs: ServiceRuns = ServiceRuns(),
    progress: ProgressOption = None,
    limits: Limits | None = None,
    rows: tuple[Any, Any] | None = None,
) -> dict[str, Any]:
    """Start a service on this machine, send it requests from another process, and measure. It stops by itself.

    \b
    kinrank bench service --data DIR
    kinrank bench service --workers 4 --clients 1,16 --sustained 0

    After the runs of --clients and the long run, more clients send requests than the service accepts: each one must
    be answered or refused with 503. Then items are added and removed under load, and acknowledged changes are
    verified.

    Args:
        rows: (queries, gallery) to serve instead.
    """
    import_extra("fastapi", "kinrank bench service", "web")
    name, queries, gallery = _load_vectors(folder, rows)
    results: dict[str, Any] = {
        "set": name,
        "items": len(gallery),
        "dimensions": gallery.shape[1],
        "method": "lpmt",
        "mode": "online",
        "workers": workers,
        "k": 10,
    }
    report = Progress(progress)
    with scratch_folder() as scratch:
        load = _write_inputs(gallery, queries, scratch, runs.seconds)
        folder = scratch / "gallery"
        settings = Settings(str(folder), writable=True, port=0, workers=workers, limits=limits or Limits())
        with run_service(settings) as (address, process):
            load = replace(load, address=address)
            run_load(replace(load, seconds=min(2.0, runs.seconds), readers=8))  # warm-up
            parts: list[tuple[str, Any, Callable[[], Any]]] = [
                ("clients", runs.clients, lambda: [_measure_clients(load, count, process) for count in runs.clients]),
                (
                    "sustained",
                    runs.sustained,
                    lambda: _measure_sustained_rate(replace(load, seconds=runs.sustained), process),
                ),
                ("overload", runs.crowd, lambda: _measure_clients(load, runs.crowd, process)),
                ("changes", runs.changing, lambda: _measure_changes(replace(load, seconds=runs.changing))),
            ]
            selected = [(part, work) for part, size, work in parts if size]
            for done, (part, work) in enumerate(selected):
                report.stage(part, done, len(selected))
                results[part] = work()
            report.stage("saving", len(selected), len(selected))
        if "changes" in results:
            results["changes"] = _count_changes(results["changes"], set(Manifold.load(folder).ids.tolist()))
    return make_record("service", results)


def client_table(record: Record) -> Table:
    """Build a table with a row per number of clients, then those of the long run and of the overload."""
    parts = [record[part] for part in ("sustained", "overload") if part in record]
    return Table.from_rows(fill(SERVICE_TITLE, record), CLIENT_COLUMNS, [*record.get("clients", ()), *parts])


def _count_other_answers(row: Record) -> str:
    counted = sum(count for status, count in row["statuses"].items() if status not in ("200", "503"))
    return str(counted + sum(row["errors"].values()))


def show_service(record: Record) -> Iterator[Table | str]:
    """Yield searches by number of clients, and the results of the long run and of changes under load."""
    yield client_table(record)
    if "sustained" in record:
        yield f"memory of all processes at the start, middle and end of the long run: {describe_memory(record)}"
    if "changes" in record:
        changes = record["changes"]
        yield fill(CHANGES_TEXT, {**changes, "added": changes["present"] + changes["gone"]})


def describe_memory(record: Record) -> str:
    """Return the memory of all processes during the long run."""
    sizes = [size for size in record["sustained"]["memory_bytes"] if size is not None]
    return ", ".join(f"{size / 2**20:.0f} MB" for size in sizes) or "unknown on this system"


def _load_vectors(folder: str | os.PathLike[str] | None, rows: tuple[Any, Any] | None) -> tuple[str, Any, Any]:
    if rows is not None:
        return "given", *rows
    if folder is not None:
        bench = published(SET, folder)
        return SET, np.asarray(bench.queries, np.float32), np.asarray(bench.gallery, np.float32)
    synthetic = curves(ITEMS + QUERIES, DIMENSIONS)
    return "curves", synthetic[:QUERIES], synthetic[QUERIES:]


def _write_inputs(gallery: Any, queries: Any, scratch: Path, seconds: float) -> Load:
    """Write the gallery to serve, the query vectors and the vectors to add."""
    chance = np.random.default_rng(0)

    def near(vectors: Any) -> Any:
        far = JITTER * np.linalg.norm(vectors, axis=1, keepdims=True) / np.sqrt(vectors.shape[1])
        return (vectors + far * chance.standard_normal(vectors.shape)).astype(np.float32)

    Manifold.build(gallery, ids=[f"item-{number}" for number in range(len(gallery))]).save(scratch / "gallery")
    query_file, new_file = scratch / "asked.npy", scratch / "more.npy"
    np.save(query_file, np.concatenate([queries, *(near(queries) for _ in range(VARIANTS))]))
    np.save(new_file, near(gallery[chance.permutation(len(gallery))[:ADDED_VECTORS]]))
    return Load("", seconds, str(query_file), READERS, more=str(new_file))


def _measure_clients(load: Load, clients: int, process: int) -> dict[str, Any]:
    """Measure a number of simultaneous clients, and the CPU time of the service per answer."""
    before = cpu_seconds(process)
    result = run_load(replace(load, readers=clients))["readers"]
    after = cpu_seconds(process)
    used = None if before is None or after is None else 1000 * (after - before) / max(result["answered"], 1)
    return {"clients": clients, **result, "processor_ms": used}


def _measure_sustained_rate(load: Load, process: int) -> dict[str, Any]:
    """Measure one long run, and the memory at its start, middle and end."""
    samples: list[int | None] = []

    def sample_memory() -> None:
        for pause in (0.05, 0.45, 0.45):
            time.sleep(pause * load.seconds)
            samples.append(memory_bytes(process))

    observer = threading.Thread(target=sample_memory)
    observer.start()
    result = _measure_clients(load, SUSTAINED_CLIENTS, process)
    observer.join()
    return {**result, "memory_bytes": samples}


def _measure_changes(load: Load) -> dict[str, Any]:
    """Add and remove items under load; then look up each of them, in whichever worker answers."""
    items = _send_request(load, "GET", "/v1/info")[1]["items"]
    result = run_load(replace(load, readers=READERS, writers=WRITERS))
    writers = result["writers"]
    _wait_for_version(load, writers["version"])
    new_rows = np.load(load.more, allow_pickle=False)
    present = {item: _send_request(load, "GET", f"/v1/items/{item}")[0] for item in writers["present"]}
    gone = {item: _send_request(load, "GET", f"/v1/items/{item}")[0] for item in writers["gone"]}
    near = {item: _search_ids(load, new_rows[row]) for item, row in writers["present"].items()}
    after = _send_request(load, "GET", "/v1/info")[1]["items"]
    return {
        **writers,
        "readers": result["readers"],
        "lost": sum(status != 200 for status in present.values()),
        "back": sum(status != 404 for status in gone.values()),
        "not_found": sum(item not in ids for item, ids in near.items()),
        "miscounted": after - items - len(present) if not writers["unknown"] else None,
    }


def _count_changes(changes: dict[str, Any], ids: set[str]) -> dict[str, Any]:
    """Replace ids by counts; add the number of acknowledged changes missing in the folder after the end."""
    lacking = len(set(changes["present"]) - ids) + len(set(changes["gone"]) & ids)
    return {**changes, **{name: len(changes[name]) for name in ("present", "gone", "unknown")}, "lost_on_disk": lacking}


def _wait_for_version(load: Load, version: int, seconds: float = 60.0) -> None:
    """Wait until the workers have this version, checked by many new connections in a row."""
    deadline, known = time.monotonic() + seconds, 0
    while known < 20:
        known = known + 1 if _send_request(load, "GET", "/v1/info")[1]["version"] >= version else 0
        if time.monotonic() > deadline:
            raise OSError(f"version {version} did not reach all workers within {seconds:g} seconds")
        if not known:
            time.sleep(0.05)


def _send_request(load: Load, method: str, path: str, content: Any = None) -> tuple[int, Any]:
    """Send a request over a new connection, which may reach any worker; return status and answer."""
    import http.client  # not at the top: it would delay the start of the command line

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


def _search_ids(load: Load, row: Any) -> list[str]:
    status, answer = _send_request(load, "POST", "/v1/search", {"vectors": [row.tolist()], "k": load.k})
    ids: list[str] = answer["ids"][0] if status == 200 else []
    return ids


@contextlib.contextmanager
def run_service(settings: Settings) -> Iterator[tuple[str, int]]:
    """Run a service with these settings; yield its address and the id of its first process."""
    command = [sys.executable, "-m", "kinrank.web.server.supervisor"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        print(settings.to_json(), file=process.stdin, flush=True)
        address = process.stdout.readline().strip()
        if not address:
            raise OSError(f"the service did not start; it ended with code {process.wait(STOP_TIMEOUT_SECONDS)}")
        yield address, process.pid
    finally:
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()  # ends the service
        try:
            process.wait(STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def process_family(process: int) -> list[int]:
    """Return a process and its children, according to /proc."""
    family = [process]
    with contextlib.suppress(OSError):
        family += [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    return family


def memory_bytes(process: int) -> int | None:
    """Return the memory of a process and its children; shared memory counts once. None without /proc."""
    try:
        texts = [Path(f"/proc/{member}/smaps_rollup").read_text() for member in process_family(process)]
    except OSError:
        return None
    return 1024 * sum(int(line.split()[1]) for text in texts for line in text.splitlines() if line.startswith("Pss:"))


def cpu_seconds(process: int) -> float | None:
    """Return the CPU time used so far by a process and its children; None without /proc."""
    try:
        texts = [
            Path(f"/proc/{member}/stat").read_text().rpartition(")")[2].split() for member in process_family(process)
        ]
    except OSError:
        return None
    return sum(int(words[11]) + int(words[12]) for words in texts) / os.sysconf("SC_CLK_TCK")
