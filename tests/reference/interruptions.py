"""A command that is interrupted and killed at random moments, and run again until it finishes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

TESTS = Path(__file__).parents[1]
MOMENTS = int(os.environ.get("KINRANK_INTERRUPTIONS", "4"))  # 50 for a long run
INTERRUPTED = 130
PATIENCE = 300  # longest run on a busy machine, in seconds
# Python takes some milliseconds to start, in which Ctrl-C ends Python itself; the clock starts after that.
PROGRAM = "from kinrank_entry.start import main; print('started', flush=True); main()"


class Interruptions:
    """Runs a command in its own folder, ends it at random moments, and compares the files it leaves.

    Args:
        words: the command line after `kinrank`; it is run inside `folder`.
        folder: input of the command; its output goes there as well.
        seed: of the moments and signals.
    """

    def __init__(self, words: list[str], folder: Path, seed: int) -> None:
        self._words, self._folder, self._random = words, folder, Random(seed)
        self._before = self._files()
        started = time.monotonic()
        code, message, _ = self._run(None, 0.0)
        assert code == 0, message
        self._seconds = time.monotonic() - started
        self._expected = self._files()
        self.counts = {"SIGINT": 0, "SIGKILL": 0, "finished": 0}

    def survive(self, moments: int, comparable: Callable[[bytes], bytes] = bytes) -> None:
        """End the command at so many moments; whenever it finishes, all files must be as without interruptions.

        `comparable` drops what differs between runs of a file, such as durations.
        """
        self._clean()
        while self.counts["SIGINT"] + self.counts["SIGKILL"] < moments:
            sent = self._random.choice([signal.SIGINT, signal.SIGKILL])
            code, message, in_time = self._run(sent, self._random.uniform(0, self._seconds))
            assert "Traceback" not in message, message
            if in_time:
                self.counts[sent.name] += 1
                allowed = (INTERRUPTED if sent is signal.SIGINT else -signal.SIGKILL, 0)  # 0: it had almost finished
                assert code in allowed, (code, message)
            if code == 0:
                self._check(comparable)
                self._clean()
        code, message, _ = self._run(None, 0.0)
        assert code == 0, message
        self._check(comparable)

    def _run(self, sent: signal.Signals | None, after: float) -> tuple[int, str, bool]:
        """Return the exit code, the messages, and True if the signal was sent before the command ended."""
        running = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *self._words],
            cwd=self._folder,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # background processes ignore it
        )
        assert running.stdout is not None
        assert running.stdout.readline() == "started\n"
        if sent is not None:
            try:
                running.wait(after)
            except subprocess.TimeoutExpired:
                running.send_signal(sent)
                return (*self._ended(running), True)
        return (*self._ended(running), False)

    def _ended(self, running: subprocess.Popen[str]) -> tuple[int, str]:
        _, message = running.communicate(timeout=PATIENCE)
        return running.returncode, message

    def _files(self) -> dict[str, bytes]:
        return {
            str(path.relative_to(self._folder)): path.read_bytes() if path.is_file() else b""
            for path in sorted(self._folder.rglob("*"))
        }

    def _check(self, comparable: Callable[[bytes], bytes]) -> None:
        self.counts["finished"] += 1
        found = self._files()
        assert sorted(found) == sorted(self._expected), "files are missing, or temporary ones are left"
        for name, content in found.items():
            assert comparable(content) == comparable(self._expected[name]), name

    def _clean(self) -> None:
        """Remove what the command wrote."""
        for name in self._files().keys() - self._before.keys():
            path = self._folder / name
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
