"""The log position of a folder: stored in its manifest, kept by changes, and passed by a replacement."""

from __future__ import annotations

import json
import pickle
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank as kr
from kinrank.errors import UnappliedChangesWarning
from kinrank.manifold import folder_reader, saved_folder
from kinrank.manifold.saved_folder import (
    LOG_POSITION_KEY,
    MANIFEST,
    VERSION_WITHOUT_QUERIES,
    describe_missing_changes,
    last_logged_version,
    log_path,
    log_position,
    read_manifest,
    seal_manifest,
)
from kinrank.manifold.service_log import Change, ChangeLog
from kinrank.manifold.verify import verify


def rows_of(count: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(count, 4)).astype(np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    kr.Manifold.build(rows_of(30), kr.methods.AQE(k=2)).save(tmp_path / "g")
    return tmp_path / "g"


def reach(folder: Path, position: int) -> kr.Manifold:
    """Save the folder at this position, as a process that keeps a log does."""
    manifold = kr.Manifold.open(folder)
    manifold.journal.held, manifold.journal.position = folder.resolve(), position
    manifold.save(folder)
    return manifold


def logged(folder: Path, count: int, base: int = 0) -> None:
    log = ChangeLog(log_path(folder), base)
    for version in range(base + 1, base + count + 1):
        log.append([Change([version], version=version)])
    log.close()


def position(folder: Path) -> int:
    return log_position(read_manifest(folder))


def test_a_folder_without_a_log_has_no_position(folder: Path) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    assert LOG_POSITION_KEY not in manifest["facts"]
    assert position(folder) == 0
    reach(folder, 0)
    assert LOG_POSITION_KEY not in json.loads((folder / MANIFEST).read_text())["facts"]


def test_the_number_alone_is_a_manifest_and_nothing_else(folder: Path) -> None:
    before = read_manifest(folder)
    for number in (1, 2, 2**52):
        reach(folder, number)
        after = read_manifest(folder)
        assert log_position(after) == number
        assert (after["data"], after["changes"], after["version"]) == (before["data"], [], VERSION_WITHOUT_QUERIES)
    assert verify(folder).whole
    assert LOG_POSITION_KEY not in kr.Manifold.load(folder).info()["facts"]  # searches do not need it
    assert sorted(path.name.split("-")[0] for path in folder.iterdir()) == [".lock", "data", MANIFEST]


def test_changes_keep_the_log_position(folder: Path, tmp_path: Path) -> None:
    reach(folder, 7)
    with kr.Manifold.changing(folder) as manifold:
        manifold.add(rows_of(1, 1))
    assert position(folder) == 7
    loaded = kr.Manifold.load(folder)
    loaded.add(rows_of(1, 2))
    loaded.save(folder)
    loaded.save(folder)  # everything is written again
    assert position(folder) == 7
    arrived = pickle.loads(pickle.dumps(loaded))
    arrived.save(folder)
    assert position(folder) == 7
    arrived.refresh()
    arrived.save(folder)
    assert position(folder) == 7
    arrived.save(tmp_path / "other")  # which has no log
    assert position(tmp_path / "other") == 0
    assert kr.Manifold.load(folder).journal.folded == 7


def test_saving_elsewhere_without_a_log_keeps_none(folder: Path, tmp_path: Path) -> None:
    manifold = reach(folder, 7)
    manifold.save(tmp_path / "other")
    assert position(tmp_path / "other") == 0


def test_a_new_gallery_in_the_same_place_is_past_the_log(folder: Path) -> None:
    reach(folder, 3)
    logged(folder, 4, base=2)
    kr.Manifold.build(rows_of(20), kr.methods.AQE(k=2)).save(folder)
    assert position(folder) == 6
    shutil.rmtree(folder)
    kr.Manifold.build(rows_of(20), kr.methods.AQE(k=2)).save(folder)
    assert position(folder) == 6
    log_path(folder).unlink()
    kr.Manifold.build(rows_of(20), kr.methods.AQE(k=2)).save(folder)
    assert position(folder) == 6  # versions never decrease


@pytest.mark.parametrize("wrong", [-1, 0.5, 2**53, 1e300])
def test_numbers_that_cannot_be_are_refused(folder: Path, wrong: float) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["facts"][LOG_POSITION_KEY] = wrong
    (folder / MANIFEST).write_text(json.dumps(seal_manifest(manifest)))
    with pytest.raises(ValueError, match=f"this version can use: {LOG_POSITION_KEY}=.* is not a number of changes"):
        kr.Manifold.load(folder)
    assert not verify(folder).whole
    kr.Manifold.build(rows_of(20), kr.methods.AQE(k=2)).save(folder)  # replaces it, as it replaces a damaged one
    assert verify(folder).whole


def test_loading_warns_about_missing_changes(folder: Path, tmp_path: Path) -> None:
    reach(folder, 2)
    logged(folder, 3)
    (tmp_path / "link").symlink_to(folder)
    for path in (folder, tmp_path / "link", Path(f"{folder}/")):
        with pytest.warns(UnappliedChangesWarning, match=r"lacks 1 change .*g\.log; apply them with `kinrank serve`"):
            kr.Manifold.load(path)
    reach(folder, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kr.Manifold.load(folder)


def test_other_files_are_not_logs(folder: Path) -> None:
    logged(folder, 3)
    content = log_path(folder).read_bytes()
    assert last_logged_version(folder) == 3
    for wrong in (b"", content[:-1], content[:20], bytes([content[0] ^ 1]) + content[1:]):
        log_path(folder).write_bytes(wrong)
        assert last_logged_version(folder) == (2 if wrong == content[:-1] else 0)
    log_path(folder).unlink()
    log_path(folder).mkdir()
    assert last_logged_version(folder) == 0
    assert describe_missing_changes(folder, 0) is None


def test_an_unreadable_lock_counts_as_free(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logged(folder, 1)
    (folder / ".lock").unlink()
    assert describe_missing_changes(folder, 0) is not None
    monkeypatch.setattr(saved_folder.sys, "platform", "win32")
    assert describe_missing_changes(folder, 0) is not None


def test_a_later_state_is_read_from_its_changes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = folder_reader.read_folder(folder, mmap=True)
    manifold = kr.Manifold.load(folder)
    for number in range(2):
        manifold.add(rows_of(1, number))
        manifold.save(folder)
    with monkeypatch.context() as patched:
        patched.setattr(folder_reader, "read_saved_array", lambda *_: pytest.fail("an array was read again"))
        later = folder_reader.read_folder(folder, mmap=True, known=first)
        same = folder_reader.read_folder(folder, mmap=True, known=later)
    assert same.arrays is later.arrays
    whole = folder_reader.read_folder(folder, mmap=True)
    assert {name: array.tobytes() for name, array in later.arrays.items()} == {
        name: array.tobytes() for name, array in whole.arrays.items()
    }
    manifold.save(folder)  # everything was written again: no known file exists
    reread = folder_reader.read_folder(folder, mmap=True, known=later)
    assert reread.arrays is not later.arrays
    assert len(folder_reader.open_snapshot(folder, reread, None)) == 32
