"""How far a folder is in its log: its manifest says so, who changes it keeps it, who replaces it is past it."""

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
from kinrank.manifold import beside, reading
from kinrank.manifold.beside import NotFolded, last_logged, left_out, log_of
from kinrank.manifold.log import Log
from kinrank.manifold.log_records import Change
from kinrank.manifold.manifest import MANIFEST, PLAIN, POSITION, position_in, read_manifest, sealed
from kinrank.manifold.verify import verify


def rows_of(count: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(count, 4)).astype(np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    kr.Manifold.build(rows_of(30), kr.AQE(k=2)).save(tmp_path / "g")
    return tmp_path / "g"


def reach(folder: Path, position: int) -> kr.Manifold:
    """Somebody who keeps a log saves the folder at this position of it."""
    manifold = kr.Manifold._opened(folder)
    manifold._journal.held, manifold._journal.position = folder.resolve(), position
    manifold.save(folder)
    return manifold


def logged(folder: Path, count: int, base: int = 0) -> None:
    log = Log(log_of(folder), base)
    for version in range(base + 1, base + count + 1):
        log.append([Change(version, [version])])
    log.close()


def position(folder: Path) -> int:
    return position_in(read_manifest(folder))


def test_a_folder_that_was_never_served_says_nothing_of_it(folder: Path) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    assert POSITION not in manifest["facts"]
    assert position(folder) == 0
    reach(folder, 0)
    assert POSITION not in json.loads((folder / MANIFEST).read_text())["facts"]


def test_the_number_alone_is_a_manifest_and_nothing_else(folder: Path) -> None:
    before = read_manifest(folder)
    for number in (1, 2, 2**52):
        reach(folder, number)
        after = read_manifest(folder)
        assert position_in(after) == number
        assert (after["data"], after["changes"], after["version"]) == (before["data"], [], PLAIN)
    assert verify(folder).whole
    assert POSITION not in kr.Manifold.load(folder).info()["facts"]  # it is nothing that a search knows
    assert sorted(path.name.split("-")[0] for path in folder.iterdir()) == [".lock", "data", MANIFEST]


def test_who_changes_the_folder_keeps_it(folder: Path, tmp_path: Path) -> None:
    reach(folder, 7)
    with kr.Manifold.changing(folder) as manifold:
        manifold.add(rows_of(1, 1))
    assert position(folder) == 7
    loaded = kr.Manifold.load(folder)
    loaded.add(rows_of(1, 2))
    loaded.save(folder)
    loaded.save(folder)  # everything anew
    assert position(folder) == 7
    arrived = pickle.loads(pickle.dumps(loaded))
    arrived.save(folder)
    assert position(folder) == 7
    arrived.refresh()
    arrived.save(folder)
    assert position(folder) == 7
    arrived.save(tmp_path / "other")  # which has no log
    assert position(tmp_path / "other") == 0
    assert kr.Manifold.load(folder)._journal.folded == 7


def test_who_keeps_no_log_keeps_none_elsewhere(folder: Path, tmp_path: Path) -> None:
    manifold = reach(folder, 7)
    manifold.save(tmp_path / "other")
    assert position(tmp_path / "other") == 0


def test_a_new_gallery_in_the_same_place_is_past_the_log(folder: Path) -> None:
    reach(folder, 3)
    logged(folder, 4, base=2)
    kr.Manifold.build(rows_of(20), kr.AQE(k=2)).save(folder)
    assert position(folder) == 6
    shutil.rmtree(folder)
    kr.Manifold.build(rows_of(20), kr.AQE(k=2)).save(folder)
    assert position(folder) == 6
    log_of(folder).unlink()
    kr.Manifold.build(rows_of(20), kr.AQE(k=2)).save(folder)
    assert position(folder) == 6  # versions do not go back


@pytest.mark.parametrize("wrong", [-1, 0.5, 2**53, 1e300])
def test_numbers_that_cannot_be_are_refused(folder: Path, wrong: float) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest["facts"][POSITION] = wrong
    (folder / MANIFEST).write_text(json.dumps(sealed(manifest)))
    with pytest.raises(ValueError, match=f"this version can use: {POSITION}=.* is not allowed; it counts changes"):
        kr.Manifold.load(folder)
    assert not verify(folder).whole
    kr.Manifold.build(rows_of(20), kr.AQE(k=2)).save(folder)  # replaces it, as it does what is damaged
    assert verify(folder).whole


def test_who_loads_is_told_what_is_missing(folder: Path, tmp_path: Path) -> None:
    reach(folder, 2)
    logged(folder, 3)
    (tmp_path / "link").symlink_to(folder)
    for path in (folder, tmp_path / "link", Path(f"{folder}/")):
        with pytest.warns(NotFolded, match=r"lacks 1 change that a service acknowledged .*g\.log; `kinrank serve`"):
            kr.Manifold.load(path)
    reach(folder, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kr.Manifold.load(folder)


def test_what_is_no_log_says_nothing(folder: Path) -> None:
    logged(folder, 3)
    content = log_of(folder).read_bytes()
    assert last_logged(folder) == 3
    for wrong in (b"", content[:-1], content[:20], bytes([content[0] ^ 1]) + content[1:]):
        log_of(folder).write_bytes(wrong)
        assert last_logged(folder) == (2 if wrong == content[:-1] else 0)
    log_of(folder).unlink()
    log_of(folder).mkdir()
    assert last_logged(folder) == 0
    assert left_out(folder, 0) is None


def test_a_lock_that_cannot_be_asked_is_nobodys(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logged(folder, 1)
    (folder / ".lock").unlink()
    assert left_out(folder, 0) is not None
    monkeypatch.setattr(beside.sys, "platform", "win32")
    assert left_out(folder, 0) is not None


def test_a_later_state_is_read_from_its_changes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = reading.read(folder, mmap=True)
    manifold = kr.Manifold.load(folder)
    for number in range(2):
        manifold.add(rows_of(1, number))
        manifold.save(folder)
    with monkeypatch.context() as patched:
        patched.setattr(reading, "read_array", lambda *_: pytest.fail("an array was read again"))
        later = reading.read(folder, mmap=True, known=first)
        same = reading.read(folder, mmap=True, known=later)
    assert same.arrays is later.arrays
    whole = reading.read(folder, mmap=True)
    assert {name: array.tobytes() for name, array in later.arrays.items()} == {
        name: array.tobytes() for name, array in whole.arrays.items()
    }
    manifold.save(folder)  # everything anew: nothing of what is known is there
    anew = reading.read(folder, mmap=True, known=later)
    assert anew.arrays is not later.arrays
    assert len(reading.opened(folder, anew, None)) == 32
