"""Settings and sockets -> a worker process, watched, and its successors."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from kinrank.interrupts import interrupts_blocked
from kinrank.web.settings import Settings

PAUSES = (0.0, 0.5, 1.0, 2.0, 4.0)  # seconds before a worker is started again that died soon after its start
SOON = 20.0  # seconds
HUNG_SECONDS = 10.0  # without a sign of life from a worker that was ready, after which it is killed and replaced
LONGEST_GAP = 0.5  # seconds between two looks that count, at most
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


class Child:
    """One process that answers, and its successors: they get the same sockets, with all connections that wait."""

    def __init__(self, settings: Settings, sockets: list[socket.socket], writer: str | None, held: bool) -> None:
        """Not called by users; a process that is `held` opens everything and then waits for `release`."""
        self._settings, self._sockets, self._writer, self._held = settings, sockets, writer, held
        self._counters = Path(settings.scratch) / "counters"
        self._counters.mkdir(exist_ok=True)
        self.deaths = 0  # in a row, each soon after the start
        self.start()

    def start(self) -> None:
        self.opened, self.ready, self.error, self.again = False, False, "", 0.0
        self.started = self._looked = time.monotonic()
        self._silent = 0.0  # seconds without a sign of life
        self.hung = False  # killed because there was none for too long
        told, tell = os.pipe()
        self._told = open(told, "rb", buffering=0)  # noqa: SIM115 - as long as the process
        os.set_blocking(told, False)
        sockets = [one.fileno() for one in self._sockets]
        with interrupts_blocked():
            self.process = subprocess.Popen(
                [sys.executable, "-m", "kinrank.web.processes.worker"],
                stdin=subprocess.PIPE,
                pass_fds=[*sockets, tell],
                env={**os.environ, **self._environment()},
            )
        os.close(tell)
        order = {
            "settings": self._settings.to_json(), "sockets": sockets, "writer": self._writer, "tell": tell,
            "held": self._held,
        }  # fmt: skip
        self._send(json.dumps(order).encode() + b"\n")

    def release(self) -> None:
        """Let it accept connections, and its successors, too."""
        self._held = False
        self._send(b"\n")

    def _send(self, words: bytes) -> None:
        with contextlib.suppress(BrokenPipeError):  # it died at once, which is seen later
            assert self.process.stdin is not None
            self.process.stdin.write(words)
            self.process.stdin.flush()

    def _environment(self) -> dict[str, str]:
        """Processes share the cores, so that each needs few threads; and they add up what they count."""
        threads = max(1, (os.cpu_count() or 1) // self._settings.workers)
        return {
            "PROMETHEUS_MULTIPROC_DIR": str(self._counters),
            "KINRANK_THREADS": os.environ.get("KINRANK_THREADS", "") or str(threads),
            **{name: os.environ.get(name, "") or "1" for name in ONE_THREAD},
        }

    def look(self) -> bool:
        """Whether it runs; `opened`, `ready` and `error` are what it has said.

        A long time between two looks says that this process did not run itself, because the machine was suspended or
        is overloaded; it counts as LONGEST_GAP, so that the worker gets its turn first. A worker that was ready and
        gives no sign of life is killed; while it opens the gallery, there are none.
        """
        alive, now = self.process.poll() is None, time.monotonic()
        self._silent += min(now - self._looked, LONGEST_GAP)
        self._looked = now
        for line in (self._told.read() or b"").splitlines():
            self._silent, said = 0.0, json.loads(line)
            self.opened, self.ready = self.opened or "opened" in said, self.ready or "ready" in said
            self.error = said.get("error", self.error)
        if alive and self.ready and self._silent > HUNG_SECONDS:  # stopped, or its event loop is stuck
            self.hung = True
            self.process.kill()
        return alive

    @property
    def fate(self) -> str:
        """Why the process is no more."""
        if self.hung:
            return f"it gave no sign of life for {HUNG_SECONDS:g} seconds"
        return self.error or f"it ended with code {self.process.returncode}"

    def bury(self) -> None:
        """Forget the process that died, and decide when the next one starts."""
        from prometheus_client.multiprocess import mark_process_dead

        self.close()
        mark_process_dead(self.process.pid, str(self._counters))
        soon = time.monotonic() - self.started < SOON
        self.deaths = self.deaths + 1 if soon else 1
        self.opened = self.ready = False
        self.again = time.monotonic() + PAUSES[min(self.deaths, len(PAUSES)) - 1]

    @property
    def hopeless(self) -> bool:
        return self.deaths > len(PAUSES)

    def close(self) -> None:
        self._told.close()
        with contextlib.suppress(BrokenPipeError):
            assert self.process.stdin is not None
            self.process.stdin.close()
