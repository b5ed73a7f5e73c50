"""Synchronisation of a gallery with a folder: new, changed, removed and unreadable files, and crashes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("PIL")

from encoders.fake_encoders import Small, draw, letters
from kinrank import LPMT, Manifold
from kinrank.encoders import Recipe
from kinrank.errors import LogAppliedWarning
from kinrank.manifold.saved_folder import log_path
from kinrank.sync_folder import FolderTarget, Ledger, SyncResult, sync_source
from kinrank.sync_folder.setup import SyncSetup, prepare_sync
from kinrank.sync_folder.sync import watch_source
from reference.killed_service import leave_log, vectors_in

pytestmark = pytest.mark.slow

RECIPE = Recipe("encoders.fake_encoders:pixels")


class Followable:
    """A folder with thirty pictures, and a gallery that follows it."""

    def __init__(self, tmp_path: Path, content: str = "pictures", source: str = "photos") -> None:
        self.photos, self.folder = tmp_path / source, tmp_path / "photos.manifold"
        self.place, self.content = Ledger.path_for(self.folder), content
        self.encoder = Small()

    def look(self, **more: Any) -> SyncResult:
        """Synchronise once, with an encoder that counts from 0."""
        self.encoder = Small()
        ledger = Ledger.load(self.place) or Ledger(str(self.photos), self.content, RECIPE, {"encoder": "small"})
        return sync_source(ledger, self.place, FolderTarget(self.folder), self.encoder, **more)

    @property
    def ids(self) -> list[str]:
        return sorted(Manifold.load(self.folder).ids.tolist())

    @property
    def encoded(self) -> int:
        return sum(self.encoder.calls)


@pytest.fixture
def followable(tmp_path: Path) -> Followable:
    for seed in range(30):
        draw(tmp_path / "photos" / f"{seed:02}.png", seed)
    return Followable(tmp_path)


def test_the_first_look_builds_and_the_next_finds_nothing_to_do(followable: Followable) -> None:
    found = followable.look()
    assert len(found.added) == 30
    assert str(found) == "30 added; 30 items"
    assert followable.ids == [f"{seed:02}.png" for seed in range(30)]
    again = followable.look()
    assert not again
    assert str(again) == "nothing changed; 30 items"
    assert followable.encoded == 0


def test_files_added_changed_and_removed(followable: Followable) -> None:
    followable.look()
    draw(followable.photos / "new" / "x.jpg", 99)
    draw(followable.photos / "03.png", 98, (50, 50))
    (followable.photos / "05.png").unlink()
    found = followable.look()
    assert (found.added, found.changed, found.removed) == (["new/x.jpg"], ["03.png"], ["05.png"])
    assert followable.encoded == 2
    assert len(followable.ids) == 30
    assert "new/x.jpg" in followable.ids
    manifold = Manifold.load(followable.folder)
    assert manifold.search(_vector(followable.photos / "03.png"), k=1).ids[0, 0] == "03.png"
    assert manifold.staleness <= 0.1


def _vector(path: Path) -> Any:
    from PIL import Image

    with Image.open(path) as image:
        return Small().pictures([image.convert("RGB")])


def test_many_changes_rebuild(followable: Followable) -> None:
    followable.look()
    for seed in range(30, 70):
        draw(followable.photos / f"{seed:02}.png", seed)
    followable.look()
    assert len(followable.ids) == 70
    assert Manifold.load(followable.folder).staleness == 0.0


def test_a_picture_that_cannot_be_read_is_tried_again_when_it_changes(followable: Followable) -> None:
    followable.look()
    (followable.photos / "half.jpg").write_bytes(b"\xff\xd8\xff")
    found = followable.look()
    assert set(found.skipped) == {"half.jpg"}
    assert not followable.look()
    draw(followable.photos / "half.jpg", 5)
    assert followable.look().added == ["half.jpg"]
    (followable.photos / "half.jpg").write_bytes(b"\xff\xd8\xff broken again")
    found = followable.look()
    assert found.removed == ["half.jpg"]
    assert set(found.skipped) == {"half.jpg"}
    assert "half.jpg" not in followable.ids
    (followable.photos / "half.jpg").unlink()
    assert not followable.look().removed


def test_a_crash_before_the_ledger_was_written_is_made_good(followable: Followable) -> None:
    """The gallery has changed, but the ledger has not: the same change again does no harm."""
    followable.look()
    before = followable.place.read_bytes()
    draw(followable.photos / "new.png", 50)
    (followable.photos / "05.png").unlink()
    followable.look()
    followable.place.write_bytes(before)
    found = followable.look()
    assert found.changed + found.added == ["new.png"]
    assert len(followable.ids) == 30
    assert not followable.look()


def test_a_kill_between_gallery_and_ledger_leaves_nothing(
    followable: Followable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that was added to the gallery and deleted before the next synchronisation is removed by it."""
    followable.look()
    draw(followable.photos / "new.png", 50)
    saved = Ledger.save
    monkeypatch.setattr(Ledger, "save", lambda ledger, place: saved(ledger, place) if ledger.pending else _die())
    with pytest.raises(KeyboardInterrupt):
        followable.look()
    monkeypatch.undo()
    assert "new.png" in followable.ids
    (followable.photos / "new.png").unlink()
    assert followable.look().removed == ["new.png"]
    assert "new.png" not in followable.ids


def _die() -> None:
    raise KeyboardInterrupt


def test_items_removed_from_the_gallery_are_added_again(followable: Followable) -> None:
    followable.look()
    with Manifold.changing(followable.folder) as manifold:
        manifold.remove(["07.png"])
    assert followable.look().added == ["07.png"]


def test_trouble_with_reading_removes_nothing(followable: Followable, monkeypatch: pytest.MonkeyPatch) -> None:
    draw(followable.photos / "sub" / "x.png", 60)
    followable.look()
    listed = os.scandir

    def forbidden(path: str) -> Any:
        if path.endswith("sub"):
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr("kinrank.pictures.archives.os.scandir", forbidden)
    assert not followable.look()
    monkeypatch.undo()

    def broken(path: str) -> str:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr("kinrank.pictures.archives.make_stamp", broken)
    assert not followable.look()
    assert len(followable.ids) == 31


def test_a_table_that_is_empty_for_a_moment_removes_nothing(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,text\n" + "".join(f"k{number},words {number}\n" for number in range(20)))
    texts = Followable(tmp_path, "texts", "t.csv")
    texts.look()
    (tmp_path / "t.csv").write_text("")
    with pytest.raises(ValueError, match="is empty, so nothing was removed"):
        texts.look()
    assert len(texts.ids) == 20


def test_a_look_that_failed_is_not_believed(followable: Followable) -> None:
    class Failing(FolderTarget):
        def apply(self, *given: Any) -> None:
            raise ConnectionError("gone")

    ledger = Ledger(str(followable.photos), "pictures", RECIPE, {"encoder": "small"})
    with pytest.raises(ConnectionError):
        sync_source(ledger, followable.place, Failing(followable.folder), Small())
    assert ledger.items == {}
    assert len(followable.look().added) == 30
    assert followable.encoded == 0


def test_an_interrupted_look_encodes_nothing_twice(followable: Followable) -> None:
    def stop(label: str, done: int, total: int) -> None:
        if label.startswith("encoding") and done == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        followable.look(progress=stop, workers=1)
    assert not followable.folder.exists()
    followable.look()
    assert followable.encoded == 10
    assert len(followable.ids) == 30


def test_a_gallery_that_was_deleted_is_built_again(followable: Followable) -> None:
    import shutil

    followable.look()
    shutil.rmtree(followable.folder)
    assert len(followable.look().added) == 30


def test_an_empty_or_absent_folder_removes_nothing(followable: Followable) -> None:
    import shutil

    followable.look()
    for path in followable.photos.iterdir():
        path.unlink()
    with pytest.raises(ValueError, match="contains no readable picture"):
        followable.look()
    shutil.rmtree(followable.photos)
    with pytest.raises((ValueError, FileNotFoundError), match="does not exist"):
        followable.look()
    assert len(followable.ids) == 30


def test_nothing_that_could_be_encoded(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "x.png").write_bytes(b"x")
    with pytest.raises(ValueError, match="could be encoded"):
        Followable(tmp_path).look()


def test_texts_are_followed_by_their_ids(tmp_path: Path) -> None:
    lines = [f"k{number},words about number {number} {'x' * number}" for number in range(30)]
    (tmp_path / "t.csv").write_text("id,text\n" + "\n".join(lines))
    texts = Followable(tmp_path, "texts", "t.csv")
    assert len(texts.look().added) == 30
    lines[4] = "k4,something else"
    (tmp_path / "t.csv").write_text("id,text\n" + "\n".join([*lines[:20], "new,a new one", *lines[20:29]]))
    found = texts.look()
    assert (found.added, found.changed, found.removed) == (["new"], ["k4"], ["k29"])
    assert texts.encoded == 2
    manifold = Manifold.load(texts.folder)
    assert manifold.search(letters("something else")[None], k=1).ids[0, 0] == "k4"


def test_texts_are_prepared_for_one_right_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recipe, "open", lambda recipe: Small())
    (tmp_path / "t.csv").write_text("id,text\n" + "\n".join(f"k{number},{'ab' * number}" for number in range(1, 9)))
    for name, method, answers in (("a", None, "one"), ("b", LPMT(k1=20), "some")):
        setup = prepare_sync(tmp_path / "t.csv", tmp_path / name, content="texts", method=method)
        sync_source(*setup)
        prepared = Manifold.load(tmp_path / name).method
        assert isinstance(prepared, LPMT)
        assert prepared.answers == answers


def test_another_encoder_is_refused(followable: Followable) -> None:
    followable.look()
    ledger = Ledger.load(followable.place)
    assert ledger is not None
    with pytest.raises(ValueError, match="made by encoder small, but this encoder is encoder other; give the same"):
        sync_source(ledger, followable.place, FolderTarget(followable.folder), Small("other"))


def test_a_ledger_is_read_as_it_was_written(followable: Followable) -> None:
    followable.look()
    first = Ledger.load(followable.place)
    assert first is not None
    first.save(followable.place)
    assert Ledger.load(followable.place) == first
    assert Ledger.load(followable.place.with_name("absent.json")) is None


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[1]", b"\xff\xfe", b'{"version": 9}', b"[" * 100_000, b'{"version":1,"source":1}', b"null"],
)
def test_a_ledger_that_is_none_is_refused_with_a_sentence(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"damaged or not a ledger of kinrank .*; delete it and the gallery"):
        Ledger.load(tmp_path / "x.json")


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("version", 2),
        ("source", 7),
        ("content", "films"),
        ("columns", []),
        ("columns", None),
        ("encoder", {}),
        ("encoder", {"name": "x", "colour": 1}),
        ("facts", 7),
        ("items", [1]),
        ("items", {"a": 1}),
        ("skipped", {"a": "b"}),
    ],
)
def test_a_ledger_with_one_wrong_value_is_refused(key: str, wrong: Any, followable: Followable) -> None:
    ledger = Ledger(str(followable.photos), "pictures", RECIPE, {"encoder": "small"})
    ledger.save(followable.place)
    reports = json.loads(followable.place.read_bytes())
    followable.place.write_text(json.dumps({**reports, key: wrong}))
    with pytest.raises(ValueError, match="is damaged or not a ledger"):
        Ledger.load(followable.place)


def test_the_loop_repeats_and_reports_changes(followable: Followable, tmp_path: Path) -> None:
    reports: list[str] = []
    troubles: list[str] = []
    looks = [0]

    def tell(found: SyncResult) -> None:
        reports.append(str(found))
        looks[0] += 1
        if looks[0] == 1:
            draw(followable.photos / "later.png", 77)
        else:
            followable.photos.rename(tmp_path / "elsewhere")

    ledger = Ledger(str(followable.photos), "pictures", RECIPE, {"encoder": "small"})
    seen = SyncSetup(ledger, followable.place, FolderTarget(followable.folder), Small())
    watch_source(seen, every=0.01, looks=5, tell=tell, trouble=troubles.append)
    assert reports == ["30 added; 30 items", "1 added; 31 items"]
    assert len(troubles) == 1  # the same message is reported once
    assert "does not exist" in troubles[0]
    assert len(followable.ids) == 31


def test_the_loop_logs_the_traceback_of_a_bug(
    followable: Followable, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any, **__: Any) -> SyncResult:
        raise ValueError("operands could not be broadcast together")

    monkeypatch.setattr("kinrank.sync_folder.sync.sync_source", fail)
    troubles: list[str] = []
    ledger = Ledger(str(followable.photos), "pictures", RECIPE, {"encoder": "small"})
    seen = SyncSetup(ledger, followable.place, FolderTarget(followable.folder), Small())
    watch_source(seen, every=0.01, looks=3, trouble=troubles.append)
    assert troubles == ["operands could not be broadcast together"]
    assert [record.exc_info is not None for record in caplog.records] == [True]


def test_synchronisation_continues_the_last_one(followable: Followable, tmp_path: Path) -> None:
    seen = prepare_sync(followable.photos, followable.folder, "encoders.fake_encoders:pixels")
    sync_source(*seen)
    with pytest.raises(
        ValueError, match=r"was made by the function encoders.fake_encoders:pixels; give it again as `encoder`"
    ):
        prepare_sync(followable.photos, followable.folder)  # a file must not be able to choose code to run
    again = prepare_sync(followable.photos, followable.folder, "encoders.fake_encoders:pixels")
    assert again.ledger.recipe == RECIPE
    assert not sync_source(*again)
    with pytest.raises(ValueError, match=r"follows the pictures of .*; give another gallery"):
        prepare_sync(followable.photos, followable.folder, "encoders.fake_encoders:pixels", content="texts")
    with pytest.raises(ValueError, match=r"follows .*photos, not .*other"):
        prepare_sync(tmp_path / "other", followable.folder)


def test_an_existing_gallery_needs_join(followable: Followable) -> None:
    Manifold.build(np.random.default_rng(0).random((20, 192)), ids=[f"n{one}" for one in range(20)]).save(
        followable.folder
    )
    with pytest.raises(ValueError, match=r"contains items that watch did not put there; .* `join=True`"):
        prepare_sync(followable.photos, followable.folder, "encoders.fake_encoders:pixels")
    sync_source(*prepare_sync(followable.photos, followable.folder, "encoders.fake_encoders:pixels", join=True))
    assert len(followable.ids) == 50


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("nowhere/x.manifold", "the folder .*nowhere does not exist"),
        ("photos", "contains other files"),
        ("numbers", "have numbers and no"),
    ],
)
def test_places_that_cannot_be_used_are_refused_before_anything_is_encoded(
    place: str, sentence: str, followable: Followable, tmp_path: Path
) -> None:
    Manifold.build(np.random.default_rng(0).random((20, 192))).save(tmp_path / "numbers")
    with pytest.raises((ValueError, OSError), match=sentence):
        sync_source(*prepare_sync(followable.photos, tmp_path / place, "encoders.fake_encoders:pixels", join=True))
    assert not list(tmp_path.glob("*.part"))


def test_vectors_are_those_of_embed(followable: Followable) -> None:
    from kinrank import embed

    followable.look()
    found = embed(followable.photos, Small())
    manifold = Manifold.load(followable.folder)
    best = manifold.search(found.vectors, k=1)
    assert best.ids[:, 0].tolist() == found.ids
    assert np.isfinite(best.distances).all()


def test_the_log_of_a_killed_service_is_applied_before_the_next_look(followable: Followable) -> None:
    """Otherwise the next start of the service would remove items that were added from the folder since."""
    followable.look()
    leave_log(followable.folder, [{"remove": ["03.png", "04.png"]}])
    (followable.photos / "04.png").unlink()
    with pytest.warns(
        LogAppliedWarning, match="1 change in .*, acknowledged by a service before it was killed, was applied"
    ):
        found = followable.look()
    assert (found.added, found.removed) == (["03.png"], [])
    assert not log_path(followable.folder).exists()
    expected = [f"{seed:02}.png" for seed in range(30) if seed != 4]
    assert sorted(vectors_in(followable.folder)) == followable.ids == expected
