"""Many requests of all kinds to a real service: every answer is the expected one, and its memory stays flat.

KINRANK_REQUESTS says how many; 5,000 unless given. By hand: KINRANK_REQUESTS=100000.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the service needs the extra [web]")


pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="it is /proc that knows how much memory a process holds"),
]

COUNT = int(os.environ.get("KINRANK_REQUESTS", "5000"))
ITEMS, DIMENSIONS = 400, 32
WARM_SHARE = 0.2  # of all requests, after which memory must not grow any more
SLACK_BYTES = 24 * 2**20  # for arenas of the allocator; a leak of 300 bytes per request would pass it at 100,000
PARTS = 20  # how often memory is measured


class Asked(NamedTuple):
    """One request, and the status that answers it."""

    method: str
    path: str
    content: Any
    status: int


def requests(rows: np.ndarray) -> Iterator[Asked]:
    """Endlessly: mostly searches, and everything else that reads, right and wrong; changes that undo each other."""
    for number in itertools.count():
        row = rows[number % ITEMS].tolist()
        name = f"item_{number % ITEMS:03d}"
        yield Asked("POST", "/v1/search", {"vectors": [row], "k": 10}, 200)
        yield Asked(
            "POST", "/v1/search", {"ids": [name], "k": 5, "where": [f"item_{one:03d}" for one in range(50)]}, 200
        )
        yield Asked("GET", f"/v1/items/{name}", None, 200)
        yield Asked("GET", f"/view/items?offset={number % 300}", None, 200)
        yield Asked("GET", f"/view/pictures/{name}?size=64", None, -1)
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
    """Bytes of memory that a process holds and shares with nobody."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Private_"))
