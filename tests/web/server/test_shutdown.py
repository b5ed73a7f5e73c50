"""SIGTERM during requests: they are answered in time, and no thread keeps the process alive."""

from __future__ import annotations

import concurrent.futures
import contextlib
import http.client
import json
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra [web]")

from kinrank.web.settings import Limits
from reference.waiting import PATIENCE, soon
from web.sabotage import sabotage
from web.server.test_supervisor import held, linux, put, running, started
from web.small_service import names, settings_in, vectors

SLOW = {"vectors": vectors(1).tolist(), "k": 7}


@linux
@pytest.mark.parametrize("workers", [1, 2])
def test_requests_that_are_not_finished_are_answered_and_the_process_ends(
    tmp_path: Path, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sabotage(tmp_path, monkeypatch)
    settings = settings_in(tmp_path, port=0, workers=workers, limits=Limits(grace=1))
    with started(settings) as service, concurrent.futures.ThreadPoolExecutor() as clients:
        assert service.ask("POST", "/v1/items", put("kept"))[0] == 200
        (tmp_path / "slow").touch()
        reading = clients.submit(service.ask, "POST", "/v1/search", SLOW)
        writing = clients.submit(service.ask, "POST", "/v1/items", put("slow"))
        assert soon(lambda: (tmp_path / "began").exists() and (tmp_path / "changing").exists())
        code, message = service.end()
        assert (code, "Traceback" in message) == (0, False), message
        again = "the service is shutting down; try again when it is back"
        assert reading.result() == (503, {"detail": again})
        unknown = "the service is shutting down; the change may or may not have been made: check, then try again"
        assert writing.result() == (504, {"detail": unknown})
    assert held(settings) == {*names(), "kept"}
    assert not Path(f"{settings.manifold}.log").exists()


@linux
def test_writes_that_have_not_begun_have_changed_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sabotage(tmp_path, monkeypatch)
    settings = settings_in(tmp_path, port=0, limits=Limits(grace=1))
    with started(settings) as service, contextlib.ExitStack() as opened:
        (tmp_path / "slow").touch()
        count = 12  # more than there are threads for changes
        writing = [http.client.HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE) for _ in range(count)]
        for one in writing:
            opened.enter_context(contextlib.closing(one))
            one.request("POST", "/v1/items", json.dumps(put("slow")), {"Content-Type": "application/json"})
        assert soon(lambda: running(service.port) == count)
        code, message = service.end()
        assert (code, "Traceback" in message) == (0, False), message
        statuses = [one.getresponse().status for one in writing]
    assert sorted(statuses) == [503] * (count - 8) + [504] * 8, json.dumps(statuses)
    assert held(settings) == set(names())
