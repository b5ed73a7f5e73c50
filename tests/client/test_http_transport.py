"""Responses 503, broken and stale connections, slow services and other servers, simulated by a small server."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest

from kinrank.client import Client, ServiceBusyError
from reference.waiting import soon

RECEIPT = {"version": 7, "added": 1, "replaced": 0, "removed": 0, "items": 5, "ids": ["a"]}
FOUND = {"ids": [["a"]], "distances": [[0.5]], "query_ids": None, "mode": "online", "version": 7}
BUSY = (503, {"Retry-After": "0"}, {"detail": "128 requests wait already; try again in a second"})
ROW = np.ones((1, 3))


class StandIn:
    """A server that answers from a script: (status, headers, content), a number of seconds to wait, or None to hang up.

    After the script it answers {"items": 5}. `seen` contains (verb, path, headers, body, connection) of every request.
    """

    def __init__(self) -> None:
        self.script: list[Any] = []
        self.seen: list[tuple[str, str, Any, Any, tuple[str, int]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(self) -> None:
                sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                body = json.loads(sent) if sent else None
                outer.seen.append((self.command, self.path, self.headers, body, self.client_address))
                step = outer.script.pop(0) if outer.script else (200, {}, {"items": 5})
                if isinstance(step, float):
                    time.sleep(step)
                if not isinstance(step, tuple):
                    self.close_connection = True
                    return
                status, headers, content = step
                text = content if isinstance(content, bytes) else json.dumps(content).encode()
                self.send_response(status)
                for name, value in ({"Content-Type": "application/json"} | headers).items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_DELETE = answer

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()


@pytest.fixture
def stand_in() -> Iterator[StandIn]:
    made = StandIn()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def client(stand_in: StandIn) -> Iterator[Client]:
    with Client(stand_in.url, token="abc", timeout=60.0) as made:
        yield made


def test_a_connection_is_used_again(client: Client, stand_in: StandIn) -> None:
    assert [len(client) for _ in range(5)] == [5] * 5
    assert len({connection for *_, connection in stand_in.seen}) == 1
    assert all(headers["Authorization"] == "Bearer abc" for _, _, headers, _, _ in stand_in.seen)


def test_many_threads_share_a_client(client: Client, stand_in: StandIn) -> None:
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.extend(len(client) for _ in range(10))) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [5] * 120
    assert len(client._transport._idle) <= 8


def test_busy_is_tried_again(client: Client, stand_in: StandIn) -> None:
    stand_in.script = [BUSY, BUSY, BUSY, (200, {}, FOUND)]
    assert client.search(ROW, k=1).ids.tolist() == [["a"]]
    stand_in.script = [BUSY, (200, {}, RECEIPT)]
    assert client.add(ROW, ["a"]).version == 7
    assert len(stand_in.seen) == 6


def test_busy_too_often_is_an_error_with_the_sentence(client: Client, stand_in: StandIn) -> None:
    stand_in.script = [BUSY] * 4
    with pytest.raises(ServiceBusyError, match="128 requests wait already") as caught:
        client.search(ROW)
    assert isinstance(caught.value, ConnectionError)
    assert len(stand_in.seen) == 4


def test_a_change_is_not_repeated_where_nothing_says_that_it_was_not_begun(client: Client, stand_in: StandIn) -> None:
    stand_in.script = [(503, {}, {"detail": "not answered within 30 seconds"})]
    with pytest.raises(ServiceBusyError, match=r"within 30 seconds; it is unknown whether the change was made"):
        client.add(ROW)
    assert len(stand_in.seen) == 1


def test_retries_can_be_turned_off(stand_in: StandIn) -> None:
    stand_in.script = [BUSY]
    with Client(stand_in.url, retries=0) as client, pytest.raises(ServiceBusyError):
        client.info()
    assert len(stand_in.seen) == 1


def test_how_long_it_waits(monkeypatch: pytest.MonkeyPatch, client: Client, stand_in: StandIn) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    dated = (503, {"Retry-After": "Tue, 17 Nov 2026 01:00:00 GMT"}, {"detail": "later"})
    stand_in.script = [(503, {"Retry-After": "2"}, {"detail": "later"}), (503, {"Retry-After": "999"}, {}), dated]
    client.info()
    assert 2.0 <= pauses[0] <= 3.0
    assert 10.0 <= pauses[1] <= 15.0
    assert 1.0 <= pauses[2] <= 1.5


@pytest.mark.parametrize("asked", ["search", "info", "upsert"])
def test_a_stale_connection_is_replaced(client: Client, stand_in: StandIn, asked: str) -> None:
    len(client)
    good = {"search": FOUND, "info": {"items": 5}, "upsert": RECEIPT}[asked]
    stand_in.script = [None, (200, {}, good)]
    calls = {"search": lambda: client.search(ROW), "info": client.info, "upsert": lambda: client.upsert(ROW, ["a"])}
    calls[asked]()
    assert len(stand_in.seen) == 3


def test_a_connection_that_breaks_twice_is_an_error(client: Client, stand_in: StandIn) -> None:
    stand_in.script = [None, None, None]
    with pytest.raises(ConnectionError, match="broke before the response") as caught:
        client.info()
    assert "unknown" not in str(caught.value)
    assert len(stand_in.seen) == 2


@pytest.mark.parametrize("asked", ["add", "remove", "sync"])
def test_a_change_that_broke_is_not_repeated(client: Client, stand_in: StandIn, asked: str) -> None:
    stand_in.script = [None]
    calls = {"add": lambda: client.add(ROW), "remove": lambda: client.remove("a"), "sync": client.sync}
    with pytest.raises(ConnectionError, match=r"broke.*it is unknown whether the change was made: check"):
        calls[asked]()
    assert len(stand_in.seen) == 1


def test_a_change_takes_a_fresh_connection(client: Client, stand_in: StandIn) -> None:
    """With a connection that the service has closed, the outcome would be unknown."""
    len(client)
    stand_in.script = [(200, {}, RECEIPT)]
    client.remove(["a"])
    assert stand_in.seen[0][4] != stand_in.seen[1][4]


def test_slow_answers(stand_in: StandIn) -> None:
    stand_in.script = [1.0, 1.0]
    with Client(stand_in.url, timeout=0.1) as client:
        with pytest.raises(TimeoutError, match=r"did not answer within 0.1 seconds; .*timeout$"):
            client.info()
        with pytest.raises(TimeoutError, match=r"it is unknown whether the change was made"):
            client.add(ROW)
    assert soon(lambda: len(stand_in.seen) >= 2)  # the server may read a request after its client has given up
    assert len(stand_in.seen) == 2


def test_no_service() -> None:
    with contextlib.ExitStack() as held:
        free = held.enter_context(socket.socket())
        free.bind(("127.0.0.1", 0))  # and nobody listens, neither here nor in another test
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        client = held.enter_context(Client(url))
        with pytest.raises(ConnectionError, match=rf"no service answers at {url} .*start it with: kinrank serve"):
            client.add(ROW)
        assert not client.ready()


def test_no_such_host() -> None:
    with Client("http://nowhere.invalid:8000") as client, pytest.raises(ConnectionError, match="no service answers"):
        client.info()


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, ValueError),
        (401, PermissionError),
        (403, PermissionError),
        (404, ValueError),
        (413, ValueError),
        (415, ValueError),
        (421, ValueError),
        (422, ValueError),
        (500, ConnectionError),
        (504, ConnectionError),
    ],
)
def test_errors_have_the_sentence_of_the_service(
    client: Client, stand_in: StandIn, status: int, error: type[Exception]
) -> None:
    stand_in.script = [(status, {}, {"detail": "k=0 is not allowed"})]
    with pytest.raises(error, match="k=0 is not allowed"):
        client.info()


def test_a_list_of_details_is_shown(client: Client, stand_in: StandIn) -> None:
    stand_in.script = [(422, {}, {"detail": [{"msg": "too small"}]})]
    with pytest.raises(ValueError, match=r"status 422.*too small"):
        client.info()


@pytest.mark.parametrize(
    ("status", "error"), [(413, ValueError), (403, PermissionError), (502, ConnectionError), (504, ConnectionError)]
)
def test_servers_in_between(client: Client, stand_in: StandIn, status: int, error: type[Exception]) -> None:
    stand_in.script = [(status, {"Content-Type": "text/html"}, b"<html>")] * 2
    with pytest.raises(error, match=f"a server between .* responded with status {status} and without a reason"):
        client.info()
    with pytest.raises(error) as caught:
        client.add(ROW)
    assert ("unknown" in str(caught.value)) == (status >= 500)


def test_strangers(client: Client, stand_in: StandIn) -> None:
    html = {"Content-Type": "text/html"}
    stand_in.script = [(200, html, b"<html>"), (404, html, b"<html>"), (500, html, b"<html>"), (200, {}, [1])]
    for _ in range(4):
        with pytest.raises(ConnectionError, match="is not a kinrank service: status"):
            client.info()
    stand_in.script = [(301, {"Location": "https://elsewhere.invalid/"}, b"")]
    with pytest.raises(ConnectionError, match="redirects to another URL"):
        client.info()


def test_searches_request_the_clients_own_changes(client: Client, stand_in: StandIn) -> None:
    client.info()
    stand_in.script = [(200, {}, RECEIPT), (200, {}, {**RECEIPT, "version": 5}), (200, {}, FOUND)]
    client.add(ROW, ["a"])
    client.remove(["a"])
    assert client.version == 7
    client.search(ROW)
    client.get("a/b c?d", vector=True)
    client.info()
    paths = [path for _, path, _, _, _ in stand_in.seen]
    assert paths[0] == "/v1/info"
    assert stand_in.seen[3][3]["min_version"] == 7
    assert paths[4:] == ["/v1/items/a%2Fb%20c%3Fd?vector=true&min_version=7", "/v1/info?min_version=7"]


def test_a_path_in_the_url_is_kept(stand_in: StandIn) -> None:
    with Client(f"{stand_in.url}/kin/") as client:
        client.info()
        assert repr(client) == f"Client('{stand_in.url}/kin')"
    assert stand_in.seen[0][1] == "/kin/v1/info"


def test_a_closed_client_says_so(client: Client) -> None:
    len(client)
    client.close()
    assert client._transport._idle == []
    with pytest.raises(ValueError, match="this client is closed"):
        client.info()


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://host", "http://", "http://host:99999", "", None, 5])
def test_addresses_that_are_none(url: Any) -> None:
    with pytest.raises(ValueError, match="url is not the URL of a service; give a URL such as"):
        Client(url)


def test_secrets_are_never_printed() -> None:
    for url in ("http://me:secret@host:8000", "http://host:8000?token=secret"):
        with pytest.raises(ValueError, match="give the token as `token`") as caught:
            Client(url)
        assert "secret" not in str(caught.value)
    for token in ("secret\r\nX: y", "secret word", "sécret", ""):
        with pytest.raises(ValueError, match="token is not allowed; give ASCII letters") as caught:
            Client("http://host", token=token)
        assert "secret" not in str(caught.value)
    assert "secret" not in repr(Client("http://host", token="secret"))


def test_senseless_settings_are_refused() -> None:
    for timeout in (0, -1, float("nan"), float("inf"), "3", True, None):
        with pytest.raises(ValueError, match=r"timeout=.* is not allowed"):
            Client("http://host", timeout=timeout)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="retries"):
        Client("http://host", retries=-1)


def test_a_secure_address_is_called_securely(stand_in: StandIn) -> None:
    """Nothing, in particular no token, is sent to a server without a valid certificate."""
    with Client(stand_in.url.replace("http:", "https:"), token="abc") as client:
        with pytest.raises(ConnectionError, match=r"no secure connection to https://.*SSL_CERT_FILE"):
            client.add(ROW)
        assert not client.ready()
    assert stand_in.seen == []
