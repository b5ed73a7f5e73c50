"""JSON requests and responses, and the HTTP status of every exception; shared by the API and the page.

Only mistakes of the client (`InputError`, `MemoryLimitError`) and named errors of the service are answered with their
message. Any other exception is a bug: `RequestGuard` answers it with status 500 and an id that is also in the log.
"""

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

from kinrank.errors import InputError, MemoryLimitError, MissingFileError
from kinrank.web.http.redaction import make_redactor
from kinrank.web.http.request_models import ErrorResponse
from kinrank.web.request_queues import BusyError, TimedOutError
from kinrank.web.settings import Settings
from kinrank.web.writes.write_errors import OutcomeUnknownError, UnavailableError, describe_error

RETRY_AFTER_SECONDS = 1
RETRY_HEADERS = {"Retry-After": str(RETRY_AFTER_SECONDS)}
MAX_BODY_KEYS = 100  # because the error message about unknown keys lists them
MAX_MESSAGE_CHARACTERS = 1000
STATUS_MEANINGS = {
    400: "The request is not valid HTTP, or its body is not JSON.",
    401: "A token is required.",
    403: "The token allows only reading, or a page of another origin sent the request.",
    404: "Not found.",
    405: "Method not allowed.",
    408: "The request was not complete in time.",
    413: "The body is too large.",
    415: "The body is not declared as JSON.",
    421: "The host is not served here.",
    422: "The request is not allowed; the message says what is.",
    500: "Internal error, which is a bug; the message has an id that is also in the log of the service.",
    503: "The service is overloaded or shutting down, and nothing was changed; Retry-After says when to try again.",
    504: "The request started, and took too long or the service ended; a change may or may not have been made.",
}
ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorResponse, "description": meaning} for status, meaning in STATUS_MEANINGS.items()
}

ERROR_STATUSES: dict[type[Exception], int] = {
    InputError: 422,
    MemoryLimitError: 422,
    BusyError: 503,
    UnavailableError: 503,
    TimedOutError: 504,
    OutcomeUnknownError: 504,
}

log = logging.getLogger(__name__)


def make_json_response(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return plain values as JSON, without models: a response can have thousands of numbers."""
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(text.encode(), status, headers, "application/json")


class JsonRequest(Request):
    """Request whose body is read by a parser that refuses NaN, lone surrogates and deep nesting."""

    async def json(self) -> Any:
        try:
            content = from_json(await self.body(), allow_inf_nan=False)
        except ValueError as error:
            raise HTTPException(400, f"the body is not JSON: {error}") from None
        if isinstance(content, dict) and len(content) > MAX_BODY_KEYS:
            raise HTTPException(422, f"the body has {len(content)} keys; no request has more than {MAX_BODY_KEYS}")
        return content


class JsonRoute(APIRoute):
    """Route that reads its body as JsonRequest does."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            return await handler(JsonRequest(request.scope, request.receive))

        return handle


def add_error_handlers(app: FastAPI, settings: Settings) -> None:
    """Answer errors that have a message for users with that message, without the folders of this machine."""
    redact = make_redactor(settings)

    async def answer_error(_: Request, error: Exception) -> Response:
        status = next(ERROR_STATUSES[kind] for kind in type(error).__mro__ if kind in ERROR_STATUSES)
        headers = RETRY_HEADERS if status == 503 else None
        return make_json_response({"detail": clean_line(redact(str(error)))}, status, headers)

    for kind in ERROR_STATUSES:
        app.add_exception_handler(kind, answer_error)

    @app.exception_handler(RequestValidationError)
    async def answer_invalid(_: Request, error: RequestValidationError) -> Response:
        return make_json_response({"detail": format_validation_error(error)}, 422)

    @app.exception_handler(OSError)
    @app.exception_handler(MissingFileError)  # requests name no files: one of the service is missing
    async def answer_os_error(_: Request, error: OSError) -> Response:
        """Answer failures of a vector database or a disk. The log gets their message, which may name files or hosts."""
        log.error("a request failed: %s: %s", type(error).__name__, error)
        message = f"a disk or database of this service fails ({describe_error(error)}); see its log. Try again later"
        return make_json_response({"detail": message}, 503, RETRY_HEADERS)

    @app.exception_handler(StarletteHTTPException)
    async def answer_http_exception(request: Request, error: StarletteHTTPException) -> Response:
        headers, path, message = error.headers, request.url.path, str(error.detail)
        if message == "Not Found":
            message = f"there is nothing at {path:.200}; see /openapi.json for all routes"
        elif message == "Method Not Allowed":
            message = f"{request.method} is not allowed for {path:.200}; see /openapi.json for the allowed methods"
        headers = None if headers is None else dict(headers)
        return make_json_response({"detail": clean_line(message)}, error.status_code, headers)


def format_validation_error(error: RequestValidationError) -> str:
    """Describe the first mistake in a sentence: its place, the value given, and what is allowed."""
    mistakes = error.errors()
    first, count = mistakes[0], len(mistakes)
    place = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path")) or "the body"
    value = first.get("input")
    given = "" if isinstance(value, dict | list) or first["type"] == "missing" else f"={value!r:.60}"
    if first["type"] == "extra_forbidden":
        return clean_line(f"{place[:200]!r} is not a key of this request; see /openapi.json for its keys")
    rest = "" if count == 1 else f" ({count - 1} more like this)"
    return clean_line(
        f"{place[:200]}{given} is not allowed: {first['msg']}{rest}; see /openapi.json for allowed values"
    )


def clean_line(text: str) -> str:
    """Return the text as one line of limited length that can be encoded as UTF-8."""
    line = " ".join(text.split()).encode("utf-8", "replace").decode()
    return line if len(line) <= MAX_MESSAGE_CHARACTERS else line[: MAX_MESSAGE_CHARACTERS - 3] + "..."
