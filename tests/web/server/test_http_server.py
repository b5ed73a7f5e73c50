"""Clients on raw sockets that send too much, too slowly or nonsense, or never read: refused, and others are served."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="pip install '.[web]'")
import uvicorn

from kinrank.web.server.http_server import MAX_PIPELINED_REQUESTS, make_server_config
from kinrank.web.settings import Limits, Settings
from reference.waiting import PATIENCE, soon

pytestmark = pytest.mark.slow

QUICK = Limits(header_bytes=4096, header_seconds=0.6, seconds=1.0, connections=50)
PATIENT = replace(QUICK, header_seconds=PATIENCE, seconds=PATIENCE)  # nothing is too slow, however busy the machine
GET = b"GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Gate:
    """What the requests for /gate wait for, and how many of them do."""

    def __init__(self) -> None:
        self.open, self.waiting = threading.Event(), 0

    async def wait(self) -> None:
        self.waiting += 1
        while not self.open.is_set():
            await asyncio.sleep(0.01)
        self.waiting -= 1


GATE = Gate()


async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Echo the request with its body.

    /large answers a lot, /early before the body is complete, /slow after a while, /gate when the test allows it.
    """
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    body, more = b"", scope["path"] != "/early"
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body, more = body + message["body"], message["more_body"]
    if scope["path"] == "/slow":
        await asyncio.sleep(0.5)
    if scope["path"] == "/gate":
        await GATE.wait()
    expected = scope["path"].encode() + b" " + body
    parts = [b"x" * 2**16] * 512 if scope["path"] == "/large" else [expected]
    headers = [(b"content-length", str(sum(map(len, parts))).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for number, part in enumerate(parts):
        await send({"type": "http.response.body", "body": part, "more_body": number + 1 < len(parts)})


class Served:
    def __init__(self, server: uvicorn.Server, port: int) -> None:
        self.server, self.port = server, port

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)

    def says(self, sent: bytes) -> tuple[int, bytes]:
        """Send these bytes on a new connection; return status and body of the response."""
        with self.connect() as connection:
            connection.sendall(sent)
            return answer(connection)

    def open_connections(self) -> int:
        return len(self.server.server_state.connections)


@contextlib.contextmanager
def serving(limits: Limits, loop: str = "auto") -> Iterator[Served]:
    config = make_server_config(Settings("", limits=limits), app)
    config.loop = loop
    listening = socket.create_server(("127.0.0.1", 0), backlog=2048)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield Served(server, listening.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        assert not thread.is_alive()


@pytest.fixture(scope="module", params=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> str:
    if request.param == "uvloop":
        pytest.importorskip("uvloop", reason="the loop is then asyncio's own")
    return str(request.param)


@pytest.fixture(scope="module")
def served(loop: str) -> Iterator[Served]:
    with serving(PATIENT, loop) as one:
        yield one


@pytest.fixture(scope="module")
def hasty(loop: str) -> Iterator[Served]:
    """A server that drops clients after about a second."""
    with serving(QUICK, loop) as one:
        yield one


def read_answer(file: Any) -> tuple[int, dict[str, str], bytes]:
    line = file.readline()
    assert line, "the connection was closed without an answer"
    headers = {}
    while (header := file.readline().strip()) != b"":
        name, _, value = header.partition(b":")
        headers[name.decode()] = value.strip().decode()
    return int(line.split()[1]), headers, file.read(int(headers["content-length"]))


def answer(connection: socket.socket) -> tuple[int, bytes]:
    with connection.makefile("rb") as file:
        status, headers, body = read_answer(file)
        if status >= 400:
            assert headers["connection"] == "close"
            assert set(json.loads(body)) == {"detail"}
            assert file.read() == b""  # it was closed
        return status, body


def chunks(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)


def post(head: bytes, body: bytes = b"", path: bytes = b"/echo") -> bytes:
    return b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n\r\n" + body


CHUNKED = b"Transfer-Encoding: chunked"
NONSENSE = {
    "random bytes": (bytes(range(256)), 400),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100), 400),
    "old": (b"GET /\r\n\r\n", 400),
    "no such version": (b"GET / HTTP/7.7\r\nHost: x\r\n\r\n", 400),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    "connect": (b"CONNECT example.org:443 HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "no path": (b"GET \xff HTTP/1.1\r\nHost: x\r\n\r\n", 400),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "two hosts": (b"GET / HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n", 400),
    "space before colon": (b"GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400),
    "bare line feed": (b"GET / HTTP/1.1\nHost: x\n\n", 400),
    "folded": (b"GET / HTTP/1.1\r\nHost: x\r\n y\r\n\r\n", 400),
    "zero byte": (b"GET / HTTP/1.1\r\nHost: x\x00\r\n\r\n", 400),
    "length and chunks": (post(b"Content-Length: 3\r\n" + CHUNKED, chunks(b"abc", b"")), 400),
    "chunks and length": (post(CHUNKED + b"\r\nContent-Length: 3", chunks(b"abc", b"")), 400),
    "two lengths": (post(b"Content-Length: 3\r\nContent-Length: 4", b"abcd"), 400),
    "lengths in a row": (post(b"Content-Length: 3, 4", b"abcd"), 400),
    "negative": (post(b"Content-Length: -1", b"abcd"), 400),
    "signed": (post(b"Content-Length: +4", b"abcd"), 400),
    "endless length": (post(b"Content-Length: " + b"9" * 30, b"abcd"), 400),
    "no such chunk": (post(CHUNKED, b"xyz\r\nabc\r\n0\r\n\r\n"), 400),
    "endless chunk": (post(CHUNKED, b"f" * 20 + b"\r\nabc"), 400),
    "coding": (post(b"Transfer-Encoding: gzip, chunked", chunks(b"abc", b"")), 501),
    "almost chunked": (post(b"Transfer-Encoding: xchunked", chunks(b"abc", b"")), 501),
    "old and chunked": (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(b"abc", b""), 501),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_bytes_that_are_not_a_request(name: str, served: Served) -> None:
    sent, status = NONSENSE[name]
    assert served.says(sent)[0] == status
    assert served.says(GET) == (200, b"/hello ")


LARGE = {
    "one header": b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 5000 + b"\r\n\r\n",
    "one header without an end": b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 5000,
    "far more than once is read": b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 2**20,
    "many headers": b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X:y\r\n" * 1000,
    "address": b"GET /" + b"a" * 5000,
    "empty lines": b"\r\n" * 2500,
    "name of a chunk": post(CHUNKED, b"3;x=" + b"a" * 500_000),
    "behind the body": post(CHUNKED, chunks(b"abc") + b"0\r\nX: " + b"a" * 500_000),
}


@pytest.mark.parametrize("name", LARGE)
def test_too_large_heads(name: str, served: Served) -> None:
    with served.connect() as connection:
        with contextlib.suppress(ConnectionError):  # it can be closed before everything is sent
            connection.sendall(LARGE[name])
        assert answer(connection)[0] == 431


def test_a_head_of_almost_the_limit_is_served(served: Served) -> None:
    assert served.says(b"GET /x HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 3900 + b"\r\n\r\n") == (200, b"/x ")


def test_bodies_of_all_kinds_and_sizes(served: Served) -> None:
    assert served.says(post(b"Content-Length: 5", b"hello")) == (200, b"/echo hello")
    assert served.says(post(CHUNKED, chunks(b"hel", b"lo", b""))) == (200, b"/echo hello")
    trailed = chunks(b"hello") + b"0\r\nX-After: ignored\r\n\r\n"
    assert served.says(post(CHUNKED, trailed)) == (200, b"/echo hello")
    long = b"z" * 3_000_000
    assert served.says(post(b"Content-Length: %d" % len(long), long)) == (200, b"/echo " + long)
    one_by_one = [b"y"] * 20_000 + [b""]
    assert served.says(post(CHUNKED, chunks(*one_by_one))) == (200, b"/echo " + b"y" * 20_000)
    waiting = post(b"Expect: 100-continue\r\nContent-Length: 5")
    with served.connect() as connection, connection.makefile("rb") as file:
        connection.sendall(waiting)
        assert file.readline() == b"HTTP/1.1 100 Continue\r\n"
        file.readline()
        connection.sendall(b"hello")
        assert read_answer(file)[2] == b"/echo hello"


@pytest.mark.parametrize("protocol", [b"websocket", b"h2c"])
def test_other_protocols_are_answered_in_this_one(protocol: bytes, served: Served) -> None:
    head = b"Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\nUpgrade: " + protocol
    with served.connect() as connection, connection.makefile("rb") as file:
        for _ in range(2):
            connection.sendall(post(head + b"\r\nContent-Length: 5", b"hello") + GET)
            assert read_answer(file)[2] == b"/echo hello"
            assert read_answer(file)[2] == b"/hello "


def test_requests_sent_ahead_are_answered_in_order(served: Served) -> None:
    sent = [post(b"Content-Length: 2", b"%02d" % number) for number in range(MAX_PIPELINED_REQUESTS // 2)]
    with served.connect() as connection, connection.makefile("rb") as file:
        connection.sendall(b"".join(sent))
        assert [read_answer(file)[2] for _ in sent] == [b"/echo %02d" % number for number in range(len(sent))]
        connection.sendall(GET)
        assert read_answer(file)[2] == b"/hello "


def test_too_many_requests_ahead_end_the_connection_after_some_answers(served: Served) -> None:
    with served.connect() as connection:
        connection.sendall(GET.replace(b"/hello", b"/slow") + GET * 5000)
        with connection.makefile("rb") as file, contextlib.suppress(ConnectionError):
            assert file.read().count(b"HTTP/1.1 200 OK") == MAX_PIPELINED_REQUESTS + 1


def test_nonsense_after_a_request_does_not_affect_its_response(served: Served) -> None:
    with served.connect() as connection, connection.makefile("rb") as file:
        connection.sendall(GET.replace(b"/hello", b"/slow") + b"nonsense\r\n\r\n")
        assert read_answer(file)[::2] == (200, b"/slow ")
        assert file.read() == b""


def dripping(connection: socket.socket, parts: bytes) -> bool:
    """Send one byte every tenth of a second; return True if the other side answers before the last one."""
    connection.settimeout(0.1)
    for part in parts:
        with contextlib.suppress(ConnectionError):
            connection.sendall(bytes([part]))
        with contextlib.suppress(TimeoutError):
            if connection.recv(1, socket.MSG_PEEK):
                connection.settimeout(PATIENCE)
                return True
    return False


@contextlib.contextmanager
def at_least(seconds: float) -> Iterator[None]:
    """Check that the block takes this long: nobody is dropped too early."""
    started = time.monotonic()
    yield
    assert time.monotonic() - started > seconds


def test_a_slow_head_ends(hasty: Served) -> None:
    with at_least(0.5), hasty.connect() as connection:
        assert dripping(connection, b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 1500)
        assert answer(connection)[0] == 408


def test_a_slow_head_on_a_connection_that_was_good_before_ends(hasty: Served) -> None:
    with hasty.connect() as connection, connection.makefile("rb") as file:
        connection.sendall(GET + GET[:10])
        assert read_answer(file)[0] == 200
        assert read_answer(file)[0] == 408


def test_silent_clients_are_dropped(hasty: Served) -> None:
    with at_least(0.5), hasty.connect() as connection:
        assert connection.recv(1) == b""


@pytest.mark.parametrize("head", [b"Content-Length: 1000", CHUNKED])
def test_a_slow_body_ends(head: bytes, hasty: Served) -> None:
    with at_least(0.8), hasty.connect() as connection:
        connection.sendall(post(head))
        assert dripping(connection, b"1\r\na\r\n" * 160)  # fewer bytes than the length
        assert answer(connection)[0] == 408


def test_a_body_that_goes_on_after_the_answer_ends(hasty: Served) -> None:
    with at_least(1), hasty.connect() as connection, connection.makefile("rb") as file:
        connection.sendall(post(b"Content-Length: 1000000000", path=b"/early"))
        assert read_answer(file)[0] == 200

        def closed() -> bool:
            try:
                connection.sendall(b"x" * 1000)
            except ConnectionError:
                return True
            return False

        assert soon(closed)


def test_a_body_that_ends_soon_after_the_answer_keeps_the_connection(served: Served) -> None:
    with served.connect() as connection, connection.makefile("rb") as file:
        connection.sendall(post(b"Content-Length: 5", path=b"/early"))
        assert read_answer(file)[0] == 200
        connection.sendall(b"hello" + GET)
        assert read_answer(file)[2] == b"/hello "


def test_clients_that_never_read_are_dropped(hasty: Served) -> None:
    assert soon(lambda: hasty.open_connections() == 0)
    with hasty.connect() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(GET.replace(b"/hello", b"/large") * 3)
        assert connection.recv(1, socket.MSG_PEEK) == b"H"  # its answer has begun
        assert soon(lambda: hasty.says(GET) == (200, b"/hello ") and hasty.open_connections() == 0)


def test_idle_connections_end_and_make_room(served: Served) -> None:
    kept = []
    try:
        for _ in range(3 * PATIENT.connections):
            kept.append(served.connect())
            kept[-1].sendall(GET if len(kept) % 2 else GET[:10])
        assert all(served.says(GET) == (200, b"/hello ") for _ in range(20))
        assert served.open_connections() <= 2 * PATIENT.connections + 1
    finally:
        for one in kept:
            one.close()


def test_when_all_connections_are_busy_others_hear_when_to_come_again(served: Served) -> None:
    GATE.open.clear()
    busy = [served.connect() for _ in range(PATIENT.connections)]
    try:
        for one in busy:
            one.sendall(GET.replace(b"/hello", b"/gate"))
        assert soon(lambda: GATE.waiting == len(busy))
        with served.connect() as connection, connection.makefile("rb") as file:
            connection.sendall(GET)
            status, headers, _ = read_answer(file)
            assert (status, headers["retry-after"]) == (503, "1")
        GATE.open.set()
        assert [answer(one)[0] for one in busy] == [200] * len(busy)
    finally:
        GATE.open.set()
        for one in busy:
            one.close()
    assert served.says(GET) == (200, b"/hello ")


def test_two_thousand_idle_connections_do_not_stop_others() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 6000:
        pytest.skip("this machine allows too few open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (6000, hard))
    try:
        with (
            serving(replace(PATIENT, connections=1000), "auto") as one,
            contextlib.ExitStack() as kept,
        ):
            for _ in range(2000):
                kept.enter_context(one.connect())
            assert all(one.says(GET) == (200, b"/hello ") for _ in range(50))
            assert one.open_connections() < 1100
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
