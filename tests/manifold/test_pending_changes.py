"""Change files of a saved manifold: small, exact when loaded, and merged when they become many."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kinrank as kr
from kinrank.files.atomic import LOCK_NAME
from kinrank.manifold import deltas
from kinrank.manifold.deltas import MAX_CHANGES, is_worth_appending, pack_diffs, unpack_diffs
from kinrank.manifold.saved_folder import MANIFEST, seal_manifest
from kinrank.manifold.verify import verify

pytestmark = pytest.mark.slow

METHOD = kr.LPMT(k1=12, k2=3, k=4, path_k=4, support=12)


def rows_of(seed: int, items: int) -> NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(1).normal(size=(8, 6))
    return (centres[rng.integers(0, 8, items)] + 0.3 * rng.normal(size=(items, 6))).astype("f4")


@pytest.fixture
def manifold(tmp_path: Path) -> kr.Manifold:
    """Return 400 items, saved in `m`."""
    made = kr.Manifold.build(rows_of(1, 400), METHOD, ids=[f"n{i}" for i in range(400)])
    made.save(tmp_path / "m")
    return made


def manifest_in(folder: Path) -> Any:
    return json.loads((folder / MANIFEST).read_text())


def files_in(folder: Path) -> dict[str, int]:
    """Return every file except the lock, and its modification time."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != LOCK_NAME)
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in found}


def assert_same(left: kr.Manifold, right: kr.Manifold) -> None:
    mine, theirs = left.snapshot.arrays, right.snapshot.arrays
    assert set(mine) == set(theirs)
    for name, array in mine.items():
        assert array.dtype == theirs[name].dtype, name
        assert array.tobytes() == theirs[name].tobytes(), name
    assert left.snapshot.facts == right.snapshot.facts
    a, b = left.search(rows_of(9, 20), k=15), right.search(rows_of(9, 20), k=15)
    np.testing.assert_array_equal(a.indices, b.indices)
    np.testing.assert_array_equal(a.distances, b.distances)


def test_an_added_item_writes_little(manifold: kr.Manifold, tmp_path: Path) -> None:
    """Of the existing files, only the manifest is written again."""
    before = files_in(tmp_path / "m")
    manifold.add(rows_of(2, 1), ["new"])
    manifold.save(tmp_path / "m")
    after = files_in(tmp_path / "m")
    (change,) = set(after) - set(before)
    assert {name for name in before if after[name] != before[name]} == {MANIFEST}
    assert (tmp_path / "m" / change).stat().st_size < manifold.info()["bytes"] / 4
    assert verify(tmp_path / "m").checked[-1] == change
    assert_same(manifold, kr.Manifold.load(tmp_path / "m"))


def test_every_kind_of_change_is_loaded_to_the_bit(manifold: kr.Manifold, tmp_path: Path) -> None:
    folder = tmp_path / "m"
    changes = [
        lambda: manifold.add(rows_of(3, 2), ["a", "b"]),
        lambda: manifold.remove(["n7", "n300", "a"]),
        lambda: manifold.upsert(rows_of(4, 2), ["n0", "c"]),
        lambda: manifold.add(rows_of(5, 1), ["a much longer name than any before"]),
        lambda: manifold.remove(["n399"]),
    ]
    for number, change in enumerate(changes, start=1):
        change()
        manifold.save(folder)
        assert manifest_in(folder)["generation"] == 1 + number
        assert len(manifest_in(folder)["changes"]) == number
        assert_same(manifold, kr.Manifold.load(folder))
        assert_same(manifold, kr.Manifold.load(folder, mmap=False))


def test_several_changes_before_a_save_are_one_file(manifold: kr.Manifold, tmp_path: Path) -> None:
    other = kr.Manifold.load(tmp_path / "m")
    for number in range(3):
        other.add(rows_of(10 + number, 1), [f"new{number}"])
    other.save(tmp_path / "m")
    (entry,) = manifest_in(tmp_path / "m")["changes"]
    assert entry["count"] == 3
    loaded = kr.Manifold.load(tmp_path / "m")
    assert_same(other, loaded)
    loaded.add(rows_of(20, 1), ["one more"])  # a manifold loaded with changes continues them
    loaded.save(tmp_path / "m")
    assert len(manifest_in(tmp_path / "m")["changes"]) == 2
    assert_same(loaded, kr.Manifold.load(tmp_path / "m"))


def test_numbers_instead_of_ids_are_kept_too(tmp_path: Path) -> None:
    plain = kr.Manifold.build(rows_of(1, 200), METHOD)
    plain.save(tmp_path / "m")
    for change in (lambda: plain.add(rows_of(2, 1)), lambda: plain.remove([4]), lambda: plain.add(rows_of(3, 2))):
        change()
        plain.save(tmp_path / "m")
    loaded = kr.Manifold.load(tmp_path / "m")
    assert_same(plain, loaded)
    assert loaded.ids.tolist() == plain.ids.tolist() == [0, 1, 2, 3, *range(5, 203)]
    assert len(manifest_in(tmp_path / "m")["changes"]) == 3


def test_a_query_expansion_is_appended_to_as_well(tmp_path: Path) -> None:
    expansion = kr.Manifold.build(rows_of(1, 200), kr.methods.AugmentedAQE(kdba=4))
    expansion.save(tmp_path / "m")
    expansion.add(rows_of(2, 1))
    expansion.save(tmp_path / "m")
    assert len(manifest_in(tmp_path / "m")["changes"]) == 1
    assert_same(expansion, kr.Manifold.load(tmp_path / "m"))


def test_many_changes_are_written_into_the_arrays(manifold: kr.Manifold, tmp_path: Path) -> None:
    folder = tmp_path / "m"
    counts = []
    for number in range(MAX_CHANGES + 2):
        manifold.add(rows_of(30 + number, 1), [f"x{number}"])
        manifold.save(folder)
        counts.append(len(manifest_in(folder)["changes"]))
    assert counts == [*range(1, MAX_CHANGES + 1), 0, 1]
    assert sorted(path.name.split("-")[0] for path in folder.iterdir()) == [LOCK_NAME, "change", "data", MANIFEST]
    assert_same(manifold, kr.Manifold.load(folder))


def test_large_changes_and_refreshed_galleries_are_written_whole(manifold: kr.Manifold, tmp_path: Path) -> None:
    folder = tmp_path / "m"
    manifold.add(rows_of(2, 1), ["one"])
    manifold.save(folder)
    manifold.refresh()
    manifold.save(folder)
    assert manifest_in(folder)["changes"] == []
    assert_same(manifold, kr.Manifold.load(folder))
    assert not is_worth_appending(1, 10**9, 2 * 10**9)
    assert is_worth_appending(1, 10**8, 10**9)
    assert not is_worth_appending(MAX_CHANGES + 1, 1, 10**9)


def test_changes_that_grow_too_large_are_not_kept_in_memory(
    manifold: kr.Manifold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deltas, "ALWAYS_ALLOWED_BYTES", 0)
    manifold.add(rows_of(2, 200), [f"many{number}" for number in range(200)])
    assert manifold.journal.pending is None
    manifold.save(tmp_path / "m")
    assert manifest_in(tmp_path / "m")["changes"] == []
    assert_same(manifold, kr.Manifold.load(tmp_path / "m"))


def test_saving_again_without_a_change_writes_everything(manifold: kr.Manifold, tmp_path: Path) -> None:
    """This repairs a damaged folder."""
    next((tmp_path / "m").glob("data-*/vectors.npy")).unlink()
    manifold.save(tmp_path / "m")
    assert_same(manifold, kr.Manifold.load(tmp_path / "m"))


def test_another_folder_gets_everything(manifold: kr.Manifold, tmp_path: Path) -> None:
    manifold.add(rows_of(2, 1), ["one"])
    manifold.save(tmp_path / "other")
    assert manifest_in(tmp_path / "other")["changes"] == []
    manifold.add(rows_of(3, 1), ["two"])
    manifold.save(tmp_path / "m")  # which lacks both
    for folder in ("other", "m"):
        loaded = kr.Manifold.load(tmp_path / folder)
        assert len(loaded) == {"other": 401, "m": 402}[folder]
    assert_same(manifold, loaded)


@pytest.fixture
def changed(manifold: kr.Manifold, tmp_path: Path) -> Path:
    """Return the folder with one change, and the path of its file."""
    manifold.add(rows_of(2, 1), ["new"])
    manifold.save(tmp_path / "m")
    return next((tmp_path / "m").glob("change-*"))


def test_truncated_altered_and_missing_changes_are_noticed(changed: Path) -> None:
    content = changed.read_bytes()
    for wrong in (content[:-1], content[:-1] + bytes([content[-1] ^ 1]), b""):
        changed.write_bytes(wrong)
        with pytest.raises(ValueError, match=r"change-.* is truncated or was altered"):
            kr.Manifold.load(changed.parent)
        assert list(verify(changed.parent).bad) == [changed.name]
    changed.unlink()
    with pytest.raises(ValueError, match=r"incomplete: .*change-.* is missing"):
        kr.Manifold.load(changed.parent)
    assert "is missing" in verify(changed.parent).bad[changed.name]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names here")
def test_a_pipe_in_the_place_of_a_change_is_not_waited_for(changed: Path) -> None:
    changed.unlink()
    os.mkfifo(changed)
    with pytest.raises(ValueError, match="truncated or was altered"):
        kr.Manifold.load(changed.parent)


def crafted(change: Path, content: bytes) -> None:
    """Replace the content, with valid checksums."""
    change.write_bytes(content)
    manifest = manifest_in(change.parent)
    manifest["changes"][0] |= {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    (change.parent / MANIFEST).write_text(json.dumps(seal_manifest(manifest)))


def test_crafted_changes_are_refused(changed: Path) -> None:
    (found,) = unpack_diffs(changed.read_bytes())
    large = found["nearest.values"].copy()
    large[0, 0] = 10**6
    wrong: list[dict[str, Any]] = [
        {"nearest.values": large},
        {"items": np.array([7, 1])},
        {"nearest.rows": found["nearest.rows"][:-1]},
        {"state.sizes": found["state.sizes"] + 1},
        {"vectors.whole": np.zeros((3, 6), np.float32)},
    ]
    for other in wrong:
        crafted(changed, pack_diffs([found | other]))
        with pytest.raises(ValueError, match="this version can use"):
            kr.Manifold.load(changed.parent)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]x",
        b"[[1]]\n",
        b'[[["a", "<f4", [3]]]]\n12',
        b'[[["a", "|O", [1]]]]\n12345678',
        b'[[["a", ", <i8", [1]]]]\n12345678',
        b'[[["a", "<U0", [1000000000000]]]]\n',
        b'[[["a", "<f4", [-1]]]]\n',
        b'[[["a", "<U0", [1000000000000000]]]]\n',
        b'[[["a", "<f4", [0]]]]\nmore',
        b'[[["a", "nonsense", [0]]]]\n',
        b'[[["a", "<f4", [1000000000000000]]]]\n1234',
    ],
)
def test_other_files_are_not_change_files(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"a change file"):
        unpack_diffs(content)
