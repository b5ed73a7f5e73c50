"""`kinrank report`: what it is given reaches the page, and what does not fit is refused in a sentence."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest

from kinrank.report.html import encode_png
from reference.commands import bad, good

pytestmark = pytest.mark.slow

EVERYONE = ("report", "--gallery", "@all.npy", "--labels", "@labels.csv", "--methods", "none,lpmt,aqe", "-q")
APART = ("report", "--gallery", "@all.npy", "--queries", "@q.npy", "--methods", "lpmt", "-q")
PAIR = ("--query-labels", "@ql.npy", "--gallery-labels", "@gl.npy")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place, random = tmp_path_factory.mktemp("report"), np.random.default_rng(2)
    labels = np.repeat(np.arange(4), 10)
    rows = (np.eye(4)[labels] + 0.4 * random.standard_normal((40, 4))).astype(np.float32)
    np.save(place / "all.npy", rows)
    np.save(place / "q.npy", rows[::5] + 0.01)
    np.save(place / "gl.npy", labels)
    np.save(place / "ql.npy", labels[::5])
    (place / "labels.csv").write_text("".join(f"class {label}\n" for label in labels))
    (place / "names.txt").write_text("".join(f"item<{number}>\n" for number in range(40)))
    (place / "texts.txt").write_text("".join(f"words of {number} & more\n" for number in range(40)))
    (place / "qrels.txt").write_text("".join(f"{q} 0 {5 * q} 1\n{q} 0 {5 * q + 1} 1\n" for q in range(8)))
    for name, count in (("photos", 40), ("few", 3), ("asking", 8)):
        with zipfile.ZipFile(place / f"{name}.zip", "w") as archive:
            for number in range(count):
                archive.writestr(f"{number:03}.png", encode_png(np.full((5, 5), number, np.uint8)))
    (place / "broken").mkdir()
    for number in range(40):
        (place / "broken" / f"{number:03}.jpg").write_bytes(b"no picture")
    return place


def test_a_page_of_items_with_pictures(folder: Path) -> None:
    assert good(folder, *EVERYONE, "--images", "@photos.zip", "-o", "@page.html") == ""
    text = (folder / "page.html").read_text()
    assert text.count("data:image/") > 50
    assert "class 3" in text
    assert "Images of items were matched by their order, not by name: 000.png is item 0." in text
    assert re.search("moves (\\d+%)”: \\1 of the neighbourhood is exchanged in this step", text)
    assert '<details class="entropy"><summary>' in text
    for heading in ("Methods", "Accuracy against time", "Every query", "Before and after", "Maps", "Why: the chains"):
        assert f"<h2>{heading}</h2>" in text
    assert not re.search(r"https?://|url\(|<link", text)


def test_json_has_the_numbers_of_compare(folder: Path) -> None:
    message = json.loads(good(folder, *EVERYONE, "--json", "-o", "@numbers.html"))
    compared = json.loads(
        good(folder, "compare", "--gallery", "@all.npy", "--labels", "@labels.csv", "--methods", "lpmt,aqe", "--json")
    )
    assert Path(message.pop("page")).name == "numbers.html"
    for facts in (message, compared):
        for method in facts["methods"]:
            del method["seconds_per_query"]
    assert message == compared


def test_names_and_texts_are_shown(folder: Path) -> None:
    more = ("--item-ids", "@names.txt", "--texts", "@texts.txt", "--online", "-o", "@texts.html")
    good(folder, *APART, *PAIR, *more)
    text = (folder / "texts.html").read_text()
    assert "item&lt;" in text
    assert "item<" not in text
    assert "words of" in text
    assert "&amp; more" in text
    assert "<em>online</em>" in text


def test_qrels_over_candidates_with_pictures_of_queries(folder: Path) -> None:
    more = ("--truth", "@qrels.txt", "--candidates", "12", "--query-images", "@asking.zip", "-o", "@qrels.html")
    good(folder, *APART, *more)
    text = (folder / "qrels.html").read_text()
    assert "<em>candidates 12</em>" in text
    assert "nDCG@10" in text
    assert 'alt="query: query' in text


def test_unreadable_pictures_are_noted(folder: Path) -> None:
    good(folder, *EVERYONE, "--images", "@broken", "-o", "@broken.html")
    text = (folder / "broken.html").read_text()
    assert "pictures could not be read, such as that of item" in text
    assert 'class="words short right"' in text


def test_a_published_set(shared_dir: Path, tmp_path: Path) -> None:
    data = str(shared_dir / "data")
    good(tmp_path, "report", "--data", data, "--set", "orl", "--methods", "aqe", "-q", "-o", "@orl.html")
    text = (tmp_path / "orl.html").read_text()
    assert "ORL: what re-ranking does" in text
    assert "68.4&thinsp;%" in text  # what the folder's own list says of no re-ranking
    assert len(text) < 8 * 2**20


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give --gallery, or a published set with --data"),
        (["--gallery", "@all.npy"], "give the relevant items, once"),
        (
            ["--gallery", "@all.npy", "--labels", "@labels.csv", "--images", "@few.zip"],
            "3 images but there are 40 items",
        ),
        (["--gallery", "@all.npy", "--labels", "@labels.csv", "--images", "@all.npy"], "neither a folder nor a zip"),
        (
            ["--gallery", "@all.npy", "--labels", "@labels.csv", "--images", "@photos.zip", "--item-ids", "@names.txt"],
            "such as 000.png, and none has a name of --item-ids, such as item<0>",
        ),
        (
            ["--gallery", "@all.npy", "--labels", "@labels.csv", "--texts", "@qrels.txt"],
            "16 texts but there are 40 items",
        ),
        (["--gallery", "@all.npy", "--labels", "@labels.csv", "--query-images", "@few.zip"], "need --queries"),
        (["--gallery", "@all.npy", "--labels", "@ql.npy"], "40 queries but the truth has 8"),
        (["--gallery", "@all.npy", "--labels", "@labels.csv", "--methods", "lmpt"], "did you mean lpmt"),
        (["--gallery", "@all.npy", "--labels", "@labels.csv", "--methods", "none"], "at least one that re-ranks"),
        (["--gallery", "@all.npy", "--labels", "@labels.csv", "--online"], "--online is for queries outside"),
        (["--gallery", "@all.npy", "--labels", "@labels.csv", "-o", "@page.pdf"], "give .html | .htm"),
        (["--set", "orl"], "give --data"),
        (["--data", "@broken"], "has no published set"),
        (["--data", "@broken", "--set", "orl"], "orl"),
        (["--data", "@broken", "--gallery", "@all.npy"], "leave out other files, such as"),
    ],
)
def test_mistakes(folder: Path, words: list[str], message: str) -> None:
    before = sorted(folder.iterdir())
    sentence = bad(folder, "report", "-o", "@new.html", *words, "-q")
    assert message in sentence
    assert "Path(" not in sentence
    assert sorted(folder.iterdir()) == before
