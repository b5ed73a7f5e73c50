"""How requests are read and answered, the same for the API and for the page: JSON in, JSON or a sentence out."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.exceptions import HTTPException as StarletteHTTPException

from kinrank.memory import NotEnoughMemory
from kinrank.web.http.gate import Busy, Late
from kinrank.web.http.models import Problem
from kinrank.web.http.redaction import redaction_of
from kinrank.web.lasting.receipts import InDoubt, Unavailable, reason
from kinrank.web.settings import Settings

log = logging.getLogger("kinrank.web")
AGAIN = {"Retry-After": "1"}
KEYS = 100  # of a body, at most: each that is not known would be told
MEANINGS = {
    400: "The request is no HTTP, or its body no JSON.",
    401: "A token is needed.",
    403: "The token may read only, or a page of another origin sent the request.",
    404: "There is no such thing.",
    405: "This address does not do that.",
    408: "The request was not complete in time.",
    413: "The body is too large.",
    415: "The body is not declared as JSON.",
    421: "The host is not served here.",
    422: "What was asked for is not allowed; the sentence says what is.",
    503: "Too much is asked at the moment, and nothing was changed; Retry-After says when to try again.",
    504: "It was begun and took too long; what was to be changed may be changed or not.",
}
PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": words} for status, words in MEANINGS.items()
}


def answered(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Plain values as JSON, without the detour over models: an answer may have thousands of numbers."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(text.encode(), status, headers, "application/json")


class JsonRequest(Request):
    """A request whose body is read by a parser that refuses NaN, lone surrogates and endless nesting."""

    async def json(self) -> Any:
        try:
            found = from_json(await self.body(), allow_inf_nan=False)
        except ValueError as error:
            raise HTTPException(400, f"the body is no JSON: {error}") from None
        if isinstance(found, dict) and len(found) > KEYS:
            raise HTTPException(422, f"the body has {len(found)} keys; no request has more than {KEYS}")
        return found


class JsonRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def handled(request: Request) -> Response:
            return await handler(JsonRequest(request.scope, request.receive))

        return handled


def handle_problems(app: FastAPI, settings: Settings) -> None:
    """Every error that has a sentence for users is answered with it, without the folders of this machine."""
    redacted = redaction_of(settings)

    def told(error: Exception) -> dict[str, str]:
        return {"detail": clean(redacted(str(error)))}

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return answered({"detail": in_words(error)}, 422)

    @app.exception_handler(ValueError)
    async def refused(_: Request, error: ValueError) -> Response:
        return answered(told(error), 422)

    @app.exception_handler(NotEnoughMemory)
    async def too_much(_: Request, error: NotEnoughMemory) -> Response:
        return answered(told(error), 422)

    @app.exception_handler(Busy)
    async def busy(_: Request, error: Busy) -> Response:
        return answered({"detail": str(error)}, 503, AGAIN)

    @app.exception_handler(Late)
    @app.exception_handler(InDoubt)
    async def in_doubt(_: Request, error: Exception) -> Response:
        return answered(told(error), 504)

    @app.exception_handler(Unavailable)
    async def unavailable(_: Request, error: Unavailable) -> Response:
        return answered(told(error), 503, AGAIN)

    @app.exception_handler(OSError)
    async def out_of_reach(_: Request, error: OSError) -> Response:
        """A vector database that is gone, or a disk. The message may name files and hosts, and goes to the log only."""
        log.error("a request failed: %s: %s", type(error).__name__, error)
        words = f"something that this service needs does not work ({reason(error)}); its log says what. Try again later"
        return answered({"detail": words}, 503, AGAIN)

    @app.exception_handler(StarletteHTTPException)
    async def http(request: Request, error: StarletteHTTPException) -> Response:
        headers, path, words = error.headers, request.url.path, str(error.detail)
        if words == "Not Found":
            words = f"there is nothing at {path:.200}; /openapi.json lists what there is"
        elif words == "Method Not Allowed":
            words = f"{request.method} is not what {path:.200} answers; /openapi.json says what is"
        return answered({"detail": clean(words)}, error.status_code, None if headers is None else dict(headers))


def in_words(error: RequestValidationError) -> str:
    """The first mistake as a sentence: where it is, what was given, what is allowed."""
    mistakes = error.errors()
    first, many = mistakes[0], len(mistakes)
    place = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path")) or "the body"
    given = first.get("input")
    said = "" if isinstance(given, dict | list) or first["type"] == "missing" else f"={given!r:.60}"
    if first["type"] == "extra_forbidden":
        return clean(f"{place[:200]!r} is no key of this request; /openapi.json lists those that it has")
    more = "" if many == 1 else f" ({many - 1} more like this)"
    return clean(f"{place[:200]}{said} is not allowed: {first['msg']}{more}; see /openapi.json for what is")


def clean(words: str) -> str:
    """One line that any encoding can carry, of bounded length."""
    line = " ".join(words.split()).encode("utf-8", "replace").decode()
    return line if len(line) <= 1000 else line[:997] + "..."
