"""Every request, before anything else sees it -> refused with a sentence, or let through with its whole body.

In this order: the address (Host), the page that sends the request (Origin), the token, the body (size, kind, time). A
page of another site in the same browser cannot use a service on this machine: if it was led here by a name of its own,
its Host is refused; otherwise its Origin is, for everything but GET, HEAD and OPTIONS. Browsers do not let such a page
read the answer to a GET.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, NamedTuple, Protocol

from starlette.requests import cookie_parser

from kinrank.web.settings import Settings

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "kinrank_token"
OPEN = ("/health", "/ready", "/view/enter", "/")  # what needs no token: nothing of the gallery is in there
OPEN_FOLDERS = ("/page/",)
READING = ("GET", "HEAD", "OPTIONS")
READING_POSTS = ("/v1/search", "/v1/rerank", "/v1/explain", "/view/rank", "/view/chain", "/view/encode", "/view/enter")
AUTHORITY = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)(:(?P<port>[0-9]{0,5}))?")
LITTLE = 4096  # bytes of a body where none is expected
TOGETHER = 8  # times the largest body may be held at once, of all requests
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
log = logging.getLogger("kinrank.web")


class Authority(NamedTuple):
    """A host and a port as a Host header names them; None for the usual port of the protocol."""

    name: str
    port: int | None


class Refusal(Exception):
    """A request that goes no further: status, sentence, and headers that belong to it."""

    def __init__(self, status: int, words: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        super().__init__(words)
        self.status, self.words, self.headers = status, words, list(headers)


class Counting(Protocol):
    """Whoever counts what was answered; see `Metrics`."""

    def answered(self, route: str, status: int, seconds: float) -> None: ...


class Guard:
    """The outermost layer of the application."""

    def __init__(self, app: App, settings: Settings, metrics: Counting) -> None:
        self._app, self._settings, self._metrics = app, settings, metrics
        self._local = is_local(settings.host)
        self._held = 0  # bytes of bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500
        begun, received, parts = False, False, list[bytes]()

        async def sending(message: dict[str, Any]) -> None:
            nonlocal status, begun
            if message["type"] == "http.response.start":
                status, begun = message["status"], True
                message = {**message, "headers": [*message.get("headers", ()), *HEADERS]}
            await send(message)

        try:
            self._check_address(scope)
            scope["kinrank.role"] = self._role(scope)
            await self._body(scope, receive, parts)
            received = True
            asked = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope  # the server sends no body then
            await self._app(asked, _once(b"".join(parts), receive), sending)
            scope = asked
        except Refusal as refusal:
            await _answer(sending, refusal)
        except asyncio.CancelledError:  # the service ends, and the time to finish requests is over
            if not begun:
                await _answer(sending, _interrupted(received and _changes(scope)))
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if not begun:
                await _answer(sending, Refusal(500, "this is a mistake in kinrank; what happened is in its log"))
        finally:
            self._held -= sum(map(len, parts))
            self._metrics.answered(_route(scope), status, time.perf_counter() - started)

    def _check_address(self, scope: Scope) -> None:
        """Refuse requests for another host, and all but reading ones that a page of another origin sends."""
        if any(ord(sign) < 32 for sign in scope["path"]):  # routes may end before a line end, and rules would not
            raise Refusal(404, "there is nothing at an address with line ends in it; /openapi.json lists what there is")
        written = _header(scope, b"host")
        host = authority(written)
        if self._local and (host is None or not is_local(host.name)):
            raise Refusal(421, f"the host {written[:60]!r} is not served here; ask for localhost, or for 127.0.0.1")
        if host is None and written:
            raise Refusal(421, f"the header Host is {written[:60]!r}, which is not a name and a port; send these")
        if scope["method"] not in READING:
            self._check_origin(scope)

    def _check_origin(self, scope: Scope) -> None:
        """Refuse a page of another origin. Programs send no Origin, and a page of this service sends its own.

        X-Forwarded-Host is trusted: a browser lets a page of another origin send it only if the service agrees first.
        """
        if _header(scope, b"sec-fetch-site") in ("cross-site", "same-site"):
            raise Refusal(403, "a page of another site may not do anything here")
        forwarded = [name.strip() for words in _headers(scope, b"x-forwarded-host") for name in words.split(",")]
        hosts = [authority(name) for name in (_header(scope, b"host"), *forwarded)]
        for origin in _headers(scope, b"origin"):
            if not any(is_origin_of(origin, host) for host in hosts if host is not None):
                raise Refusal(
                    403,
                    f"this request comes from a page at {origin[:60]!r}, which is not a page of this service; a proxy "
                    "in front of it must pass on the name that it was asked for, as Host or X-Forwarded-Host",
                )

    def _role(self, scope: Scope) -> str:
        """read or write; a Refusal for those who may not do what they ask for."""
        path, settings = scope["path"], self._settings
        role = "write"
        if settings.read_tokens or settings.write_tokens:
            role = role_of(_token(scope), settings)
            if path in OPEN or path.startswith(OPEN_FOLDERS):
                return role
            if not role:
                words = "this token is not known here; ask who runs the service for another"
                if not _token(scope):
                    words = "a token is needed; send the header `Authorization: Bearer TOKEN`"
                raise Refusal(401, words, [(b"www-authenticate", b"Bearer")])
        if _changes(scope) and role != "write":
            raise Refusal(403, "this token may read only; use one that may write")
        return role

    async def _body(self, scope: Scope, receive: Receive, parts: list[bytes]) -> None:
        """Collect the whole body, of a size and kind that is allowed, within the time that is allowed."""
        most, seconds = self._settings.limits.body, self._settings.limits.seconds
        together, open_to_all = TOGETHER * most, scope["path"] in OPEN or scope["path"].startswith(OPEN_FOLDERS)
        most = LITTLE if open_to_all or scope["method"] in READING else most
        length = _header(scope, b"content-length")
        if length.isdigit() and int(length) > most:
            raise _too_large(most)
        size, deadline = 0, time.monotonic() + seconds
        while True:
            try:
                message = await asyncio.wait_for(receive(), max(deadline - time.monotonic(), 0.001))
            except (TimeoutError, asyncio.TimeoutError):
                raise Refusal(408, f"the request was not complete within {seconds:g} seconds; send it faster") from None
            if message["type"] == "http.disconnect":
                raise Refusal(400, "the request was not complete")
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            self._held += len(parts[-1])
            if self._held > together:
                words = "too much is being sent at the moment; try again in a second"
                raise Refusal(503, words, [(b"retry-after", b"1")])
            if size > most:
                raise _too_large(most)
            if not message.get("more_body"):
                break
        kind = _header(scope, b"content-type").partition(";")[0].strip().lower()
        if size and kind != "application/json":
            words = f"the body is declared as {kind[:60]!r}; send JSON, with `Content-Type: application/json`"
            raise Refusal(415, words)


def is_local(host: str) -> bool:
    """Whether a host is this machine, seen from itself."""
    if host.lower() == "localhost" or host.lower().endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def authority(words: str) -> Authority | None:
    """The name and port that a Host header gives; None for anything else, such as `[::1]evil.example`."""
    found = AUTHORITY.fullmatch(words)
    if found is None or int(found["port"] or 0) > 65535:
        return None
    name = found["name"].lower()
    if name.startswith("["):
        try:
            name = str(ipaddress.IPv6Address(name[1:-1]))
        except ValueError:
            return None
    return Authority(name, int(found["port"]) if found["port"] else None)


def is_origin_of(origin: str, host: Authority) -> bool:
    """Whether an Origin header names this host and port. Its scheme is not compared: a proxy may speak TLS."""
    scheme, mark, rest = origin.partition("://")
    usual = {"http": 80, "https": 443}.get(scheme.lower())
    named = authority(rest) if mark and usual is not None else None
    return named is not None and (named.name, named.port or usual) == (host.name, host.port or usual)


def role_of(token: str, settings: Settings) -> str:
    """write, read, or nothing. Every token is compared, in the same time whatever they hold."""
    given = token.encode()
    write = [hmac.compare_digest(given, one.encode()) for one in settings.write_tokens]
    read = [hmac.compare_digest(given, one.encode()) for one in settings.read_tokens]
    return "write" if any(write) else "read" if any(read) else ""


def _token(scope: Scope) -> str:
    kind, _, token = _header(scope, b"authorization").partition(" ")
    if kind.lower() == "bearer":
        return token.strip()
    found: str = cookie_parser(_header(scope, b"cookie")).get(COOKIE, "")  # others of this machine may be in there
    return found


def _header(scope: Scope, name: bytes) -> str:
    """The first header of this name."""
    return next(iter(_headers(scope, name)), "")


def _headers(scope: Scope, name: bytes) -> list[str]:
    """All headers of this name."""
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def _changes(scope: Scope) -> bool:
    """Whether a request is one that changes something."""
    return scope["method"] not in READING and scope["path"] not in READING_POSTS


def _interrupted(changing: bool) -> Refusal:
    """The answer to a request that was not finished when the service ended."""
    if changing:
        return Refusal(504, "the service is shutting down; the change may be made or not: look, then try again")
    return Refusal(503, "the service is shutting down; try again when it is back", [(b"retry-after", b"1")])


def _too_large(most: int) -> Refusal:
    return Refusal(413, f"the body is larger than {most} bytes, which is the most; send less at a time")


def _once(body: bytes, receive: Receive) -> Receive:
    """The body as one message; what comes behind it is what the server says, that the client has gone."""
    sent = False

    async def receiving() -> dict[str, Any]:
        nonlocal sent
        if sent:
            return await receive()
        sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receiving


async def _answer(send: Send, refusal: Refusal) -> None:
    content = json.dumps({"detail": refusal.words}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    headers += refusal.headers
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})


def _route(scope: Scope) -> str:
    """What was asked for, without ids, so that there are few of them."""
    route = scope.get("route")
    return str(getattr(route, "path", None) or "other")
