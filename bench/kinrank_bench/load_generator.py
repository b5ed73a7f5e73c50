"""Load generator: many clients send requests to a service on this machine; answers are counted and timed.

`python -m kinrank_bench.load_generator` is a separate process, so that it takes little from the service it measures. It
reads a job as JSON from standard input and prints its result as JSON. It connects to this machine only, and ends by
itself.
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

from kinrank.errors import InputError

CONTENT_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
SEARCH_SECONDS = re.compile(rb'"seconds": *([0-9.e-]+)')
PERCENTILES = (50, 95, 99)
ANSWER_TIMEOUT_SECONDS = 40.0


@dataclass(frozen=True)
class Load:
    """A load job: the requests, the clients and the duration.

    Attributes:
        address: URL of the service, on this machine.
        seconds: no request starts after this time.
        vectors: .npy file of (m, d) query vectors, which readers send in random order.
        readers: number of clients that search; each sends its next request as soon as it has an answer.
        writers: number of clients that add items and remove some of them again.
        more: .npy file of vectors that writers add.
        pace: seconds between two changes of one writer.
        pause: seconds that a client waits after an answer other than 200.
        name: prefix of the ids of added items.
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
        """Host and port; raises InputError if the service is not on this machine."""
        parts = urlsplit(self.address)
        host = "127.0.0.1" if parts.hostname == "localhost" else parts.hostname or ""
        with contextlib.suppress(ValueError):
            if ipaddress.ip_address(host).is_loopback and parts.port:
                return host, parts.port
        raise InputError(
            "is not on this machine", parameter="address", given=self.address, remedy="give an address on 127.0.0.1"
        )


def run_load(load: Load) -> dict[str, Any]:
    """Run the job in another process; return `readers` and `writers`, see `Tally` and `Changes`."""
    load.place  # noqa: B018 - raises here rather than in the child
    command = [sys.executable, "-m", "kinrank_bench.load_generator"]
    done = subprocess.run(
        command,
        input=json.dumps(asdict(load)),
        capture_output=True,
        text=True,
        timeout=load.seconds + ANSWER_TIMEOUT_SECONDS + 600,  # its start takes long on a busy machine
    )
    if done.returncode:
        message = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise RuntimeError(f"the clients ended with code {done.returncode}: {message[:300]}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


class Connection:
    """A client with a persistent connection that is reopened when the service closes it."""

    def __init__(self, place: tuple[str, int]) -> None:
        self._place = place
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        """Send a request; return status and body of the answer."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._place)
        reader, writer = self._streams
        try:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            length = CONTENT_LENGTH.search(head)
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
    """Counts of answers by status and of errors, and the seconds of successful answers."""

    statuses: Counter[int] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    inside: list[float] = field(default_factory=list)  # as measured by the service

    async def ask(self, connection: Connection, request: bytes) -> tuple[int, bytes]:
        """Send a request and count the answer; return status and body, status 0 if there was no answer."""
        started = time.perf_counter()
        try:
            status, body = await asyncio.wait_for(connection.ask(request), ANSWER_TIMEOUT_SECONDS)
        except (OSError, EOFError, asyncio.TimeoutError) as error:
            self.errors[type(error).__name__] += 1
            return 0, b""
        self.statuses[status] += 1
        if status == 200:
            self.seconds.append(time.perf_counter() - started)
            match = SEARCH_SECONDS.search(body)
            if match is not None:
                self.inside.append(float(match[1]))
        return status, body

    def summarize(self, seconds: float) -> dict[str, Any]:
        """Return the counts, rates and percentiles over `seconds`."""
        milliseconds = 1000 * np.array(self.seconds or [np.nan])
        return {
            "seconds": seconds,
            "statuses": {str(status): count for status, count in sorted(self.statuses.items())},
            "errors": dict(self.errors),
            "answered": len(self.seconds),
            "per_second": len(self.seconds) / seconds,
            **{f"p{share}_ms": float(np.percentile(milliseconds, share)) for share in PERCENTILES},
            "largest_ms": float(milliseconds.max()),
            "search_ms": 1000 * float(np.mean(self.inside)) if self.inside else None,
        }


@dataclass
class Changes:
    """Items that the service acknowledged as present or removed, and items without an acknowledgement."""

    present: dict[str, int] = field(default_factory=dict)  # id -> its row in `more`
    gone: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    version: int = 0


def encode_request(method: str, path: str, content: Any) -> bytes:
    body = json.dumps(content).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def _run_reader(load: Load, until: float, requests: list[bytes], tally: Tally, chance: random.Random) -> None:
    connection = Connection(load.place)
    while time.perf_counter() < until:
        status, _ = await tally.ask(connection, chance.choice(requests))
        if status != 200:
            await asyncio.sleep(load.pause)
    connection.close()


async def _run_writer(
    load: Load, until: float, number: int, rows: Any, tally: Tally, changes: Changes, chance: random.Random
) -> None:
    """Add one to three items, or remove as many of this writer's own, repeatedly."""
    connection, count, own_ids = Connection(load.place), 0, list[str]()
    while time.perf_counter() < until:
        batch = chance.randint(1, 3)
        if len(own_ids) > 6 and chance.random() < 0.5:
            ids = [own_ids.pop(chance.randrange(len(own_ids))) for _ in range(batch)]
            status, body = await tally.ask(connection, encode_request("DELETE", "/v1/items", {"ids": ids}))
            for item in ids:
                changes.present.pop(item)
            (changes.gone if status == 200 else changes.unknown).extend(ids)
        else:
            ids = [f"{load.name}-{number}-{count + place}" for place in range(batch)]
            places, count = [(number + 31 * (count + place)) % len(rows) for place in range(batch)], count + batch
            content = {"ids": ids, "vectors": [rows[place] for place in places]}
            status, body = await tally.ask(connection, encode_request("POST", "/v1/items", content))
            if status == 200:
                changes.present.update(zip(ids, places, strict=True))
                own_ids += ids
            else:
                changes.unknown.extend(ids)
        if status == 200:
            changes.version = max(changes.version, json.loads(body)["version"])
        await asyncio.sleep(load.pace if status == 200 else load.pause)
    connection.close()


async def _run_clients(load: Load) -> dict[str, Any]:
    rows = np.load(load.vectors, allow_pickle=False).tolist()
    new_rows = np.load(load.more, allow_pickle=False).tolist() if load.writers else []
    requests = [encode_request("POST", "/v1/search", {"vectors": [row], "k": load.k}) for row in rows]
    read_tally, write_tally, changes = Tally(), Tally(), Changes()
    started = time.perf_counter()
    until = started + load.seconds
    clients = [_run_reader(load, until, requests, read_tally, random.Random(number)) for number in range(load.readers)]
    clients += [
        _run_writer(load, until, number, new_rows, write_tally, changes, random.Random(-1 - number))
        for number in range(load.writers)
    ]
    await asyncio.gather(*clients)
    seconds = time.perf_counter() - started
    result: dict[str, Any] = {"readers": read_tally.summarize(seconds)}
    if load.writers:
        result["writers"] = {**write_tally.summarize(seconds), **asdict(changes)}
    return result


def main() -> None:
    load = Load(**json.load(sys.stdin))
    make = asyncio.new_event_loop
    with contextlib.suppress(ImportError):  # faster, if installed
        make = importlib.import_module("uvloop").new_event_loop
    print(json.dumps(make().run_until_complete(_run_clients(load))))


if __name__ == "__main__":
    main()
