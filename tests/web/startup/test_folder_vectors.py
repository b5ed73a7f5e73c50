"""Served folders of pictures or texts: kept between runs, and updated to their current files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi")

from encoders import fake_encoders
from encoders.fake_encoders import Small, draw
from kinrank import Client, Manifold
from kinrank.encoders import encoder_registry
from kinrank.sync_folder import Ledger
from kinrank.sync_folder.setup import prepare_sync
from kinrank.web.settings import Settings
from reference.waiting import soon
from web.small_service import listening, prepare_settings, settings_in


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder of pictures with a separate cache; "small" is the encoder of pictures and texts."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(
        fake_encoders, "open_with_options", lambda options: Small(fake_encoders.CALLED[-1]), raising=False
    )
    monkeypatch.setattr(fake_encoders, "CALLED", ["small"], raising=False)
    monkeypatch.setitem(encoder_registry.ENCODERS, "small", "encoders.fake_encoders")
    monkeypatch.setattr(encoder_registry, "DEFAULT_ENCODERS", {"pictures": "small", "texts": "small"})
    monkeypatch.setattr("kinrank.sync_folder.setup.DEFAULT_ENCODERS", {"pictures": "small", "texts": "small"})
    for seed in range(30):
        draw(tmp_path / "photos" / f"{seed:02}.png", seed)
    return tmp_path


def served(source: Path, scratch: Path, **given: Any) -> tuple[Settings, list[str]]:
    reports: list[str] = []
    scratch.mkdir(exist_ok=True)
    return prepare_settings(source, scratch=scratch, tell=reports.append, **given), reports


def test_the_second_start_encodes_only_what_is_new(home: Path) -> None:
    first, reports = served(home / "photos", home / "one")
    assert reports == ["30 added; 30 items"]
    assert first.writable
    assert first.follows
    assert first.title == "photos"
    assert first.encoder == {"name": "small"}
    assert first.files.images == str(home / "photos")
    draw(home / "photos" / "new.png", 99)
    second, reports = served(home / "photos", home / "two")
    assert reports == ["1 added; 31 items"]
    assert second.manifold == first.manifold
    assert served(home / "photos", home / "three")[1] == []


def test_a_chosen_folder_keeps_the_gallery(home: Path) -> None:
    settings, _ = served(home / "photos", home / "one", keep=home / "kept.manifold")
    assert settings.manifold == str(home / "kept.manifold")
    assert len(Manifold.load(home / "kept.manifold")) == 30
    plain, _ = served(home / "kept.manifold", home / "two")  # the gallery has its pictures and its encoder
    assert (plain.files.images, plain.encoder, plain.follows) == (settings.files.images, {"name": "small"}, True)
    (home / "photos").rename(home / "elsewhere")
    moved, _ = served(home / "kept.manifold", home / "three")
    assert (moved.files.images, moved.follows) == (None, False)


def test_a_newer_library_rebuilds_only_the_cache(home: Path) -> None:
    served(home / "photos", home / "one")
    served(home / "photos", home / "one", keep=home / "kept.manifold")
    fake_encoders.CALLED.append("newer")  # type: ignore[attr-defined]
    draw(home / "photos" / "new.png", 99)
    assert served(home / "photos", home / "two")[1] == ["31 added; 31 items"]
    with pytest.raises(ValueError, match="were made by encoder small, but this encoder is encoder newer"):
        served(home / "photos", home / "three", keep=home / "kept.manifold")


def test_a_ledger_from_a_stranger_names_no_code_that_is_run(home: Path) -> None:
    served(home / "photos", home / "one", keep=home / "kept.manifold")
    ledger = Ledger.load(Ledger.path_for(home / "kept.manifold"))
    assert ledger is not None
    ledger.recipe = encoder_registry.Recipe("encoders.fake_encoders:pixels")
    ledger.save(Ledger.path_for(home / "kept.manifold"))
    plain, reports = served(home / "kept.manifold", home / "two")
    assert plain.encoder is None
    assert (
        "its vectors come from the function encoders.fake_encoders:pixels; to search by pictures, give it" in reports[1]
    )


def test_a_gallery_whose_encoder_has_changed_is_served_without_it(home: Path) -> None:
    served(home / "photos", home / "one", keep=home / "kept.manifold")
    fake_encoders.CALLED.append("newer")  # type: ignore[attr-defined]
    plain, reports = served(home / "kept.manifold", home / "two")
    assert (plain.encoder, plain.follows) == (None, False)
    assert "its encoder has changed since" in reports[1]


def test_lists_and_pictures_are_not_served(home: Path) -> None:
    (home / "list.txt").write_text("photos/01.png\n")
    with pytest.raises(ValueError, match="is a list of pictures; serve the folder"):
        served(home / "list.txt", home / "one")
    with pytest.raises(ValueError, match=r"unknown ending '.png'"):
        served(home / "photos" / "01.png", home / "one")


def test_texts_are_shown_with_their_ids(home: Path) -> None:
    lines = "".join(f"k{number},{'word ' * (number + 1)}{'abcdefghijkl'[number] * 9}\n" for number in range(12))
    (home / "notes.csv").write_text("key,body\n" + lines)
    settings, reports = served(home / "notes.csv", home / "one", column="body", id_column="key")
    assert reports == ["12 added; 12 items"]
    with listening(settings) as address, Client(address) as client:
        assert client.get("k3")["text"] == "word word word word ddddddddd"
        assert client.search(texts=["word word word ccccccccc"], k=1).ids[0, 0] == "k2"


def test_a_table_is_vectors_unless_a_column_of_texts_is_named(home: Path) -> None:
    np.savetxt(home / "g.csv", np.random.default_rng(0).random((20, 4)), delimiter=",")
    assert not served(home / "g.csv", home / "one")[0].follows


def test_a_service_follows_a_folder_that_is_watched(home: Path) -> None:
    """`kinrank watch FOLDER http://...` for a gallery that was built from vectors."""
    from kinrank.sync_folder import sync_source

    rows = np.random.default_rng(5).random((40, 192)).astype(np.float32)
    Manifold.build(rows, ids=[f"n{number}" for number in range(40)]).save(home / "gallery.manifold")
    settings = settings_in(home)
    with listening(settings) as address, Client(address) as client:
        seen = prepare_sync(home / "photos", address, join=True)
        assert len(sync_source(*seen).added) == 30
        assert soon(lambda: len(client) == 70)
        (home / "photos" / "03.png").unlink()
        again = prepare_sync(home / "photos", address)
        found = sync_source(*again)
        assert found.removed == ["03.png"]
        assert soon(lambda: len(client) == 69)
        assert "n3" in client.search(rows[3:4], k=1).ids


def test_a_service_with_an_account_of_its_own_is_not_followed_twice(home: Path) -> None:
    settings, _ = served(home / "photos", home / "one")
    with listening(settings) as address, pytest.raises(ValueError, match="kinrank serve FOLDER --watch"):
        prepare_sync(home / "photos", address)
    ledger = Ledger.load(Ledger.path_for(settings.manifold))
    assert ledger is not None
    assert len(ledger.items) == 30
