"""Real processes: dead workers are replaced, acknowledged changes stay, and no process is left behind."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra [web]")

import kinrank
from kinrank.web.server import supervisor
from kinrank.web.server.server_sockets import open_sockets
from kinrank.web.settings import Files, Settings
from reference.waiting import PATIENCE, soon
from web.small_service import names, settings_in, vectors

pytestmark = pytest.mark.slow

LATE = b"POST /v1/items HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
linux = pytest.mark.skipif(sys.platform != "linux", reason="it is /proc that says which processes there are")


class Service:
    """Service in separate processes."""

    def __init__(self, settings: Settings) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kinrank.web.server.supervisor"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(settings.to_json(), file=self.process.stdin, flush=True)
        self.address = self.process.stdout.readline().strip()
        self.port = int(self.address.rpartition(":")[2]) if self.address else 0

    def ask(self, method: str, path: str, content: Any = None) -> tuple[int, Any]:
        """Send a request over a new connection, which reaches any of the workers."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)) as connection:
            return ask(connection, method, path, content)

    def workers(self) -> list[int]:
        return children(self.process.pid)

    def end(self, how: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
        """Return the exit code and the error output."""
        self.process.send_signal(how)
        # in this order: closing its input ends it as well
        return self.process.wait(PATIENCE), self.process.communicate()[1]


def ask(connection: http.client.HTTPConnection, method: str, path: str, content: Any = None) -> tuple[int, Any]:
    body = None if content is None else json.dumps(content)
    connection.request(method, path, body, {} if content is None else {"Content-Type": "application/json"})
    response = connection.getresponse()
    text = response.read()
    return response.status, json.loads(text) if "json" in response.headers["content-type"] else text.decode()


def children(process: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def running(port: int) -> int:
    """Return the connections to a local port whose clients have sent something, all of which the service has read."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    here = [line for line in lines if line[1].endswith(f":{port:04X}") and line[3] == "01"]
    return sum(line[4].endswith(":00000000") for line in here)


def alive(process: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@contextlib.contextmanager
def started(settings: Settings) -> Iterator[Service]:
    service = Service(settings)
    try:
        yield service
    finally:
        if service.process.poll() is None:
            service.process.kill()
        service.process.communicate()


def put(*ids: str) -> dict[str, Any]:
    return {"ids": list(ids), "vectors": vectors(len(ids), seed=len(ids[0])).tolist()}


def held(settings: Settings) -> set[str]:
    return set(kinrank.Manifold.load(settings.manifold).ids.tolist())


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Service with two workers, which tests may change and damage."""
    settings = settings_in(tmp_path_factory.mktemp("two"), port=0, workers=2)
    with started(settings) as service:
        assert service.address.startswith("http://127.0.0.1:"), service.end()
        yield service
        code, message = service.end()
        assert code == 0, message
        assert "Traceback" not in message
        added = {"one", "two", "three"}
        assert added <= held(settings), "something acknowledged was not saved"


def test_two_workers_answer(two: Service) -> None:
    answers = [two.ask("POST", "/v1/search", {"vectors": vectors(1).tolist(), "k": 3}) for _ in range(20)]
    assert {status for status, _ in answers} == {200}
    assert {tuple(answer["ids"][0]) for _, answer in answers} == {tuple(answers[0][1]["ids"][0])}
    assert two.ask("GET", "/health") == (200, {"status": "alive"})


@linux
def test_workers_share_the_memory_of_the_gallery(two: Service) -> None:
    workers = two.workers()
    assert len(workers) == 2
    for worker in workers:
        mapped = Path(f"/proc/{worker}/maps").read_text()
        assert "gallery.manifold" in mapped, mapped


def test_a_change_through_one_worker_reaches_the_other(two: Service) -> None:
    status, receipt = two.ask("POST", "/v1/items", put("one", "two"))
    assert status == 200, receipt
    wanted = {"vectors": vectors(2, seed=3)[:1].tolist(), "k": 3}
    answers = [two.ask("POST", "/v1/search", {**wanted, "min_version": receipt["version"]}) for _ in range(20)]
    assert all(status == 200 and "one" in answer["ids"][0] for status, answer in answers), answers
    status, receipt = two.ask("POST", "/v1/items", put("three"))
    assert status == 200
    # without min_version, the worker that was not asked shows it a moment later
    assert soon(lambda: [two.ask("GET", "/v1/items/three")[0] for _ in range(20)] == [200] * 20)


@linux
def test_a_killed_worker_is_replaced_without_errors(two: Service) -> None:
    before = two.workers()
    os.kill(before[0], signal.SIGKILL)
    answers = [two.ask("GET", "/v1/items/one")[0] for _ in range(20)]  # some of them wait for the new worker
    assert answers == [200] * 20
    assert soon(lambda: len(two.workers()) == 2 and before[0] not in two.workers())
    assert before[1] in two.workers()


def test_workers_count_together(two: Service) -> None:
    def counted() -> float:
        lines = two.ask("GET", "/metrics")[1].splitlines()
        requests = [line for line in lines if line.startswith("kinrank_requests_total{") and "/v1/info" in line]
        return sum(float(line.split()[-1]) for line in requests)

    before = counted()
    for _ in range(20):
        two.ask("GET", "/v1/info")
    # A worker counts a request just after it has answered, so the other worker may report the total a moment later.
    assert soon(lambda: counted() == before + 20)
    assert [counted() for _ in range(10)] == [before + 20] * 10, "the workers report different totals"


@linux
def test_the_supervisor_is_killed_and_nothing_is_lost(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, port=0, workers=2)
    with started(settings) as first:
        kept = [f"kept-{number}" for number in range(5)]
        assert [first.ask("POST", "/v1/items", put(name))[0] for name in kept] == [200] * 5
        assert first.ask("DELETE", "/v1/items", {"ids": [names()[0]]})[0] == 200
        workers = first.workers()
        first.process.kill()
        with started(replace(settings, port=first.port)) as second:  # at once, at the same port
            assert not any(map(alive, workers))
            assert all(second.ask("GET", f"/v1/items/{name}")[0] == 200 for name in kept)
            assert second.ask("GET", f"/v1/items/{names()[0]}")[0] == 404
            code, message = second.end(signal.SIGINT)
            assert code == 0, message
    assert held(settings) == {*names()[1:], *kept}


@linux
def test_one_process(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, port=0)
    with started(settings) as service:
        assert service.ask("POST", "/v1/items", put("new"))[0] == 200
        other = Service(replace(settings, port=0))
        code, message = other.process.wait(PATIENCE), other.process.communicate()[1]
        assert code == 2
        assert message.count("\n") == 1
        assert f"is served or changed by process {service.process.pid} " in message
        with contextlib.closing(socket.create_connection(("127.0.0.1", service.port), timeout=PATIENCE)) as late:
            body = json.dumps(put("late")).encode()
            late.sendall(LATE % len(body) + body[:20])
            assert soon(lambda: running(service.port) == 1)
            service.process.terminate()
            time.sleep(0.5)  # to let it end wrongly; either order passes
            late.sendall(body[20:])  # a running request is finished
            assert late.recv(1000).startswith(b"HTTP/1.1 200")
        assert (service.process.wait(PATIENCE), service.process.communicate()[1]) == (0, "")
    assert held(settings) == {*names(), "new", "late"}


def test_the_socket_of_the_writer_has_a_short_name(tmp_path: Path) -> None:
    long = tmp_path / ("a" * 100)
    long.mkdir()
    with supervisor.serve_writes(settings_in(tmp_path, scratch=str(long))) as path:
        assert path is not None
        assert len(path) <= 100
        assert Path(path).is_socket()
    assert not Path(path).exists()


def test_a_gallery_that_is_not_changed_needs_no_writer(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, port=0, writable=False)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in the background of a shell
    try:
        with started(settings) as service, kinrank.Manifold.changing(settings.manifold, wait=1):
            assert service.ask("GET", "/v1/info")[1]["items"] == len(names())
            assert service.ask("POST", "/v1/items", put("new"))[0] == 422
            assert service.end(signal.SIGINT) == (0, "")
    finally:
        signal.signal(signal.SIGINT, before)


def test_failed_starts_of_workers_have_an_error_message(tmp_path: Path) -> None:
    files = Files(queries=str(tmp_path / "absent.npy"))
    with started(settings_in(tmp_path, port=0, workers=2, files=files)) as service:
        assert service.address == ""
        assert service.process.wait(PATIENCE) == 2
        message = service.process.communicate()[1]
        assert "absent.npy" in message
        assert message.count("\n") == 1, message


def test_workers_that_keep_dying_are_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kinrank.web.server.worker_process.RESTART_PAUSES_SECONDS", (0.0, 0.0, 0.1))
    monkeypatch.setattr(sys, "executable", "false")
    settings = Settings("absent", port=0, workers=2, scratch=str(tmp_path))
    with pytest.raises(ChildProcessError, match=r"a worker died 4 times soon after its start: it ended with code 1"):
        supervisor.run_service(settings, lambda address: pytest.fail(f"{address} is not there"))


@pytest.mark.parametrize("groups", [1, 3])
def test_a_port_that_is_taken(groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kinrank.web.server.server_sockets.PORT_WAIT_SECONDS", 0.1)
    with contextlib.ExitStack() as opened:
        made = open_sockets("127.0.0.1", 0, groups)
        for one in (one for group in made for one in group):
            opened.enter_context(one)
        port = made[0][0].getsockname()[1]
        assert {one.getsockname()[1] for group in made for one in group} == {port}
        for count in (1, 2):
            with pytest.raises(OSError, match=f"port {port} of .* is used by another program; give another port"):
                open_sockets("127.0.0.1", port, count)


def test_hosts() -> None:
    for host in ("", "localhost", "127.0.0.1"):
        for group in open_sockets(host, 0, 2):
            assert len({one.getsockname()[1] for one in group}) == 1
            for one in group:
                one.close()
    with pytest.raises(ValueError, match=r"host='nobody\.invalid' is not known"):
        open_sockets("nobody.invalid", 0, 1)
    with pytest.raises(ValueError, match=r"host='192\.0\.2\.1' is not an address of this machine"):
        open_sockets("192.0.2.1", 0, 1)
    if socket.has_ipv6:
        with contextlib.suppress(ValueError):  # a machine may have none
            (group,) = open_sockets("::1", 0, 1)
            assert group[0].family == socket.AF_INET6
            group[0].close()
