"""A small gallery, really built, and the application over it: what the tests of the service share."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from fastapi.testclient import TestClient

import kinrank
from kinrank.web.http.app import make_app
from kinrank.web.service import Service
from kinrank.web.settings import Limits, Settings

DIMENSIONS = 8
HERE = "http://127.0.0.1"


def vectors(count: int = 60, seed: int = 0) -> np.ndarray:
    """Rows along a circle with some noise, so that chains are worth having."""
    random = np.random.default_rng(seed)
    angles = np.linspace(0, 2 * np.pi, count, endpoint=False)
    rows = np.zeros((count, DIMENSIONS), np.float32)
    rows[:, 0], rows[:, 1] = np.cos(angles), np.sin(angles)
    return rows + random.normal(0, 0.05, rows.shape).astype(np.float32)


def names(count: int = 60) -> list[str]:
    return [f"item_{number:03d}" for number in range(count)]


def settings_in(folder: Path, ids: list[Any] | None = None, **given: Any) -> Settings:
    """Settings for a gallery that is built in this folder, and can be changed."""
    manifold = folder / "gallery.manifold"
    if not manifold.exists():
        kinrank.Manifold.build(vectors(), ids=names() if ids is None else ids or None).save(manifold)
    (folder / "scratch").mkdir(exist_ok=True)
    return replace(Settings(str(manifold), writable=True, scratch=str(folder / "scratch")), **given)


@contextlib.contextmanager
def client(settings: Settings) -> Iterator[TestClient]:
    """The application in this process, without a network."""
    service = Service.open(settings)
    try:
        with TestClient(make_app(service), base_url=HERE, raise_server_exceptions=False) as asked:
            yield asked
    finally:
        service.close()


@contextlib.contextmanager
def listening(settings: Settings) -> Iterator[str]:
    """The application behind a real server, in a thread; its address."""
    from kinrank.web.processes.protocol import configured

    door = socket.socket()
    door.bind(("127.0.0.1", 0))
    settings = replace(settings, port=door.getsockname()[1])
    service = Service.open(settings)
    server = uvicorn.Server(configured(settings, make_app(service)))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [door]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + 30
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{settings.port}"
    finally:
        server.should_exit = True
        thread.join(30)
        service.close()


SMALL = Limits(body=20_000, k=20, queries=4, items=5, candidates=50)
