"""A service on this machine, asked by many clients at once for some seconds -> how many answers, how late, which.

`python -m kinrank.bench.load` is a process of its own, so that it takes little from the service it measures; it reads a
job as JSON from standard input and prints what it found as JSON. It speaks to this machine only, and ends by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import ipaddress
import json
import random
import re
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import urlsplit

import numpy as np

LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
INSIDE = re.compile(rb'"seconds": *([0-9.e-]+)')
SHARES = (50, 95, 99)
LAST = 40.0  # seconds after which an answer that is still missing is none


@dataclass(frozen=True)
class Load:
    """What to send, and for how long.

    Attributes:
        address: of the service; on this machine.
        seconds: no request is begun after this time.
        vectors: a .npy of (m, d) vectors that readers ask with, in random order.
        readers: clients that search, each as soon as it has its answer.
        writers: clients that add items and remove some of them again.
        more: a .npy of vectors that writers add.
        pace: seconds between two changes of one writer.
        pause: seconds that a client waits after it was told to come back later.
        name: how the ids of added items begin.
        k: results per search.
    """

    address: str
    seconds: float
    vectors: str
    readers: int
    writers: int = 0
    more: str = ""
    pace: float = 0.1
    pause: float = 0.25
    name: str = "added"
    k: int = 10

    @property
    def place(self) -> tuple[str, int]:
        """Host and port, or a ValueError for any machine but this one."""
        parts = urlsplit(self.address)
        host = "127.0.0.1" if parts.hostname == "localhost" else parts.hostname or ""
        with contextlib.suppress(ValueError):
            if ipaddress.ip_address(host).is_loopback and parts.port:
                return host, parts.port
        raise ValueError(f"address {self.address!r} is not on this machine; load is made on 127.0.0.1 only")


def apply(load: Load) -> dict[str, Any]:
    """What the process found: `readers` and `writers`, see `Tally` and `Changes`."""
    load.place  # noqa: B018 - refused here rather than there
    command = [sys.executable, "-m", "kinrank.bench.load"]
    done = subprocess.run(
        command, input=json.dumps(asdict(load)), capture_output=True, text=True, timeout=load.seconds + LAST + 60
    )
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise OSError(f"the clients ended with code {done.returncode}: {said[:300]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


class Connection:
    """One client: a connection that is kept, and made again where it was closed."""

    def __init__(self, place: tuple[str, int]) -> None:
        self._place = place
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Status and body of the answer."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._place)
        reader, writer = self._streams
        try:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = LENGTH.search(head)
            body = await reader.readexactly(int(length[1]) if length else 0)
        except BaseException:
            self.close()
            raise
        if b"connection: close" in head.lower():
            self.close()
        return int(head[9:12]), body

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


@dataclass
class Tally:
    """Answers by status, what else happened, and the seconds that good answers took."""

    statuses: Counter[int] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    inside: list[float] = field(default_factory=list)  # as the service says

    async def ask(self, connection: Connection, request: bytes) -> tuple[int, bytes]:
        """Status and body; 0 where there was no answer."""
        started = time.perf_counter()
        try:
            status, body = await asyncio.wait_for(connection.ask(request), LAST)
        except (OSError, EOFError, asyncio.TimeoutError) as error:
            self.errors[type(error).__name__] += 1
            return 0, b""
        self.statuses[status] += 1
        if status == 200:
            self.seconds.append(time.perf_counter() - started)
            said = INSIDE.search(body)
            if said is not None:
                self.inside.append(float(said[1]))
        return status, body

    def told(self, seconds: float) -> dict[str, Any]:
        taken = 1000 * np.array(self.seconds or [np.nan])
        return {
            "seconds": seconds,
            "statuses": {str(status): count for status, count in sorted(self.statuses.items())},
            "errors": dict(self.errors),
            "answered": len(self.seconds),
            "per_second": len(self.seconds) / seconds,
            **{f"p{share}_ms": float(np.percentile(taken, share)) for share in SHARES},
            "largest_ms": float(taken.max()),
            "search_ms": 1000 * float(np.mean(self.inside)) if self.inside else None,
        }


@dataclass
class Changes:
    """What writers were told is there, what they were told is gone, and what they were not told."""

    present: dict[str, int] = field(default_factory=dict)  # id -> its row in `more`
    gone: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    version: int = 0


def request(method: str, path: str, content: Any) -> bytes:
    body = json.dumps(content).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def _read(load: Load, until: float, requests: list[bytes], tally: Tally, chance: random.Random) -> None:
    connection = Connection(load.place)
    while time.perf_counter() < until:
        status, _ = await tally.ask(connection, chance.choice(requests))
        if status != 200:
            await asyncio.sleep(load.pause)
    connection.close()


async def _write(
    load: Load, until: float, number: int, rows: Any, tally: Tally, changes: Changes, chance: random.Random
) -> None:
    """Add one to three items, or remove as many of one's own, again and again."""
    connection, count, mine = Connection(load.place), 0, list[str]()
    while time.perf_counter() < until:
        some = chance.randint(1, 3)
        if len(mine) > 6 and chance.random() < 0.5:
            ids = [mine.pop(chance.randrange(len(mine))) for _ in range(some)]
            status, body = await tally.ask(connection, request("DELETE", "/v1/items", {"ids": ids}))
            for one in ids:
                changes.present.pop(one)
            (changes.gone if status == 200 else changes.unknown).extend(ids)
        else:
            ids = [f"{load.name}-{number}-{count + place}" for place in range(some)]
            places, count = [(number + 31 * (count + place)) % len(rows) for place in range(some)], count + some
            content = {"ids": ids, "vectors": [rows[place] for place in places]}
            status, body = await tally.ask(connection, request("POST", "/v1/items", content))
            if status == 200:
                changes.present.update(zip(ids, places, strict=True))
                mine += ids
            else:
                changes.unknown.extend(ids)
        if status == 200:
            changes.version = max(changes.version, json.loads(body)["version"])
        await asyncio.sleep(load.pace if status == 200 else load.pause)
    connection.close()


async def _applied(load: Load) -> dict[str, Any]:
    rows = np.load(load.vectors, allow_pickle=False).tolist()
    more = np.load(load.more, allow_pickle=False).tolist() if load.writers else []
    requests = [request("POST", "/v1/search", {"vectors": [row], "k": load.k}) for row in rows]
    read, written, changes = Tally(), Tally(), Changes()
    started = time.perf_counter()
    until = started + load.seconds
    clients = [_read(load, until, requests, read, random.Random(number)) for number in range(load.readers)]
    clients += [
        _write(load, until, number, more, written, changes, random.Random(-1 - number))
        for number in range(load.writers)
    ]
    await asyncio.gather(*clients)
    seconds = time.perf_counter() - started
    found: dict[str, Any] = {"readers": read.told(seconds)}
    if load.writers:
        found["writers"] = {**written.told(seconds), **asdict(changes)}
    return found


def main() -> None:
    load = Load(**json.load(sys.stdin))
    make = asyncio.new_event_loop
    with contextlib.suppress(ImportError):  # lighter, where it is there
        make = importlib.import_module("uvloop").new_event_loop
    print(json.dumps(make().run_until_complete(_applied(load))))


if __name__ == "__main__":
    main()
