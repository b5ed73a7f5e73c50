"""A service that follows a database table during changes, syncs, searches and kills."""

from __future__ import annotations

import contextlib
import http.client
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the service needs the extra [web]")
pytest.importorskip("sqlite_vec", reason="install kinrank[sqlite-vec]")

import kinrank as kr
from engines.sqlite_vec import Engine
from kinrank.manifold.verify import verify
from kinrank.stores.url import open_store
from kinrank.web.settings import Settings
from reference.waiting import soon
from web.small_service import vectors

pytestmark = [pytest.mark.faults, pytest.mark.slow]

KILLS = 4
LIMIT_SECONDS = 120  # after this time it is not killed again
START_SECONDS = 180


class Table:
    """A table that one thread changes, and its expected content."""

    def __init__(self, folder: Path) -> None:
        self.engine, self.random, self.rows = Engine(folder), Random(5), dict[str, np.ndarray]()
        first = {f"n{number}": row for number, row in enumerate(vectors(40))}
        self.engine.make(np.stack(list(first.values())), list(first))
        self.engine.connection.execute("PRAGMA journal_mode=WAL")  # readers do not block writers
        self.engine.connection.set_busy_timeout(30_000)
        self.rows, self.ever = first, set(first)
        self.changes = 0

    def change(self) -> None:
        """Add, replace or delete up to three rows, in one transaction."""
        self.changes += 1
        some = self.random.sample(sorted(self.rows), 2)
        if self.random.random() < 0.4 and len(self.rows) > 20:
            with self.engine.connection:
                self.engine.delete(some)
            for name in some:
                del self.rows[name]
            return
        names = [*some[:1], f"new{self.changes}"]
        rows = vectors(2, seed=self.changes)
        self.ever |= set(names)  # a search may find them at once
        self.engine.put(names, rows)
        self.rows |= dict(zip(names, rows, strict=True))


class Running:
    """The service in a process; `start` and `kill` it as often as needed."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.address = settings, ""
        self.process: subprocess.Popen[str] | None = None

    def start(self, workers: int) -> None:
        command = [sys.executable, "-m", "kinrank.web.server.supervisor"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(replace(self.settings, workers=workers).to_json(), file=self.process.stdin, flush=True)
        self.address = self.process.stdout.readline().strip().removeprefix("http://")
        assert self.address, "the service did not start"

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.communicate()

    def stop(self) -> int:
        """Close its standard input, which it treats like SIGTERM; return its exit code."""
        assert self.process is not None
        self.process.communicate(timeout=START_SECONDS)
        return self.process.returncode

    def ask(self, method: str, path: str, content: Any = None) -> tuple[int, Any]:
        """Return status and response; 0 if the service is not running."""
        connection = http.client.HTTPConnection(self.address, timeout=START_SECONDS)
        with contextlib.closing(connection):
            body = None if content is None else json.dumps(content)
            try:
                connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
                answer = connection.getresponse()
                return answer.status, json.loads(answer.read())
            except (OSError, http.client.HTTPException, ValueError):
                return 0, None


@contextlib.contextmanager
def repeating(*works: Callable[[], None]) -> Iterator[None]:
    """Run threads that repeat their work until the end of the block, which raises their errors."""
    over, failed = threading.Event(), list[BaseException]()

    def repeat(work: Callable[[], None]) -> None:
        try:
            while not over.is_set():
                work()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=repeat, args=[work]) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()
    if failed:
        raise failed[0]


def wait_for(counted: Counter[str], what: str, more: int) -> None:
    """Wait until this has happened some more times."""
    until, deadline = counted[what] + more, time.monotonic() + START_SECONDS
    while counted[what] < until:
        assert time.monotonic() < deadline, counted
        time.sleep(0.01)


def test_a_table_that_changes_while_it_is_followed(tmp_path: Path) -> None:
    table, counted, moments, started = Table(tmp_path), Counter[str](), Random(7), time.monotonic()
    folder = tmp_path / "gallery"
    kr.Manifold.build(open_store(table.engine.url()), kr.methods.AQE(k=3)).save(folder)
    service = Running(Settings(str(folder), store=table.engine.url(), port=0))

    def change() -> None:
        table.change()
        time.sleep(0.005)

    def sync() -> None:
        status, answer = service.ask("POST", "/v1/sync")
        assert status in (0, 200, 503, 504), answer
        counted[f"sync {status}"] += 1
        time.sleep(0.01 if status else 0.1)

    def search() -> None:
        status, answer = service.ask("POST", "/v1/search", {"vectors": vectors(2, seed=3).tolist(), "k": 5})
        assert status in (0, 200, 503, 504), answer
        if status == 200:
            found = [name for row in answer["ids"] for name in row]
            assert set(found) <= table.ever
            assert all(len(row) == len(set(row)) for row in answer["ids"])
        counted[f"search {status}"] += 1
        time.sleep(0.01 if status else 0.1)

    def refused() -> None:
        status, answer = service.ask("POST", "/v1/items", {"ids": ["x"], "vectors": vectors(1).tolist()})
        assert status in (0, 422), answer  # items are changed only in the table
        time.sleep(0.1)

    service.start(workers=1)
    with repeating(change, sync, sync, search, refused):
        for number in range(KILLS):
            wait_for(counted, "sync 200", 3)
            wait_for(counted, "search 200", 3)
            time.sleep(moments.random() * 0.2)  # then at any moment of a sync
            service.kill()
            assert verify(folder).whole
            if time.monotonic() - started > LIMIT_SECONDS:
                break
            service.start(workers=1 + number % 2)
        wait_for(counted, "sync 200", 3)
        assert soon(lambda: table.changes > 50), table.changes

    def synced() -> Any:
        """Return the answer to a sync, after those that were given up during the load have ended."""
        answers = list[tuple[int, Any]]()
        assert soon(lambda: answers.append(service.ask("POST", "/v1/sync")) or answers[-1][0] == 200), answers[-1]
        return answers[-1][1]

    answer = synced()
    assert answer["items"] == len(table.rows), answer
    again = synced()
    assert (again["added"], again["replaced"], again["removed"], again["items"]) == (0, 0, 0, len(table.rows))
    for name, row in table.rows.items():
        status, item = service.ask("GET", f"/v1/items/{name}?vector=true&min_version={answer['version']}")
        assert status == 200, item
        assert np.allclose(item["vector"], row / np.linalg.norm(row), atol=1e-5), name
    assert service.stop() == 0
    loaded = kr.Manifold.load(folder)
    assert set(loaded.ids.tolist()) == set(table.rows)
    assert verify(folder).whole
    table.engine.close()
