"""Status of exceptions: mistakes of the client have a message, and bugs have an id that is also in the log."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra [web]")

from fastapi.testclient import TestClient

from kinrank import stages
from kinrank.errors import InputError, MemoryLimitError
from kinrank.ids import PendingIds
from kinrank.manifold import Manifold
from kinrank.methods import LPMT
from kinrank.stores import ArrayStore
from kinrank.web.http import api_routes
from kinrank.web.writes.gallery_writer import GroupCommit
from web.small_service import client, settings_in, vectors

SEARCH = {"vectors": vectors(1).tolist(), "k": 3}
CANDIDATES = {**SEARCH, "candidates": 20}  # searches a store, and re-ranks its results


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    with client(settings_in(tmp_path_factory.mktemp("served"))) as test_client:
        yield test_client


def raising(error: Exception) -> Any:
    def fail(*args: Any, **keywords: Any) -> Any:
        raise error

    return fail


def check_is_bug(answer: Any, log: pytest.LogCaptureFixture, message: str) -> None:
    """Check that a response has status 500 and an id, and that the log has the same id with the traceback."""
    assert answer.status_code == 500
    assert message not in answer.text, "the message of a bug is not for clients"
    match = re.search(r"internal error ([0-9a-f]{8}): this is a bug", answer.json()["detail"])
    assert match is not None
    record = next(record for record in log.records if match[1] in record.getMessage())
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None
    text = logging.Formatter().formatException(record.exc_info)
    assert "Traceback" in text
    assert message in text


@pytest.mark.parametrize(
    ("owner", "name", "body"),
    [
        (LPMT, "search_gallery", SEARCH),
        (ArrayStore, "search", CANDIDATES),
        (stages.online_query, "search_in_blocks", SEARCH),
    ],
    ids=["method", "store", "stage"],
)
@pytest.mark.parametrize("error", [ValueError, KeyError, RuntimeError], ids=["ValueError", "KeyError", "RuntimeError"])
def test_a_bug_has_an_id_that_is_in_the_log(
    owner: Any,
    name: str,
    body: dict[str, Any],
    error: type[Exception],
    service: TestClient,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert service.post("/v1/search", json=body).status_code == 200
    monkeypatch.setattr(owner, name, raising(error("operands could not be broadcast together")))
    check_is_bug(service.post("/v1/search", json=body), caplog, "operands could not be broadcast together")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InputError(parameter="k", given=0, allowed="a whole number >= 1"), 422),
        (MemoryLimitError("it needs 3 GB"), 422),
        (ConnectionError("the database is gone"), 503),
        (OSError(28, "No space left on device"), 503),
        (TypeError("no such keyword"), 500),
    ],
    ids=["InputError", "MemoryLimitError", "ConnectionError", "OSError", "TypeError"],
)
def test_status_of_exceptions(
    error: Exception, status: int, service: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Manifold, "search", raising(error))
    answer = service.post("/v1/search", json=SEARCH)
    assert answer.status_code == status
    assert (str(error) in answer.json()["detail"]) == (status == 422)


@pytest.mark.parametrize(
    ("owner", "name"),
    [(PendingIds, "put"), (GroupCommit, "commit")],
    ids=["ids", "commit"],
)
def test_a_bug_in_a_change(
    owner: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    change = {"vectors": vectors(1).tolist(), "ids": ["new"]}
    with client(settings_in(tmp_path)) as api:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, raising(ValueError("not hashable")))
            check_is_bug(api.post("/v1/items", json=change), caplog, "not hashable")
        assert api.post("/v1/items", json=change).status_code == 200, "the service works on"


def test_a_bug_in_another_route(
    service: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(api_routes, "_describe_service", raising(ValueError("no such fact")))
    check_is_bug(service.get("/v1/info"), caplog, "no such fact")
