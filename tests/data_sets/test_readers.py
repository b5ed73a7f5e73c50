"""Readers of published sets, on small files and on files that do not fit."""

from __future__ import annotations

import pickle
import warnings
from pathlib import Path

import numpy as np
import pytest

import kinrank as kr
from kinrank.errors import BenchmarkMismatchWarning
from kinrank.files.checksummed_npz import file_checksum
from kinrank_bench.datasets import (
    PUBLISHED,
    load_class_split,
    load_leave_one_out,
    load_pairs,
    load_persons,
    load_revisited,
    load_texts,
)
from kinrank_bench.datasets.benchmark import BENCHMARKS
from kinrank_bench.datasets.readers import parse_picture_names
from kinrank_bench.datasets.set_facts import describe_differences

GND = {
    "imlist": ["a", "b", "c", "d"],
    "qimlist": ["q", "r"],
    "gnd": [{"easy": [0], "hard": [1], "junk": [2]}, {"easy": [3], "hard": [], "junk": []}],
}
pytestmark = pytest.mark.filterwarnings("ignore::kinrank.errors.BenchmarkMismatchWarning")
LIST = "I/bar/1.jpg 0\nI/bar/2.jpg 1\nI/attic/3.jpg 1\nI/attic/4.jpg 0\n"


@pytest.fixture
def rows(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(6, 5)).astype(np.float32)


def saved(path: Path, **arrays) -> Path:
    np.savez(path, **arrays)
    return path


@pytest.fixture
def landmarks(tmp_path: Path, rows: np.ndarray) -> tuple[Path, Path]:
    truth = tmp_path / "gnd_toy.pkl"
    truth.write_bytes(pickle.dumps(GND))
    return saved(tmp_path / "toy_random.npz", q=rows[:2], d=rows[2:]), truth


def test_landmarks(landmarks: tuple[Path, Path], rows: np.ndarray) -> None:
    benchmark = load_revisited(*landmarks)
    assert (benchmark.name, list(benchmark.truths), benchmark.notes) == ("toy", ["easy", "medium", "hard"], ())
    np.testing.assert_array_equal(benchmark.gallery, rows[2:])
    truth = benchmark.truths["medium"]
    assert truth.positives[0].tolist() == [0, 1]
    assert truth.item_ids.tolist() == GND["imlist"]
    assert kr.evaluate(kr.rerank(benchmark.queries, benchmark.gallery, "none"), truth).left_out == 0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"q": (3, 5)}, r"toy_random.npz: q has 3 rows, but .*gnd_toy.pkl has 2 queries"),
        ({"d": (5, 5)}, r"d has 5 rows, but .*gnd_toy.pkl has 4 images"),
        ({"d": (4, 6)}, "q has 5 dimensions, but d has 6; give vectors of the same model"),
        ({"d": (4,)}, "d has float64 of shape"),
        ({"d": None}, r"has no array 'd', only q; a revisited set has q"),
    ],
)
def test_landmarks_that_do_not_fit(landmarks: tuple[Path, Path], changed: dict, message: str) -> None:
    shapes = {"q": (2, 5), "d": (4, 5)} | changed
    saved(landmarks[0], **{key: np.ones(shape) for key, shape in shapes.items() if shape is not None})
    with pytest.raises(ValueError, match=message):
        load_revisited(*landmarks)


def test_missing_and_damaged_files(landmarks: tuple[Path, Path], tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"absent.npz does not exist"):
        load_revisited(tmp_path / "absent.npz", landmarks[1])
    landmarks[0].write_bytes(landmarks[0].read_bytes()[:100])
    with pytest.raises(ValueError, match=r"toy_random.npz is truncated, damaged or not an .npz file"):
        load_revisited(*landmarks)


def test_a_set_without_relevant_items_is_refused(landmarks: tuple[Path, Path]) -> None:
    empty = {"easy": [], "hard": [], "junk": [1]}
    landmarks[1].write_bytes(pickle.dumps(GND | {"gnd": [empty, empty]}))
    with pytest.raises(ValueError, match=r"gnd_toy.pkl: no query has a right item in the gallery"):
        load_revisited(*landmarks)


def test_differences_from_the_published_set_are_noted(landmarks: tuple[Path, Path]) -> None:
    with pytest.warns(BenchmarkMismatchWarning, match=r"has 2 queries, but ROxford5k as published has 70"):
        benchmark = load_revisited(*landmarks, name="roxford5k")
    assert len(benchmark.notes) == 2
    assert "has 4 images, but ROxford5k as published has 4993" in benchmark.notes[1]


@pytest.mark.parametrize("name", ["roxford5k", "rparis6k"])
def test_published_ground_truth_has_its_checksum_and_counts(name: str, shared_dir: Path, tmp_path: Path) -> None:
    published = shared_dir / "data" / "revisited" / f"gnd_{name}.pkl"
    known = PUBLISHED[name]
    assert file_checksum(published) == known.sha256
    truth = kr.Truth.revisited(published)
    assert ((len(truth),), (truth.gallery_size,)) == (known.counts["queries"], known.counts["images"])
    vectors = saved(tmp_path / f"{name}_ones.npz", q=np.ones((70, 2)), d=np.ones((truth.gallery_size, 2)))
    with warnings.catch_warnings():
        warnings.simplefilter("error", BenchmarkMismatchWarning)
        assert load_revisited(vectors, published).notes == ()
    other = tmp_path / f"gnd_{name}.pkl"
    with published.open("rb") as file:
        other.write_bytes(pickle.dumps(pickle.load(file)))
    with pytest.warns(BenchmarkMismatchWarning, match="differs from the published file"):
        load_revisited(vectors, other)


def test_class_split_with_labels_equals_that_with_a_list(tmp_path: Path, rows: np.ndarray) -> None:
    rows = rows[:4]
    with_labels = saved(tmp_path / "toy_a.npz", x=rows, label=[5, 5, 6, 6], is_query=np.array([1, 0, 0, 1]))
    alone = saved(tmp_path / "toy_b.npz", x=rows)
    (tmp_path / "toy.txt").write_text(LIST)
    first, second = load_class_split(with_labels), load_class_split(alone, tmp_path / "toy.txt")
    for benchmark in (first, second):
        np.testing.assert_array_equal(benchmark.queries, rows[[0, 3]])
        np.testing.assert_array_equal(benchmark.gallery, rows[[1, 2]])
        assert [benchmark.truths["class"].positives[query].tolist() for query in range(2)] == [[0], [1]]
    assert second.truths["class"].item_ids.tolist() == ["I/bar/2.jpg", "I/attic/3.jpg"]
    ranking = kr.rerank(second.queries, second.gallery, "none")
    scores = [kr.evaluate(ranking, benchmark.truths["class"]) for benchmark in (first, second)]
    assert scores[0]["mAP"].mean == scores[1]["mAP"].mean
    with pytest.warns(BenchmarkMismatchWarning, match=r"has 4 pictures, but CUB-200-2011 as published has 11788"):
        assert len(load_class_split(with_labels, name="cub200").notes) == 2


@pytest.mark.parametrize(
    ("arrays", "listed", "message"),
    [
        ({}, None, r"has no array 'label', only x; a class split has x, label and is_query"),
        ({"label": [1, 2]}, None, r"label has shape \(2,\), but there are 6 vectors; give one entry per vector"),
        ({"label": [1] * 6, "is_query": [2] * 6}, None, "is_query has int64 values that are not flags"),
        ({"label": [1] * 6, "is_query": [1] * 6}, None, "has no items of the gallery; give both"),
        ({"label": range(6), "is_query": [1, 0, 0, 0, 0, 0]}, None, "no query has a right item"),
        ({}, LIST, r"x has 6 rows, but .*toy.txt lists 4 pictures; give one row per line"),
        ({}, "a/b 0\nc\n", "toy.txt line 2 is 'c'"),
    ],
)
def test_class_splits_that_do_not_fit(
    tmp_path: Path, rows: np.ndarray, arrays: dict, listed: str | None, message: str
) -> None:
    path = saved(tmp_path / "toy_a.npz", x=rows, **{key: np.array(value) for key, value in arrays.items()})
    if listed is not None:
        (tmp_path / "toy.txt").write_text(listed)
    with pytest.raises(ValueError, match=message):
        load_class_split(path, None if listed is None else tmp_path / "toy.txt")


def test_leave_one_out(tmp_path: Path, rows: np.ndarray) -> None:
    benchmark = load_leave_one_out(saved(tmp_path / "toy_a.npz", x=rows, label=np.array(list("aabbbc"))))
    assert (benchmark.name, benchmark.queries, len(benchmark.gallery)) == ("toy", None, 6)
    assert benchmark.truths["class"].positives[2].tolist() == [3, 4]
    with pytest.raises(ValueError, match="no query has a right item"):
        load_leave_one_out(saved(tmp_path / "toy_b.npz", x=rows, label=np.arange(6)))


def test_persons_by_label_equal_those_by_name(tmp_path: Path, rows: np.ndarray) -> None:
    names = ["0002_c1s1_000451_03.jpg", "0002_c1s1_1.jpg", "x/0002_c3s1_1.jpg", "0000_c2s1_1.jpg", "-1_c2s1_1.jpg"]
    asked = np.array([True, False, False, False, False])
    people, cameras = parse_picture_names(names)
    assert (people.tolist(), cameras.tolist()) == ([2, 2, 2, 0, -1], [1, 1, 3, 2, 2])
    first = load_persons(saved(tmp_path / "a.npz", x=rows[:5], label=people, cam=cameras, is_query=asked))
    second = load_persons(saved(tmp_path / "b.npz", x=rows[:5], name=np.array(names), is_query=asked))
    for benchmark in (first, second):
        np.testing.assert_array_equal(benchmark.gallery, rows[1:4])  # without junk
        truth = benchmark.truths["person"]
        assert (truth.positives[0].tolist(), truth.junk[0].tolist()) == ([1], [0])
        scores = kr.evaluate([[0, 2, 1]], truth, benchmark.measures)
        assert [scores[name].mean for name in ("CMC@1", "CMC@5", "mAP", "mINP")] == [0.0, 1.0, 0.5, 0.5]
    words = load_persons(saved(tmp_path / "d.npz", x=rows[:5], label=people.astype(str), cam=cameras, is_query=asked))
    np.testing.assert_array_equal(words.gallery, rows[1:4])
    with pytest.raises(ValueError, match=r"name 1 is 'me.jpg'; start names with the numbers of person and camera"):
        parse_picture_names(["0002_c1.jpg", "me.jpg"])
    with pytest.raises(ValueError, match="has no array 'label', only x, is_query; persons across cameras are"):
        load_persons(saved(tmp_path / "c.npz", x=rows[:5], is_query=asked))
    with pytest.warns(BenchmarkMismatchWarning, match="has 1 queries, but Market-1501 as published has 3368"):
        load_persons(tmp_path / "a.npz", name="market1501")


def test_counts_of_every_published_set_are_compared(tmp_path: Path, rows: np.ndarray) -> None:
    labels = np.array(list("aabbbc"))
    with pytest.warns(BenchmarkMismatchWarning, match=r"coil20_a\.npz has 6 items, but COIL-20 as published has 1440"):
        benchmark = load_leave_one_out(saved(tmp_path / "coil20_a.npz", x=rows, label=labels))
    assert len(benchmark.notes) == 2  # items and classes
    qrels = tmp_path / "qrels.txt"
    qrels.write_text("1 0 x 1\n")
    path = saved(tmp_path / "cranfield_a.npz", q=rows[:2], d=rows[2:5], docno=np.array(["x", "y", "z"]))
    with pytest.warns(BenchmarkMismatchWarning, match="has 3 documents, but Cranfield as published has 1400"):
        assert len(load_texts(path, qrels).notes) == 2


def test_a_part_of_a_set_is_noted_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert describe_differences("market1501", "m.npz", {"queries": 682, "images": 5493}) == (
            "m.npz is a part of Market-1501, 682 queries and 5493 images: "
            "its numbers cannot be compared with published ones",
        )
        assert describe_differences("market1501", "m.npz", {"queries": 3368, "images": 15913}) == ()
    with pytest.warns(BenchmarkMismatchWarning, match="has 681 queries, but Market-1501 as published has 3368"):
        describe_differences("market1501", "m.npz", {"queries": 681, "images": 5493})
    assert {name.partition("_")[0] for name in BENCHMARKS} <= set(PUBLISHED)


def test_texts_with_judgements(tmp_path: Path, rows: np.ndarray) -> None:
    qrels = tmp_path / "qrels.txt"
    qrels.write_text("1 0 x 2\n2 0 z 1\n")
    arrays = {"q": rows[:2], "d": rows[2:5], "docno": np.array(["x", "y", "z"])}
    benchmark = load_texts(saved(tmp_path / "toy_a.npz", **arrays), qrels)
    assert [benchmark.truths["relevant"].positives[query].tolist() for query in range(2)] == [[0], [2]]
    assert benchmark.truths["relevant"].grades.tolist() == [2.0, 1.0]
    named = load_texts(saved(tmp_path / "toy_b.npz", **arrays, qno=np.array([2, 1])), qrels, graded=False)
    assert named.truths["relevant"].positives[0].tolist() == [2]
    qrels.write_text("1 0 x 2\n2 0 z\n")
    with pytest.raises(ValueError, match=r"qrels.txt: line 2 is '2 0 z'; write a judgement as"):
        load_texts(tmp_path / "toy_a.npz", qrels)
    qrels.write_text("1 0 x 0\n")
    with pytest.raises(ValueError, match=r"qrels.txt: no query has a right item"):
        load_texts(tmp_path / "toy_a.npz", qrels)


def test_right_pairs(tmp_path: Path, rows: np.ndarray) -> None:
    is_query = np.array([False, True, False, True, False, True])
    arrays = {"x": rows, "is_query": is_query, "rel_query": np.array([2, 0, 2]), "rel_item": np.array([1, 0, 2])}
    benchmark = load_pairs(saved(tmp_path / "toy_a.npz", **arrays))
    assert (benchmark.name, list(benchmark.truths), len(benchmark.queries)) == ("toy", ["relevant"], 3)
    assert [benchmark.truths["relevant"].positives[query].tolist() for query in range(3)] == [[0], [], [1, 2]]
    np.testing.assert_array_equal(benchmark.gallery, rows[~is_query])
    for changed, message in (
        ({"rel_item": np.array([1, 0, 3])}, "rel_item has int64 values that are not positions from 0 to 2"),
        ({"rel_query": np.array([2, -1, 2])}, "rel_query has int64 values that are not positions from 0 to 2"),
        ({"rel_item": np.array([1])}, r"rel_item has shape \(1,\), but there are 3 vectors"),
        ({"is_query": ~is_query & False}, "has no queries"),
    ):
        with pytest.raises(ValueError, match=message):
            load_pairs(saved(tmp_path / "toy_b.npz", **{**arrays, **changed}))
