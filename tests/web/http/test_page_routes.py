"""Routes of the page: folders, files of pictures, new items, kept views."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the service needs the extra [web]")

from PIL import Image

from kinrank.web.settings import Files
from web.small_service import DIMENSIONS, client, settings_in

NAMES = [f"{'sea' if number < 20 else 'sea/boats' if number < 40 else 'hills'}/{number:02d}" for number in range(60)]


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    for number, name in enumerate(NAMES):
        path = tmp_path / "photos" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (300, 200), (4 * number, 90, 90)).save(path)
    return tmp_path / "photos"


@pytest.fixture
def api(tmp_path: Path, pictures: Path) -> Iterator[Any]:
    with client(settings_in(tmp_path, NAMES, files=Files(images=str(pictures)))) as service:
        yield service


def test_folders_are_listed_with_their_items(api: Any) -> None:
    found = api.get("/view/items", params={"limit": 5}).json()
    assert found["folders"] == [
        {"name": "hills", "items": 20},
        {"name": "sea", "items": 40},
        {"name": "sea/boats", "items": 20},
    ]
    inside = api.get("/view/items", params={"folder": "sea", "limit": 100, "words": "3"}).json()
    assert inside["total"] == 13  # 03, 13, 23, 30 to 39
    assert [one["id"] for one in inside["items"]] == [name for name in NAMES[:40] if "3" in name]
    assert api.get("/view/items", params={"folder": "nowhere"}).json()["total"] == 0
    mixed = api.get("/view/items", params={"folder": "hills", "seed": 3, "limit": 100}).json()
    assert sorted(one["id"] for one in mixed["items"]) == NAMES[40:]


def test_files_are_unchanged(api: Any, pictures: Path) -> None:
    found = api.get("/pictures/item/sea/07", params={"size": 0})
    assert found.content == (pictures / "sea" / "07.png").read_bytes()
    assert found.headers["content-type"] == "image/png"
    assert found.headers["x-content-type-options"] == "nosniff"
    small = api.get("/pictures/item/sea/07", params={"size": 96})
    assert max(Image.open(io.BytesIO(small.content)).size) == 96
    refused = api.get("/pictures/item/sea/07", params={"size": 7})
    assert refused.status_code == 422
    assert "or 0 for the file itself" in refused.json()["detail"]


def test_new_items_are_counted_since_a_version(api: Any) -> None:
    version = api.get("/view/start").json()["version"]
    assert api.get("/view/news", params={"version": version}).json()["added"] == 0
    rows = np.eye(DIMENSIONS, dtype=np.float32)[:3]
    api.post("/v1/items", json={"vectors": rows.tolist(), "ids": ["x", "y", "z"]})
    last = api.request("DELETE", "/v1/items", json={"ids": [NAMES[0], "y"]}).json()["version"]
    api.get("/v1/info", params={"min_version": last})
    found = api.get("/view/news", params={"version": version}).json()
    assert (found["added"], found["items"]) == (2, 61)
    assert [card["id"] for card in found["cards"]] == ["x", "z"]
    assert api.get("/view/news", params={"version": found["version"]}).json()["added"] == 0
    assert api.get("/view/news", params={"version": 10**6}).json()["added"] == 0, "a version that it never had"


def test_views_are_kept(api: Any) -> None:
    view = {"right": [NAMES[3], 7], "wrong": [2**60], "name": "mine.jpg", "vector": "AAAA", "picture": None}
    name = api.post("/view/keep", json=view).json()["id"]
    assert api.get(f"/view/kept/{name}").json() == view
    absent = api.get("/view/kept/aaaaaaaaaa")
    assert absent.status_code == 404
    assert "restarted" in absent.json()["detail"]
    assert api.post("/view/keep", json={"left": []}).status_code == 422
    assert api.post("/view/keep", json={"vector": "x" * 600_000}).status_code == 422
