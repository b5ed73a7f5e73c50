"""Supervisor: runs a service until it is stopped, as one process or as a writer with several workers.

`python -m kinrank.web.server.supervisor` reads Settings as a line of JSON, prints the URL, and runs until its standard
input closes. Tests and benchmarks use it to start a service that cannot outlive them.
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

from kinrank.errors import InputError, MissingExtraError
from kinrank.files.user_folders import scratch_folder
from kinrank.web.server.server_sockets import open_sockets
from kinrank.web.server.worker_process import WorkerProcess
from kinrank.web.settings import Settings

CHECK_SECONDS = 0.1  # between two checks of the workers
SAVING_SECONDS = 5.0  # for workers to end, after the time in which requests may finish
OPENING_LABEL = "opening the gallery"  # last stage of a preparation
Report = Callable[[str, int, int], None]  # f(label, done, total)

log = logging.getLogger(__name__)


def run_service(
    settings: Settings,
    announce: Callable[[str], None],
    prepare: Callable[[Report], Settings] | None = None,
    preparing: Callable[[str], None] | None = None,
) -> int:
    """Serve until SIGTERM or Ctrl-C; then finish requests and save all changes. A second signal ends at once.

    Args:
        settings: what to serve; with `prepare`, only address, tokens and limits are used.
        announce: called with the URL when the first request can be answered.
        prepare: long task that runs first, in this thread, while a page shows its progress. It gets a callable
            `f(label, done, total)` for the progress and returns the settings of the service. In it a signal becomes a
            KeyboardInterrupt or a SystemExit, which this function does not catch.
        preparing: called with the URL when that page can be opened.

    Returns:
        0 after a normal end. An InputError or OSError says why the service could not start or continue.
    """
    if settings.workers > 1 and sys.platform == "win32":
        raise InputError(
            "is not possible on Windows, where processes cannot share a port",
            parameter="workers",
            given=settings.workers,
        )
    raise_file_limit(2 * settings.limits.connections + 1000)
    with contextlib.ExitStack() as stack:
        if not settings.scratch:
            settings = replace(settings, scratch=str(stack.enter_context(scratch_folder())))
        groups = open_sockets(settings.host, settings.port, settings.workers)
        for listener in (listener for group in groups for listener in group):
            stack.enter_context(listener)
        settings = replace(settings, port=groups[0][0].getsockname()[1])
        host = f"[{settings.host}]" if ":" in settings.host else settings.host or "0.0.0.0"
        url = f"http://{host}:{settings.port}"
        ready = partial(announce, url)
        if prepare is None:
            _serve(settings, groups, ready, None)
            return 0
        from kinrank.web.server.wait_page import WaitServer, signals_as_exceptions

        stack.enter_context(signals_as_exceptions())
        page = WaitServer(settings, list({one.fileno(): one for group in groups for one in group}.values()))
        with page.show_failures():
            if preparing is not None:
                preparing(url)
            settings = _merge_settings(prepare(page.progress), settings)
            page.progress(OPENING_LABEL, 0, 1)
            _serve(settings, groups, ready, page.stop)
    return 0


def _merge_settings(prepared: Settings, settings: Settings) -> Settings:
    """Return the prepared settings with the address, tokens and limits that are in use already."""
    return replace(
        prepared,
        host=settings.host,
        port=settings.port,
        workers=settings.workers,
        limits=settings.limits,
        read_tokens=settings.read_tokens,
        write_tokens=settings.write_tokens,
        scratch=prepared.scratch or settings.scratch,
    )


def _serve(
    settings: Settings, groups: list[list[socket.socket]], ready: Callable[[], None], opened: Callable[[], None] | None
) -> None:
    """Answer until a signal arrives. `opened` is called when all is loaded, before a connection is accepted."""
    if settings.workers == 1:
        from kinrank.web.server.worker import serve_requests

        serve_requests(settings, groups[0], None, ready, opened)
        return
    with serve_writes(settings) as writer:
        Supervisor(settings, groups, writer).run(ready, opened)


def raise_file_limit(count: int) -> None:
    """Allow more open files, because each connection is one and the default limit is low."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        limit = count if hard == resource.RLIM_INFINITY else min(count, hard)
        if soft != resource.RLIM_INFINITY and soft < limit:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


@contextlib.contextmanager
def serve_writes(settings: Settings) -> Iterator[str | None]:
    """Yield the socket at which this process accepts changes, None if none are allowed; save them all at the end."""
    if not (settings.writable or settings.store is not None):
        yield None
        return
    from kinrank.stores.url import open_store
    from kinrank.web.writes.gallery_writer import Writer
    from kinrank.web.writes.writer_socket import MAX_SOCKET_PATH_BYTES, WriterSocket

    with contextlib.ExitStack() as stack:
        path = str(Path(settings.scratch) / "writer")
        if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES:
            path = str(stack.enter_context(scratch_folder()) / "writer")
        store = None if settings.store is None else open_store(settings.store)
        writer = stack.enter_context(contextlib.closing(Writer(settings.manifold, store)))
        stack.enter_context(contextlib.closing(WriterSocket(writer, path)))
        yield path


class Supervisor:
    """Starts workers, replaces those that die, and stops them."""

    def __init__(self, settings: Settings, groups: list[list[socket.socket]], writer: str | None) -> None:
        self._settings, self._groups, self._writer = settings, groups, writer
        self._workers: list[WorkerProcess] = []
        self._stopping = False

    def run(self, ready: Callable[[], None], opened: Callable[[], None] | None = None) -> None:
        """Run until a signal arrives. No worker accepts a connection before `opened`, if given, has returned."""
        before = {number: signal.signal(number, self._signal) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            held = opened is not None
            self._workers = [WorkerProcess(self._settings, group, self._writer, held) for group in self._groups]
            announced = False
            while not self._stopping:
                self._check_workers(announced)
                if opened is not None and all(worker.opened for worker in self._workers):
                    opened()
                    opened = None
                    for worker in self._workers:
                        worker.release()
                if not announced and all(worker.ready for worker in self._workers):
                    announced = True
                    ready()
                time.sleep(CHECK_SECONDS)
        finally:
            self._stop()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _signal(self, number: int, frame: FrameType | None) -> None:
        if self._stopping:
            for worker in self._workers:
                worker.process.kill()
            os._exit(1)  # acknowledged changes are in the log
        self._stopping = True

    def _check_workers(self, announced: bool) -> None:
        for worker in self._workers:
            if worker.restart_at:
                if time.monotonic() > worker.restart_at:
                    worker.start()
            elif not worker.poll():
                worker.bury()
                if self._stopping:
                    return
                cause = worker.cause_of_death
                if not announced and worker.error:
                    raise InputError(cause)
                if worker.is_hopeless:
                    raise ChildProcessError(f"a worker died {worker.deaths} times soon after its start: {cause}")
                log.warning("worker %d died and is replaced: %s", worker.process.pid, cause)

    def _stop(self) -> None:
        """Close the sockets, and let workers finish their requests within the limits."""
        for listener in (listener for group in self._groups for listener in group):
            listener.close()
        running = [worker for worker in self._workers if not worker.restart_at]
        for worker in running:
            worker.process.terminate()
        deadline = time.monotonic() + self._settings.limits.grace + SAVING_SECONDS
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
        while os.read(0, 1):  # `sys.stdin` has a lock that would delay the end of the process
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_with_input, daemon=True).start()

    def announce(url: str) -> None:
        print(url, flush=True)

    try:
        return run_service(settings, announce)
    except (InputError, OSError, MemoryError, MissingExtraError) as error:
        print(f"kinrank: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
