"""WorkerProcess: the supervisor's handle of a worker process and its successors."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from kinrank.interrupts import block_interrupts
from kinrank.web.settings import Settings

RESTART_PAUSES_SECONDS = (0.0, 0.5, 1.0, 2.0, 4.0)  # before a worker is restarted that died soon after its start
EARLY_DEATH_SECONDS = 20.0
HUNG_SECONDS = 10.0  # without a heartbeat of a ready worker, after which it is killed and replaced
MAX_GAP_SECONDS = 0.5  # between two polls, as far as it counts for HUNG_SECONDS
ONE_THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class WorkerProcess:
    """A worker process and its successors, which get the same sockets with all waiting connections."""

    def __init__(self, settings: Settings, sockets: list[socket.socket], writer: str | None, held: bool) -> None:
        """Start the process. A process that is `held` opens everything and then waits for `release`."""
        self._settings, self._sockets, self._writer, self._held = settings, sockets, writer, held
        self._counters = Path(settings.scratch) / "counters"
        self._counters.mkdir(exist_ok=True)
        self.deaths = 0  # in a row, each soon after the start
        self.start()

    def start(self) -> None:
        self.opened, self.ready, self.error, self.restart_at = False, False, "", 0.0
        self.started = self._polled_at = time.monotonic()
        self._silent_seconds = 0.0
        self.hung = False  # killed because of missing heartbeats
        reader, writer = os.pipe()
        self._reports = open(reader, "rb", buffering=0)  # noqa: SIM115 - open as long as the process runs
        os.set_blocking(reader, False)
        sockets = [listener.fileno() for listener in self._sockets]
        with block_interrupts():
            self.process = subprocess.Popen(
                [sys.executable, "-m", "kinrank.web.server.worker"],
                stdin=subprocess.PIPE,
                pass_fds=[*sockets, writer],
                env={**os.environ, **self._make_environment()},
            )
        os.close(writer)
        order = {
            "settings": self._settings.to_json(),
            "sockets": sockets,
            "writer": self._writer,
            "tell": writer,
            "held": self._held,
        }
        self._send(json.dumps(order).encode() + b"\n")

    def release(self) -> None:
        """Let the process and its successors accept connections."""
        self._held = False
        self._send(b"\n")

    def _send(self, content: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):  # the process died at once, which `poll` notices
            assert self.process.stdin is not None
            self.process.stdin.write(content)
            self.process.stdin.flush()

    def _make_environment(self) -> dict[str, str]:
        """Return variables that share the cores among the processes and add up their counters."""
        threads = max(1, (os.cpu_count() or 1) // self._settings.workers)
        return {
            "PROMETHEUS_MULTIPROC_DIR": str(self._counters),
            "KINRANK_THREADS": os.environ.get("KINRANK_THREADS", "") or str(threads),
            **{name: os.environ.get(name, "") or "1" for name in ONE_THREAD_VARIABLES},
        }

    def poll(self) -> bool:
        """Read the reports of the process into `opened`, `ready` and `error`; return True if it runs.

        A long time between two polls means that this process itself did not run, because the machine was suspended or
        is overloaded. It counts as MAX_GAP_SECONDS, so that the worker gets its turn first. A ready worker without
        heartbeats is killed. There are no heartbeats while the gallery is opened.
        """
        alive, now = self.process.poll() is None, time.monotonic()
        self._silent_seconds += min(now - self._polled_at, MAX_GAP_SECONDS)
        self._polled_at = now
        for line in (self._reports.read() or b"").splitlines():
            self._silent_seconds, report = 0.0, json.loads(line)
            self.opened, self.ready = self.opened or "opened" in report, self.ready or "ready" in report
            self.error = report.get("error", self.error)
        if alive and self.ready and self._silent_seconds > HUNG_SECONDS:  # stopped, or its event loop is blocked
            self.hung = True
            self.process.kill()
        return alive

    @property
    def cause_of_death(self) -> str:
        """Why the process ended."""
        if self.hung:
            return f"it gave no sign of life for {HUNG_SECONDS:g} seconds"
        return self.error or f"it ended with code {self.process.returncode}"

    def bury(self) -> None:
        """Clean up after a dead process, and decide when to start the next one."""
        from prometheus_client.multiprocess import mark_process_dead

        self.close()
        mark_process_dead(self.process.pid, str(self._counters))
        died_early = time.monotonic() - self.started < EARLY_DEATH_SECONDS
        self.deaths = self.deaths + 1 if died_early else 1
        self.opened = self.ready = False
        pause = RESTART_PAUSES_SECONDS[min(self.deaths, len(RESTART_PAUSES_SECONDS)) - 1]
        self.restart_at = time.monotonic() + pause

    @property
    def is_hopeless(self) -> bool:
        return self.deaths > len(RESTART_PAUSES_SECONDS)

    def close(self) -> None:
        self._reports.close()
        with contextlib.suppress(BrokenPipeError):
            assert self.process.stdin is not None
            self.process.stdin.close()
