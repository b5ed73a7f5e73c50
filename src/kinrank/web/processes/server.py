"""How uvicorn is to run an application -> a server that says when it listens, and one that hands over its sockets."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator

import uvicorn

LATE = 0.1  # seconds until a connection that was just accepted is seen
BEAT = 0.5  # seconds between two signs of life
WAIT = 1.0  # seconds that clients who have a connection get to send their request


class Server(uvicorn.Server):
    """uvicorn's, which says when it listens, and leaves signals to whoever runs it.

    Its event loop calls `beat` every BEAT seconds until it is closed, as a sign that it is not stuck.
    """

    def __init__(
        self, config: uvicorn.Config, ready: Callable[[], None], beat: Callable[[], None] | None = None
    ) -> None:
        super().__init__(config)
        self._ready, self._beat = ready, beat

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()
        if self._beat is not None:
            self._beat_on(self._beat)

    def _beat_on(self, beat: Callable[[], None]) -> None:
        beat()
        asyncio.get_running_loop().call_later(BEAT, self._beat_on, beat)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Leaving(Server):
    """A server after which another one goes on with the same sockets: nobody it has accepted is sent away unheard."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:  # who comes from now on waits for the next one
            server.close()
        clock = asyncio.get_running_loop()
        deadline = clock.time() + WAIT
        await asyncio.sleep(LATE)
        while self.server_state.connections and clock.time() < deadline:
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)
