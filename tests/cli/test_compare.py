"""`kinrank compare`: what the library finds, as text, JSON, tables, a page and a figure."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest

import kinrank
from reference.browser import seen_in
from reference.commands import bad, good, run

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path, rng: np.random.Generator) -> Path:
    labels = np.arange(48) % 4
    rows = rng.standard_normal((4, 8))[labels] + rng.standard_normal((48, 8))
    np.save(tmp_path / "all.npy", rows)
    np.save(tmp_path / "q.npy", rows[:8])
    np.save(tmp_path / "g.npy", rows[8:])
    np.save(tmp_path / "ql.npy", labels[:8])
    np.save(tmp_path / "gl.npy", labels[8:])
    (tmp_path / "labels.csv").write_text("label\n" + "\n".join(f"class {label}" for label in labels))
    lines = [f"{q} 0 {d} 1" for q in range(8) for d in range(40) if labels[q] == labels[8 + d]]
    (tmp_path / "qrels.txt").write_text("\n".join(lines))
    return tmp_path


EVERYONE = ("compare", "--gallery", "@all.npy", "--labels", "@labels.csv", "-q")
ASKED = ("compare", "--gallery", "@g.npy", "--queries", "@q.npy", "-q")


def test_compare_says_what_the_library_finds(folder: Path) -> None:
    found = json.loads(good(folder, *EVERYONE, "--methods", "aqe, dfs", "--measures", "mAP@5,R@1", "--json"))
    truth = kinrank.Truth.from_labels(np.arange(48) % 4)
    trials = kinrank.compare(
        None, np.load(folder / "all.npy"), truth, methods=["aqe", "dfs"], measures=["mAP@5", "R@1"]
    )
    expected = trials.to_dict()
    for one, other in zip(found["methods"], expected["methods"], strict=True):
        assert one.pop("seconds_per_query") > 0
        other.pop("seconds_per_query")
    assert found == expected


@pytest.mark.parametrize(
    ("words", "measures"),
    [
        (["--query-labels", "@ql.npy", "--gallery-labels", "@gl.npy"], ["mAP", "R@1"]),
        (["--truth", "@qrels.txt"], ["mAP", "nDCG@10"]),
        (["--truth", "@qrels.txt", "--candidates", "20", "--measures", "MRR"], ["MRR"]),
    ],
)
def test_every_kind_of_truth(folder: Path, words: list[str], measures: list[str]) -> None:
    found = json.loads(good(folder, *ASKED, *words, "--methods", "aqe", "--json"))
    assert list(found["methods"][0]["measures"]) == measures
    assert found["queries"] == 8


def test_persons_across_cameras(folder: Path) -> None:
    rng = np.random.default_rng(4)
    people, cameras = rng.integers(-1, 4, 40), rng.integers(0, 3, 40)
    np.save(folder / "people.npy", people)
    np.savez(folder / "gallery.npz", label=np.zeros(40), cam=cameras)
    (folder / "asked.csv").write_text("label\n" + "\n".join(map(str, np.arange(8) % 4)))
    (folder / "people.csv").write_text("label\n" + "\n".join(map(str, people)))
    np.save(folder / "cams.npy", np.arange(8) % 3)
    good(folder, "rerank", "--queries", "@q.npy", "--gallery", "@g.npy", "-m", "none", "-o", "@ranking.npz", "-q")
    words = ("--query-labels", "@asked.csv", "--gallery-labels", "@people.csv")
    took = ("--query-cameras", "@cams.npy", "--gallery-cameras", "@gallery.npz")
    truth = kinrank.Truth.across_cameras(
        (np.arange(8) % 4).astype(str), people.astype(str), query_cameras=np.arange(8) % 3, gallery_cameras=cameras
    )
    scores = kinrank.evaluate(kinrank.Ranking.load(folder / "ranking.npz"), truth, ["mAP", "CMC@1", "mINP"])
    expected = scores.to_dict()["measures"]
    assert json.loads(good(folder, "evaluate", "@ranking.npz", *words, *took, "--json"))["measures"] == expected
    found = json.loads(good(folder, *ASKED, *words, *took, "--methods", "aqe", "--json"))
    (plain,) = (method for method in found["methods"] if method["method"] == "none")
    assert plain["measures"] == expected
    page = ("report", "--gallery", "@g.npy", "--queries", "@q.npy", "-q", "--methods", "aqe", "-o", "@page.html")
    good(folder, *page, *words, *took)
    assert "mINP" in (folder / "page.html").read_text()
    for wrong in (("--query-cameras", "@cams.npy"), ("--gallery-cameras", "@gallery.npz")):
        assert "need each other" in bad(folder, "evaluate", "@ranking.npz", *words, *wrong)
    assert "and --query-labels" in bad(folder, "evaluate", "@ranking.npz", "--truth", "@qrels.txt", *took)
    np.savez(folder / "gallery.npz", label=np.zeros(40))
    assert "it contains label; choose one with FILE:KEY" in bad(folder, "evaluate", "@ranking.npz", *words, *took)
    (folder / "cams.txt").write_text("\n".join(map(str, cameras)))
    mixed = ("--query-cameras", "@cams.npy", "--gallery-cameras", "@cams.txt")
    assert "give both as text or both as numbers" in bad(folder, "evaluate", "@ranking.npz", *words, *mixed)


def test_the_table_is_sorted_and_says_how_long_it_took(folder: Path) -> None:
    message = good(folder, *EVERYONE, "--methods", "aqe,dfs").splitlines()
    assert message[0].split()[:2] == ["method", "mAP"]
    assert "ms/query" in message[0]
    values = [float(line.split()[1]) for line in message[1:4]]
    assert values == sorted(values, reverse=True)
    assert {line.split()[0] for line in message[1:4]} == {"none", "aqe", "dfs"}
    assert "48 queries, 48 items, joint; best mAP first" in message[4]
    assert any("no re-ranking in mAP" in line for line in message[5:])


def test_tables_as_files(folder: Path) -> None:
    words = (*EVERYONE, "--methods", "aqe,lpmt", "--max-memory", "1MB")
    for ending in ("csv", "md", "json"):
        assert good(folder, *words, "-o", f"@table.{ending}") == ""  # quiet, and the table is in the file
    with open(folder / "table.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert {line["method"] for line in lines} == {"none", "aqe", "lpmt"}
    refused = next(line for line in lines if line["method"] == "lpmt")
    assert "--max-memory allows 1 MB" in refused["refused"]
    assert refused["mean"] == ""
    facts = json.loads((folder / "table.json").read_text())
    first = facts["methods"][0]
    assert float(lines[0]["mean"]) == pytest.approx(first["measures"]["mAP"]["mean"], rel=1e-5)
    markdown = (folder / "table.md").read_text().splitlines()
    assert markdown[1].startswith("| --- | ---: |")
    assert len({line.count("|") for line in markdown[:4]}) == 1
    assert any("lpmt refused: " in line for line in markdown)


def test_a_table_for_latex(folder: Path) -> None:
    good(folder, *EVERYONE, "--methods", "aqe,dfs", "--measures", "mAP,R@1", "-o", "@table.tex")
    text = (folder / "table.tex").read_text()
    assert text.startswith("\\begin{table}\n\\caption{Percent, 48 queries, 48 items, joint; best mAP first.")
    assert r"& method & mAP & R@1 & ms/query \\" in text
    assert re.search(r"^a & \w+ & \\textbf\{\d+\.\d\d\}", text, re.MULTILINE)


def test_parameters_are_tuned_and_tests_are_corrected(folder: Path) -> None:
    words = (*EVERYONE, "--methods", "aqe,dfs")
    found = json.loads(good(folder, *words, "--tune", "--json"))
    assert found["correction"] == "holm"
    assert {method["method"]: len(method["tuned"]) for method in found["methods"]} == {"none": 0, "aqe": 5, "dfs": 5}
    plain = json.loads(good(folder, *words, "--json"))
    raw = json.loads(good(folder, *words, "--correction", "none", "--json"))
    for corrected, single in zip(plain["methods"], raw["methods"], strict=True):
        assert corrected["gains"]["mAP"]["p"] >= single["gains"]["mAP"]["p"]
    assert "Every p is that of a single comparison" in raw["notes"][0]
    told = run(folder, *(word for word in words if word != "-q"), "--tune")
    assert "kinrank: 1 of 3 methods" in told.stderr
    assert "Parameters of each method were chosen by 5-fold cross-validation" in told.stdout
    assert "--correction 'all' is not allowed; give holm | none" in bad(folder, *words, "--correction", "all")


def test_short_rankings_are_noted(folder: Path) -> None:
    message = good(folder, *EVERYONE, "--methods", "aqe", "-k", "5", "--measures", "mAP,R@1")
    assert "mAP is incomplete and may be too low: the ranking lists 5 items per query, but it needs 47" in message
    good(folder, "rerank", "--gallery", "@all.npy", "-m", "none", "-k", "5", "-o", "@short.npz", "-q")
    done = run(folder, "evaluate", "@short.npz", "--labels", "@labels.csv")
    assert "mAP is incomplete" in done.stdout
    assert done.stderr == ""
    done = run(folder, "evaluate", "@short.npz", "--labels", "@labels.csv", "--json")
    assert json.loads(done.stdout)["truncated"]["measures"] == ["mAP"]
    assert done.stderr.startswith("kinrank: mAP is incomplete")
    assert "incomplete" not in good(folder, "evaluate", "@short.npz", "--labels", "@labels.csv", "--measures", "R@1")


LOOK = """
const box = document.querySelector(".scroll");
return {rows: [...document.querySelectorAll("tbody tr")].map(row => row.cells[0].textContent),
  page: document.documentElement.scrollWidth, window: window.innerWidth, drawn: document.querySelectorAll("svg").length,
  ground: getComputedStyle(document.body).backgroundColor};
"""


@pytest.fixture
def page(folder: Path) -> str:
    good(folder, *EVERYONE, "--methods", "aqe,dqe,lpmt", "--max-memory", "1MB", "-o", "@table.html")
    return (folder / "table.html").read_text()


def test_the_page_stands_alone_and_says_who_refused(page: str) -> None:
    assert not re.search(r"https?://|url\(|@import|<script|<link|href=", page)
    assert page.index("kinrank") < page.index("<table>")
    assert "re-ranks the results of a vector search" in page
    assert "<b>lpmt</b>: lpmt on 48 items needs about" in page
    assert "No method is clearly better" in page or "Re-ranking helps here" in page


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_the_page_in_a_browser(page: str, tmp_path: Path, width: int, dark: bool) -> None:
    found = seen_in(page, LOOK, tmp_path, width, dark)
    assert sorted(found["rows"]) == ["aqe", "dqe", "none"]
    assert found["page"] <= found["window"] == width
    assert found["drawn"] == 3
    assert (found["ground"] == "rgb(15, 20, 26)") == dark


@pytest.mark.parametrize("ending", ["png", "svg"])
def test_a_figure(folder: Path, ending: str) -> None:
    pytest.importorskip("matplotlib")
    good(folder, *EVERYONE, "--methods", "aqe", "--plot", f"@figure.{ending}")
    content = (folder / f"figure.{ending}").read_bytes()
    assert content.startswith(b"\x89PNG" if ending == "png" else b"<?xml")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--gallery", "@all.npy"], "give the relevant items, once"),
        (["--gallery", "@all.npy", "--labels", "@labels.csv", "--methods", "aqe,lmpt"], "did you mean lpmt"),
        (["--gallery", "@all.npy", "--labels", "@labels.csv", "--measures", "mAPP"], "measure 'mAPP' is unknown"),
        (["--gallery", "@all.npy", "--labels", "@gl.npy"], "48 queries but the truth has 40"),
        (["--gallery", "@absent.npy", "--labels", "@gl.npy"], "does not exist"),
        (["--gallery", "@absent.npy", "-o", "@table.xlsx"], "give .csv | .html | .md | .tex | .json"),
        (["--gallery", "@absent.npy", "--plot", "@figure.gif"], "give .png | .svg | .pdf"),
    ],
)
def test_mistakes(folder: Path, words: list[str], message: str) -> None:
    before = sorted(folder.iterdir())
    assert message in bad(folder, "compare", *words, "-q")
    assert sorted(folder.iterdir()) == before
