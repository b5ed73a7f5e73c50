"""Settings -> a service that runs until it is stopped: one process, or one that writes and several that answer.

`python -m kinrank.web.processes.supervisor` reads Settings as a line of JSON, prints the address, and runs until its
standard input ends; that is how tests and the benchmark start a service that cannot outlive them.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType

from kinrank.files.scratch import scratch_folder
from kinrank.web.processes.child import Child
from kinrank.web.processes.listening import listening
from kinrank.web.settings import Settings

LOOK = 0.1  # seconds between two looks at the workers
PATIENCE = 15.0  # seconds that workers get to finish their requests
OPENING = "opening the gallery"  # the last stage of a preparation
LONGEST = 100  # characters in the name of a Unix socket; some systems allow 104
Report = Callable[[str, int, int], None]  # f(label, done, total)
log = logging.getLogger("kinrank.web")


def run(
    settings: Settings,
    announce: Callable[[str], None],
    prepare: Callable[[Report], Settings] | None = None,
    preparing: Callable[[str], None] | None = None,
) -> int:
    """Serve until SIGTERM or Ctrl-C; then requests are finished and all changes saved. A second signal does not wait.

    Args:
        settings: what is served; where there is `prepare`, only where, to whom and within which limits.
        announce: called with the address when the first request can be answered.
        prepare: long work that comes first, in this thread, while a page shows what it tells the callable
            `f(label, done, total)` that it is given. It returns what is served. A signal becomes a KeyboardInterrupt or
            a SystemExit in it, which this function does not catch.
        preparing: called with the address when that page can be opened.

    Returns:
        0 after an ordinary end. ValueErrors and OSErrors say why the service could not start, or go on.
    """
    if settings.workers > 1 and sys.platform == "win32":
        raise ValueError(f"workers={settings.workers} is not possible on Windows, where processes cannot share a port")
    allow_files(2 * settings.limits.connections + 1000)
    with contextlib.ExitStack() as opened:
        if not settings.scratch:
            settings = replace(settings, scratch=str(opened.enter_context(scratch_folder())))
        groups = listening(settings.host, settings.port, settings.workers)
        for one in (one for group in groups for one in group):
            opened.enter_context(one)
        settings = replace(settings, port=groups[0][0].getsockname()[1])
        host = f"[{settings.host}]" if ":" in settings.host else settings.host or "0.0.0.0"
        address = f"http://{host}:{settings.port}"
        ready = partial(announce, address)
        if prepare is None:
            _serve(settings, groups, ready, None)
            return 0
        from kinrank.web.processes.preparing import Preparing, interruptible

        opened.enter_context(interruptible())
        page = Preparing(settings, list({one.fileno(): one for group in groups for one in group}.values()))
        with page.telling():
            if preparing is not None:
                preparing(address)
            settings = _taken_over(prepare(page.stages), settings)
            page.stages(OPENING, 0, 1)
            _serve(settings, groups, ready, page.stop)
    return 0


def _taken_over(prepared: Settings, settings: Settings) -> Settings:
    """What was prepared, at the sockets that are open already, for those who were let in before."""
    return replace(
        prepared, host=settings.host, port=settings.port, workers=settings.workers, limits=settings.limits,
        read_tokens=settings.read_tokens, write_tokens=settings.write_tokens,
        scratch=prepared.scratch or settings.scratch,
    )  # fmt: skip


def _serve(
    settings: Settings, groups: list[list[socket.socket]], ready: Callable[[], None], opened: Callable[[], None] | None
) -> None:
    """Answer until a signal comes. `opened` is called when all is loaded, and before a connection is accepted."""
    if settings.workers == 1:
        from kinrank.web.processes.worker import answer

        answer(settings, groups[0], None, ready, opened)
        return
    with writing(settings) as writer:
        Supervisor(settings, groups, writer).run(ready, opened)


def allow_files(count: int) -> None:
    """Every connection is an open file, of which a process may have few unless it asks for more."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = count if hard == resource.RLIM_INFINITY else min(count, hard)
        if soft != resource.RLIM_INFINITY and soft < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


@contextlib.contextmanager
def writing(settings: Settings) -> Iterator[str | None]:
    """The socket at which this process takes changes, all saved at the end of the block; None if none are allowed."""
    if not (settings.writable or settings.store is not None):
        yield None
        return
    from kinrank.stores.opening import open_store
    from kinrank.web.lasting.following import serve_writer
    from kinrank.web.lasting.writer import Writer

    with contextlib.ExitStack() as opened:
        path = str(Path(settings.scratch) / "writer")
        if len(os.fsencode(path)) > LONGEST:
            path = str(opened.enter_context(scratch_folder()) / "writer")
        store = None if settings.store is None else open_store(settings.store)
        writer = opened.enter_context(contextlib.closing(Writer(settings.manifold, store)))
        opened.enter_context(contextlib.closing(serve_writer(writer, path)))
        yield path


class Supervisor:
    """Starts workers, replaces those that die, and stops them."""

    def __init__(self, settings: Settings, groups: list[list[socket.socket]], writer: str | None) -> None:
        self._settings, self._groups, self._writer = settings, groups, writer
        self._workers: list[Child] = []
        self._stopping = False

    def run(self, ready: Callable[[], None], opened: Callable[[], None] | None = None) -> None:
        """Until a signal comes; where there is `opened`, no worker accepts a connection before it has returned."""
        before = {one: signal.signal(one, self._signal) for one in (signal.SIGTERM, signal.SIGINT)}
        try:
            held = opened is not None
            self._workers = [Child(self._settings, group, self._writer, held) for group in self._groups]
            announced = False
            while not self._stopping:
                self._look(announced)
                if opened is not None and all(worker.opened for worker in self._workers):
                    opened()
                    opened = None
                    for worker in self._workers:
                        worker.release()
                if not announced and all(worker.ready for worker in self._workers):
                    announced = True
                    ready()
                time.sleep(LOOK)
        finally:
            self._stop()
            for one, handler in before.items():
                signal.signal(one, handler)

    def _signal(self, number: int, frame: FrameType | None) -> None:
        if self._stopping:
            for worker in self._workers:
                worker.process.kill()
            os._exit(1)  # what was acknowledged is in the log
        self._stopping = True

    def _look(self, announced: bool) -> None:
        for worker in self._workers:
            if worker.again:
                if time.monotonic() > worker.again:
                    worker.start()
            elif not worker.look():
                worker.bury()
                if self._stopping:
                    return
                why = worker.error or f"it ended with code {worker.process.returncode}"
                if not announced and worker.error:
                    raise ValueError(why)
                if worker.hopeless:
                    raise ChildProcessError(f"a worker died {worker.deaths} times soon after its start: {why}")
                log.warning("worker %d died and is replaced: %s", worker.process.pid, why)

    def _stop(self) -> None:
        """No more connections; requests under way are finished, within limits."""
        for one in (one for group in self._groups for one in group):
            one.close()
        running = [worker for worker in self._workers if not worker.again]
        for worker in running:
            worker.process.terminate()
        deadline = time.monotonic() + PATIENCE
        for worker in running:
            try:
                worker.process.wait(max(deadline - time.monotonic(), 0.01))
            except subprocess.TimeoutExpired:
                worker.process.kill()
                worker.process.wait()
            worker.close()


def main() -> int:
    settings = Settings.from_json(sys.stdin.readline())

    def end_with_input() -> None:
        while os.read(0, 1):  # not by `sys.stdin`, whose lock the end of the process would wait for
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_with_input, daemon=True).start()

    def announce(address: str) -> None:
        print(address, flush=True)

    try:
        return run(settings, announce)
    except (ValueError, OSError, MemoryError, ImportError) as error:
        print(f"kinrank: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
