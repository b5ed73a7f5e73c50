"""No response names a folder of this machine, whatever fails; the log does."""

from __future__ import annotations

import errno
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra [web]")

from fastapi.testclient import TestClient

import kinrank as kr
from kinrank.errors import InputError
from kinrank.manifold import saved_folder
from kinrank.stores.sqlite_vec import SqliteVecStore
from kinrank.web.http.http_app import make_app
from kinrank.web.http.redaction import make_redactor, remove_folders
from kinrank.web.server.wait_page import _format_error
from kinrank.web.service import Service
from kinrank.web.settings import Files, Settings
from kinrank.web.writes import replica
from kinrank.web.writes.checkpointer import Checkpointer
from web.small_service import HERE, client, names, prepare_settings, settings_in, vectors

NEW = {"vectors": vectors(1, seed=5).tolist(), "ids": ["new"]}
ROOTED = re.compile(r"(?:(?<![\w./-])|(?<=//))/(?!v1/|view/|pictures/|openapi\.json)\w")


def full(*_: Any) -> Any:
    raise OSError(errno.ENOSPC, "No space left on device", "/somewhere/else/on/disk")


def plain(response: Any, folder: Path, *statuses: int) -> str:
    """Return the message of a response, and check that it names no path."""
    assert response.status_code in statuses, response.text
    assert str(folder) not in response.text
    assert not ROOTED.search(response.text), response.text
    return str(response.json()["detail"])


def unready(api: TestClient, folder: Path) -> str:
    """Wait until /ready reports trouble, and return it."""
    deadline = time.monotonic() + 180
    while (found := api.get("/ready")).status_code == 200 and time.monotonic() < deadline:
        time.sleep(0.01)
    return plain(found, folder, 503)


def test_a_full_disk_under_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with client(settings_in(tmp_path)) as api:
        with monkeypatch.context() as patched:
            patched.setattr("kinrank.manifold.service_log._write_at_offset", full)
            message = plain(api.post("/v1/items", json=NEW), tmp_path, 503)
        assert "the log (No space left on device) and was not made" in message
        assert f"{tmp_path}/gallery.manifold.log" in caplog.text
        assert api.post("/v1/items", json=NEW).status_code == 200


def test_a_flush_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    with client(settings_in(tmp_path)) as api:
        with monkeypatch.context() as patched:
            patched.setattr("kinrank.manifold.service_log.os.fsync", full)
            assert "No space left" in plain(api.post("/v1/items", json=NEW), tmp_path, 504)
        assert "restart the service" in plain(api.post("/v1/items", json=NEW), tmp_path, 503)
        assert "the log could not be written (No space left on device)" in unready(api, tmp_path)
    assert f"{tmp_path}/gallery.manifold.log could not be written" in caplog.text


def test_a_folder_that_cannot_be_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with client(settings_in(tmp_path)) as api:
        with monkeypatch.context() as patched:
            patched.setattr(saved_folder, "_flush_file", full)
            assert api.post("/v1/items", json=NEW).status_code == 200
            assert unready(api, tmp_path).startswith("the gallery could not be saved (No space left on device)")
        assert str(tmp_path / "gallery.manifold") in caplog.text


def test_a_folder_that_is_gone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with client(settings_in(tmp_path)) as api:
        shutil.rmtree(tmp_path / "gallery.manifold")
        api.post("/v1/items", json=NEW)
        unready(api, tmp_path)
        assert api.post("/v1/search", json={"vectors": NEW["vectors"]}).status_code == 200
    assert str(tmp_path) in caplog.text


def test_changes_that_cannot_be_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(self: Checkpointer, changes: Any) -> None:
        raise RuntimeError(f"broken in {self.folder}")

    with client(settings_in(tmp_path)) as api:
        monkeypatch.setattr(Checkpointer, "apply", fail)
        api.post("/v1/items", json=NEW)
        assert "changes cannot be applied any more (RuntimeError)" in unready(api, tmp_path)
        plain(api.post("/v1/items", json=NEW), tmp_path, 503)
    assert f"broken in {tmp_path}" in caplog.text


@contextmanager
def worker(settings: Settings) -> Iterator[TestClient]:
    """A process that only searches and follows the folder."""
    service = Service(settings, replica.Replica(settings.manifold))
    try:
        with TestClient(make_app(service), base_url=HERE, raise_server_exceptions=False) as api:
            yield api
    finally:
        service.close()


def test_a_worker_whose_folder_is_gone_or_damaged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for damage in (shutil.rmtree, lambda folder: (folder / "manifest.json").write_text("{")):
        with worker(settings_in(tmp_path)) as api:
            damage(tmp_path / "gallery.manifold")
            assert "the gallery cannot be read (" in unready(api, tmp_path)
    assert str(tmp_path) in caplog.text


def test_an_unexpected_error_of_a_file_or_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    errors = [
        FileNotFoundError(errno.ENOENT, "No such file or directory", str(tmp_path / "x")),
        OSError(errno.ENOSPC, f"the manifold could not be written to {tmp_path}"),
        ConnectionError(f"the database at {tmp_path}/socket cannot be reached"),
        InputError(f"{tmp_path}/gallery.manifold is damaged, and {tmp_path.parent} is a folder"),
    ]
    with client(settings_in(tmp_path)) as api:
        for error in errors:

            def fail(*_: Any, error: Exception = error, **__: Any) -> Any:
                raise error

            with monkeypatch.context() as patched:
                patched.setattr(kr.Manifold, "search", fail)
                message = plain(api.post("/v1/search", json={"vectors": NEW["vectors"]}), tmp_path, 422, 503)
            assert not isinstance(error, OSError) or "a disk or database of this service fails (" in message
    assert f"the database at {tmp_path}/socket cannot be reached" in caplog.text


def test_a_vector_database_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sqlite_vec", reason="install kinrank[sqlite-vec]")
    from engines.sqlite_vec import Engine

    engine = Engine(tmp_path)
    engine.make(vectors(), names(), ["kind"] * 60)
    (tmp_path / "scratch").mkdir()
    settings = prepare_settings(tmp_path / "pictures.manifold", store=engine.url(), scratch=tmp_path / "scratch")
    with client(settings) as api:
        for error in (InputError, ConnectionError):

            def fail(*_: Any, error: type[Exception] = error, **__: Any) -> Any:
                raise error(f"there is no file {settings.store} at {tmp_path}/pictures.db")

            with monkeypatch.context() as patched:
                patched.setattr(SqliteVecStore, "_scan", fail)
                assert "could not be followed" in plain(api.post("/v1/sync"), tmp_path, 422, 503)
        engine.connection.execute("DROP TABLE pictures")
        plain(api.post("/v1/sync"), tmp_path, 422, 503)
        plain(api.post("/v1/search", json={"vectors": NEW["vectors"]}), tmp_path, 422, 503)
    engine.close()


def test_a_preparation_that_fails(tmp_path: Path) -> None:
    for error in (
        InputError(f"there is nothing in {tmp_path}/my photos/a.png: '{tmp_path}' ({tmp_path})"),
        FileNotFoundError(errno.ENOENT, "No such file or directory", str(tmp_path / "x")),
        FileNotFoundError(errno.ENOENT, "No such file or directory", str(tmp_path / "x").encode()),
    ):
        assert not ROOTED.search(_format_error(error))
        assert "No such file" in _format_error(error) or "there is nothing in my photos/a.png" in _format_error(error)


def test_only_folders_are_removed(tmp_path: Path) -> None:
    (tmp_path / "g").mkdir()
    redacted = make_redactor(
        Settings(str(tmp_path / "g"), files=Files(images=str(tmp_path)), store=f"x://{tmp_path}/g")
    )
    for words in ("a/b is not among the ids", "send 1/2 or and/or", "http://127.0.0.1:8000/v1/info", "ids has '/a/b'"):
        assert redacted(words) == words
    assert redacted(f"{tmp_path}/g, {tmp_path}/g.log and {tmp_path}") == f"g, g.log and {tmp_path.name}"
    assert redacted(f"{tmp_path}-other") == f"{tmp_path.parent.name}/{tmp_path.name}-other"
    assert redacted(f"sqlite://{tmp_path}/g.db?table=a") == "sqlite://g.db?table=a"
    assert make_redactor(Settings(""))("/a") == "/a"
    assert remove_folders("a/b, 1/2, http://127.0.0.1:8000/v1/info") == "a/b, 1/2, http://127.0.0.1:8000/v1/info"
    assert remove_folders("sqlite:///srv/g.db?table=a") == "sqlite://g.db?table=a"
    assert remove_folders("'/srv/a b/c.png' (/srv)") == "'a b/c.png' (srv)"
