"""Pictures and texts as queries under load and during changes: right answers, clear errors, bounded memory."""

from __future__ import annotations

import base64
import contextlib
import http.client
import io
import json
import os
import signal
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the service needs the extra [web]")

from PIL import Image

from kinrank.web.settings import Settings
from reference.waiting import soon
from web.small_service import settings_in, vectors
from web.tiny import RECIPE, eight

pytestmark = [
    pytest.mark.faults,
    pytest.mark.skipif(sys.platform != "linux", reason="it is /proc that says how much memory a process has"),
    pytest.mark.slow,
]

CLIENTS = 16
SECONDS = float(os.environ.get("KINRANK_LOAD_SECONDS", "15"))
MAX_PEAK_BYTES = 300 * 2**20  # above the memory before the load; one large picture takes about 100 MB
MAX_SETTLED_BYTES = 100 * 2**20  # above that after the load
TESTS = str(Path(__file__).parents[1])
Request = tuple[str, str, dict[str, Any]]


def encoded(image: Image.Image, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


def in_base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def picture(seed: int) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 255, (30, 40, 3), np.uint8)
    return Image.fromarray(pixels)


def claimed(width: int, height: int) -> bytes:
    """Return a PNG whose header claims a size, with hardly any content."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    )


PICTURES = [encoded(picture(seed), kind) for seed in range(4) for kind in ("PNG", "WEBP")]
LARGE = encoded(Image.new("RGB", (3000, 3000), (200, 30, 30)))
BROKEN = {
    "truncated": in_base64(PICTURES[0][: len(PICTURES[0]) // 2]),
    "no picture": in_base64(b"no picture at all"),
    "empty": "",
    "huge": in_base64(claimed(60_000, 60_000)),
    "claims more than it has": in_base64(claimed(5_000, 5_000)),
    "wrong base64": in_base64(PICTURES[0])[:-3] + "?!",
}
TEXTS = ["a dog on a beach", "ein Hund", "犬", "x" * 9_999, "!"]
BAD_TEXTS = ["", "   ", "x" * 10_001, "fail", "nothing"]


def good_requests() -> list[Request]:
    """Return searches by pictures, texts and vectors; a picture and its vector are the same query by name."""
    found: list[Request] = []
    for number, content in enumerate(PICTURES):
        row = eight(Image.open(io.BytesIO(content)).convert("RGB")).tolist()
        found.append((f"picture {number}", "POST", {"images": [in_base64(content)], "k": 5}))
        found.append((f"picture {number}", "POST", {"vectors": [row], "k": 5}))
    found += [(f"text {number}", "POST", {"texts": [text], "k": 5}) for number, text in enumerate(TEXTS)]
    for number, row in enumerate(vectors(4, 9).tolist()):
        found.append((f"vector {number}", "POST", {"vectors": [row], "k": 5}))
    found.append(("all pictures", "POST", {"images": [in_base64(content) for content in PICTURES], "k": 5}))
    found.append(("large", "POST", {"images": [in_base64(LARGE)]}))
    return found


def bad_requests() -> list[Request]:
    found: list[Request] = [(name, "POST", {"images": [content]}) for name, content in BROKEN.items()]
    found += [(f"bad text {number}", "POST", {"texts": [text]}) for number, text in enumerate(BAD_TEXTS)]
    both = {"texts": ["a"], "images": [in_base64(PICTURES[0])]}
    return [*found, ("too many", "POST", {"texts": ["a"] * 17}), ("both", "POST", both)]


class Load:
    """The observations of the clients.

    Attributes:
        answers: per query, the ids and distances before the gallery changed.
        statuses: numbers of responses per status and kind of request.
        problems: what must not happen.
    """

    def __init__(self, port: int) -> None:
        self._port, self._lock = port, threading.Lock()
        self._good, self._bad = good_requests(), bad_requests()
        self.answers: dict[str, Any] = {}
        self.statuses: Counter[tuple[str, int]] = Counter()
        self.problems: list[str] = []
        self.changing, self.stop = threading.Event(), threading.Event()

    def run(self, client: int) -> None:
        random = Random(client)
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=120)) as connection:
            number = 0
            while not self.stop.is_set() and not self.problems:
                number += 1
                try:
                    self._one(connection, random, client, number)
                except Exception as error:
                    self.problems.append(f"{type(error).__name__}: {error}")

    def _one(self, connection: http.client.HTTPConnection, random: Random, client: int, number: int) -> None:
        chance = random.random()
        if chance < 0.1 and self.changing.is_set():
            self._change(connection, random, f"c{client}-{number}")
            return
        good = chance < 0.7
        name, method, body = random.choice(self._good if good else self._bad)
        status, answer = ask(connection, method, "/v1/search", body)
        with self._lock:
            self.statuses["good" if good else "bad", status] += 1
            if status not in ((200, 503) if good else (400, 413, 422, 503)) or (status != 200 and not sentence(answer)):
                self.problems.append(f"{name}: {status} {answer}"[:1000])
            elif status == 200:
                result = (answer["ids"], answer["distances"])
                # the gallery may be newer than its version, so answers are compared while nothing changes
                if not self.changing.is_set() and self.answers.setdefault(name, result) != result:
                    self.problems.append(f"{name}: two answers")

    def _change(self, connection: http.client.HTTPConnection, random: Random, name: str) -> None:
        row = (vectors(1, random.randrange(10**6)) + 0.5).tolist()
        add, remove = {"ids": [name], "vectors": row}, {"ids": [name]}
        changes: list[Request] = [("add", "POST", add), ("remove", "DELETE", remove)]
        for kind, method, body in changes:
            status, answer = ask(connection, method, "/v1/items", body)
            with self._lock:
                self.statuses[kind, status] += 1
                if status not in (200, 503) or (status != 200 and not sentence(answer)):
                    self.problems.append(f"{kind}: {status} {answer}"[:1000])
            if status != 200:
                return


def ask(connection: http.client.HTTPConnection, method: str, path: str, body: dict[str, Any]) -> tuple[int, Any]:
    connection.request(method, path, json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    return response.status, json.loads(response.read())


def sentence(answer: Any) -> bool:
    """True if a refusal explains itself and contains neither a traceback nor a path."""
    message = answer.get("detail")
    return isinstance(message, str) and len(message) > 10 and "Traceback" not in message and "/tmp" not in message


def memory(process: int, what: str) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(what))


@contextlib.contextmanager
def service(settings: Settings) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Start a service in a process; return its port."""
    with open(f"{settings.scratch}/messages", "w+") as messages:  # a full pipe would block it
        running = subprocess.Popen(
            [sys.executable, "-m", "faults.encoding_service"],
            # freed pictures go back to the system at once, so that its numbers show what is still in use
            env={**os.environ, "PYTHONPATH": TESTS, "MALLOC_MMAP_THRESHOLD_": "1000000"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=messages,
            text=True,
        )
        try:
            assert running.stdin is not None
            assert running.stdout is not None
            print(settings.to_json(), file=running.stdin, flush=True)
            yield running, int(running.stdout.readline().strip().rpartition(":")[2])
        finally:
            if running.poll() is None:
                running.kill()
            running.communicate()


def assert_same_answers(port: int) -> None:
    """Send every query twice while nothing changes; pictures and their vectors have the same answers."""
    answers: dict[str, Any] = {}
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=120)) as connection:
        for name, method, body in good_requests() * 2:
            status, answer = ask(connection, method, "/v1/search", body)
            assert status == 200, answer
            result = (answer["ids"], answer["distances"])
            assert answers.setdefault(name, result) == result, name


def test_pictures_and_texts_under_load(tmp_path: Path) -> None:
    settings = settings_in(tmp_path, port=0, encoder=RECIPE)
    with service(settings) as (running, port):
        load, before = Load(port), memory(running.pid, "VmRSS")
        clients = [threading.Thread(target=load.run, args=(number,), daemon=True) for number in range(CLIENTS)]
        for client in clients:
            client.start()
        deadline = time.monotonic() + 600
        while load.statuses["good", 200] < 100 and not load.problems and time.monotonic() < deadline:
            time.sleep(0.05)
        repeated = load.statuses["good", 200] - len(load.answers)
        load.changing.set()
        load.stop.wait(SECONDS)
        asked = [("good", 200), ("add", 200), ("remove", 200), ("bad", 422)]
        soon(lambda: bool(load.problems) or all(load.statuses[one] for one in asked))
        load.stop.set()
        for client in clients:
            client.join(180)
        settled, peak = memory(running.pid, "VmRSS"), memory(running.pid, "VmHWM")
        assert load.problems == []
        assert running.poll() is None
        statuses = load.statuses
        assert all(statuses[one] for one in asked), statuses
        assert repeated > 0, "no query was asked twice"
        assert_same_answers(port)
        assert peak - before < MAX_PEAK_BYTES
        assert settled - before < MAX_SETTLED_BYTES
        running.send_signal(signal.SIGTERM)
        assert running.wait(180) == 0
    print(statuses, f"{before >> 20} MB before, {peak >> 20} at most, {settled >> 20} after")
