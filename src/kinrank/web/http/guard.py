"""Every request, before anything else sees it -> refused with a sentence, or let through with its whole body.

In this order: who is meant (Host), who asks (token), what is sent (size, kind, time). A page of another site in the
same browser cannot use a service on this machine: its Host is wrong if it was led here by a name, and a body that is
not declared as JSON is refused, which is all that such a page could send without being asked first.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from http.cookies import CookieError, SimpleCookie
from typing import Any

from kinrank.web.http.metrics import Metrics
from kinrank.web.settings import Settings

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "kinrank_token"
OPEN = ("/health", "/ready", "/view/enter", "/")  # what needs no token: nothing of the gallery is in there
OPEN_FOLDERS = ("/page/",)
WRITES = {("POST", "/v1/items"), ("DELETE", "/v1/items"), ("POST", "/v1/sync")}
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


class Refusal(Exception):
    """A request that goes no further: status, sentence, and headers that belong to it."""

    def __init__(self, status: int, words: str, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
        super().__init__(words)
        self.status, self.words, self.headers = status, words, list(headers)


class Guard:
    """The outermost layer of the application."""

    def __init__(self, app: App, settings: Settings, metrics: Metrics) -> None:
        self._app, self._settings, self._metrics = app, settings, metrics
        self._local = is_local(settings.host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 500
        begun = False

        async def sending(message: dict[str, Any]) -> None:
            nonlocal status, begun
            if message["type"] == "http.response.start":
                status, begun = message["status"], True
                message = {**message, "headers": [*message.get("headers", ()), *HEADERS]}
            await send(message)

        try:
            self._check_host(scope)
            scope["kinrank.role"] = self._role(scope)
            body = await self._body(scope, receive)
            await self._app(scope, _once(body, receive), sending)
        except Refusal as refusal:
            await _answer(sending, refusal)
        except Exception:
            log.exception("%s %s failed", scope["method"], scope["path"])
            if not begun:
                await _answer(sending, Refusal(500, "this is a mistake in kinrank; what happened is in its log"))
        finally:
            self._metrics.answered(_route(scope), status, time.perf_counter() - started)

    def _check_host(self, scope: Scope) -> None:
        """On this machine only: nobody is led here by a name that somebody else gave this address."""
        name = _header(scope, b"host").rsplit(":", 1)[0] if _header(scope, b"host").count(":") < 2 else ""
        name = name or _header(scope, b"host").partition("]")[0].lstrip("[")
        if self._local and not is_local(name):
            raise Refusal(421, f"the host {name[:60]!r} is not served here; ask for localhost, or for 127.0.0.1")

    def _role(self, scope: Scope) -> str:
        """read or write; a Refusal for those who may not do what they ask for."""
        method, path, settings = scope["method"], scope["path"], self._settings
        role = "write"
        if settings.read_tokens or settings.write_tokens:
            role = role_of(_token(scope), settings)
            if path in OPEN or path.startswith(OPEN_FOLDERS):
                return role
            if not role:
                raise Refusal(
                    401, "a token is needed; send the header `Authorization: Bearer TOKEN`",
                    [(b"www-authenticate", b"Bearer")],
                )  # fmt: skip
        if (method, path.rstrip("/")) in WRITES and role != "write":
            raise Refusal(403, "this token may read only; use one that may write")
        return role

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """The whole body, of a size and kind that is allowed, within the time that is allowed."""
        most, seconds = self._settings.limits.body, self._settings.limits.seconds
        length = _header(scope, b"content-length")
        if length.isdigit() and int(length) > most:
            raise _too_large(most)
        parts, size, deadline = [], 0, time.monotonic() + seconds
        while True:
            try:
                message = await asyncio.wait_for(receive(), max(deadline - time.monotonic(), 0.001))
            except (TimeoutError, asyncio.TimeoutError):
                raise Refusal(408, f"the request was not complete within {seconds:g} seconds; send it faster") from None
            if message["type"] == "http.disconnect":
                raise Refusal(400, "the request was not complete")
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > most:
                raise _too_large(most)
            if not message.get("more_body"):
                break
        kind = _header(scope, b"content-type").partition(";")[0].strip().lower()
        if size and kind != "application/json":
            words = f"the body is declared as {kind[:60]!r}; send JSON, with `Content-Type: application/json`"
            raise Refusal(415, words)
        return b"".join(parts)


def is_local(host: str) -> bool:
    """Whether a host is this machine, seen from itself."""
    if host.lower() == "localhost" or host.lower().endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


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
    try:
        found = SimpleCookie(_header(scope, b"cookie")).get(COOKIE)
    except CookieError:
        return ""
    return "" if found is None else found.value


def _header(scope: Scope, name: bytes) -> str:
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


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
