"""Settings and listening sockets -> a process that answers requests until it is told to stop.

`python -m kinrank.web.processes.worker` is started by the supervisor, which writes one line of JSON to its standard
input and keeps that open: when it ends, the supervisor is no more, and the worker ends, too.
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
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any

import numpy as np
import uvicorn

from kinrank.web.http.app import make_app
from kinrank.web.processes.protocol import configured
from kinrank.web.service import Service
from kinrank.web.settings import Settings


class Server(uvicorn.Server):
    """uvicorn's, which says when it listens, and leaves signals to whoever runs it."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def answer(
    settings: Settings,
    sockets: list[socket.socket],
    writer: str | None,
    ready: Callable[[], None],
    signals: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGINT),
) -> None:
    """Answer requests until one of the signals comes; a second one does not wait for anything.

    Args:
        writer: the socket of the process that changes the gallery; None if this one does, or nobody.
        ready: called when the first request can be answered.
        signals: on which it stops, even where whoever started it ignores them.
    """
    service = Service.open(settings, writer)
    try:
        _warm(service)
        server = Server(configured(settings, make_app(service)), ready)

        def stop(number: int, frame: FrameType | None) -> None:
            if server.should_exit:
                os._exit(1)  # what was acknowledged is in the log
            server.should_exit = True

        for one in signals:
            signal.signal(one, stop)
        server.run(sockets)
    finally:
        service.close()


def _warm(service: Service) -> None:
    """Search once, so that the loops are there; encode once; let what is loaded out of the search for garbage."""
    width = service.manifold.info()["dimensions"]
    service.manifold.search(np.ones((1, width), np.float32), k=10)
    if service.encoding is not None:
        service.encoding.warm()
    gc.collect()
    gc.freeze()


def _end_with_supervisor() -> None:
    while os.read(0, 1):  # not by `sys.stdin`, whose lock the end of the process would wait for
        pass
    os._exit(1)


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the supervisor passes it on
    order: dict[str, Any] = json.loads(sys.stdin.buffer.readline())
    threading.Thread(target=_end_with_supervisor, daemon=True).start()
    sockets = [socket.socket(fileno=number) for number in order["sockets"]]
    with open(order["tell"], "w") as tell:
        try:
            settings = Settings.from_json(order["settings"])
            answer(settings, sockets, order["writer"], lambda: _say(tell, {"ready": True}), (signal.SIGTERM,))
        except (ValueError, OSError, MemoryError, ImportError) as error:
            _say(tell, {"error": " ".join(str(error).split())})
            return 2
    return 0


def _say(file: Any, words: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(words), file=file, flush=True)


if __name__ == "__main__":
    sys.exit(main())
