"""Service over a real vector database: filters, and sync with its changes."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra [web]")
pytest.importorskip("sqlite_vec", reason="install kinrank[sqlite-vec]")

from engines.sqlite_vec import Engine
from web.small_service import client, names, prepare_settings, vectors


def test_a_database_is_searched_filtered_and_followed(tmp_path: Path) -> None:
    engine = Engine(tmp_path)
    kinds = ["even" if number % 2 == 0 else "odd" for number in range(60)]
    engine.make(vectors(), names(), kinds)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    settings = prepare_settings(tmp_path / "pictures.manifold", store=engine.url(), scratch=scratch)
    with client(settings) as api:
        body = {"vectors": vectors(1, seed=1).tolist(), "k": 5, "where": {"kind": "odd"}}
        found = api.post("/v1/search", json=body).json()
        assert len(found["ids"][0]) == 5
        assert all(int(name[-3:]) % 2 == 1 for name in found["ids"][0])
        refused = api.post("/v1/items", json={"vectors": vectors(1).tolist(), "ids": ["x"]})
        assert refused.status_code == 422
        assert "/v1/sync" in refused.json()["detail"]
        assert api.get("/v1/info").json()["writable"] is False

        engine.put(["new"], vectors(1, seed=9), ["odd"])
        engine.delete(["item_000", "item_001"])
        followed = api.post("/v1/sync").json()
        assert (followed["added"], followed["removed"], followed["items"]) == (1, 2, 59)
        found = api.get(f"/v1/items/new?min_version={followed['version']}")
        assert found.json()["id"] == "new"
        assert api.get("/v1/items/item_000").status_code == 404
        wrong = api.post("/v1/search", json={"vectors": vectors(1).tolist(), "where": {"no_such_column": 1}})
        assert wrong.status_code == 422, wrong.text
        engine.connection.execute("DROP TABLE pictures")
        gone = api.post("/v1/search", json={"vectors": vectors(1).tolist()})
        assert gone.status_code in (422, 503), gone.text
        assert gone.json()["detail"]
        assert api.get("/health").status_code == 200
    engine.close()
