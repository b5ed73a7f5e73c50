"""Page that shows the progress while the gallery is prepared, until the service takes over its sockets."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import monotonic, sleep
from types import FrameType
from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.middleware import Middleware

from kinrank.errors import InputError, MissingExtraError
from kinrank.web.http.json_responses import RETRY_HEADERS, JsonRoute, add_error_handlers, make_json_response
from kinrank.web.http.redaction import remove_folders
from kinrank.web.http.request_guard import RequestGuard
from kinrank.web.http.request_models import Token
from kinrank.web.http.static_files import read_static_file, set_token_cookie
from kinrank.web.server.http_server import HandoverServer, make_server_config
from kinrank.web.settings import Settings

MAX_STAGES = 50  # shown; older ones are dropped
MAX_SAMPLES, SAMPLE_SECONDS = 60, 0.5  # reports used for the rate, and time between them: the last half minute
MIN_RATE_SECONDS = 2.0  # of observation before a rate is shown
WATCHED_SECONDS = 3.0  # after the last request, until the page counts as closed
ALL_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
START_SECONDS = 30.0  # until the page must be available
FAILURE_SHOWN_SECONDS = 3.0  # for an open page to fetch the reason of a failure


@dataclass
class Stage:
    """One stage of the preparation. A single report can be one of a few steps, so its size is not `counted`."""

    label: str
    started: float
    done: int = 0
    total: int = 0
    counted: bool = False
    ended: float | None = None
    samples: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=MAX_SAMPLES))

    def update(self, done: int, total: int, now: float) -> None:
        if total != self.total or done < self.done:  # a different count starts here
            self.samples.clear()
        else:
            self.counted = self.counted or bool(self.samples)
        self.done, self.total = done, total
        if not self.samples or now - self.samples[-1][0] >= SAMPLE_SECONDS:
            self.samples.append((now, done))

    def to_dict(self, now: float) -> dict[str, Any]:
        """Return plain values: `rate` is per second, `left` in seconds; None if unknown."""
        rate = left = None
        if self.samples and self.ended is None:
            first, before = self.samples[0]
            if now - first >= MIN_RATE_SECONDS and self.done > before:
                rate = (self.done - before) / (now - first)
                left = (self.total - self.done) / rate
        return {
            "label": self.label,
            "done": self.done,
            "total": self.total,
            "counted": self.counted,
            "seconds": (now if self.ended is None else self.ended) - self.started,
            "rate": rate,
            "left": left,
            "over": self.ended is not None,
        }


class StartupProgress:
    """Progress callback that collects stages with done, total, rate and remaining time. Thread-safe.

    Example:
        >>> progress = StartupProgress("photos")
        >>> progress("embedding", 17, 5063)
        >>> progress.describe()
        'the gallery is being prepared: embedding, 17 of 5063'
    """

    def __init__(self, title: str) -> None:
        self.title, self.problem = title, ""
        self.problem_was_read = False
        self._read_at = -WATCHED_SECONDS
        self._stages: list[Stage] = []
        self._lock = threading.Lock()

    def __call__(self, label: str, done: int, total: int) -> None:
        with self._lock:
            now, label = monotonic(), str(label)
            if not self._stages or self._stages[-1].label != label:
                if self._stages:
                    self._stages[-1].ended = now
                self._stages = [*self._stages[1 - MAX_STAGES :], Stage(label, now)]
            self._stages[-1].update(int(done), int(total), now)

    def fail(self, problem: str) -> None:
        """Set the reason why the gallery cannot be prepared."""
        self.problem = problem

    @property
    def is_watched(self) -> bool:
        """True if a page has read the progress lately."""
        return monotonic() - self._read_at < WATCHED_SECONDS

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON that the page shows."""
        with self._lock:
            now = self._read_at = monotonic()
            self.problem_was_read = bool(self.problem)
            return {
                "state": "failed" if self.problem else "preparing",
                "title": self.title,
                "problem": self.problem or None,
                "stages": [stage.to_dict(now) for stage in self._stages],
            }

    def describe(self, with_details: bool = True) -> str:
        """Return the state as a sentence; without details for clients without a token."""
        sentence = "the gallery could not be prepared" if self.problem else "the gallery is being prepared"
        if not with_details:
            return sentence
        if self.problem:
            return f"{sentence}: {self.problem}"
        with self._lock:
            last = self._stages[-1] if self._stages else None
            if last is None:
                return sentence
            return f"{sentence}: {last.label}" + (f", {last.done} of {last.total}" if last.counted else "")


def make_wait_app(settings: Settings, progress: StartupProgress) -> FastAPI:
    """Create the application: the page at `/`, its progress, and 503 for everything else; guarded as the service is."""
    guard = Middleware(RequestGuard, settings=settings)
    app = FastAPI(openapi_url=None, docs_url=None, redoc_url=None, redirect_slashes=False, middleware=[guard])
    app.router.route_class = JsonRoute
    add_error_handlers(app, settings)

    @app.get("/")
    async def page() -> Response:
        return read_static_file("preparing.html")

    @app.get("/page/{file}")
    async def part(file: str) -> Response:
        return read_static_file(file)

    @app.get("/view/progress")
    async def get_progress() -> Response:
        return make_json_response(progress.to_dict(), headers={"Cache-Control": "no-store"})

    @app.post("/view/enter")
    async def enter(body: Token) -> Response:
        return set_token_cookie(settings, body.token)

    @app.get("/health")
    async def health() -> Response:
        return make_json_response({"status": "alive"})

    @app.api_route("/{path:path}", methods=ALL_METHODS)
    async def later(request: Request, path: str) -> Response:
        """Answer 503. A client without a required token can only reach `/ready`, and gets no details."""
        sentence = progress.describe(bool(request.scope["kinrank.role"]))
        return make_json_response({"detail": sentence}, 503, RETRY_HEADERS)

    return app


class WaitServer:
    """Server of the page in a thread of its own; `progress` is the progress callback of the preparation.

    Every response ends its connection, because the next request may be one for the service.
    """

    def __init__(self, settings: Settings, sockets: Sequence[socket.socket]) -> None:
        self.progress = StartupProgress(settings.title)
        self._stopped = False
        is_listening = threading.Event()
        config = make_server_config(settings, make_wait_app(settings, self.progress), [("Connection", "close")])
        self._server = HandoverServer(config, is_listening.set)
        copies = [listener.dup() for listener in sockets]  # uvicorn closes the sockets that it gets
        self._thread = threading.Thread(target=self._server.run, args=(copies,), name="wait-page", daemon=True)
        self._thread.start()
        if not is_listening.wait(START_SECONDS):
            raise OSError(f"the page about the preparation did not start within {START_SECONDS:g} seconds; try again")

    def stop(self) -> None:
        """Answer connected clients and leave the sockets to the service; new clients wait for it."""
        if not self._stopped:
            self._stopped = True
            self._server.should_exit = True
            self._thread.join()

    @contextlib.contextmanager
    def show_failures(self) -> Iterator[None]:
        """Show errors of this block on the page, if it is open, and stop the server at the end of the block."""
        try:
            yield
        except Exception as error:
            if not self._stopped:
                self._fail(_format_error(error))
            raise
        finally:
            self.stop()

    def _fail(self, message: str) -> None:
        self.progress.fail(message)
        deadline = monotonic() + FAILURE_SHOWN_SECONDS
        while self.progress.is_watched and not self.progress.problem_was_read and monotonic() < deadline:
            sleep(0.02)


def _format_error(error: Exception) -> str:
    """Return the message for the page, without folders; the terminal shows all of it."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{os.path.basename(os.fsdecode(error.filename))}: {error.strerror}"
    if not isinstance(error, InputError | OSError | MemoryError | MissingExtraError):
        return f"internal error ({type(error).__name__}); the terminal of the service shows the traceback"
    return remove_folders(" ".join(str(error).split())) or type(error).__name__


@contextlib.contextmanager
def signals_as_exceptions() -> Iterator[None]:
    """Turn Ctrl-C into KeyboardInterrupt and SIGTERM into SystemExit, so that work can be saved.

    This holds even if the parent process ignores these signals. A second signal ends the process at once.
    """
    was_interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal was_interrupted
        if was_interrupted:
            os._exit(1)
        was_interrupted = True
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(0)

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
