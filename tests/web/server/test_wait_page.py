"""Wait page during the preparation of a gallery, and then the service at the same port."""

from __future__ import annotations

import concurrent.futures
import http.client
import json
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

pytest.importorskip("fastapi", reason="the service needs the extra [web]")

from kinrank.errors import InputError
from kinrank.web.server import http_server, wait_page
from kinrank.web.server.wait_page import WaitServer
from kinrank.web.settings import Settings
from reference.waiting import PATIENCE, soon
from web.server.test_supervisor import children, linux
from web.slow_startup import slowly
from web.small_service import names, settings_in

READ = "readers-only"
EMBEDDING = "embedding pictures"


@pytest.fixture
def door() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def send(door: socket.socket, path: str, **more: Any) -> httpx.Response:
    url = f"http://127.0.0.1:{door.getsockname()[1]}{path}"
    return httpx.request(more.pop("method", "GET"), url, timeout=PATIENCE, **more)


def test_responses_during_the_preparation(door: socket.socket) -> None:
    page = WaitServer(Settings("nowhere", title="photos"), [door])
    page.progress(EMBEDDING, 1233, 5063)
    page.progress(EMBEDDING, 1234, 5063)
    assert "preparing.js" in send(door, "/").text
    assert send(door, "/page/preparing.js").headers["content-type"].startswith("text/javascript")
    assert send(door, "/page/nothing.js").status_code == 404
    assert send(door, "/health").json() == {"status": "alive"}
    found = send(door, "/view/progress")
    assert found.headers["cache-control"] == "no-store"
    assert found.headers["connection"] == "close"
    assert found.headers["content-security-policy"].startswith("default-src 'none'")
    assert found.json()["stages"][0]["done"] == 1234
    for method, path in (("GET", "/ready"), ("POST", "/v1/search"), ("DELETE", "/v1/items"), ("GET", "/openapi.json")):
        later = send(door, path, method=method)
        assert (later.status_code, later.headers["retry-after"]) == (503, "1"), path
        assert later.json()["detail"] == "the gallery is being prepared: embedding pictures, 1234 of 5063"
    assert send(door, "/ready", headers={"Host": "example.org"}).status_code == 421
    page.stop()
    page.stop()
    assert door.fileno() >= 0, "the service goes on with it"


def test_nothing_is_revealed_without_a_token(door: socket.socket) -> None:
    page = WaitServer(Settings("nowhere", title="photos of mine", read_tokens=(READ,)), [door])
    page.progress(EMBEDDING, 1, 5063)
    page.progress(EMBEDDING, 2, 5063)
    for path in ("/", "/ready", "/view/progress", "/v1/info", "/health", "/page/preparing.js"):
        found = send(door, path)
        assert "5063" not in found.text
        assert "photos of mine" not in found.text
    assert send(door, "/ready").json() == {"detail": "the gallery is being prepared"}
    assert send(door, "/view/progress").status_code == 401
    assert send(door, "/v1/info").status_code == 401
    assert send(door, "/view/progress", headers={"Authorization": f"Bearer {READ}"}).json()["title"] == "photos of mine"
    assert send(door, "/view/enter", method="POST", json={"token": "wrong"}).status_code == 401
    entered = send(door, "/view/enter", method="POST", json={"token": READ})
    assert send(door, "/view/progress", cookies=dict(entered.cookies)).status_code == 200
    page.stop()


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (InputError("there are\n no pictures"), "there are no pictures"),
        (ValueError("bad shape"), "internal error (ValueError); the terminal of the service shows the traceback"),
    ],
    ids=["mistake", "bug"],
)
def test_an_open_page_shows_why_the_preparation_failed(
    door: socket.socket, error: Exception, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wait_page, "WATCHED_SECONDS", PATIENCE)
    monkeypatch.setattr(wait_page, "FAILURE_SHOWN_SECONDS", PATIENCE)
    page = WaitServer(Settings("nowhere"), [door])
    answers = list[Any]()

    def look() -> None:
        while not answers or answers[-1]["state"] != "failed":
            answers.append(send(door, "/view/progress").json())
            time.sleep(0.05)

    looking = threading.Thread(target=look)
    looking.start()
    assert soon(lambda: bool(answers))
    with pytest.raises(type(error)), page.show_failures():
        raise error
    looking.join(PATIENCE)
    assert answers[-1]["problem"] == message


def test_a_failure_does_not_wait_without_an_open_page(door: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait_page, "FAILURE_SHOWN_SECONDS", 10 * PATIENCE)
    page = WaitServer(Settings("nowhere"), [door])
    started = time.monotonic()
    with pytest.raises(KeyError), page.show_failures():
        raise KeyError
    assert time.monotonic() - started < PATIENCE  # an open page has ten times as long


def test_a_client_that_is_connected_is_heard(door: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "HANDOVER_SECONDS", 5.0)  # for the request below to arrive on a busy machine
    page = WaitServer(Settings("nowhere"), [door])
    with socket.create_connection(door.getsockname()) as silent, socket.create_connection(door.getsockname()) as late:
        time.sleep(0.2)
        stopping = threading.Thread(target=page.stop)
        stopping.start()
        time.sleep(0.3)
        late.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert late.recv(10_000).startswith(b"HTTP/1.1 200")
        stopping.join(PATIENCE)
        assert silent.recv(10) == b"", "an orderly end, no reset"


@pytest.mark.parametrize("workers", [1, 2])
def test_the_service_takes_over_and_no_request_is_lost(tmp_path: Path, workers: int) -> None:
    prepared = settings_in(tmp_path)
    settings = Settings("not there yet", title="photos", port=0, workers=workers)
    with slowly(settings, prepared, tmp_path / "kept") as service:
        port = int(service.address.rpartition(":")[2])
        service.tell([EMBEDDING, 1, 3])
        over, answers = threading.Event(), Counter[Any]()

        def ask(path: str) -> None:
            while not over.is_set():
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
                connection.request("GET", path)
                answer = connection.getresponse()
                answers[path, answer.status, json.loads(answer.read()).get("state")] += 1
                connection.close()
                time.sleep(0.01)

        with concurrent.futures.ThreadPoolExecutor() as clients:
            asking = [clients.submit(ask, path) for path in ("/health", "/view/progress", "/ready")]
            assert soon(lambda: answers["/view/progress", 200, "preparing"] > 3)
            service.tell("done")
            service.ready()
            assert soon(lambda: answers["/ready", 200, None] > 3 and answers["/view/progress", 200, "ready"] > 3)
            over.set()
            for one in asking:
                one.result(PATIENCE)  # a connection that was reset would be raised here
        assert {status for path, status, _ in answers if path == "/health"} == {200}
        assert httpx.get(f"{service.address}/v1/info", timeout=PATIENCE).json()["items"] == len(names())
        assert httpx.get(service.address, timeout=PATIENCE).text != ""
        service.process.send_signal(signal.SIGTERM)
        assert service.ended() == (0, "")
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize(
    ("how", "code", "kept"), [(signal.SIGINT, 130, "KeyboardInterrupt"), (signal.SIGTERM, 0, "SystemExit")]
)
def test_a_signal_interrupts_the_work(tmp_path: Path, how: signal.Signals, code: int, kept: str) -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in the background of a shell
    try:
        with slowly(Settings("nowhere", port=0), Settings("nowhere"), tmp_path / "kept") as service:
            service.tell([EMBEDDING, 1, 3])
            assert httpx.get(f"{service.address}/health", timeout=PATIENCE).status_code == 200
            service.process.send_signal(how)
            assert service.ended() == (code, "")
    finally:
        signal.signal(signal.SIGINT, before)
    assert (tmp_path / "kept").read_text() == kept


@pytest.mark.parametrize("workers", [1, 2])
def test_a_broken_gallery_has_an_error_message(tmp_path: Path, workers: int) -> None:
    settings = Settings("nowhere", port=0, workers=workers)
    with slowly(settings, Settings(str(tmp_path / "absent")), tmp_path / "kept") as service:
        service.tell("done")
        code, expected = service.ended()
        assert code == 2, expected
        assert "absent" in expected
        assert expected.count("\n") == 1, expected
    with slowly(settings, Settings("nowhere"), tmp_path / "kept") as service:
        service.tell({"fail": "the pictures are gone"})
        assert service.ended() == (2, "kinrank: error: the pictures are gone\n")


@linux
def test_workers_stopped_during_their_start_leave_no_processes(tmp_path: Path) -> None:
    with slowly(Settings("x", port=0, workers=2), settings_in(tmp_path), tmp_path / "kept") as service:
        service.tell("done")
        assert soon(lambda: len(children(service.process.pid)) == 2)
        workers = children(service.process.pid)
        service.process.send_signal(signal.SIGTERM)
        assert service.ended() == (0, "")
        assert not [one for one in workers if Path(f"/proc/{one}").exists()]
