"""`kinrank search` and `kinrank rerank` with filters, marked items and groups."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import kinrank as kr
from reference.commands import bad, good

pytestmark = pytest.mark.slow

NAMES = [f"b{number}" for number in range(60)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("wanted")
    rows = np.random.default_rng(0).standard_normal((64, 6)).astype(np.float32)
    np.save(made / "g.npy", rows[:60])
    np.save(made / "q.npy", rows[60:])
    np.save(made / "one.npy", rows[60:61])
    for name, lines in {
        "names.txt": NAMES, "some.txt": NAMES[10:20], "numbers.txt": range(10, 20), "marks.txt": ["b3", "b4"],
        "groups.txt": ["x", "y", "x", "y"], "short.txt": ["x"], "wrong.txt": ["b1", "zz"], "empty.txt": [],
        "four.txt": "abcd", "some.csv": NAMES[10:20], "mask.txt": [1, 0] * 30, "first.txt": NAMES[:2],
    }.items():  # fmt: skip
        (made / name).write_text("".join(f"{line}\n" for line in lines))
    good(made, "build", "--gallery", "@g.npy", "--ids", "@names.txt", "-o", "@m")
    good(made, "build", "--gallery", "@g.npy", "-m", "aqe", "-o", "@aqe")
    return made


def found(folder: Path, *words: str) -> list[list[str]]:
    shown = json.loads(good(folder, "search", *words, "--json"))
    return [[item["item"] for item in row["items"]] for row in shown["results"]]


def test_search_where(folder: Path) -> None:
    manifold, queries = kr.Manifold.load(folder / "m"), np.load(folder / "q.npy")
    items = found(folder, "@m", "--queries", "@q.npy", "--where", "@some.txt", "-k", "4")
    assert items == manifold.search(queries, k=4, where=NAMES[10:20]).ids.tolist()
    numbers = found(folder, "@aqe", "--queries", "@q.npy", "--where", "@numbers.txt", "-k", "20")
    assert [sorted(row) for row in numbers] == [list(range(10, 20))] * 4


def test_search_marked(folder: Path) -> None:
    manifold, query = kr.Manifold.load(folder / "m"), np.load(folder / "one.npy")
    marks = {"positives": ["b3", "b4"], "negatives": ["b9"]}
    expected = manifold.search(query, k=5, **marks).ids.tolist()
    words = ("@m", "--queries", "@one.npy", "-k", "5", "--negatives", "b9")
    assert found(folder, *words, "--positives", "b3, b4") == expected
    assert found(folder, *words, "--positives", "@marks.txt") == expected
    several = found(folder, "@m", "--queries", "@q.npy", "-k", "5", "--negatives", "b9", "--positives", "b3,b4")
    assert several[0] == expected[0]


def test_search_groups(folder: Path) -> None:
    manifold, queries = kr.Manifold.load(folder / "m"), np.load(folder / "q.npy")
    shown = json.loads(good(folder, "search", "@m", "--queries", "@q.npy", "--groups", "@groups.txt", "--json"))
    assert [row["query"] for row in shown["results"]] == ["x", "y"]
    expected = manifold.search(queries, groups=["x", "y", "x", "y"]).ids.tolist()
    assert [[item["item"] for item in row["items"]] for row in shown["results"]] == expected


def test_rerank_where(folder: Path) -> None:
    words = ("rerank", "--queries", "@q.npy", "--gallery", "@g.npy", "-o", "@r.npz")
    for more in (("--where", "@numbers.txt"), ("--where", "@some.txt", "--item-ids", "@names.txt")):
        for mode in ((), ("--candidates", "8")):
            good(folder, *words, *more, *mode)
            ranking = kr.Ranking.load(folder / "r.npz")
            assert ranking.depth == (8 if mode else 10)
            assert ((ranking.indices >= 10) & (ranking.indices < 20)).all()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("search @m --queries @q.npy --where @wrong.txt", "where contains 'zz', which is not in this manifold"),
        ("search @m --queries @q.npy --where @empty.txt", "where leaves no item; allow at least one"),
        ("search @m --queries @q.npy --positives b1,zz", "positives contains 'zz', which is not in this manifold"),
        (f"search @m --queries @q.npy --positives {'b1,' * 2000}zz", "positives contains 'zz', which is not in this"),
        ("search @m --queries @q.npy --positives b1 --negatives b1,b2", "both name 'b1' for query 0"),
        ("search @aqe --queries @q.npy --positives 1", "AQE cannot use --positives and --negatives, which need chains"),
        ("search @m --queries @q.npy --groups @short.txt", "groups has 1 labels but there are 4 queries"),
        ("search @m --queries @q.npy --groups @empty.txt", "groups has 0 labels but there are 4 queries"),
        ("search @m --queries @q.npy --groups @four.txt --query-ids @four.txt", "leave out --query-ids"),
        (
            "search @m --queries @q.npy --groups @groups.txt --positives b1",
            "--groups cannot be combined with --positives",
        ),
        ("search @m --queries @q.npy --query-ids @short.txt", "--query-ids has 1 ids but there are 4 queries"),
        (
            "rerank --queries @q.npy --gallery @g.npy -o @x.npz --where @wrong.txt",
            "where contains 'b1', which is not an item",
        ),
        (
            "rerank --queries @q.npy --gallery @g.npy -o @x.npz --where @wrong.txt --item-ids @names.txt",
            "--where names 'zz', which is not the id of an item",
        ),
        ("rerank --queries @q.npy --gallery @g.npy -o @x.npz --where @empty.txt", "where leaves no item"),
        ("rerank --queries @q.npy --gallery @g.npy -o @x.npz --where @gone.txt", "gone.txt"),
        ("search @m --queries @q.npy --where @some.csv -o @some.csv", "some.csv"),
    ],
)
def test_mistakes(words: str, message: str, folder: Path) -> None:
    assert message in bad(folder, *words.split())


def test_marks_without_items_and_words_in_flags(folder: Path) -> None:
    search = ("search", "@m", "--queries", "@one.npy")
    assert "--positives has no id" in bad(folder, *search, "--positives", "")
    assert "--negatives has no id" in bad(folder, *search, "--negatives", "@empty.txt")
    assert "--where contains 'zz'" in bad(folder, *search, "--where", "@wrong.txt")
    assert "--positives contains 'zz'" in bad(folder, *search, "--positives", "zz")
    assert "--positives and --negatives both name 'b1'" in bad(
        folder, *search, "--positives", "b1", "--negatives", "b1"
    )


def test_an_id_is_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b3").write_text("b9\n")
    words = ("@m", "--queries", "@one.npy", "-k", "60", "--positives", "b3")
    assert "b3" not in found(folder, *words)[0]
    assert "b9" in found(folder, *words)[0]


def test_search_says_how_many_are_remembered(folder: Path, tmp_path: Path) -> None:
    target = str(tmp_path / "m")
    good(folder, "build", "--gallery", "@g.npy", "-o", target)
    message = json.loads(good(folder, "search", target, "--queries", "@q.npy", "--observe", "--json"))
    assert message["observed"] == kr.Manifold.load(target).n_observed > 0
    assert "queries are remembered" in good(folder, "search", target, "--queries", "@q.npy", "--observe")


@pytest.mark.parametrize(
    "words",
    [
        "search @aqe --queries @q.npy --where @mask.txt",
        "search @m --queries @q.npy --where @mask.txt",
        "rerank --queries @q.npy --gallery @g.npy -o @x.npz --where @mask.txt",
    ],
)
def test_a_file_that_is_a_mask_of_0_and_1_is_refused(folder: Path, words: str) -> None:
    refused = bad(folder, *words.split())
    assert "--where looks like a mask of 0 and 1, with one entry for each of the 60 items" in refused
    assert "--where looks like a mask of 0 and 1" in refused


def test_names_of_all_items_are_no_mask(folder: Path) -> None:
    """The places of two items are 0 and 1, which must not be mistaken for a mask."""
    np.save(folder / "two.npy", np.load(folder / "g.npy")[:2])
    words = ("--gallery", "@two.npy", "--item-ids", "@first.txt", "--where", "@first.txt", "-o", "@two.csv")
    good(folder, "rerank", "--queries", "@q.npy", *words)
    assert {line.split(",")[2] for line in (folder / "two.csv").read_text().splitlines()[1:]} == {"b0", "b1"}
