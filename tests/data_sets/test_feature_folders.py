"""Folders of features: sets by the names of their files, and galleries with distractors."""

from __future__ import annotations

import os
import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import kinrank as kr
from kinrank.encoders.embeddings import names_path
from kinrank_bench.datasets import describe_missing, find_feature_sets
from kinrank_bench.datasets import distractors as module

GND = {
    "imlist": ["a", "b", "c"],
    "qimlist": ["q"],
    "gnd": [{"easy": [0], "hard": [1], "junk": []}],
}
pytestmark = pytest.mark.filterwarnings("ignore::kinrank.errors.BenchmarkMismatchWarning")


@pytest.fixture
def folder(tmp_path: Path, rng: np.random.Generator) -> Path:
    (tmp_path / "revisited").mkdir()
    for place, name in (("revisited/gnd_roxford5k.pkl", "r"), ("gnd_rparis6k.pkl", "p")):
        (tmp_path / place).write_bytes(pickle.dumps(GND | {"qimlist": [name]}))
    rows = rng.normal(size=(4, 6)).astype(np.float32)
    for name in ("rparis6k_rgem", "roxford5k_rgem", "roxford5k_dolg"):
        np.savez(tmp_path / f"{name}.npz", q=rows[:1], d=rows[1:])
    np.save(tmp_path / "distractors_rgem.npy", rng.normal(size=(50, 6)).astype(np.float32))
    np.savez(tmp_path / "cub200_rgem.npz", x=rows, label=[1, 1, 2, 2], is_query=[True, False, False, True])
    np.savez(tmp_path / "indoor_rgem.npz", x=rows)
    (tmp_path / "indoor_split.txt").write_text("I/bar/1 0\nI/bar/2 1\nI/attic/3 0\nI/attic/4 1\n")
    return tmp_path


def test_sets_are_listed_in_a_stable_order(folder: Path) -> None:
    (folder / "cub200.txt").write_text("not looked at: the file has its labels")
    entries = find_feature_sets(folder)
    assert [(entry.set, entry.features, entry.distractors) for entry in entries] == [
        ("roxford5k", "dolg", False),
        ("roxford5k", "rgem", False),
        ("roxford5k", "rgem", True),
        ("rparis6k", "rgem", False),
        ("rparis6k", "rgem", True),
        ("cub200", "rgem", False),
        ("indoor", "rgem", False),
    ]
    assert describe_missing(folder) == []
    for entry in entries:
        benchmark = entry.load()
        assert benchmark.name == entry.set
        ranking = kr.rerank(benchmark.queries, benchmark.gallery, "none")
        for truth in benchmark.truths.values():
            assert 0 <= kr.evaluate(ranking, truth)["mAP"].mean <= 1


def test_real_features(shared_dir: Path) -> None:
    """Check that these sets are found, whatever else is in the folder, and load without a warning."""
    entries = find_feature_sets(shared_dir / "data")
    names = {(entry.set, entry.features, entry.distractors) for entry in entries}
    assert {("roxford5k", "sscd", False), ("caltech101", "efflite2", False)} <= names
    assert {entry.features: entry.load().notes for entry in entries} == {entry.features: () for entry in entries}


def test_unusable_files_are_named_with_a_source_for_the_rest(folder: Path) -> None:
    (folder / "gnd_rparis6k.pkl").unlink()
    (folder / "indoor_split.txt").unlink()
    (folder / "caltech101_bad.npz").write_bytes(b"nothing")
    message = describe_missing(folder)
    assert "has no gnd_rparis6k.pkl next to it; gnd_rparis6k.pkl is published by the revisitop project" in message[0]
    assert "indoor_split.txt of the PyRetri project" in message[1]
    assert "caltech101_bad.npz is truncated, damaged or not an .npz file" in message[2]
    assert {entry.set for entry in find_feature_sets(folder)} == {"roxford5k", "cub200"}
    with pytest.raises(FileNotFoundError, match="is not a folder"):
        find_feature_sets(folder / "absent")


def save_embedded(path: Path, rows: np.ndarray, names: list[str]) -> None:
    """Write the files of `kinrank embed` that are read."""
    np.save(path, rows)
    names_path(path).write_text("".join(f"{name}\n" for name in names))


def test_files_of_embed_are_features(folder: Path) -> None:
    """In any order, with suffixes and folders, and with more images than the set has."""
    expected = {entry.name: entry.load() for entry in find_feature_sets(folder)}
    with np.load(folder / "roxford5k_rgem.npz") as arrays:
        queries, images = arrays["q"], arrays["d"]
    save_embedded(folder / "roxford5k_gem.q.npy", queries, ["r"])
    save_embedded(
        folder / "roxford5k_gem.d.npy", np.concatenate([images[::-1], queries]), ["c.jpg", "b.png", "x/a.jpg", "y"]
    )
    rows = np.load(folder / "indoor_rgem.npz")["x"]
    save_embedded(
        folder / "indoor_gem.npy", rows[[2, 0, 3, 1]], ["attic/3.jpg", "bar/1.jpg", "attic/4.jpg", "bar/2.jpg"]
    )
    (folder / "indoor_split.txt").write_text("I/bar/1.jpg 0\nI/bar/2.jpg 1\nI/attic/3.jpg 0\nI/attic/4.jpg 1\n")
    np.save(folder / "indoor_labels.npy", [1, 2])  # not written by embed
    found = {entry.name: entry for entry in find_feature_sets(folder)}
    assert [name for name in found if name not in expected] == ["roxford5k_gem", "indoor_gem"]
    assert describe_missing(folder) == []
    for mine, other in (("roxford5k_gem", "roxford5k_rgem"), ("indoor_gem", "indoor_rgem")):
        loaded = found[mine].load()
        np.testing.assert_array_equal(loaded.queries, expected[other].queries)
        np.testing.assert_array_equal(loaded.gallery, expected[other].gallery)
        for truth, known in zip(loaded.truths.values(), expected[other].truths.values(), strict=True):
            assert truth.positives[0].tolist() == known.positives[0].tolist()


def test_incomplete_files_of_embed_are_named(folder: Path) -> None:
    rows = np.ones((3, 6), np.float32)
    save_embedded(folder / "rparis6k_gem.d.npy", rows, ["a", "b", "c"])
    assert "has no rparis6k_gem.q.npy next to it; write it with: kinrank embed --boxes" in describe_missing(folder)[0]
    save_embedded(folder / "rparis6k_gem.q.npy", rows[:1], ["p"])
    save_embedded(folder / "rparis6k_rgem.d.npy", rows, ["a", "b", "c"])
    assert describe_missing(folder) == [
        f"{folder / 'rparis6k_rgem.d.npy'} is not used, because rparis6k_rgem.npz has features of this name"
    ]
    entry = next(entry for entry in find_feature_sets(folder) if entry.name == "rparis6k_gem")
    save_embedded(folder / "rparis6k_gem.d.npy", rows, ["a", "b", "x"])
    with pytest.raises(
        ValueError, match=r"gem.d.names.txt lacks images .* such as 'c'; .*gem.d.embed.json lists those"
    ):
        entry.load()
    save_embedded(folder / "rparis6k_gem.d.npy", rows, ["a", "b"])
    with pytest.raises(ValueError, match=r"gem.d.names.txt has 2 names for 3 rows; embed them again"):
        entry.load()
    (folder / "rparis6k_gem.d.npy").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"gem.d.npy is truncated, damaged or not an? .npy file"):
        entry.load()


def with_distractors(folder: Path):
    return next(entry for entry in find_feature_sets(folder) if entry.distractors)


def test_gallery_and_distractors_are_joined_in_one_file_that_is_reused(folder: Path) -> None:
    entry = with_distractors(folder)
    benchmark = entry.load()
    near, far = np.load(folder / "roxford5k_rgem.npz")["d"], np.load(folder / "distractors_rgem.npy")
    np.testing.assert_array_equal(benchmark.gallery, np.concatenate([near, far]))
    assert isinstance(benchmark.gallery, np.memmap)
    assert benchmark.truths["hard"].gallery_size == 53
    joined = folder / "roxford5k_rgem_joined.npy"
    before = joined.stat().st_ino
    entry.load()
    assert joined.stat().st_ino == before
    elsewhere = folder / "scratch"
    elsewhere.mkdir()
    entry.load(joined=elsewhere)
    assert (elsewhere / joined.name).is_file()
    with pytest.raises(FileNotFoundError, match="does not exist; create it, or choose another path"):
        entry.load(joined=folder / "absent")


@pytest.mark.parametrize("change", ["vectors", "distractors", "one row", "count", "type", "cut short", "about", "gone"])
def test_a_joined_file_of_other_rows_is_written_again(folder: Path, change: str) -> None:
    entry = with_distractors(folder)
    entry.load()
    joined, source = folder / "roxford5k_rgem_joined.npy", folder / "distractors_rgem.npy"
    far = np.load(source)
    if change == "vectors":
        np.savez(folder / "roxford5k_rgem.npz", q=np.ones((1, 6), np.float32), d=np.ones((3, 6), np.float32))
    elif change == "cut short":
        joined.write_bytes(joined.read_bytes()[:-8])
    elif change in ("about", "gone"):
        about = joined.with_suffix(".json")
        about.write_text("[") if change == "about" else about.unlink()
        joined.write_bytes(b"nothing")
    elif change == "one row":  # same size, older than the joined file, like a copy of another file
        far[-1] += 1
        np.save(source, far)
        os.utime(source, ns=(0, 0))
    else:
        changed = {"distractors": far[::-1], "count": far[:-1], "type": far.astype(np.float64)}[change]
        np.save(source, changed)
        os.utime(source, ns=(0, 0))  # the age alone is not enough
    gallery = entry.load().gallery
    near = np.load(folder / "roxford5k_rgem.npz")["d"]
    np.testing.assert_array_equal(gallery, np.concatenate([near, np.load(source)]))
    assert gallery.dtype == np.load(source).dtype


def test_distractors_of_another_model_are_refused(folder: Path) -> None:
    np.save(folder / "distractors_rgem.npy", np.ones((5, 7)))
    with pytest.raises(ValueError, match=r"distractors_rgem.npy has 7 dimensions, but the gallery has 6"):
        with_distractors(folder).load()


def test_joining_keeps_one_block_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "far.npy"
    np.save(source, np.zeros((40_000, 64), np.float32))  # 10 MB
    monkeypatch.setattr(module, "BLOCK_BYTES", 2**18)
    gallery, far = np.ones((10, 64), np.float32), np.load(source, mmap_mode="r")
    tracemalloc.start()
    joined = module.join_distractors(gallery, far, tmp_path / "joined.npy", source)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert joined.shape == (40_010, 64)
    assert peak < 2**21
    with pytest.raises(ValueError, match="is the file of the distractors"):
        module.join_distractors(gallery, far, source, source)
