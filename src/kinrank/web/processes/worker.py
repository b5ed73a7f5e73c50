"""Settings and listening sockets -> a process that answers requests until it is told to stop.

`python -m kinrank.web.processes.worker` is started by the supervisor, which writes one line of JSON to its standard
input and keeps that open: when it ends, the supervisor is no more, and the worker ends, too. A worker that is held
waits for a further byte before it accepts connections.
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
import time
from collections.abc import Callable, Sequence
from functools import partial
from types import FrameType
from typing import Any

import numpy as np

from kinrank.web.http.app import make_app
from kinrank.web.processes.protocol import configured
from kinrank.web.processes.server import Server
from kinrank.web.service import Service
from kinrank.web.settings import Settings

EXIT_SECONDS = 5.0  # that the interpreter gets to end by itself where threads still compute


def answer(
    settings: Settings,
    sockets: list[socket.socket],
    writer: str | None,
    ready: Callable[[], None],
    opened: Callable[[], None] | None = None,
    signals: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGINT),
    beat: Callable[[], None] | None = None,
) -> None:
    """Answer requests until one of the signals comes; a second one does not wait for anything.

    Args:
        writer: the socket of the process that changes the gallery; None if this one does, or nobody.
        ready: called when the first request can be answered.
        opened: called before that, when everything is loaded: others may listen at the sockets until it returns.
        signals: on which it stops, even where whoever started it ignores them.
        beat: called twice a second by the event loop, as a sign that it is not stuck.
    """
    service = Service.open(settings, writer)
    try:
        _warm(service)
        server = Server(configured(settings, make_app(service)), ready, beat)
        if opened is not None:
            opened()

        def stop(number: int, frame: FrameType | None) -> None:
            if server.should_exit:
                os._exit(1)  # what was acknowledged is in the log
            server.should_exit = True

        for one in signals:
            signal.signal(one, stop)
        server.run(sockets)
    finally:
        service.close()
        if service.gates.busy:
            _exit_soon()


def _exit_soon() -> None:
    """End the process even if threads that nobody waits for still compute, as soon as everything else is done.

    Threads of requests are daemons, but the interpreter waits for those that help them in compiled loops.
    """

    def exit_late() -> None:
        time.sleep(EXIT_SECONDS)
        os._exit(0)  # everything acknowledged is saved

    threading.Thread(target=exit_late, daemon=True).start()


def _warm(service: Service) -> None:
    """Search once, so that the loops are there; encode once; let what is loaded out of the search for garbage."""
    width = service.manifold.info()["dimensions"]
    service.manifold.search(np.ones((1, width), np.float32), k=10)
    if service.encoding is not None:
        service.encoding.warm()
    gc.collect()
    gc.freeze()


def _end_with_supervisor(go: threading.Event) -> None:
    while os.read(0, 1):  # not by `sys.stdin`, whose lock the end of the process would wait for
        go.set()
    os._exit(1)


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the supervisor passes it on
    order: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    go = threading.Event()
    threading.Thread(target=_end_with_supervisor, args=(go,), daemon=True).start()
    sockets = [socket.socket(fileno=number) for number in order["sockets"]]
    with open(order["tell"], "w") as tell:

        def opened() -> None:
            _say(tell, {"opened": True})
            if order["held"]:
                go.wait()

        try:
            settings, ready = Settings.from_json(order["settings"]), partial(_say, tell, {"ready": True})
            beat = partial(_beat, order["tell"])
            answer(settings, sockets, order["writer"], ready, opened, (signal.SIGTERM,), beat)
        except (ValueError, OSError, MemoryError, ImportError) as error:
            _say(tell, {"error": " ".join(str(error).split())})
            return 2
    return 0


def _say(file: Any, words: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(words), file=file, flush=True)


def _beat(pipe: int) -> None:
    """Tell the supervisor that the event loop runs, without waiting for a supervisor that does not read."""
    os.set_blocking(pipe, False)
    with contextlib.suppress(BlockingIOError, BrokenPipeError):
        os.write(pipe, b'{"beat": true}\n')
    os.set_blocking(pipe, True)


if __name__ == "__main__":
    sys.exit(main())
