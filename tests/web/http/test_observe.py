"""`POST /v1/observe`: remembered queries, permissions, and refused requests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank as kr
from kinrank.client import Client

pytest.importorskip("fastapi", reason="fastapi is not installed: pip install '.[web]'")

from fastapi.testclient import TestClient

from kinrank.web.settings import Limits
from web import tiny
from web.small_service import client, listening, names, settings_in, vectors

QUERIES = np.random.default_rng(3).normal(size=(4, 8)).astype(np.float32)


def info(api: TestClient, version: int) -> dict[str, Any]:
    return dict(api.get(f"/v1/info?min_version={version}").json())


def test_queries_are_remembered_and_stay(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    with client(settings) as api:
        answer = api.post("/v1/observe", json={"vectors": QUERIES.tolist()}).json()
        assert answer == {
            "version": 1,
            "added": 0,
            "replaced": 0,
            "removed": 0,
            "items": 60,
            "ids": None,
            "observed": 4,
        }
        facts = info(api, 1)
        assert (facts["observed"], facts["observed_limit"], facts["items"]) == (4, 20, 60)
        again = api.post("/v1/observe", json={"vectors": QUERIES.tolist()}).json()
        assert info(api, again["version"])["observed"] == 4
        found = api.post("/v1/search", json={"vectors": QUERIES.tolist(), "k": 70, "min_version": 2}).json()
        assert [sorted(row) for row in found["ids"]] == [names()] * 4  # items only
    with client(settings) as api:
        assert info(api, 2)["observed"] == 4
    assert kr.Manifold.load(settings.manifold).n_observed == 4


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"vectors": [[1.0] * 7]}, "8 dimensions are needed"),
        ({"vectors": [[0.0] * 8]}, "queries"),
        ({"vectors": [[1.0] * 8, [1.0] * 7]}, "7 to 8 numbers"),
        ({"vectors": [[1e39] * 8]}, "queries"),
        ({"vectors": [[1.0] * 8] * 4}, "4 vectors are too many for one request; send at most 3"),
        ({}, "nothing was given"),
        ({"vectors": [], "texts": []}, "vectors and texts were given"),
        ({"texts": ["a dog"]}, "encode"),
        ({"vectors": [["x"]]}, "vectors"),
        ({"queries": [[1.0] * 8]}, "queries"),
    ],
)
def test_bad_queries_are_refused(tmp_path_factory: pytest.TempPathFactory, body: Any, message: str) -> None:
    settings = settings_in(tmp_path_factory.getbasetemp(), limits=replace(Limits(), items=3))
    with client(settings) as api:
        answer = api.post("/v1/observe", json=body)
        assert answer.status_code == 422, answer.text
        assert message in answer.json()["detail"]
        assert info(api, 0)["version"] == 0
        nan = api.post("/v1/observe", content=b'{"vectors": [[NaN]]}', headers={"Content-Type": "application/json"})
        assert nan.status_code == 400


def test_a_method_without_chains_cannot_observe(tmp_path: Path) -> None:
    kr.Manifold.build(vectors(), kr.methods.AQE(), ids=names()).save(tmp_path / "gallery.manifold")
    with client(settings_in(tmp_path)) as api:
        answer = api.post("/v1/observe", json={"vectors": QUERIES.tolist()})
        assert answer.status_code == 422
        assert "AQE" in answer.json()["detail"]
        assert info(api, 0)["observed_limit"] == 0


def test_a_gallery_that_cannot_be_changed_cannot_observe(tmp_path: Path) -> None:
    with client(settings_in(tmp_path, writable=False)) as api:
        answer = api.post("/v1/observe", json={"vectors": QUERIES.tolist()})
        assert (answer.status_code, "kinrank build" in answer.json()["detail"]) == (422, True)


def test_observing_needs_a_token_that_may_write(tmp_path: Path) -> None:
    body = {"vectors": QUERIES.tolist()}
    with client(settings_in(tmp_path, read_tokens=("R" * 20,), write_tokens=("W" * 20,))) as api:
        assert api.post("/v1/observe", json=body).status_code == 401
        for token, status in (("R" * 20, 403), ("W" * 20, 200)):
            headers = {"Authorization": f"Bearer {token}"}
            assert api.post("/v1/observe", json=body, headers=headers).status_code == status


def test_the_client_observes(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image").new("RGB", (20, 10), "red")
    image.save(tmp_path / "red.png")
    with tiny.known() as recipe, listening(settings_in(tmp_path, encoder=recipe)) as url, Client(url) as service:
        receipt = service.observe(QUERIES)
        assert (receipt.version, receipt.observed, service.version) == (1, 4, 1)
        assert service.info()["observed"] == 4
        assert service.observe(texts=["a dog", "a cat"]).observed == 2
        assert service.observe(images=[tmp_path / "red.png"]).observed == 1
        assert service.info()["observed"] == 7
        with pytest.raises(ValueError, match="8 dimensions are needed"):
            service.observe(QUERIES[:, :5])
        with pytest.raises(ValueError, match="give exactly one of vectors, texts, images"):
            service.observe(QUERIES, texts=["a dog"])
