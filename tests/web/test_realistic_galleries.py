"""Service over realistic galleries: changes, searches, explanations, and equal answers after a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank as kr
from kinrank.manifold.saved_folder import log_path
from kinrank.manifold.verify import verify
from kinrank.testing import GALLERY_KINDS, realistic_gallery
from kinrank.web.settings import Settings
from web.small_service import client


def search(service: Any, queries: Any, version: int) -> dict[str, Any]:
    answer = service.post("/v1/search", json={"vectors": queries.tolist(), "k": 10, "min_version": version})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    for ids, distances in zip(found["ids"], found["distances"], strict=True):
        assert len(set(ids)) == 10
        assert np.isfinite(distances).all()
        assert (np.diff(distances) >= 0).all()
    return {"ids": found["ids"], "distances": found["distances"]}


@pytest.mark.parametrize("kind", GALLERY_KINDS)
def test_changes_survive_a_restart(tmp_path: Path, kind: str) -> None:
    data, folder = realistic_gallery(kind), tmp_path / "g.manifold"
    kr.Manifold.build(data.gallery, ids=[f"item {number}" for number in range(len(data.gallery))]).save(folder)
    settings = Settings(str(folder), writable=True, scratch=str(tmp_path))
    with client(settings) as service:
        search(service, data.queries, 0)
        names = [f"addition {number}" for number in range(len(data.additions))]
        assert service.post("/v1/items", json={"vectors": data.additions.tolist(), "ids": names}).json()["added"] == 4
        gone = {"ids": [f"item {number}" for number in range(1, 60, 7)]}
        assert service.request("DELETE", "/v1/items", json=gone).json()["removed"] == 9
        again = {"vectors": data.queries[:2].tolist(), "ids": ["item 0", "item 2"], "replace": True}
        version = service.post("/v1/items", json=again).json()["version"]
        before = search(service, data.queries, version)
        api = {"vector": data.queries[1].tolist(), "item": before["ids"][1][0]}
        assert service.post("/v1/explain", json=api).status_code == 200
    assert not log_path(folder).exists()
    assert verify(folder).whole
    with client(settings) as service:
        assert search(service, data.queries, version) == before
