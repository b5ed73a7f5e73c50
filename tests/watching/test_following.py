"""A gallery that follows a folder: what comes, changes, goes, cannot be read; and what a crash leaves."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("PIL")

from encoders.small import Small, draw, letters
from kinrank import Manifold
from kinrank.encoders import Recipe
from kinrank.manifold import LogApplied
from kinrank.manifold.beside import log_of
from kinrank.watching import FolderTarget, Followed, Ledger, follow
from kinrank.watching.loop import watch
from kinrank.watching.places import Watched, watched
from reference.killed_service import leave_log, vectors_in

RECIPE = Recipe("encoders.small:pixels")


class Followable:
    """A folder with thirty pictures, and a gallery that follows it."""

    def __init__(self, tmp_path: Path, content: str = "pictures", source: str = "photos") -> None:
        self.photos, self.folder = tmp_path / source, tmp_path / "photos.manifold"
        self.place, self.content = Ledger.beside(self.folder), content
        self.encoder = Small()

    def look(self, **more: Any) -> Followed:
        """One look, by an encoder that begins to count anew."""
        self.encoder = Small()
        ledger = Ledger.load(self.place) or Ledger(str(self.photos), self.content, RECIPE, {"encoder": "small"})
        return follow(ledger, self.place, FolderTarget(self.folder), self.encoder, **more)

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


def test_what_comes_changes_and_goes(followable: Followable) -> None:
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
    assert manifold.stale <= 0.1


def _vector(path: Path) -> Any:
    from PIL import Image

    with Image.open(path) as image:
        return Small().pictures([image.convert("RGB")])


def test_many_changes_build_anew(followable: Followable) -> None:
    followable.look()
    for seed in range(30, 70):
        draw(followable.photos / f"{seed:02}.png", seed)
    followable.look()
    assert len(followable.ids) == 70
    assert Manifold.load(followable.folder).stale == 0.0


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
    """The gallery has changed, the ledger has not: the same change once more does no harm."""
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


def test_a_kill_between_gallery_and_ledger_leaves_nothing_behind(
    followable: Followable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What came, was put into the gallery and went before the next look is taken out by that."""
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


def test_what_somebody_took_out_of_the_gallery_comes_back(followable: Followable) -> None:
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

    monkeypatch.setattr("kinrank.pictures.archives.stamp_of", broken)
    assert not followable.look()
    assert len(followable.ids) == 31


def test_a_table_that_is_empty_for_a_moment_removes_nothing(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("id,text\n" + "".join(f"k{number},words {number}\n" for number in range(20)))
    texts = Followable(tmp_path, "texts", "t.csv")
    texts.look()
    (tmp_path / "t.csv").write_text("")
    with pytest.raises(ValueError, match="is empty; is it whole"):
        texts.look()
    assert len(texts.ids) == 20


def test_a_look_that_failed_is_not_believed(followable: Followable) -> None:
    class Failing(FolderTarget):
        def apply(self, *given: Any) -> None:
            raise ConnectionError("gone")

    ledger = Ledger(str(followable.photos), "pictures", RECIPE, {"encoder": "small"})
    with pytest.raises(ConnectionError):
        follow(ledger, followable.place, Failing(followable.folder), Small())
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
    with pytest.raises(ValueError, match="holds no picture that can be read"):
        followable.look()
    shutil.rmtree(followable.photos)
    with pytest.raises((ValueError, FileNotFoundError), match="is not there"):
        followable.look()
    assert len(followable.ids) == 30


def test_nothing_that_could_be_encoded(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "x.png").write_bytes(b"x")
    with pytest.raises(ValueError, match="there is nothing that could be encoded"):
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


def test_another_encoder_is_refused(followable: Followable) -> None:
    followable.look()
    ledger = Ledger.load(followable.place)
    assert ledger is not None
    with pytest.raises(ValueError, match="was made by encoder small, and this is encoder other; give the same"):
        follow(ledger, followable.place, FolderTarget(followable.folder), Small("other"))


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
    with pytest.raises(ValueError, match=r"is damaged or no ledger of kinrank .*; delete it and the gallery beside it"):
        Ledger.load(tmp_path / "x.json")


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("version", 2), ("source", 7), ("content", "films"), ("columns", []), ("columns", None), ("encoder", {}),
        ("encoder", {"name": "x", "colour": 1}), ("facts", 7), ("items", [1]), ("items", {"a": 1}),
        ("skipped", {"a": "b"}),
    ],
)  # fmt: skip
def test_a_ledger_with_one_wrong_value_is_refused(key: str, wrong: Any, followable: Followable) -> None:
    ledger = Ledger(str(followable.photos), "pictures", RECIPE, {"encoder": "small"})
    ledger.save(followable.place)
    told = json.loads(followable.place.read_bytes())
    followable.place.write_text(json.dumps({**told, key: wrong}))
    with pytest.raises(ValueError, match="is damaged or no ledger"):
        Ledger.load(followable.place)


def test_the_loop_looks_again_and_says_what_changed(followable: Followable, tmp_path: Path) -> None:
    told: list[str] = []
    troubles: list[str] = []
    looks = [0]

    def tell(found: Followed) -> None:
        told.append(str(found))
        looks[0] += 1
        if looks[0] == 1:
            draw(followable.photos / "later.png", 77)
        else:
            followable.photos.rename(tmp_path / "elsewhere")

    ledger = Ledger(str(followable.photos), "pictures", RECIPE, {"encoder": "small"})
    seen = Watched(ledger, followable.place, FolderTarget(followable.folder), Small())
    watch(seen, every=0.01, looks=5, tell=tell, trouble=troubles.append)
    assert told == ["30 added; 30 items", "1 added; 31 items"]
    assert len(troubles) == 1  # the same sentence is said once
    assert "is not there" in troubles[0]
    assert len(followable.ids) == 31


def test_what_is_watched_is_taken_up_where_it_was_left(followable: Followable, tmp_path: Path) -> None:
    seen = watched(followable.photos, followable.folder, "encoders.small:pixels")
    follow(*seen)
    with pytest.raises(
        ValueError, match=r"was made by the function encoders.small:pixels; name it again with encoder="
    ):
        watched(followable.photos, followable.folder)  # a file must not be able to name code that is run
    again = watched(followable.photos, followable.folder, "encoders.small:pixels")
    assert again.ledger.recipe == RECIPE
    assert not follow(*again)
    with pytest.raises(ValueError, match=r"follows the pictures of .*; for others give another place"):
        watched(followable.photos, followable.folder, "encoders.small:pixels", content="texts")
    with pytest.raises(ValueError, match=r"follows .*photos, not .*other"):
        watched(tmp_path / "other", followable.folder)


def test_a_gallery_that_was_made_otherwise_is_joined_only_when_asked(followable: Followable) -> None:
    Manifold.build(np.random.default_rng(0).random((20, 192)), ids=[f"n{one}" for one in range(20)]).save(
        followable.folder
    )
    with pytest.raises(ValueError, match=r"holds items that were not put there by watch; .* join=True"):
        watched(followable.photos, followable.folder, "encoders.small:pixels")
    follow(*watched(followable.photos, followable.folder, "encoders.small:pixels", join=True))
    assert len(followable.ids) == 50


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("nowhere/x.manifold", "the folder .*nowhere is not there"),
        ("photos", "holds other files"),
        ("numbers", "have numbers and no"),
    ],
)
def test_places_that_cannot_be_used_are_refused_before_anything_is_encoded(
    place: str, sentence: str, followable: Followable, tmp_path: Path
) -> None:
    Manifold.build(np.random.default_rng(0).random((20, 192))).save(tmp_path / "numbers")
    with pytest.raises((ValueError, OSError), match=sentence):
        follow(*watched(followable.photos, tmp_path / place, "encoders.small:pixels", join=True))
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
    """Otherwise the next start of the service would remove again what was taken from the folder since."""
    followable.look()
    leave_log(followable.folder, [{"remove": ["03.png", "04.png"]}])
    (followable.photos / "04.png").unlink()
    with pytest.warns(LogApplied, match="1 change that a service acknowledged"):
        found = followable.look()
    assert (found.added, found.removed) == (["03.png"], [])
    assert not log_of(followable.folder).exists()
    expected = [f"{seed:02}.png" for seed in range(30) if seed != 4]
    assert sorted(vectors_in(followable.folder)) == followable.ids == expected
