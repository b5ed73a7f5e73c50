"""Small gallery and a service over it, for tests."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from fastapi.testclient import TestClient

import kinrank
from kinrank.web.http.http_app import make_app
from kinrank.web.service import Service
from kinrank.web.settings import Files, Limits, Settings
from kinrank.web.startup.gallery_source import GallerySource
from kinrank.web.startup.service_setup import prepare_service
from reference.waiting import PATIENCE, soon

DIMENSIONS = 8
HERE = "http://127.0.0.1"


def vectors(count: int = 60, seed: int = 0) -> np.ndarray:
    """Return rows along a circle with some noise, so that chains are useful."""
    random = np.random.default_rng(seed)
    angles = np.linspace(0, 2 * np.pi, count, endpoint=False)
    rows = np.zeros((count, DIMENSIONS), np.float32)
    rows[:, 0], rows[:, 1] = np.cos(angles), np.sin(angles)
    return rows + random.normal(0, 0.05, rows.shape).astype(np.float32)


def names(count: int = 60) -> list[str]:
    return [f"item_{number:03d}" for number in range(count)]


def settings_in(folder: Path, ids: list[Any] | None = None, **given: Any) -> Settings:
    """Build a gallery in this folder; return settings of a writable service."""
    manifold = folder / "gallery.manifold"
    if not manifold.exists():
        kinrank.Manifold.build(vectors(), ids=names() if ids is None else ids or None).save(manifold)
    (folder / "scratch").mkdir(exist_ok=True)
    return replace(Settings(str(manifold), writable=True, scratch=str(folder / "scratch")), **given)


def prepare_settings(source: Any = None, *, scratch: Path, tell: Any = None, **given: Any) -> Settings:
    """Prepare a service: `given` are fields of GallerySource, Files and Settings."""
    parts: dict[type, dict[str, Any]] = {Files: {}, GallerySource: {}, Settings: {}}
    for name, value in given.items():
        kind = next(kind for kind in parts if name in kind.__dataclass_fields__)  # type: ignore[attr-defined]
        parts[kind][name] = str(value) if kind is Files else value
    if "ids" in parts[Files]:
        parts[GallerySource]["ids"] = parts[Files].pop("ids")
    base = Settings("", files=Files(**parts[Files]), scratch=str(scratch), **parts[Settings])
    return prepare_service(GallerySource(source, **parts[GallerySource]), base, tell=tell)


@contextlib.contextmanager
def client(settings: Settings) -> Iterator[TestClient]:
    """Run the application in this process, without a network."""
    service = Service.open(settings)
    try:
        with TestClient(make_app(service), base_url=HERE, raise_server_exceptions=False) as api:
            yield api
    finally:
        service.close()


@contextlib.contextmanager
def listening(settings: Settings) -> Iterator[str]:
    """Run the application in a real server, in a thread; yield its URL."""
    from kinrank.web.server.http_server import make_server_config

    door = socket.socket()
    door.bind(("127.0.0.1", 0))
    settings = replace(settings, port=door.getsockname()[1])
    service = Service.open(settings)
    server = uvicorn.Server(make_server_config(settings, make_app(service)))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [door]}, daemon=True)
    thread.start()
    try:
        assert soon(lambda: server.started)
        yield f"http://127.0.0.1:{settings.port}"
    finally:
        server.should_exit = True
        thread.join(PATIENCE)
        service.close()


SMALL = Limits(body=20_000, k=20, queries=4, items=5, candidates=50)
