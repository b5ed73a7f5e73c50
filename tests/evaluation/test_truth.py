"""Truth from lists, cameras and ground truth files, and the message for each unreadable file."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

import kinrank as kr
from kinrank.files.split_lists import is_split, read_split

LIST = "Images/bar/1.jpg 0\nImages/bar/2.jpg 1\n\nImages/attic/my picture.jpg 1\nImages/attic/4.jpg 0\n"


def ground_truth(**changed) -> dict:
    entry = {"bbx": [0.0] * 4, "easy": [0, 1], "hard": [2], "junk": [3]}
    return {"imlist": list("abcde"), "qimlist": ["q"], "gnd": [entry | changed]}


def saved(folder: Path, content: object) -> Path:
    path = folder / "gnd_toy.pkl"
    path.write_bytes(pickle.dumps(content))
    return path


def test_a_split_list_says_who_asks_and_who_is_right(tmp_path: Path) -> None:
    path = tmp_path / "toy.txt"
    path.write_text(LIST)
    split = read_split(path)
    assert split.classes.tolist() == ["bar", "bar", "attic", "attic"]
    assert split.is_query.tolist() == [True, False, False, True]
    truth = kr.Truth.from_split(path)
    assert truth.query_ids.tolist() == ["Images/bar/1.jpg", "Images/attic/4.jpg"]
    assert truth.item_ids.tolist() == ["Images/bar/2.jpg", "Images/attic/my picture.jpg"]
    assert [truth.positives[query].tolist() for query in range(2)] == [[0], [1]]
    assert kr.evaluate([[1, 0], [1, 0]], truth)["mAP"].mean == 0.75


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a/b.jpg 0\na/c.jpg 2\n", r"toy.txt line 2 is 'a/c.jpg 2'; write lines `folder/class/picture.jpg 0`"),
        ("a/b.jpg\n", "toy.txt line 1 is 'a/b.jpg'"),
        ("b.jpg 0\n", "line 1 is 'b.jpg 0'"),
        ("a/ 1\n", "line 1 is"),
        ("a/b.jpg 0\na/c.jpg 1\na/b.jpg 1\n", r"line 3 lists 'a/b.jpg' again, after line 1"),
        ("\n\n", "lists no image"),
    ],
)
def test_a_malformed_split_line_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "toy.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_split(path)


def test_a_split_list_is_told_from_judgements(tmp_path: Path) -> None:
    path = tmp_path / "toy.txt"
    for text, expected in ((f"\n{LIST}", True), ("1 0 d1 1\n", False), ("a b\n", False), ("", False), ("\xff", False)):
        path.write_text(text, encoding="latin-1")
        assert is_split(path) is expected


def test_the_own_camera_is_ignored() -> None:
    truth = kr.Truth.across_cameras([7, 7, 8], [7, 7, 9, 8], query_cameras=[1, 2, 1], gallery_cameras=[1, 2, 1, 1])
    assert [truth.positives[query].tolist() for query in range(3)] == [[1], [0], []]
    assert [truth.junk[query].tolist() for query in range(3)] == [[0], [1], [3]]
    with pytest.raises(ValueError, match="gallery_cameras has 1 entries but `gallery_labels` has 2; give one each"):
        kr.Truth.across_cameras([7], [7, 8], query_cameras=[1], gallery_cameras=[1])


def test_distractors_follow_the_images_of_a_ground_truth() -> None:
    plain = kr.Truth.revisited(ground_truth(), "medium")
    more = kr.Truth.revisited(ground_truth(), "medium", distractors=3)
    assert (plain.gallery_size, more.gallery_size) == (5, 8)
    assert more.item_ids is None
    row = [[7, 0, 3, 6, 2, 1, 5, 4]]
    assert kr.evaluate(row, more, ["P@3"])["P@3"].mean == pytest.approx(1 / 3)
    with pytest.raises(ValueError, match="lists item 7 at rank 1"):
        kr.evaluate(row, plain)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (ground_truth(hard=[5]), r"gnd_toy.pkl: query 0 lists image 5 as hard, but imlist has 5 images"),
        (ground_truth(junk=[-1]), "query 0 lists image -1 as junk"),
        (ground_truth(easy=["a"]), "query 0 lists image 'a' as easy"),
        (ground_truth(easy=[True]), "query 0 lists image True as easy"),
        (ground_truth(junk=[0]), r"gnd_toy.pkl: query 0: item 0 is both positive and junk"),
        (ground_truth() | {"qimlist": ["q", "r"]}, "has 2 queries in qimlist but 1 entries in gnd"),
        ({"imlist": []}, "gnd_toy.pkl is not a revisited ground truth"),
        ([1, 2], "gnd_toy.pkl is not a revisited ground truth"),
    ],
)
def test_a_ground_truth_that_contradicts_itself_is_named(tmp_path: Path, content: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kr.Truth.revisited(saved(tmp_path, content), "medium")


def test_a_ground_truth_of_another_gallery_is_refused(tmp_path: Path) -> None:
    truth = kr.Truth.revisited(saved(tmp_path, ground_truth()), "easy")
    with pytest.raises(ValueError, match="ranking has 2 queries but the truth has 1"):
        kr.evaluate(np.array([[0, 1], [1, 0]]), truth)
    with pytest.raises(ValueError, match="lists item 5 at rank 2"):
        kr.evaluate([[0, 5]], truth)


def test_queries_without_a_right_item_are_left_out_and_counted(tmp_path: Path) -> None:
    truth = kr.Truth.revisited(saved(tmp_path, ground_truth(easy=[])), "easy")
    scores = kr.evaluate([[0, 1]], truth, ["mAP", "CMC@1", "mINP"])
    assert (scores.queries, scores.left_out) == (1, 1)
    assert np.isnan(scores["mINP"].mean)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("q Q0 a 1", "line 2 is 'q Q0 a 1' and not 'query Q0 item rank score tag'"),
        ("q Q0 a x 1 t", "line 2 is 'q Q0 a x 1 t'"),
        ("q Q0 b 2 nan t", "line 2: the distance or score is not a number"),
        ("q Q0 d 2 1 t", "line 2: query q lists item d twice"),
    ],
)
def test_a_malformed_run_line_is_named(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "run.trec"
    path.write_text(f"q Q0 d 1 2 t\n{line}\n")
    with pytest.raises(ValueError, match=r"run\.trec .*" + message):
        kr.Ranking.load(path)


def test_the_command_line_takes_a_split_list(tmp_path: Path) -> None:
    from reference.commands import bad, good

    (tmp_path / "toy.txt").write_text(LIST)
    kr.Ranking([[0, 1], [0, 1]], [[0.0, 1.0], [0.0, 1.0]]).save(tmp_path / "r.npz")
    output = good(tmp_path, "evaluate", "@r.npz", "--truth", "@toy.txt", "--measures", "mAP,CMC@1,mINP")
    assert [line.split()[1] for line in output.splitlines()[1:4]] == ["75.00", "50.00", "75.00"]
    (tmp_path / "names.txt").write_text("a\nb\n")
    message = bad(tmp_path, "evaluate", "@r.npz", "--truth", "@toy.txt", "--item-ids", "@names.txt")
    assert "has the ids of its queries and items" in message
    (tmp_path / "toy.txt").write_text(f"{LIST}Images/bar/5.jpg\n")
    assert "line 6 is 'Images/bar/5.jpg'" in bad(tmp_path, "evaluate", "@r.npz", "--truth", "@toy.txt")
