"""Many requests of all kinds to a real service: every response is the expected one, and its memory stays flat.

KINRANK_REQUESTS is the number of requests; default 5,000. By hand: KINRANK_REQUESTS=100000.
"""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the service needs the extra [web]")

from PIL import Image

import kinrank
from kinrank.web.settings import Files, Settings
from kinrank_bench.service_load import process_family, run_service

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="it is /proc that knows how much memory a process holds"),
    pytest.mark.slow,
]

COUNT = int(os.environ.get("KINRANK_REQUESTS", "5000"))
ITEMS, DIMENSIONS = 400, 32
WARM_SHARE = 0.2  # share of the requests after which memory must not grow
SLACK_BYTES = 24 * 2**20  # for arenas of the allocator; a leak of 300 bytes per request would pass it at 100,000
PARTS = 20  # number of memory measurements


class Asked(NamedTuple):
    """A request and its expected status."""

    method: str
    path: str
    content: Any
    status: int


def requests(rows: np.ndarray) -> Iterator[Asked]:
    """Yield requests without end: mostly searches, other reads, valid and invalid, and changes with their undo."""
    for number in itertools.count():
        row = rows[number % ITEMS].tolist()
        name = f"item_{number % ITEMS:03d}"
        yield Asked("POST", "/v1/search", {"vectors": [row], "k": 10}, 200)
        yield Asked(
            "POST", "/v1/search", {"ids": [name], "k": 5, "where": [f"item_{one:03d}" for one in range(50)]}, 200
        )
        yield Asked("GET", f"/v1/items/{name}", None, 200)
        yield Asked("GET", f"/view/items?offset={number % 300}", None, 200)
        yield Asked("GET", f"/pictures/item/{name}?size=96", None, 200)
        yield Asked("POST", "/view/rank", {"query": {"item": name}, "k": 10}, 200)
        yield Asked("GET", "/v1/items/absent", None, 404)
        yield Asked("POST", "/v1/search", {"vectors": [row[:-1]]}, 422)
        yield Asked("POST", "/v1/search", {"vectors": [row], f"unknown_{number}": 1}, 422)
        yield Asked("GET", f"/nothing/{number}", None, 404)
        if number % 10 == 0:
            yield Asked("POST", "/v1/explain", {"id": name, "item": f"item_{(number + 1) % ITEMS:03d}"}, 200)
            yield Asked("POST", "/v1/search", {"ids": [name], "method": "aqe", "candidates": 50}, 200)
            yield Asked("GET", "/metrics", None, 200)
            yield Asked("GET", "/ready", None, 200)
        if number % 100 == 0:
            yield Asked("POST", "/v1/items", {"ids": ["more"], "vectors": [row]}, 200)
            yield Asked("DELETE", "/v1/items", {"ids": ["more"]}, 200)


def resident(process: int) -> int:
    """Return the private memory of a process and its workers in bytes."""
    texts = [Path(f"/proc/{one}/smaps_rollup").read_text() for one in process_family(process)]
    return 1024 * sum(int(line.split()[1]) for text in texts for line in text.splitlines() if "Private_" in line)


def served(folder: Path, rows: np.ndarray, workers: int) -> Settings:
    """Return a gallery with a picture of every item, as a service uses it."""
    names = [f"item_{number:03d}" for number in range(ITEMS)]
    kinrank.Manifold.build(rows, ids=names).save(folder / "gallery.manifold")
    (folder / "pictures").mkdir()
    for number, name in enumerate(names):
        Image.new("RGB", (32, 32), (number % 256, 0, 0)).save(folder / "pictures" / f"{name}.png")
    files = Files(images=str(folder / "pictures"))
    return Settings(str(folder / "gallery.manifold"), writable=True, port=0, workers=workers, files=files)


def answer(connection: http.client.HTTPConnection, asked: Asked) -> int:
    body = None if asked.content is None else json.dumps(asked.content)
    connection.request(asked.method, asked.path, body, {} if body is None else {"Content-Type": "application/json"})
    response = connection.getresponse()
    response.read()
    return response.status


@pytest.mark.parametrize("workers", [1, 2])
def test_memory_stays_flat(tmp_path: Path, workers: int, capsys: pytest.CaptureFixture[str]) -> None:
    rows = np.random.default_rng(0).normal(size=(ITEMS, DIMENSIONS)).astype(np.float32)
    seen, wrong = list[int](), Counter[str]()
    with run_service(served(tmp_path, rows, workers)) as (address, process):
        host, port = address.removeprefix("http://").split(":")
        asking = requests(rows)
        with contextlib.ExitStack() as opened:
            connections = [  # kept open, and more than there are workers, so that each of them gets requests
                opened.enter_context(contextlib.closing(http.client.HTTPConnection(host, int(port), timeout=120)))
                for _ in range(8)
            ]
            for _ in range(PARTS):
                for number, asked in enumerate(itertools.islice(asking, COUNT // PARTS)):
                    status = answer(connections[number % len(connections)], asked)
                    if status != asked.status:
                        wrong[f"{asked.method} {asked.path.partition('?')[0]}: {status}"] += 1
                seen.append(resident(process))
    warm = seen[int(WARM_SHARE * PARTS) :]
    with capsys.disabled():
        sizes = " ".join(f"{one / 2**20:.1f}" for one in seen)
        print(f"\n{COUNT} requests, {workers} workers, MB after each {COUNT // PARTS}: {sizes}")
    assert not wrong
    assert max(warm) - warm[0] < SLACK_BYTES, f"{(max(warm) - warm[0]) / 2**20:.1f} MB more than after the warm-up"
