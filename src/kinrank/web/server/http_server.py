"""uvicorn with limits on clients that send too much, send too slowly or never read; with heartbeats and a handover.

uvicorn and llhttp read HTTP. The limits added here concern the bytes and seconds of a header, the seconds of a body and
the bytes in it that are not content, responses that a client leaves unread, pipelined requests, and connections.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from typing import Any, ClassVar

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from kinrank.web.settings import Limits, Settings

TICK_SECONDS = 0.25  # between two checks for late connections
KEEP_ALIVE_SECONDS = 15  # that a connection may be idle between two requests
LINGER_SECONDS = 2.0  # for a client to read why it was refused
MAX_PIPELINED_REQUESTS = 32  # waiting on one connection
UPGRADE_HEADERS = (b"upgrade", b"http2-settings")  # request another protocol
ACCEPT_DELAY_SECONDS = 0.1  # until a connection that was just accepted is visible
HEARTBEAT_SECONDS = 0.5
HANDOVER_SECONDS = 1.0  # for connected clients to send their request before another server takes over
IDLE, BUSY, LEAVING = "idle", "busy", "leaving"  # states of a connection


class HttpRefusalError(Exception):
    """The bytes are not a request that is answered here. Has a status and a message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message

    def format_response(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        """Return the complete response, after which the connection ends."""
        body = json.dumps({"detail": self.message}).encode()
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}".encode()]
        lines += [name + b": " + value for name, value in headers]
        lines += [b"content-type: application/json", b"content-length: %d" % len(body), b"connection: close"]
        lines += [b"retry-after: 1"] if self.status == 503 else []
        return b"\r\n".join([*lines, b"", body])


class ConnectionTable:
    """All connections of a process by their state, oldest first, with a timer for late ones."""

    def __init__(self) -> None:
        self.by_state: dict[str, dict[LimitedConnection, None]] = {IDLE: {}, BUSY: {}, LEAVING: {}}
        self._ticking = False

    def move(self, connection: LimitedConnection, before: str, after: str) -> None:
        self.by_state[before].pop(connection, None)
        self.by_state[after][connection] = None

    def limit(self, maximum: int) -> None:
        """If there are too many connections, end the one that has been idle longest, which can be the newest."""
        idle = self.by_state[IDLE]
        if len(idle) + len(self.by_state[BUSY]) > maximum:
            message = f"{maximum} connections are open, which is the limit; try again later"
            next(iter(idle)).make_room(HttpRefusalError(503, message))

    def watch(self, loop: asyncio.AbstractEventLoop) -> None:
        """Check for late connections periodically, as long as there are any connections."""
        if not self._ticking:
            self._ticking = True
            loop.call_later(TICK_SECONDS, self._tick, loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self._ticking = False
        connections = [connection for state in self.by_state.values() for connection in state]
        for connection in connections:
            connection.end_if_late(loop.time())
        if connections:
            self.watch(loop)


class LimitedConnection(HttpToolsProtocol):
    """One connection: idle until the header of a request is complete, busy until it is answered, or leaving."""

    limits: ClassVar[Limits]
    table: ClassVar[ConnectionTable]
    parser: Any

    def __init__(self, *args: Any, **keywords: Any) -> None:
        super().__init__(*args, **keywords)
        self._state = IDLE
        self._deadline = math.inf  # when the timer ends this connection
        self._unread_since: float | None = None  # since when the client has left something unread
        self._overhead_bytes = 0  # since the last byte of a body, or since the end of the last request
        self._has_received = False  # since the last complete header
        self._is_incomplete = False  # the header is complete, and its body is not
        self._is_upgrade = False  # the header requests another protocol, so it is read again without that

    # ---- connections

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._move_to(IDLE)
        self._set_deadline(self.limits.header_seconds)
        self.table.watch(self.loop)
        self.table.limit(self.limits.connections)

    def make_room(self, reason: HttpRefusalError) -> None:
        """End this connection, which has no running request, because there are too many."""
        newest = next(reversed(self.table.by_state[IDLE]))
        if len(self.table.by_state[LEAVING]) >= self.limits.connections:
            self._leave(self.transport.abort)
        elif self._has_received or self is newest:
            self._refuse(reason)
        else:
            self._leave(self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self.table.by_state[self._state].pop(self, None)
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def _move_to(self, state: str) -> None:
        self.table.move(self, self._state, state)
        self._state = state

    # ---- time

    def _set_deadline(self, seconds: float) -> None:
        self._deadline = self.loop.time() + seconds

    def end_if_late(self, now: float) -> None:
        """End the connection if its deadline has passed. Called by the timer."""
        if not self.transport.get_write_buffer_size():
            self._unread_since = None
        elif self._unread_since is None:
            self._unread_since = now
        if now > self._deadline:
            self._end()
        elif self._unread_since is not None and now - self._unread_since > self.limits.seconds:
            self._leave(self.transport.abort)

    def _end(self) -> None:
        if self._state is LEAVING:
            self.transport.abort()
        elif self._is_incomplete:
            message = f"the request was not complete within {self.limits.seconds:g} seconds; send it faster"
            self._refuse(HttpRefusalError(408, message))
        elif self._has_received:
            message = f"the header was not complete within {self.limits.header_seconds:g} seconds; send it faster"
            self._refuse(HttpRefusalError(408, message))
        else:
            self._leave(self.transport.close)

    # ---- bytes

    def data_received(self, data: bytes) -> None:
        if self._state is LEAVING:
            return
        self._unset_keepalive_if_required()
        if self._state is IDLE:
            self._start_header()
        self._overhead_bytes += len(data)
        try:
            self._feed(data)
            if self._overhead_bytes > self.limits.header_bytes:
                raise self._make_too_large_error()
        except HttpRefusalError as refusal:
            self._refuse(refusal)

    def _start_header(self) -> None:
        if not self._has_received:
            self._has_received = True
            self._set_deadline(self.limits.header_seconds)

    def _feed(self, data: bytes) -> None:
        """Let the parser call the methods below; an HttpRefusalError for bytes that it does not understand."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._feed_without_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserCallbackError as error:
            if isinstance(error.__context__, HttpRefusalError):
                raise error.__context__ from None
            raise HttpRefusalError(400, "the URL of the request is not valid; send a path such as /v1/info") from None
        except httptools.HttpParserError as error:
            if "PRI" in str(error):
                raise HttpRefusalError(505, "HTTP/2 is not supported; use HTTP/1.1") from None
            raise HttpRefusalError(400, f"this is not an HTTP request: {error}") from None

    def _feed_without_upgrade(self, rest: bytes) -> None:
        """Read a request for another protocol again as an ordinary one, which HTTP allows."""
        head = [self.parser.get_method() + b" " + self.url + b" HTTP/" + self.parser.get_http_version().encode()]
        for name, value in self.headers:
            if name == b"connection":
                options = [option.strip() for option in value.split(b",")]
                value = b", ".join(option for option in options if option.lower() not in UPGRADE_HEADERS)
            if name not in UPGRADE_HEADERS:
                head.append(name + b": " + value)
        self.parser, self._is_upgrade = httptools.HttpRequestParser(self), False
        self._feed(b"\r\n".join([*head, b"", b""]))
        self._feed(rest)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._start_header()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._is_incomplete:  # headers after the body are ignored
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > self.limits.header_bytes:
            raise self._make_too_large_error()
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            self._is_upgrade = True
            return
        self._check_header()
        if len(self.pipeline) >= MAX_PIPELINED_REQUESTS:
            message = f"{MAX_PIPELINED_REQUESTS} requests wait on this connection; wait for their answers"
            raise HttpRefusalError(503, message)
        super().on_headers_complete()
        self._move_to(BUSY)
        self._overhead_bytes, self._has_received, self._is_incomplete = 0, False, True
        self._set_deadline(self.limits.seconds)

    def _check_header(self) -> None:
        """Refuse what two readers of the same bytes could understand differently."""
        is_old = self.parser.get_http_version() == "1.0"
        hosts = len(self._get_hosts())
        self._check_target()
        if hosts > 1 or (hosts == 0 and not is_old):
            raise HttpRefusalError(400, f"the request has {hosts} Host headers; send one")
        for name, value in self.headers:
            if name == b"transfer-encoding" and (is_old or value.lower() != b"chunked"):
                message = "this Transfer-Encoding is not supported; send chunked, or a Content-Length"
                raise HttpRefusalError(501, message)

    def _check_target(self) -> None:
        """Check that a request line with an absolute URL, as proxies get it, names the same host as the Host header."""
        if self.url.startswith(b"/"):
            return
        scheme, mark, rest = self.url.partition(b"://")
        named = re.split(b"[/?#]", rest)[0].lower()
        if mark and (scheme.lower() not in (b"http", b"https") or self._get_hosts() != [named]):
            message = "the request line names another host than the Host header; send a path such as /v1/info"
            raise HttpRefusalError(421, message)

    def _get_hosts(self) -> list[bytes]:
        return [value.lower() for name, value in self.headers if name == b"host"]

    def _make_too_large_error(self) -> HttpRefusalError:
        maximum = self.limits.header_bytes
        return HttpRefusalError(
            431, f"the header, or data after it that is not body, has more than {maximum} bytes; send less"
        )

    def on_body(self, body: bytes) -> None:
        self._overhead_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._is_upgrade:
            return
        self._overhead_bytes, self._is_incomplete, self._deadline = 0, False, math.inf
        super().on_message_complete()
        self._settle()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._is_incomplete and self.cycle.response_complete and self._state is BUSY:
            self._set_deadline(LINGER_SECONDS)  # answered before the request was complete: do not wait for the rest
        self._settle()

    def _settle(self) -> None:
        """Make a connection without a request idle, so that it is the first to end if there are too many."""
        if self._state is BUSY and self.cycle.response_complete and not (self.pipeline or self._is_incomplete):
            self._move_to(IDLE)
            if not self._has_received:
                self._set_deadline(self.timeout_keep_alive)

    # ---- leaving

    def _refuse(self, refusal: HttpRefusalError) -> None:
        """Send the reason and end the connection once it is read; complete requests are answered first."""
        if self.cycle is not None and not self.cycle.response_complete and not self._is_incomplete:
            self._move_to(LEAVING)
            self._deadline, self.cycle.keep_alive = math.inf, False
        elif self.transport.is_closing() or (self._is_incomplete and (self.pipeline or self.cycle.response_started)):
            self._leave(self.transport.abort)  # another response is under way, so no reason can be sent
        else:
            self.transport.write(refusal.format_response(self.server_state.default_headers))
            self._leave(self.transport.write_eof)

    def _leave(self, end: Callable[[], None]) -> None:
        self._move_to(LEAVING)
        self._set_deadline(LINGER_SECONDS)
        if self.cycle is not None:
            self.cycle.disconnected = True  # the application must not write after the reason
            self.cycle.message_event.set()
        end()


def make_server_config(settings: Settings, app: Any, headers: Sequence[tuple[str, str]] = ()) -> uvicorn.Config:
    """Configure uvicorn for an application: no log of requests, no other protocols, and the limits above.

    `headers` are added to every response.
    """
    protocol = type("Connection", (LimitedConnection,), {"limits": settings.limits, "table": ConnectionTable()})
    return uvicorn.Config(
        app,
        loop="auto",
        http=protocol,
        ws="none",
        lifespan="on",
        interface="asgi3",
        log_config=None,
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=settings.limits.grace,
        headers=list(headers),
    )


class UvicornServer(uvicorn.Server):
    """uvicorn server that reports when it listens and leaves signals to its caller.

    Its event loop calls `beat` every HEARTBEAT_SECONDS until it is closed, as a sign that it is not blocked.
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
            self._beat_forever(self._beat)

    def _beat_forever(self, beat: Callable[[], None]) -> None:
        beat()
        asyncio.get_running_loop().call_later(HEARTBEAT_SECONDS, self._beat_forever, beat)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class HandoverServer(UvicornServer):
    """Server whose sockets another server takes over: no accepted client is dropped without an answer."""

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:  # new clients wait for the next server
            server.close()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + HANDOVER_SECONDS
        await asyncio.sleep(ACCEPT_DELAY_SECONDS)
        while self.server_state.connections and loop.time() < deadline:
            await asyncio.sleep(0.02)
        await super().shutdown(sockets)
