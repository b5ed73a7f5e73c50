"""Hung workers are detected by missing heartbeats, killed and replaced; slow workers are left alone."""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra [web]")

from kinrank.web.server import worker_process
from kinrank.web.server.worker_process import HUNG_SECONDS, WorkerProcess
from kinrank.web.settings import Settings
from reference.waiting import PATIENCE, soon
from web.sabotage import sabotage
from web.server.test_supervisor import linux, started
from web.small_service import settings_in


@linux
@pytest.mark.parametrize("how", ["stopped", "stuck"])
def test_a_worker_that_hangs_is_replaced_and_its_requests_are_answered(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sabotage(tmp_path, monkeypatch, hung=4.0)
    with started(settings_in(tmp_path, port=0, workers=2)) as service:
        before = service.workers()
        with concurrent.futures.ThreadPoolExecutor(32) as clients:
            if how == "stopped":
                os.kill(before[0], signal.SIGSTOP)
                lost = None
            else:
                (tmp_path / "stuck").touch()
                lost = clients.submit(service.ask, "GET", "/health")  # it blocks the event loop of either worker
                assert soon(lambda: not (tmp_path / "stuck").exists())
            answers = [clients.submit(service.ask, "GET", "/v1/info") for _ in range(20)]
            assert [one.result(PATIENCE)[0] for one in answers] == [200] * 20, "half of them waited for the successor"
            if lost is not None:
                with pytest.raises((ConnectionError, OSError)):  # as after a crash
                    lost.result(PATIENCE)
        assert soon(lambda: len(service.workers()) == 2 and len(set(before) & set(service.workers())) == 1)
        code, message = service.end()
        assert code == 0, message
        assert "died and is replaced: it gave no sign of life for 4 seconds" in message


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr(worker_process, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


@contextlib.contextmanager
def one_worker(folder: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> Iterator[WorkerProcess]:
    """Start a worker that runs this program; `tell` is its pipe to the supervisor."""
    script = folder / "worker"
    head = f"#!{sys.executable}\nimport json, os, sys, time\ntell = json.loads(sys.stdin.readline())['tell']\n"
    script.write_text(head + program)
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    made = WorkerProcess(Settings("absent", scratch=str(folder)), [], None, held=False)
    try:
        yield made
    finally:
        made.process.kill()
        made.process.wait()
        made.close()


READY = "os.write(tell, b'{\"ready\": true}\\n')\ntime.sleep(600)\n"


def test_silence_counts_only_while_the_supervisor_itself_runs(
    tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    with one_worker(tmp_path, monkeypatch, READY) as worker:
        assert soon(lambda: worker.poll() and worker.ready)
        clock[0] += 3600  # the machine was suspended
        assert worker.poll()
        assert not worker.hung
        for _ in range(int(HUNG_SECONDS / 0.1) - 10):
            clock[0] += 0.1
            assert worker.poll()
        assert not worker.hung
        for _ in range(20):
            clock[0] += 0.1
            worker.poll()
        assert worker.hung
        assert worker.process.wait(PATIENCE) == -signal.SIGKILL
        assert not worker.poll()
        assert worker.cause_of_death == "it gave no sign of life for 10 seconds"


def test_a_worker_that_opens_a_large_gallery_is_left_alone(
    tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    with one_worker(tmp_path, monkeypatch, "time.sleep(600)\n") as worker:
        for _ in range(10_000):
            clock[0] += 0.1
            assert worker.poll()
        assert not worker.hung


def test_a_sign_of_life_ends_the_silence(tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    program = READY.replace(
        "time.sleep(600)", "time.sleep(0.5)\nos.write(tell, b'{\"beat\": true}\\n')\ntime.sleep(600)"
    )
    with one_worker(tmp_path, monkeypatch, program) as worker:
        assert soon(lambda: worker.poll() and worker.ready)
        for _ in range(int(HUNG_SECONDS / 0.1) - 10):
            clock[0] += 0.1
            worker.poll()
        assert worker._silent_seconds > HUNG_SECONDS / 2
        assert soon(lambda: worker.poll() and worker._silent_seconds == 0)
        assert not worker.hung
