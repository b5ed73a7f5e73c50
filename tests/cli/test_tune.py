"""`kinrank tune`: what the library says, in flags; with and without labels; mistakes in one line."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import numpy as np
import pytest

import kinrank as kr
from kinrank.cli.methods import format_flags, parse_method
from kinrank.diagnosis.neighborhood_facts import Facts
from kinrank.errors import MemoryLimitError
from kinrank.evaluation.trials import list_untrained_methods
from kinrank.methods import METHODS
from kinrank_bench.synthetic import curves
from reference.commands import bad, good, run

pytestmark = pytest.mark.slow

FEW_KIN = Facts(500, 64, 500, 0.5, 10.0, 1.0, 0.7, 0.4, 0.8, 5.0, 2)


@pytest.fixture
def folder(tmp_path: Path, rng: np.random.Generator) -> Path:
    labels = np.arange(64) % 8
    rows = (rng.standard_normal((8, 10))[labels] + rng.standard_normal((64, 10)) + 1.5).astype(np.float32)
    np.save(tmp_path / "all.npy", rows)
    np.save(tmp_path / "q.npy", rows[:16])
    np.save(tmp_path / "g.npy", rows[16:])
    np.save(tmp_path / "ql.npy", labels[:16])
    np.save(tmp_path / "gl.npy", labels[16:])
    np.save(tmp_path / "curves.npy", curves(200, 16))
    np.save(tmp_path / "few.npy", rows[:9])
    np.save(tmp_path / "wide.npy", np.concatenate([rows, rows], axis=1))
    (tmp_path / "labels.csv").write_text("label\n" + "\n".join(f"class {label}" for label in labels))
    (tmp_path / "short.csv").write_text("label\n" + "\n".join(f"class {label}" for label in labels[:50]))
    lines = [f"{q} 0 {d} 1" for q in range(16) for d in range(48) if labels[q] == labels[16 + d]]
    (tmp_path / "qrels.txt").write_text("\n".join(lines))
    (tmp_path / "few.txt").write_text("\n".join(line for line in lines if int(line.split()[0]) < 5))
    return tmp_path


def commands_in(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("kinrank rerank ")]


def parsed(line: str) -> kr.Method:
    """The method that a printed line names."""
    words = shlex.split(line)
    assert words[:3] == ["kinrank", "rerank", "--method"]
    return parse_method(words[3], words[4:])


def test_without_labels(folder: Path) -> None:
    message = good(folder, "diagnose", "--gallery", "@curves.npy", "--methods", "lpmt, aqe")
    found = kr.diagnose(np.load(folder / "curves.npy"))
    assert message.splitlines()[0] == found.sentences[0]
    assert "Give --right, the number of relevant items per query, if you know it." in message
    assert "Keep the search as it is" not in message
    assert "right=" not in message
    assert [parsed(line) for line in commands_in(message)] == [found.parameters("lpmt"), found.parameters("aqe")]


def test_right_answers_that_are_known(folder: Path) -> None:
    message = good(folder, "diagnose", "--gallery", "@curves.npy", "--right", "1")
    assert message.startswith("Re-ranking with LPMT is more likely to hurt than to help: -4 points")
    assert [parsed(line) for line in commands_in(message)] == [kr.LPMT(answers="one")]


def test_the_output_does_not_contradict_itself(folder: Path) -> None:
    two = good(folder, "diagnose", "--gallery", "@curves.npy", "--relevant", "2")
    assert two.startswith("Re-ranking with LPMT is expected to change little: +0 points")
    assert "Little will change. If you re-rank, this loses least" in two
    assert "Keep the search as it is" in good(folder, "diagnose", "--gallery", "@curves.npy", "--right", "1")
    many = good(folder, "diagnose", "--gallery", "@curves.npy", "--relevant", "50")
    assert many.startswith("Re-ranking with LPMT is expected to help: +")
    assert "Keep the search as it is" not in many


def test_queries_that_lie_apart(folder: Path) -> None:
    rng = np.random.default_rng(0)
    np.save(folder / "apart.npy", rng.standard_normal((9, 16)))
    message = good(folder, "diagnose", "--gallery", "@curves.npy", "--queries", "@apart.npy")
    assert "Queries are farther from the items" in message
    assert "right=" not in message


def test_json_without_labels(folder: Path) -> None:
    document = json.loads(good(folder, "diagnose", "--gallery", "@curves.npy", "--methods", "lpmt,aqe", "--json"))
    expected = kr.diagnose(np.load(folder / "curves.npy")).to_dict()
    assert document.pop("parameters").keys() == {"lpmt", "aqe"}
    assert not any("right=" in sentence for sentence in document.pop("sentences"))
    expected.pop("sentences")
    assert document == json.loads(json.dumps(expected))


def test_all_methods(folder: Path) -> None:
    message = good(folder, "diagnose", "--gallery", "@all.npy", "--methods", "all")
    names = {parsed(line).name for line in commands_in(message)}
    assert names == set(list_untrained_methods()) - {"none"}
    assert "csa" not in names


def test_lengths_that_matter(folder: Path) -> None:
    message = good(folder, "diagnose", "--gallery", "@all.npy", "--metric", "euclidean")
    assert "If they were" not in message
    assert commands_in(message)[0].endswith(" --metric euclidean")
    message = good(folder, "tune", "--gallery", "@all.npy", "--labels", "@labels.csv", "--methods", "aqe", "--metric", "euclidean")  # fmt: skip  # noqa: E501
    assert "centred" not in message
    assert commands_in(message)[0].endswith(" --metric euclidean")


@pytest.mark.parametrize(
    "words",
    [
        ["--gallery", "@all.npy", "--labels", "@labels.csv"],
        ["--gallery", "@g.npy", "--queries", "@q.npy", "--truth", "@qrels.txt"],
        ["--gallery", "@g.npy", "--queries", "@q.npy", "--query-labels", "@ql.npy", "--gallery-labels", "@gl.npy"],
    ],
)
def test_with_labels(folder: Path, words: list[str]) -> None:
    message = good(folder, "tune", *words, "--methods", "aqe,dfs", "--folds", "3", "--seed", "2")
    document = json.loads(good(folder, "tune", *words, "--methods", "aqe,dfs", "--folds", "3", "--seed", "2", "--json"))
    labels = np.arange(64) % 8
    rows = np.load(folder / "all.npy")
    everyone = "@all.npy" in words
    truth = kr.Truth.from_labels(labels) if everyone else kr.Truth.from_labels(labels[:16], labels[16:])
    pair = (None, rows) if everyone else (rows[:16], rows[16:])
    found = kr.tune(*pair, truth, methods=["aqe", "dfs"], folds=3, seed=2)
    assert document == json.loads(json.dumps(found.to_dict()))
    assert message.startswith(str(found))
    assert parsed(commands_in(message)[-1]) == found.method
    assert ("--vectors-to writes them to a folder" in message) == (found.preparation is not None)


def test_vectors_as_chosen(folder: Path) -> None:
    asked = ("tune", "--gallery", "@g.npy", "--queries", "@q.npy", "--truth", "@qrels.txt", "--methods", "aqe")
    message = good(folder, *asked, "--vectors-to", "@made")
    rows, labels = np.load(folder / "all.npy"), np.arange(64) % 8
    truth = kr.Truth.from_labels(labels[:16], labels[16:])
    found = kr.tune(rows[:16], rows[16:], truth, methods=["aqe"])
    assert found.preparation is not None
    np.testing.assert_array_equal(np.load(folder / "made" / "gallery.npy"), found.prepared(rows[16:]))
    np.testing.assert_array_equal(np.load(folder / "made" / "queries.npy"), found.prepared(rows[:16]))
    assert "--vectors-to writes" not in message
    line = shlex.split(commands_in(message)[0])[1:]
    good(folder, *line, "--gallery", "@made/gallery.npy", "--queries", "@made/queries.npy", "-o", "@r.npz")
    score = kr.evaluate(kr.Ranking.load(folder / "r.npz"), truth, resamples=0)["mAP"]
    assert score.mean == pytest.approx(found.on_all.mean_b)
    again = json.loads(good(folder, *asked, "--vectors-to", "@made", "--json"))  # existing files are replaced
    assert again["vectors"] == found.way


def test_every_item_asks_and_no_queries_are_written(folder: Path) -> None:
    good(
        folder, "tune", "--gallery", "@all.npy", "--labels", "@labels.csv", "--methods", "aqe", "--vectors-to", "@made"
    )
    assert os.listdir(folder / "made") == ["gallery.npy"]


def test_several_features(folder: Path) -> None:
    words = ["--gallery", "@g.npy", "--gallery", "@g.npy", "--queries", "@q.npy", "--queries", "@q.npy"]
    good(folder, "diagnose", *words)
    message = good(folder, "tune", *words, "--truth", "@qrels.txt", "--methods", "aqe", "--vectors-to", "@made")
    assert commands_in(message)
    assert len(np.load(folder / "made" / "queries.npy")) == 16


LABELLED = ["--gallery", "@all.npy", "--labels", "@labels.csv", "--methods", "aqe"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--gallery", "@all.npy"], "there are no labels; give --truth, --labels or others, or use `kinrank diagnose`"),
        (["--gallery", "@none.npy", "--labels", "@labels.csv"], "none.npy"),
        ([*LABELLED, "--metric", "manhattan"], "--metric 'manhattan' is not allowed"),
        ([*LABELLED, "--methods", "magic"], "'magic' is not known"),
        ([*LABELLED, "--folds", "1"], "--folds"),
        ([*LABELLED, "--folds", "40"], "40 folds need at least 80"),
        ([*LABELLED, "--measure", "quality"], "quality"),
        ([*LABELLED, "--vectors-to", "@labels.csv"], "labels.csv is not a folder; give the path of one"),
        ([*LABELLED, "--vectors-to", "@no/such"], "does not exist"),
        ([*LABELLED, "--truth", "@qrels.txt"], "give the relevant items, once"),
        (["--gallery", "@all.npy", "--labels", "@short.csv"], "50"),
        (
            ["--gallery", "@g.npy", "--queries", "@q.npy", "--truth", "@few.txt", "--methods", "aqe"],
            "the truth has relevant items for 5 queries, but 5 folds need at least 10",
        ),
        (["--gallery", "@g.npy", "--queries", "@q.npy", "--query-labels", "@ql.npy"], "need each other; give both"),
    ],
)
def test_mistakes_end_in_one_line(folder: Path, words: list[str], message: str) -> None:
    line = bad(folder, "tune", *words)
    assert message in line
    assert "kinrank.diagnose" not in line
    assert not (folder / "made").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--gallery", "@none.npy"], "none.npy"),
        (["--gallery", "@few.npy"], "--gallery has 9 rows, but a diagnosis needs at least 20"),
        (["--gallery", "@all.npy", "--queries", "@wide.npy"], "but 10 dimensions are needed"),
        (["--gallery", "@all.npy", "--right", "0"], "--right"),
        (["--gallery", "@all.npy", "--right", "nan"], "Invalid value for '--right'"),
        (["--gallery", "@all.npy", "--right", "inf"], "--right inf is not allowed; give the number of right answers"),
        (["--gallery", "@all.npy", "--metric", "manhattan"], "--metric 'manhattan' is not allowed"),
        (["--gallery", "@all.npy", "--methods", "magic"], "'magic' is not known"),
        (["--gallery", "@all.npy", "--methods", " , "], "--methods is empty; give at least one, such as lpmt"),
        ([*LABELLED], "No such option: --labels"),
    ],
)
def test_mistakes_of_a_diagnosis(folder: Path, words: list[str], message: str) -> None:
    line = bad(folder, "diagnose", *words)
    assert message in line
    assert "kinrank.diagnose" not in line


def test_what_is_read_is_not_overwritten(folder: Path) -> None:
    (folder / "mine").mkdir()
    (folder / "g.npy").rename(folder / "mine" / "gallery.npy")
    before = (folder / "mine" / "gallery.npy").read_bytes()
    words = ["--queries", "@q.npy", "--truth", "@qrels.txt", "--methods", "aqe", "--vectors-to", "@mine"]
    assert "would overwrite" in bad(folder, "tune", "--gallery", "@mine/gallery.npy", *words)
    assert (folder / "mine" / "gallery.npy").read_bytes() == before


def test_refusals_are_told_in_flags(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kinrank.diagnosis import cross_validation

    real = cross_validation.rerank

    def refusing(queries: object, gallery: object, method: kr.Method, **more: object) -> kr.Ranking:
        if method.name == "dfs":
            raise MemoryLimitError("DFS needs 9 GB; give a larger `max_memory`")
        return real(queries, gallery, method, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(cross_validation, "rerank", refusing)
    message = good(folder, "tune", "--gallery", "@all.npy", "--labels", "@labels.csv", "--methods", "aqe,dfs")
    assert "DFS() refused: DFS needs 9 GB; give a larger max_memory" in message


@pytest.mark.parametrize("name", METHODS)
def test_flags_of_a_method_are_read_back(name: str) -> None:
    from kinrank.diagnosis.parameter_choice import choose_parameters
    from kinrank.evaluation.fold_choice import list_variants

    usual = METHODS[name]()
    assert format_flags(usual) == f"--method {name}"
    switched = [
        type(usual)(**{entry.name: not getattr(usual, entry.name)})
        for entry in usual.parameters()
        if entry.kind is bool
    ]
    named = [type(usual)(**{entry.name: choice}) for entry in usual.parameters() for choice in (entry.choices or ())]
    for method in (choose_parameters(usual, FEW_KIN), *list_variants(usual), *switched, *named):
        words = shlex.split(format_flags(method))
        assert parse_method(words[1], words[2:]) == method


def test_help_teaches(folder: Path) -> None:
    for verb in ("tune", "diagnose"):
        assert f"kinrank {verb} --gallery g.npy" in run(folder, verb, "--help").stdout
        assert f"  {verb} " in run(folder, "--help").stdout
