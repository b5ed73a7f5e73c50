"""Worker: a process that answers requests at listening sockets until it is stopped.

The supervisor starts `python -m kinrank.web.server.worker`, writes one line of JSON to its standard input, and keeps
that open: when it closes, the supervisor has ended, and the worker ends as well. A worker that is held waits for
another byte before it accepts connections.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType
from typing import Any

import numpy as np

from kinrank.errors import InputError, MissingExtraError
from kinrank.web.http.http_app import make_app
from kinrank.web.server.http_server import UvicornServer, make_server_config
from kinrank.web.service import Service
from kinrank.web.settings import Settings

EXIT_SECONDS = 5.0  # for the interpreter to end by itself while threads still compute


def serve_requests(
    settings: Settings,
    sockets: list[socket.socket],
    writer: str | None,
    ready: Callable[[], None],
    opened: Callable[[], None] | None = None,
    signals: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGINT),
    beat: Callable[[], None] | None = None,
) -> None:
    """Answer requests until one of the signals arrives; a second one ends the process at once.

    Args:
        settings: what to serve.
        sockets: listening sockets.
        writer: socket of the process that changes the gallery; None if this process does, or none.
        ready: called when the first request can be answered.
        opened: called before `ready`, when everything is loaded; until it returns, another server may use the sockets.
        signals: signals that stop the server, even if the parent process ignores them.
        beat: called twice a second by the event loop, as a sign that it is not blocked.
    """
    service = Service.open(settings, writer)
    try:
        _warm_up(service)
        server = UvicornServer(make_server_config(settings, make_app(service)), ready, beat)
        if opened is not None:
            opened()

        def stop(number: int, frame: FrameType | None) -> None:
            if server.should_exit:
                os._exit(1)  # acknowledged changes are in the log
            server.should_exit = True

        for number in signals:
            signal.signal(number, stop)
        server.run(sockets)
    finally:
        service.close()
        if service.queues.busy:
            _exit_soon()


def _exit_soon() -> None:
    """End the process soon, even if abandoned threads still compute; acknowledged changes are saved.

    Threads of requests are daemons, but the interpreter waits for the threads that compiled loops start.
    """
    timer = threading.Timer(EXIT_SECONDS, os._exit, [0])
    timer.daemon = True
    timer.start()


def _warm_up(service: Service) -> None:
    """Search once to compile the loops, encode once, and exclude loaded objects from garbage collection."""
    width = service.manifold.info()["dimensions"]
    service.manifold.search(np.ones((1, width), np.float32), k=10)
    if service.encoder is not None:
        service.encoder.warm_up()
    gc.collect()
    gc.freeze()


def _end_with_supervisor(released: threading.Event) -> None:
    while os.read(0, 1):  # `sys.stdin` has a lock that would delay the end of the process
        released.set()
    os._exit(1)


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the supervisor forwards it
    order: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    released = threading.Event()
    threading.Thread(target=_end_with_supervisor, args=(released,), daemon=True).start()
    sockets = [socket.socket(fileno=number) for number in order["sockets"]]
    with open(order["tell"], "w") as pipe:

        def opened() -> None:
            _report_state(pipe, {"opened": True})
            if order["held"]:
                released.wait()

        try:
            settings, ready = Settings.from_json(order["settings"]), partial(_report_state, pipe, {"ready": True})
            beat = partial(_send_heartbeat, order["tell"])
            serve_requests(settings, sockets, order["writer"], ready, opened, (signal.SIGTERM,), beat)
        except (InputError, OSError, MemoryError, MissingExtraError) as error:
            _report_state(pipe, {"error": " ".join(str(error).split())})
            return 2
    return 0


def _report_state(pipe: Any, report: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(report), file=pipe, flush=True)


def _send_heartbeat(pipe: int) -> None:
    """Report to the supervisor that the event loop runs, without waiting for a supervisor that does not read."""
    os.set_blocking(pipe, False)
    with contextlib.suppress(BlockingIOError, BrokenPipeError):
        os.write(pipe, b'{"beat": true}\n')
    os.set_blocking(pipe, True)


if __name__ == "__main__":
    sys.exit(main())
