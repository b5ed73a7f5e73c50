"""Bytes of a connection -> requests for the application; who sends too much, sends too slowly or never reads has to go.

uvicorn and llhttp read HTTP. What is added here are limits: on the bytes and the seconds of a head, on the seconds of a
body and on what is no body in it, on what a client leaves unread, on requests sent ahead, and on connections.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import httptools
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from kinrank.web.processes.crowd import BUSY, IDLE, LEAVING, Crowd, Refused
from kinrank.web.settings import Limits, Settings

KEEP_ALIVE = 15  # seconds that a connection may be idle between two requests
LINGER = 2.0  # seconds that a client gets to read why it was refused
AHEAD = 32  # requests that may wait behind one on the same connection
OTHER_PROTOCOL = (b"upgrade", b"http2-settings")  # headers that ask for another protocol


class Limited(HttpToolsProtocol):
    """One connection. It is idle until the head of a request is complete, busy until that is answered, or leaving."""

    limits: ClassVar[Limits]
    crowd: ClassVar[Crowd]
    parser: Any

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._place = IDLE
        self._deadline = math.inf  # when the clock ends this connection
        self._unread: float | None = None  # since when the client has left something unread
        self._aside = 0  # bytes since the last byte of a body, or since the end of the last request
        self._heard = False  # something came since the last complete head
        self._incomplete = False  # a head is complete, and its body is not
        self._plainly = False  # the head asks for another protocol: it is read again without that

    # ---- connections

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        self._to(IDLE)
        self._wait(self.limits.header_seconds)
        self.crowd.watch(self.loop)
        self.crowd.limit(self.limits.connections)

    def make_room(self, why: Refused) -> None:
        """Called where there are too many connections, and this one has no request under way."""
        newest = next(reversed(self.crowd.places[IDLE]))
        if len(self.crowd.places[LEAVING]) >= self.limits.connections:
            self._leave(self.transport.abort)
        elif self._heard or self is newest:
            self._refuse(why)
        else:
            self._leave(self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self.crowd.places[self._place].pop(self, None)
        self._unset_keepalive_if_required()
        super().connection_lost(exc)

    def _to(self, place: str) -> None:
        self.crowd.move(self, self._place, place)
        self._place = place

    # ---- time

    def _wait(self, seconds: float) -> None:
        self._deadline = self.loop.time() + seconds

    def end_if_late(self, now: float) -> None:
        """Called by the clock."""
        if not self.transport.get_write_buffer_size():
            self._unread = None
        elif self._unread is None:
            self._unread = now
        if now > self._deadline:
            self._end()
        elif self._unread is not None and now - self._unread > self.limits.seconds:
            self._leave(self.transport.abort)

    def _end(self) -> None:
        if self._place is LEAVING:
            self.transport.abort()
        elif self._incomplete:
            seconds = self.limits.seconds
            self._refuse(Refused(408, f"the request was not complete within {seconds:g} seconds; send it faster"))
        elif self._heard:
            seconds = self.limits.header_seconds
            self._refuse(Refused(408, f"the head was not complete within {seconds:g} seconds; send it faster"))
        else:
            self._leave(self.transport.close)

    # ---- bytes

    def data_received(self, data: bytes) -> None:
        if self._place is LEAVING:
            return
        self._unset_keepalive_if_required()
        if self._place is IDLE:
            self._hear()
        self._aside += len(data)
        try:
            self._feed(data)
            if self._aside > self.limits.header_bytes:
                raise self._too_much()
        except Refused as refused:
            self._refuse(refused)

    def _hear(self) -> None:
        if not self._heard:
            self._heard = True
            self._wait(self.limits.header_seconds)

    def _feed(self, data: bytes) -> None:
        """Let the parser call the functions below; a Refused for what it does not understand."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._feed_plainly(data[upgrade.args[0] :])
        except httptools.HttpParserCallbackError as error:
            if isinstance(error.__context__, Refused):
                raise error.__context__ from None
            raise Refused(400, "the address of the request is none; send a path such as /v1/info") from None
        except httptools.HttpParserError as error:
            if "PRI" in str(error):
                raise Refused(505, "HTTP/2 is not spoken here; use HTTP/1.1") from None
            raise Refused(400, f"this is no HTTP request: {error}") from None

    def _feed_plainly(self, rest: bytes) -> None:
        """Read a request that asks for another protocol once more, as one that does not; answering so is allowed."""
        head = [self.parser.get_method() + b" " + self.url + b" HTTP/" + self.parser.get_http_version().encode()]
        for name, value in self.headers:
            if name == b"connection":
                words = [word.strip() for word in value.split(b",")]
                value = b", ".join(word for word in words if word.lower() not in OTHER_PROTOCOL)
            if name not in OTHER_PROTOCOL:
                head.append(name + b": " + value)
        self.parser, self._plainly = httptools.HttpRequestParser(self), False
        self._feed(b"\r\n".join([*head, b"", b""]))
        self._feed(rest)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._hear()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._incomplete:  # else it stands behind the body, where nobody looks
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > self.limits.header_bytes:
            raise self._too_much()
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            self._plainly = True
            return
        self._check_head()
        if len(self.pipeline) >= AHEAD:
            raise Refused(503, f"{AHEAD} requests wait already on this connection; wait for their answers")
        super().on_headers_complete()
        self._to(BUSY)
        self._aside, self._heard, self._incomplete = 0, False, True
        self._wait(self.limits.seconds)

    def _check_head(self) -> None:
        """What two readers of the same bytes may understand differently is refused."""
        old = self.parser.get_http_version() == "1.0"
        hosts = len(self._hosts())
        self._check_target()
        if hosts > 1 or (hosts == 0 and not old):
            raise Refused(400, f"the request has {hosts} Host headers; send one")
        for name, value in self.headers:
            if name == b"transfer-encoding" and (old or value.lower() != b"chunked"):
                raise Refused(501, "this Transfer-Encoding is not understood; send chunked, or a Content-Length")

    def _check_target(self) -> None:
        """A request line with a whole address, as proxies get it, must name the same host as the Host header."""
        if self.url.startswith(b"/"):
            return
        scheme, mark, rest = self.url.partition(b"://")
        named = re.split(b"[/?#]", rest)[0].lower()
        if mark and (scheme.lower() not in (b"http", b"https") or self._hosts() != [named]):
            raise Refused(421, "the request line names another host than the Host header; send a path such as /v1/info")

    def _hosts(self) -> list[bytes]:
        return [value.lower() for name, value in self.headers if name == b"host"]

    def _too_much(self) -> Refused:
        most = self.limits.header_bytes
        return Refused(431, f"the head, or what is no body behind it, has more than {most} bytes; send less")

    def on_body(self, body: bytes) -> None:
        self._aside = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._plainly:
            return
        self._aside, self._incomplete, self._deadline = 0, False, math.inf
        super().on_message_complete()
        self._settle()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._incomplete and self.cycle.response_complete and self._place is BUSY:
            self._wait(LINGER)  # answered before all was there: the rest is not waited for
        self._settle()

    def _settle(self) -> None:
        """A connection without a request is idle, and the first to go where there are too many."""
        if self._place is BUSY and self.cycle.response_complete and not (self.pipeline or self._incomplete):
            self._to(IDLE)
            if not self._heard:
                self._wait(self.timeout_keep_alive)

    # ---- leaving

    def _refuse(self, refused: Refused) -> None:
        """Say why, and end the connection when that is read; requests that are complete are answered first."""
        if self.cycle is not None and not self.cycle.response_complete and not self._incomplete:
            self._to(LEAVING)
            self._deadline, self.cycle.keep_alive = math.inf, False
        elif self.transport.is_closing() or (self._incomplete and (self.pipeline or self.cycle.response_started)):
            self._leave(self.transport.abort)  # there is no place for a sentence
        else:
            self.transport.write(refused.answer(self.server_state.default_headers))
            self._leave(self.transport.write_eof)

    def _leave(self, how: Callable[[], None]) -> None:
        self._to(LEAVING)
        self._wait(LINGER)
        if self.cycle is not None:
            self.cycle.disconnected = True  # the application must not write behind the sentence
            self.cycle.message_event.set()
        how()


def configured(settings: Settings, app: Any, headers: Sequence[tuple[str, str]] = ()) -> uvicorn.Config:
    """How uvicorn is to run the application: no log of requests, no other protocols, and the limits above.

    `headers` are added to every answer.
    """
    protocol = type("Connection", (Limited,), {"limits": settings.limits, "crowd": Crowd()})
    return uvicorn.Config(
        app, loop="auto", http=protocol, ws="none", lifespan="on", interface="asgi3", log_config=None,
        log_level="warning", access_log=False, proxy_headers=False, server_header=False,
        timeout_keep_alive=KEEP_ALIVE, timeout_graceful_shutdown=settings.limits.grace, headers=list(headers),
    )  # fmt: skip
