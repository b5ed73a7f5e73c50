"""Sockets and a long piece of work -> a page that says how far it is, until the service takes over the same sockets."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from types import FrameType

from kinrank.web.http.preparing import preparing_app
from kinrank.web.http.redaction import without_folders
from kinrank.web.processes.protocol import configured
from kinrank.web.processes.server import Leaving
from kinrank.web.processes.stages import Stages
from kinrank.web.settings import Settings

START = 30.0  # seconds within which the page must be there
LAST_WORD = 3.0  # seconds that a page gets to ask what went wrong


class Preparing:
    """The page, answered by a thread of its own; `stages` is what `progress` is told.

    Every answer ends its connection: the next one may be the service's.
    """

    def __init__(self, settings: Settings, sockets: Sequence[socket.socket]) -> None:
        self.stages = Stages(settings.title)
        self._stopped = False
        listens = threading.Event()
        app = preparing_app(settings, self.stages)
        self._server = Leaving(configured(settings, app, [("Connection", "close")]), listens.set)
        copies = [one.dup() for one in sockets]  # uvicorn closes those that it is given
        self._thread = threading.Thread(target=self._server.run, args=(copies,), name="preparing", daemon=True)
        self._thread.start()
        if not listens.wait(START):
            raise OSError(f"the page about the preparation was not there within {START:g} seconds; try again")

    def stop(self) -> None:
        """Answer whoever is connected, and leave the sockets to the service; those who come now wait for it."""
        if not self._stopped:
            self._stopped = True
            self._server.should_exit = True
            self._thread.join()

    @contextlib.contextmanager
    def telling(self) -> Iterator[None]:
        """What goes wrong in this block is told on the page, too, if somebody looks at it; at the end the page ends."""
        try:
            yield
        except Exception as error:
            if not self._stopped:
                self._fail(_sentence(error))
            raise
        finally:
            self.stop()

    def _fail(self, words: str) -> None:
        self.stages.fail(words)
        deadline = time.monotonic() + LAST_WORD
        while self.stages.watched and not self.stages.seen and time.monotonic() < deadline:
            time.sleep(0.02)


def _sentence(error: Exception) -> str:
    """The message for the page, without folders: whoever started the service sees all of it."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{os.path.basename(os.fsdecode(error.filename))}: {error.strerror}"
    return without_folders(" ".join(str(error).split())) or type(error).__name__


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """In this block Ctrl-C is a KeyboardInterrupt and SIGTERM a SystemExit, even where whoever started it ignores
    them, so that work can be kept; a second one does not wait.
    """
    came = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal came
        if came:
            os._exit(1)
        came = True
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(0)

    before = {one: signal.signal(one, interrupt) for one in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
