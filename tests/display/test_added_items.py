"""Pictures added to a folder later are found by their names, and no other files are."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the service needs the extra [web]")

from PIL import Image

from kinrank.display import thumbnails as shown
from kinrank.display.thumbnails import RECHECK_SECONDS, Pictures
from kinrank.web.settings import Files
from web.small_service import client, settings_in


def drawn(path: Path, colour: str = "red") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (20, 20), colour).save(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    drawn(tmp_path / "photos" / "a.jpg")
    drawn(tmp_path / "photos" / "sub" / "b.jpg")
    return tmp_path / "photos"


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that advances the clock until an absent name is checked again."""
    now = itertools.count(1000.0, RECHECK_SECONDS + 0.1)
    present = [next(now)]
    monkeypatch.setattr(shown, "monotonic", lambda: present[0])
    return lambda: present.__setitem__(0, next(now))


def test_a_picture_that_comes_later_is_found(folder: Path, later: Callable[[], None], tmp_path: Path) -> None:
    pictures = Pictures.open(folder, tmp_path / "cache")
    drawn(folder / "new.jpg")
    drawn(folder / "deep" / "er" / "new.png")
    assert pictures.find("new.jpg") is None, "the list was just made"
    later()
    assert pictures.find("new.jpg") == "new.jpg"
    assert pictures.find("deep/er/new.png") == "deep/er/new.png"
    assert pictures.thumbnail("new.jpg", 96)[1] == "image/jpeg"
    assert pictures.find("other.jpg") is None
    drawn(folder / "other.jpg")
    assert pictures.find("other.jpg") is None, "that it is not there is remembered for a moment"
    later()
    assert pictures.find("other.jpg") == "other.jpg"


def test_its_own_name_counts_more_than_the_end_of_another(folder: Path, later: Callable[[], None]) -> None:
    pictures = Pictures.open(folder, None)
    assert pictures.find("b.jpg") == "sub/b.jpg"
    drawn(folder / "b.jpg")
    later()
    assert pictures.find("b.jpg") == "b.jpg"


def test_absent_names_are_remembered(folder: Path, later: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    pictures, checked = Pictures.open(folder, None), list[str]()
    monkeypatch.setattr(pictures._archive, "again", lambda name: bool(checked.append(name)))
    monkeypatch.setattr(shown, "MAX_ABSENT_NAMES", 5)
    later()
    for _ in range(3):
        assert pictures.find("a.jpg") == "a.jpg"
        assert pictures.find("nobody.jpg") is None
    assert checked == ["nobody.jpg"]
    for number in range(20):
        assert pictures.find(f"{number}.jpg") is None
    assert len(pictures._absent_until) <= 5


@pytest.mark.parametrize(
    "name",
    ["../secret.jpg", "sub/../../secret.jpg", ".hidden.jpg", "notes.txt", "link.jpg", "\0.jpg", "", "round/a.jpg"],
)
def test_nothing_else_is_reached(name: str, folder: Path, later: Callable[[], None], tmp_path: Path) -> None:
    pictures = Pictures.open(folder, None)
    drawn(tmp_path / "secret.jpg")
    drawn(folder / ".hidden.jpg")
    (folder / "notes.txt").write_text("not a picture")
    (folder / "link.jpg").symlink_to(tmp_path / "secret.jpg")
    (folder / "round").symlink_to(folder)
    later()
    assert pictures.find(name) is None


def test_an_item_that_is_added_has_its_picture(folder: Path, tmp_path: Path, later: Callable[[], None]) -> None:
    settings = settings_in(tmp_path, files=Files(images=str(folder)))
    with client(settings) as api:
        drawn(folder / "sub" / "new.jpg", "blue")
        added = api.post("/v1/items", json={"vectors": [[1.0] * 8], "ids": ["sub/new.jpg"]})
        assert added.status_code == 200, added.text
        later()
        card = api.get("/v1/items/sub%2Fnew.jpg", params={"min_version": added.json()["version"]}).json()
        assert card["picture"] == "pictures/item/sub%2Fnew.jpg"
        assert api.get(f"/{card['picture']}").headers["content-type"] == "image/jpeg"
