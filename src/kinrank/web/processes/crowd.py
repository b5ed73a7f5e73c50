"""All connections of a process -> who is idle, busy or leaving, and a clock that ends those who are late."""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Protocol

TICK = 0.25  # seconds between two looks at the clock
IDLE, BUSY, LEAVING = "idle", "busy", "leaving"


class Refused(Exception):
    """What came is no request that is answered here: status and sentence."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(words)
        self.status, self.words = status, words

    def answer(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        """The whole answer, behind which the connection ends."""
        body = json.dumps({"detail": self.words}).encode()
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}".encode()]
        lines += [name + b": " + value for name, value in headers]
        lines += [b"content-type: application/json", b"content-length: %d" % len(body), b"connection: close"]
        lines += [b"retry-after: 1"] if self.status == 503 else []
        return b"\r\n".join([*lines, b"", body])


class Present(Protocol):
    """A connection."""

    def end_if_late(self, now: float) -> None: ...

    def make_room(self, why: Refused) -> None: ...


class Crowd:
    """The connections by what they do, those first that began it first."""

    def __init__(self) -> None:
        self.places: dict[str, dict[Present, None]] = {IDLE: {}, BUSY: {}, LEAVING: {}}
        self._ticking = False

    def move(self, connection: Present, before: str, after: str) -> None:
        self.places[before].pop(connection, None)
        self.places[after][connection] = None

    def limit(self, most: int) -> None:
        """Where there are too many, the one goes that has been idle for the longest time; maybe the last who came."""
        idle = self.places[IDLE]
        if len(idle) + len(self.places[BUSY]) > most:
            next(iter(idle)).make_room(Refused(503, f"{most} connections are open, which is the most; try again later"))

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Look at the clock every now and then, as long as there is anybody."""
        if not self._ticking:
            self._ticking = True
            loop.call_later(TICK, self._tick, loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._ticking = False
        present = [one for place in self.places.values() for one in place]
        for connection in present:
            connection.end_if_late(loop.time())
        if present:
            self.watch(loop)
