"""Collection: cards, search and relevance, also after items are added or removed."""

from __future__ import annotations

import dataclasses
import io
import json
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinrank import Truth
from kinrank.web.collection import Collection
from kinrank.web.settings import Files

Image = pytest.importorskip("PIL.Image")
NAMES = np.array(["red house", "blue/house", "green tree", "a?b#c", ".."], object)


def pictures(path: Path, names: list[str]) -> str:
    with zipfile.ZipFile(path, "w") as archive:
        for place, name in enumerate(names):
            file = io.BytesIO()
            Image.new("RGB", (16, 16), (20 * place, 0, 0)).save(file, "PNG")
            archive.writestr(name, file.getvalue())
    return str(path)


def shade(found: tuple[bytes, str] | None) -> int:
    """Identify a picture by its colour."""
    assert found is not None
    return int(Image.open(io.BytesIO(found[0])).convert("RGB").getpixel((3, 3))[0]) // 20


@pytest.fixture
def files(tmp_path: Path) -> Files:
    entries = {"labels.txt": "house\nhouse\ntree\nsign\nsign\n", "texts.txt": "Brick\n\nA Tall One\nodd\nodd\n"}
    for name, content in entries.items():
        (tmp_path / name).write_text(content)
    images = pictures(tmp_path / "p.zip", ["red house.png", "blue/house.png", "a?b#c.png", "...png", "later.png"])
    return Files(images=images, labels=str(tmp_path / "labels.txt"), texts=str(tmp_path / "texts.txt"))


def test_cards_contain_all_known_fields(files: Files) -> None:
    collection = Collection.open(files, NAMES, None)
    assert collection.card("red house") == {
        "id": "red house",
        "name": "red house",
        "label": "house",
        "text": "Brick",
        "picture": "pictures/item/red%20house",
    }
    assert collection.card("blue/house")["picture"] == "pictures/item/blue%2Fhouse"
    assert collection.card("a?b#c")["picture"] == "pictures/item/a%3Fb%23c"
    assert collection.card("green tree")["picture"] is None
    assert collection.card("..")["picture"] is None, "no browser asks for it"
    assert collection.card("later") == {
        "id": "later",
        "name": "later",
        "label": None,
        "text": None,
        "picture": "pictures/item/later",
    }
    assert collection.has == {"pictures": True, "texts": True, "labels": True, "truth": True, "queries": False}
    assert collection.relevance.levels == ["class"]
    assert shade(collection.picture("blue/house", 96)) == 1
    assert collection.picture("green tree", 96) is None
    assert collection.picture("../p", 96) is None
    assert collection.query_picture(0, 96) is None
    assert collection.query_items("", 0, 10, None) == ([], 0)


def test_nothing_given_shows_ids(tmp_path: Path) -> None:
    collection = Collection.open(Files(), np.array([5, 7]), None)
    assert collection.card(7) == {"id": 7, "name": "7", "label": None, "text": None, "picture": None}
    assert collection.has == dict.fromkeys(("pictures", "texts", "labels", "truth", "queries"), False)
    assert collection.relevance.judge(("item", 5), None, [7]) is None
    assert collection.picture(5, 96) is None
    assert [card["id"] for card in collection.items(np.array([5, 7]), "7", 0, 5, None)[0]] == [7]
    empty = Collection.open(Files(), np.array([], np.int64), None)
    assert empty.items(np.array([], np.int64), "", 0, 5, 1) == ([], 0)


def test_the_grid_is_searched_in_names_labels_and_texts(files: Files) -> None:
    collection = Collection.open(files, NAMES, None)

    def found(words: str, *rest: Any) -> list[str]:
        cards, total = collection.items(NAMES, words, *(rest or (0, 10, None)))
        assert total >= len(cards)
        return [card["id"] for card in cards]

    assert found("HOUSE") == ["red house", "blue/house"]
    assert found("house brick") == ["red house"]
    assert found("tall") == ["green tree"]
    assert found("sign") == ["a?b#c", ".."]
    assert found("nowhere") == []
    assert found("", 1, 2, None) == ["blue/house", "green tree"]
    assert found("", 4, 10, None) == [".."]
    assert found("", 9, 10, None) == []
    mixed = found("", 0, 5, 3)
    assert sorted(mixed) == sorted(NAMES.tolist())
    assert found("", 0, 2, 3) + found("", 2, 3, 3) == mixed, "pages of one order"
    assert len({tuple(found("", 0, 5, seed)) for seed in range(8)}) > 3


def test_later_items_are_found_and_removed_ones_are_not(files: Files) -> None:
    collection = Collection.open(files, NAMES, None)
    assert collection.items(NAMES, "", 0, 10, None)[1] == 5
    now = np.array(["later", *NAMES[1:].tolist()], object)
    cards, total = collection.items(now, "", 0, 1, None)
    assert (total, cards[0]["id"], cards[0]["label"]) == (5, "later", None)
    assert collection.items(now, "LATER", 0, 10, None)[1] == 1
    assert collection.items(now, "red", 0, 10, None)[1] == 0
    assert collection.items(NAMES, "red", 0, 10, None)[1] == 1
    assert collection.relevance.judge(
        ("item", "red house"), None, ["later", "blue/house", "green tree", "red house"]
    ) == [
        None,
        True,
        False,
        None,
    ]
    assert collection.relevance.judge(("item", "later"), None, ["red house"]) is None
    assert collection.relevance.count_right(("item", "red house"), None) == 1
    assert collection.relevance.judge(("vector", np.zeros(3)), None, ["red house"]) is None


def test_labels_belong_to_the_ids_they_were_written_for(files: Files, tmp_path: Path) -> None:
    """A worker that starts later finds other items; the file of ids says to which items the labels belong."""
    (tmp_path / "ids.json").write_text(json.dumps(NAMES.tolist()))
    now = np.array(["new", "green tree"], object)
    collection = Collection.open(dataclasses.replace(files, ids=str(tmp_path / "ids.json")), now, None)
    assert collection.card("green tree")["label"] == "tree"
    assert collection.card("new")["label"] is None
    with pytest.raises(ValueError, match=r"texts\.txt has 5 texts, but there are 2 items"):
        Collection.open(files, now, None)


def test_numbered_items_and_as_many_pictures_belong_together_in_order(tmp_path: Path) -> None:
    names = ["b.png", "a.png", "sub/c.png"]
    ordered = Collection.open(Files(images=pictures(tmp_path / "p.zip", names)), np.arange(3), None)
    assert [ordered.card(number)["name"] for number in range(3)] == ["a.png", "b.png", "sub/c.png"]
    assert [shade(ordered.picture(number, 96)) for number in range(3)] == [1, 0, 2]
    assert ordered.card(3)["picture"] is None
    assert ordered.items(np.arange(3), "SUB", 0, 9, None)[1] == 1
    more = Collection.open(Files(images=str(tmp_path / "p.zip")), np.arange(4), None)
    assert [more.card(number)["picture"] for number in range(4)] == [None] * 4
    texts = Collection.open(Files(images=str(tmp_path / "p.zip")), np.array(["x", "y", "z"], object), None)
    assert texts.card("x")["picture"] is None
    numbers = [f"{number}.png" for number in (0, 1, 10, 2)]  # sorted as text, 10 comes before 2
    named = Collection.open(Files(images=pictures(tmp_path / "n.zip", numbers)), np.array([0, 1, 2, 10]), None)
    assert shade(named.picture(2, 96)) == 3
    assert shade(named.picture(10, 96)) == 2


@pytest.fixture
def query_files(tmp_path: Path) -> dict[str, str]:
    np.save(tmp_path / "q.npy", np.eye(3, 4))
    np.savez(tmp_path / "q.npz", q=np.eye(3, 4), label=np.array(["a", "b", "a"]))
    (tmp_path / "names.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / "labels.txt").write_text("a\nb\na\nc\n")
    return {"queries": f"{tmp_path}/q.npz:q", "query_names": f"{tmp_path}/names.txt"}


def test_queries_have_names_pictures_and_labels(query_files: dict[str, str], tmp_path: Path) -> None:
    images = pictures(tmp_path / "p.zip", ["zero.png", "two.png"])
    extra = {"labels": f"{tmp_path}/labels.txt", "query_labels": f"{tmp_path}/q.npz:label", "images": images}
    collection = Collection.open(Files(**query_files, **extra), np.arange(4), None)
    assert collection.queries is not None
    assert collection.queries.dtype == np.float32
    assert collection.queries.shape == (3, 4)
    assert collection.query_card(1) == {
        "number": 1,
        "name": "two",
        "label": "b",
        "text": None,
        "picture": "pictures/query/1",
    }
    assert shade(collection.query_picture(1, 96)) == 1
    assert collection.query_picture(0, 96) is None
    assert collection.query_picture(7, 96) is None
    assert [card["number"] for card in collection.query_items("T", 0, 9, None)[0]] == [1, 2]
    assert collection.relevance.judge(("query", 2), "class", [0, 1, 2, 3, 9]) == [True, False, True, False, None]
    assert collection.relevance.count_right(("query", 2), None) == 2
    assert collection.relevance.judge(("query", 9), None, [0]) is None
    with pytest.raises(ValueError, match="query 3 does not exist; there are 3"):
        collection.query_card(3)


def test_judgements_by_name_and_by_number(query_files: dict[str, str], tmp_path: Path) -> None:
    ids = np.array(["d1", "d2", "d3"], object)
    (tmp_path / "qrels.txt").write_text("one 0 d1 2\none 0 d2 0\nthree 0 d3 1\nthree 0 elsewhere 1\n")
    truth = {"truth": f"{tmp_path}/qrels.txt"}
    collection = Collection.open(Files(**query_files, **truth), ids, None)
    assert collection.relevance.levels == ["relevant"]
    assert collection.relevance.judge(("query", 0), None, ["d1", "d2", "new"]) == [True, False, None]
    assert collection.relevance.judge(("query", 1), "relevant", ["d1"]) == [False]
    assert collection.relevance.count_right(("query", 2), None) == 1, "of those that are in the gallery"
    (tmp_path / "qrels.txt").write_text("1 0 d1 1\n3 0 d3 1\n")
    with pytest.raises(ValueError, match=r"judges query '3', but the queries have no names.* give `query_names`"):
        Collection.open(Files(queries=query_files["queries"], **truth), ids, None)
    (tmp_path / "qrels.txt").write_text("0 0 d1 1\n2 0 d3 1\n")
    collection = Collection.open(Files(queries=query_files["queries"], **truth), ids, None)
    assert collection.relevance.judge(("query", 2), None, ["d1", "d3"]) == [False, True]


def test_truth_as_lists_has_items_that_are_neither(query_files: dict[str, str], tmp_path: Path) -> None:
    lists = {"person": {"right": [[1], [0], []], "junk": [[0], [], [3]]}}
    (tmp_path / "truth.json").write_text(json.dumps(lists))
    files = Files(**query_files, truth=f"{tmp_path}/truth.json", labels=f"{tmp_path}/labels.txt")
    collection = Collection.open(files, np.arange(4), None)
    assert collection.relevance.levels == ["person", "class"]
    assert collection.relevance.judge(("query", 0), None, [0, 1, 2, 8]) == [None, True, False, None]
    assert collection.relevance.judge(("query", 0), "class", [0]) is None, "queries have no labels"
    assert collection.relevance.judge(("item", 0), "person", [1, 2]) == [False, True]


WRONG = [
    ({"query_names": "names.txt"}, "names.txt has 3 names, but there are 0 queries"),
    ({"queries": "q.npz:q", "query_names": "labels.txt"}, "has 4 names, but there are 3 queries"),
    ({"queries": "q.npz:q", "query_labels": "labels.txt"}, "has 4 labels, but there are 3 queries"),
    ({"queries": "q.npz:x"}, "has no array 'x'"),
    ({"labels": "names.txt"}, "has 3 labels, but there are 4 items"),
    ({"texts": "names.txt"}, "has 3 texts, but there are 4 items"),
    ({"truth": "few.json"}, "there are none; give their vectors with `queries`"),
    ({"queries": "q.npz:q", "truth": "few.json"}, "judges 1 queries, but there are 3"),
    ({"queries": "q.npz:q", "truth": "names.json"}, "cannot be read as level"),
    ({"queries": "q.npz:q", "truth": "names.xyz"}, "unknown ending '.xyz'; ground truth is .pkl"),
    ({"truth": "q.npz", "labels": "labels.txt"}, "both contain labels of the items"),
    ({"images": "names.txt"}, "neither a folder nor a zip"),
    ({"images": "absent"}, "does not exist"),
]


@pytest.mark.parametrize(("given", "message"), WRONG)
def test_files_that_do_not_fit_have_an_error_message(
    given: dict[str, str], message: str, query_files: Any, tmp_path: Path
) -> None:
    (tmp_path / "few.json").write_text('{"x": {"right": [[1]], "junk": [[]]}}')
    (tmp_path / "names.json").write_text("[1, 2]")
    (tmp_path / "names.xyz").write_text("")
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        Collection.open(Files(**{name: f"{tmp_path}/{path}" for name, path in given.items()}), np.arange(4), None)


def test_labels_given_as_truth_are_labels(query_files: Any, tmp_path: Path) -> None:
    collection = Collection.open(Files(truth=f"{tmp_path}/q.npz:label"), np.arange(3), None)
    assert collection.relevance.judge(("item", 0), None, [1, 2]) == [False, True]


@pytest.mark.parametrize("named", [True, False])
def test_verdicts_of_roxford_are_those_of_its_ground_truth(named: bool, shared_dir: Path) -> None:
    data = shared_dir / "data"
    path = data / "revisited" / "gnd_roxford5k.pkl"
    truths = {level: Truth.revisited(path, level) for level in ("easy", "medium", "hard")}
    names = truths["easy"].item_ids
    ids = names if named else np.arange(len(names))
    files = Files(images=f"{data}/roxford5k_thumbnails.zip", truth=str(path), queries=f"{data}/roxford5k_sscd.npz:q")
    collection = Collection.open(files, ids, None)
    assert collection.relevance.levels == ["easy", "medium", "hard"]
    everybody = ids.tolist()
    for level, truth in truths.items():
        for query in range(0, 70, 7):
            found = np.array(collection.relevance.judge(("query", query), level, everybody), object)
            assert np.flatnonzero(found == True).tolist() == truth.positives[query].tolist()  # noqa: E712
            assert np.flatnonzero(found == None).tolist() == truth.junk[query].tolist()  # noqa: E711
            assert collection.relevance.count_right(("query", query), level) == len(truth.positives[query])
    assert collection.relevance.judge(("query", 3), None, everybody) == collection.relevance.judge(
        ("query", 3), "medium", everybody
    )
    assert collection.card(everybody[5])["name"] == names[5]
    assert collection.card(everybody[5])["picture"] is not None
    assert collection.query_card(0)["name"] == "all_souls_000013"
    assert collection.query_card(0)["picture"] == "pictures/query/0"
    assert len(collection.query_picture(0, 96)[0]) > 1000
    with pytest.raises(ValueError, match=r"judges 4993 items, but there are 4000"):
        Collection.open(files, np.arange(4000), None)


def test_two_hundred_thousand_items_are_searched_at_once(tmp_path: Path) -> None:
    """The index is reused if nothing changed, and words are found in less than a tenth of a second."""
    ids = np.array([f"Beach photo {number:07d}" for number in range(200_000)], object)
    collection = Collection.open(Files(), ids, None)
    collection.items(ids, "", 0, 60, None)

    def seconds(*question: Any) -> float:
        """Return the best time of a few searches that are not cached."""
        spent = []
        for turn in range(5):
            asked = [f"{word}{turn}" if word == "photo 007" else word for word in question]
            started = time.process_time()
            collection.items(np.array(ids), *asked)  # a copy, like `manifold.ids`
            spent.append(time.process_time() - started)
        return min(spent)

    assert seconds("", 1000, 60, None) < 0.02
    assert seconds("photo 007", 0, 60, None) < 0.1
    assert seconds("", 60, 60, 5) < 0.02
