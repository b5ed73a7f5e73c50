"""RequestGuard: checks every request first, and either refuses it or passes it on with its complete body.

It checks, in this order: the address (Host), the page that sends the request (Origin), the token, and the body (size,
kind, time). A page of another site in the same browser cannot use a service on this machine: if it uses a host name of
its own that points here, its Host is refused; otherwise its Origin is, except for GET, HEAD and OPTIONS. Browsers do
not let such a page read the answer to a GET.

It also answers exceptions that nothing else handles, which are bugs, with status 500.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.requests import cookie_parser

from kinrank.web.settings import Settings

if TYPE_CHECKING:
    from kinrank.web.http.metrics import Metrics

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "kinrank_token"
PUBLIC_PATHS = ("/health", "/ready", "/view/enter", "/")  # need no token, because they reveal nothing of the gallery
PUBLIC_PREFIXES = ("/page/",)
READ_METHODS = ("GET", "HEAD", "OPTIONS")
READ_ONLY_POSTS = (
    "/v1/search",
    "/v1/rerank",
    "/v1/explain",
    "/view/rank",
    "/view/chain",
    "/view/encode",
    "/view/keep",
    "/view/enter",
)
AUTHORITY_PATTERN = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[0-9A-Za-z._-]+)(:(?P<port>[0-9]{0,5}))?")
MAX_SMALL_BODY_BYTES = 4096  # of requests that need no body
MAX_BODIES_IN_MEMORY = 8  # all bodies together, as a multiple of the largest allowed body
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = [
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]

log = logging.getLogger(__name__)


class Authority(NamedTuple):
    """Host and port of a Host header; port None stands for the default of the protocol."""

    name: str
    port: int | None


class RefusedRequestError(Exception):
    """The request is refused, with a status, a message and headers."""

    def __init__(self, status: int, message: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, list(headers)


class RequestGuard:
    """Outermost layer of the application."""

    def __init__(self, app: App, settings: Settings, metrics: Metrics | None = None) -> None:
        self._app, self._settings, self._metrics = app, settings, metrics
        self._local = is_local(settings.host)
        self._body_bytes = 0  # in memory, of all requests

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500
        has_started, is_received, parts = False, False, list[bytes]()

        async def send_with_headers(message: dict[str, Any]) -> None:
            nonlocal status, has_started
            if message["type"] == "http.response.start":
                status, has_started = message["status"], True
                message = {**message, "headers": [*message.get("headers", ()), *SECURITY_HEADERS]}
            await send(message)

        try:
            self._check_address(scope)
            scope["kinrank.role"] = self._check_role(scope)
            await self._read_body(scope, receive, parts)
            is_received = True
            inner = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope  # the server drops the body then
            await self._app(inner, _replay_body(b"".join(parts), receive), send_with_headers)
            scope = inner
        except RefusedRequestError as refusal:
            await _send_error(send_with_headers, refusal)
        except asyncio.CancelledError:  # the service ends, and the time to finish requests is over
            if not has_started:
                await _send_error(send_with_headers, _make_shutdown_error(is_received and _is_change(scope)))
        except Exception:
            error_id = secrets.token_hex(4)
            log.exception("%s %s failed (error id %s)", scope["method"], scope["path"], error_id)
            if not has_started:
                message = "this is a bug; the log of the service has the traceback with this id"
                await _send_error(send_with_headers, RefusedRequestError(500, f"internal error {error_id}: {message}"))
        finally:
            self._body_bytes -= sum(map(len, parts))
            if self._metrics is not None:
                route = getattr(scope.get("route"), "path", None) or "other"  # without ids: there are few routes
                self._metrics.count_response(str(route), status, time.perf_counter() - started)

    def _check_address(self, scope: Scope) -> None:
        """Refuse requests for another host, and changes that a page of another origin sends."""
        if any(ord(character) < 32 for character in scope["path"]):  # routes can match before a line end, rules not
            raise RefusedRequestError(404, "there is nothing at a URL with line ends; see /openapi.json for all routes")
        written = _get_header(scope, b"host")
        host = parse_authority(written)
        if self._local and (host is None or not is_local(host.name)):
            raise RefusedRequestError(421, f"the host {written[:60]!r} is not served here; use localhost or 127.0.0.1")
        if host is None and written:
            message = f"the header Host is {written[:60]!r}, which is not a host name with a port; send one"
            raise RefusedRequestError(421, message)
        if scope["method"] not in READ_METHODS:
            self._check_origin(scope)

    def _check_origin(self, scope: Scope) -> None:
        """Refuse a page of another origin. Programs send no Origin, and a page of this service sends its own.

        X-Forwarded-Host is trusted: a browser lets a page of another origin send it only if the service agrees first.
        """
        if _get_header(scope, b"sec-fetch-site") in ("cross-site", "same-site"):
            raise RefusedRequestError(403, "a page of another site may not send this request")
        forwarded = [name.strip() for value in _get_headers(scope, b"x-forwarded-host") for name in value.split(",")]
        hosts = [parse_authority(name) for name in (_get_header(scope, b"host"), *forwarded)]
        for origin in _get_headers(scope, b"origin"):
            if not any(is_same_origin(origin, host) for host in hosts if host is not None):
                raise RefusedRequestError(
                    403,
                    f"this request comes from a page at {origin[:60]!r}, which is not a page of this service; a proxy "
                    "must pass on the original host name, as Host or X-Forwarded-Host",
                )

    def _check_role(self, scope: Scope) -> str:
        """Return read or write; a RefusedRequestError if the token does not allow the request."""
        path, settings = scope["path"], self._settings
        role = "write"
        if settings.read_tokens or settings.write_tokens:
            role = find_role(_read_token(scope), settings)
            if path in PUBLIC_PATHS or path.startswith(PUBLIC_PREFIXES):
                return role
            if not role:
                message = "this token is not valid; ask the operator of the service for another"
                if not _read_token(scope):
                    message = "a token is required; send the header `Authorization: Bearer TOKEN`"
                raise RefusedRequestError(401, message, [(b"www-authenticate", b"Bearer")])
        if _is_change(scope) and role != "write":
            raise RefusedRequestError(403, "this token allows only reading; use one that allows writing")
        return role

    async def _read_body(self, scope: Scope, receive: Receive, parts: list[bytes]) -> None:
        """Read the complete body into `parts`, and check its size, kind and time."""
        limit, seconds = self._settings.limits.body, self._settings.limits.seconds
        limit_of_all = MAX_BODIES_IN_MEMORY * limit
        is_public = scope["path"] in PUBLIC_PATHS or scope["path"].startswith(PUBLIC_PREFIXES)
        limit = MAX_SMALL_BODY_BYTES if is_public or scope["method"] in READ_METHODS else limit
        length = _get_header(scope, b"content-length")
        if length.isdigit() and int(length) > limit:
            raise _make_too_large_error(limit)
        size, deadline = 0, time.monotonic() + seconds
        while True:
            try:
                message = await asyncio.wait_for(receive(), max(deadline - time.monotonic(), 0.001))
            except (TimeoutError, asyncio.TimeoutError):
                text = f"the request was not complete within {seconds:g} seconds; send it faster"
                raise RefusedRequestError(408, text) from None
            if message["type"] == "http.disconnect":
                raise RefusedRequestError(400, "the request was not complete")
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            self._body_bytes += len(parts[-1])
            if self._body_bytes > limit_of_all:
                text = "the service receives too much data at the moment; try again in a second"
                raise RefusedRequestError(503, text, [(b"retry-after", b"1")])
            if size > limit:
                raise _make_too_large_error(limit)
            if not message.get("more_body"):
                break
        kind = _get_header(scope, b"content-type").partition(";")[0].strip().lower()
        if size and kind != "application/json":
            text = f"the body is declared as {kind[:60]!r}; send JSON, with `Content-Type: application/json`"
            raise RefusedRequestError(415, text)


def is_local(host: str) -> bool:
    """Return True if a host name is the loopback address of this machine."""
    if host.lower() == "localhost" or host.lower().endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_authority(value: str) -> Authority | None:
    """Parse the name and port of a Host header; None if it is invalid, such as `[::1]evil.example`."""
    match = AUTHORITY_PATTERN.fullmatch(value)
    if match is None or int(match["port"] or 0) > 65535:
        return None
    name = match["name"].lower()
    if name.startswith("["):
        try:
            name = str(ipaddress.IPv6Address(name[1:-1]))
        except ValueError:
            return None
    return Authority(name, int(match["port"]) if match["port"] else None)


def is_same_origin(origin: str, host: Authority) -> bool:
    """Return True if an Origin header names this host and port. Schemes are ignored because a proxy may add TLS."""
    scheme, mark, rest = origin.partition("://")
    default = {"http": 80, "https": 443}.get(scheme.lower())
    named = parse_authority(rest) if mark and default is not None else None
    return named is not None and (named.name, named.port or default) == (host.name, host.port or default)


def find_role(token: str, settings: Settings) -> str:
    """Return write, read, or an empty string. All tokens are compared in constant time."""
    given = token.encode()
    write = [hmac.compare_digest(given, known.encode()) for known in settings.write_tokens]
    read = [hmac.compare_digest(given, known.encode()) for known in settings.read_tokens]
    return "write" if any(write) else "read" if any(read) else ""


def _read_token(scope: Scope) -> str:
    kind, _, token = _get_header(scope, b"authorization").partition(" ")
    if kind.lower() == "bearer":
        return token.strip()
    cookie: str = cookie_parser(_get_header(scope, b"cookie")).get(COOKIE, "")  # there can be cookies of other services
    return cookie


def _get_header(scope: Scope, name: bytes) -> str:
    """Return the first header of this name, or an empty string."""
    return next(iter(_get_headers(scope, name)), "")


def _get_headers(scope: Scope, name: bytes) -> list[str]:
    """Return all headers of this name."""
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def _is_change(scope: Scope) -> bool:
    """Return True if a request changes something."""
    return scope["method"] not in READ_METHODS and scope["path"] not in READ_ONLY_POSTS


def _make_shutdown_error(is_change: bool) -> RefusedRequestError:
    """Return the answer to a request that was not finished when the service ended."""
    if is_change:
        return RefusedRequestError(
            504, "the service is shutting down; the change may or may not have been made: check, then try again"
        )
    return RefusedRequestError(503, "the service is shutting down; try again when it is back", [(b"retry-after", b"1")])


def _make_too_large_error(limit: int) -> RefusedRequestError:
    return RefusedRequestError(413, f"the body is larger than {limit} bytes, which is the limit; send less at a time")


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that yields the body as one message, then the messages of the server (disconnect)."""
    was_sent = False

    async def receive_body() -> dict[str, Any]:
        nonlocal was_sent
        if was_sent:
            return await receive()
        was_sent = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_body


async def _send_error(send: Send, refusal: RefusedRequestError) -> None:
    content = json.dumps({"detail": refusal.message}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    headers += refusal.headers
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
