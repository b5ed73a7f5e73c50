"""Every verb on tiny data, and one line with exit code 2 for every mistake."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank
from kinrank.cli.methods import OPTION_NAMES, name_flag, parse_method
from kinrank.cli.option_groups import expand_groups
from kinrank.cli.rerank import rerank as rerank_command
from kinrank.ranking import Ranking
from reference.commands import bad, good, run

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path, rng: np.random.Generator) -> Path:
    """Three classes, 6 queries and 30 items, as files; and what goes wrong with such files."""
    centres = rng.standard_normal((3, 8))
    query_labels, gallery_labels = np.arange(6) % 3, np.arange(30) % 3
    queries = (centres[query_labels] + 0.3 * rng.standard_normal((6, 8))).astype(np.float32)
    gallery = (centres[gallery_labels] + 0.3 * rng.standard_normal((30, 8))).astype(np.float32)
    np.save(tmp_path / "q.npy", queries)
    np.save(tmp_path / "g.npy", gallery)
    np.savez(tmp_path / "both.npz", q=queries, d=gallery)
    np.save(tmp_path / "ql.npy", query_labels)
    np.save(tmp_path / "gl.npy", gallery_labels)
    np.savez(tmp_path / "labelled.npz", x=gallery, label=gallery_labels)
    (tmp_path / "gl.csv").write_text("label\n" + "\n".join(f"class {label}" for label in gallery_labels))
    lines = [f"{q} 0 {d} 1" for q in range(6) for d in range(30) if q % 3 == d % 3]
    (tmp_path / "qrels.txt").write_text("\n".join(lines))
    right = [np.flatnonzero(gallery_labels == label).tolist() for label in query_labels]
    entries = [{"bbx": [0, 0, 1, 1], "easy": r[:4], "hard": r[4:], "junk": []} for r in right]
    truth = {"imlist": [str(i) for i in range(30)], "qimlist": [str(i) for i in range(6)], "gnd": entries}
    (tmp_path / "gnd.pkl").write_bytes(pickle.dumps(truth))
    bad = gallery.copy()
    bad[4, 2] = np.nan
    np.save(tmp_path / "nan.npy", bad)
    np.save(tmp_path / "wide.npy", np.ones((5, 9), np.float32))
    np.save(tmp_path / "flat.npy", np.ones(9, np.float32))
    zero = gallery.copy()
    zero[7] = 0
    np.save(tmp_path / "zero.npy", zero)
    whole = (tmp_path / "g.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "empty.npy").write_bytes(b"")
    (tmp_path / "foreign.npz").write_bytes(b"not an archive at all")
    return tmp_path


ASK = ("rerank", "--queries", "@q.npy", "--gallery", "@g.npy")


@pytest.mark.parametrize("ending", ["npz", "trec", "csv"])
def test_rerank_writes_what_the_library_returns(folder: Path, ending: str) -> None:
    message = good(folder, *ASK, "--method", "k-reciprocal", "--k1", "5", "--k2=3", "-o", f"@r.{ending}")
    assert "6 queries x 30 items, joint, KReciprocal(k1=5, k2=3" in message
    expected = kinrank.rerank(np.load(folder / "q.npy"), np.load(folder / "g.npy"), kinrank.KReciprocal(k1=5, k2=3))
    np.testing.assert_array_equal(Ranking.load(folder / f"r.{ending}").indices, expected.indices)


def test_rerank_without_queries_every_item_asks(folder: Path) -> None:
    facts = json.loads(good(folder, "rerank", "--gallery", "@g.npy", "-m", "aqe", "-o", "@r.npz", "--json", "-q"))
    assert (facts["queries"], facts["depth"], facts["mode"]) == (30, 29, "joint")
    found = Ranking.load(folder / "r.npz").indices
    assert not (found == np.arange(30)[:, None]).any()


def test_rerank_candidates_depth_keys_and_names(folder: Path) -> None:
    (folder / "names.txt").write_text("\n".join(f"item{i}" for i in range(30)) + "\n")
    words = ["rerank", "--queries", "@both.npz:q", "--gallery", "@both.npz:d"]
    words += ["--method", "aqe", "--candidates", "10", "-k", "12", "--max-memory", "1GB"]
    facts = json.loads(good(folder, *words, "--item-ids", "@names.txt", "-o", "@r.trec", "--json", "-q"))
    assert (facts["queries"], facts["depth"], facts["mode"]) == (6, 12, "candidates")
    assert all(line.split()[2].startswith("item") for line in (folder / "r.trec").read_text().splitlines())


def test_rerank_default_method(folder: Path) -> None:
    message = good(folder, *ASK, "--theta", "0.3", "--path_k=4", "-o", "@r.npz")
    assert "LPMT(" in message
    assert "theta=0.3" in message
    assert "path_k=4" in message


@pytest.mark.parametrize("spelled", [["--max-iter", "3"], ["--max_iter=3"]])
def test_dashes_and_underscores_mean_the_same(spelled: list[str]) -> None:
    name, field = next(
        (kind.name, entry.name)
        for kind in kinrank.METHODS.values()
        for entry in kind.parameters()
        if "_" in entry.name and entry.kind is int
    )
    words = [word.replace("max-iter", field.replace("_", "-")).replace("max_iter", field) for word in spelled]
    assert getattr(parse_method(name.replace("-", "_").upper(), words), field) == 3


def test_switches_take_a_word_or_none() -> None:
    switches = [
        (kind.name, entry.name)
        for kind in kinrank.METHODS.values()
        for entry in kind.parameters()
        if entry.kind is bool
    ]
    for name, field in switches:
        for words, value in (
            ([f"--{field}"], True),
            ([f"--no-{field}"], False),
            ([f"--{field}", "no"], False),
        ):
            assert getattr(parse_method(name, words), field) is value


def test_every_default_can_be_said_on_the_command_line() -> None:
    for name, kind in kinrank.METHODS.items():
        words = [f"--{entry.name.replace('_', '-')}={entry.default}" for entry in kind.parameters()]
        assert parse_method(name, words) == kind()


def test_parameters_with_the_name_of_an_option_have_a_prefix() -> None:
    options = set(expand_groups(rerank_command).__annotations__)
    names = {entry.name for kind in kinrank.METHODS.values() for entry in kind.parameters()}
    assert options & names == set(OPTION_NAMES)
    assert parse_method("aqe", ["--method-k", "5"]) == parse_method("aqe", ["--k", "5"]) == kinrank.methods.AQE(k=5)
    assert name_flag("k") == "--method-k"
    assert name_flag("path_k") == "--path-k"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--gallery", "@nan.npy"], "row 4 contains NaN"),
        (["--gallery", "@zero.npy"], "row 7 is a zero vector"),
        (["--gallery", "@g.npy", "--queries", "@wide.npy"], "(5, 9)"),
        (["--gallery", "@flat.npy"], "2-d"),
        (["--gallery", "@cut.npy"], "truncated"),
        (["--gallery", "@empty.npy"], "is empty"),
        (["--gallery", "@foreign.npz"], "damaged"),
        (["--gallery", "@absent.npy"], "does not exist"),
        (["--gallery", "@both.npz"], "several 2-d arrays"),
        (["--gallery", "@both.npz:z"], "no array 'z'"),
        (["--gallery", "@qrels.xyz"], "does not exist"),
        (["--gallery", "@g.npy", "--method", "k_reciprocl"], "did you mean k-reciprocal?"),
        (
            ["--gallery", "@g.npy", "--method", "aqe", "--method-k", "0"],
            "--method-k 0 is not allowed; give a whole number >= 1",
        ),
        (["--gallery", "@g.npy", "--method", "aqe", "--method-k", "2.5"], "--method-k 2.5 is not allowed"),
        (["--gallery", "@g.npy", "--method", "aqe", "--method-k", "many"], "--method-k 'many' is not allowed"),
        (["--gallery", "@g.npy", "--method", "aqe", "--method-k", "-3"], "--method-k -3 is not allowed"),
        (["--gallery", "@g.npy", "--method", "aqe", "--method-k"], "--method-k needs a value"),
        (["--gallery", "@g.npy", "--method", "aqe", "--theta", "1"], "not a parameter of aqe; it takes --method-k"),
        (["--gallery", "@g.npy", "--method", "none", "--method-k", "1"], "it takes no parameters"),
        (["--gallery", "@g.npy", "--method", "aqe", "stray"], "'stray' is unexpected"),
        (["--gallery", "@g.npy", "--k", "0", "--method", "aqe"], "--k 0 is not allowed"),
        (["--gallery", "@g.npy", "--k", "x"], "--k"),
        (["--gallery", "@g.npy", "--candidates", "0", "--method", "aqe"], "--candidates 0"),
        (["--gallery", "@g.npy", "--max-memory", "lots", "--method", "aqe"], "--max-memory 'lots'"),
        (["--gallery", "@g.npy", "--max-memory", "1KB", "--method", "aqe"], "--max-memory allows 1 KB"),
        ([], "--gallery"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_no_file(folder: Path, words: list[str], message: str) -> None:
    before = sorted(folder.iterdir())
    assert message in bad(folder, "rerank", *words, "-o", "@r.npz", "-q")
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("@r.json", "unknown ending '.json'; give .npz | .trec | .csv"),
        ("@r", "unknown ending ''"),
        ("@nowhere/r.npz", "nowhere does not exist"),
        ("@g.npy/r.npz", "does not exist"),
        ("/proc/self/r.npz", "cannot be written to"),
    ],
)
def test_where_the_ranking_goes_is_checked_first(folder: Path, output: str, message: str) -> None:
    # The gallery is absent too: the complaint about the output comes before anything is read.
    if output.startswith("/proc") and not Path("/proc/self").is_dir():
        pytest.skip("this system has no /proc")
    assert message in bad(folder, "rerank", "--gallery", "@absent.npy", "-o", output)


def test_a_failed_run_keeps_the_old_ranking(folder: Path) -> None:
    good(folder, *ASK, "--method", "aqe", "-o", "@r.npz", "-q")
    before = (folder / "r.npz").read_bytes()
    bad(folder, "rerank", "--gallery", "@nan.npy", "--method", "aqe", "-o", "@r.npz")
    assert (folder / "r.npz").read_bytes() == before


@pytest.fixture
def ranked(folder: Path) -> Path:
    queries, gallery = np.load(folder / "q.npy"), np.load(folder / "g.npy")
    kinrank.rerank(queries, gallery, "none").save(folder / "r.npz")
    kinrank.rerank(queries, gallery, "none").save(folder / "r.trec")
    kinrank.rerank(None, gallery, "none").save(folder / "all.npz")
    return folder


@pytest.mark.parametrize(
    ("words", "measures"),
    [
        (["@r.npz", "--truth", "@gnd.pkl"], ["mAP", "mP@10"]),
        (["@r.npz", "--truth", "@gnd.pkl", "--protocol", "hard", "--measures", "R@1, mAP"], ["R@1", "mAP"]),
        (["@r.trec", "--truth", "@qrels.txt"], ["mAP", "nDCG@10"]),
        (["@r.npz", "--query-labels", "@ql.npy", "--gallery-labels", "@gl.npy"], ["mAP", "R@1"]),
        (["@all.npz", "--labels", "@labelled.npz"], ["mAP", "R@1"]),
        (["@all.npz", "--labels", "@labelled.npz:label"], ["mAP", "R@1"]),
        (["@all.npz", "--truth", "@gl.csv"], ["mAP", "R@1"]),
    ],
)
def test_evaluate_every_kind_of_truth(ranked: Path, words: list[str], measures: list[str]) -> None:
    found = json.loads(good(ranked, "evaluate", *words, "--json"))
    assert list(found["measures"]) == measures
    for score in found["measures"].values():
        assert 0 <= score["low"] <= score["mean"] <= score["high"] <= 1
    assert "95 % interval" in good(ranked, "evaluate", *words)


def test_evaluate_grades_count_unless_binary(ranked: Path) -> None:
    (ranked / "graded.txt").write_text("".join(f"{q} 0 {d} {d % 4}\n" for q in range(6) for d in range(30)))
    words = ("evaluate", "@r.npz", "--truth", "@graded.txt", "--measures", "mAP,nDCG@10", "--json")
    graded, binary = (json.loads(good(ranked, *words, *more))["measures"] for more in ((), ("--binary",)))
    assert graded["mAP"] == binary["mAP"]
    assert graded["nDCG@10"]["mean"] != binary["nDCG@10"]["mean"]


def test_evaluate_agrees_with_the_library(ranked: Path) -> None:
    words = ["--query-labels", "@ql.npy", "--gallery-labels", "@gl.npy", "--measures", "mAP"]
    found = json.loads(good(ranked, "evaluate", "@r.npz", *words, "--json"))
    truth = kinrank.Truth.from_labels(np.load(ranked / "ql.npy"), np.load(ranked / "gl.npy"))
    expected = kinrank.evaluate(Ranking.load(ranked / "r.npz"), truth)["mAP"].mean
    assert found["measures"]["mAP"]["mean"] == pytest.approx(expected, abs=0)
    assert (found["mode"], found["method"]) == ("joint", "NoReranking()")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["@absent.npz", "--truth", "@gnd.pkl"], "does not exist"),
        (["@foreign.npz", "--truth", "@gnd.pkl"], "not a saved ranking"),
        (["@r.npz"], "give the relevant items, once"),
        (["@r.npz", "--truth", "@gnd.pkl", "--labels", "@gl.npy"], "once"),
        (["@r.npz", "--query-labels", "@ql.npy"], "need each other"),
        (["@r.npz", "--truth", "@gnd.pkl", "--protocol", "brutal"], "easy | medium | hard"),
        (["@r.npz", "--truth", "@qrels.txt", "--protocol", "hard"], "--protocol hard"),
        (["@r.npz", "--truth", "@gnd.pkl", "--measures", "mAPP"], "measure 'mAPP' is unknown"),
        (["@r.npz", "--labels", "@gl.npy"], "30"),
        (["@r.npz", "--labels", "@foreign.npz"], "labels cannot be read"),
        (["@all.npz", "--labels", "@both.npz"], "choose one with FILE:KEY"),
        (["@all.npz", "--labels", "@absent.csv"], "does not exist"),
        (["@r.npz", "--truth", "@evil.pkl"], "evil.pkl"),
    ],
)
def test_evaluate_mistakes(ranked: Path, words: list[str], message: str) -> None:
    (ranked / "evil.pkl").write_bytes(b"cos\nsystem\n(S'touch touched'\ntR.")
    assert message in bad(ranked, "evaluate", *words)
    assert not Path("touched").exists()


def test_methods_lists_every_method_with_its_paper(folder: Path) -> None:
    text = good(folder, "methods")
    for name, kind in kinrank.METHODS.items():
        assert any(line.startswith(f"{name} ") and kind.paper in line for line in text.splitlines())
    assert [entry["name"] for entry in json.loads(good(folder, "methods", "--json"))] == list(kinrank.METHODS)


@pytest.mark.parametrize("name", list(kinrank.METHODS))
def test_methods_explains_every_parameter(folder: Path, name: str) -> None:
    text, facts = good(folder, "methods", name), json.loads(good(folder, "methods", name, "--json"))
    declared = kinrank.METHODS[name].parameters()
    assert [entry["name"] for entry in facts["parameters"]] == [entry.name for entry in declared]
    for entry in declared:
        assert f"{name_flag(entry.name)} " in text
        assert entry.meaning in text
        assert entry.allowed in text
    assert kinrank.METHODS[name].paper in text


def test_methods_unknown(folder: Path) -> None:
    assert "method 'nothing' is not known" in bad(folder, "methods", "nothing")


def test_help_teaches_by_example(folder: Path) -> None:
    text = good(folder, "--help")
    assert text == good(folder) or text.strip() == good(folder).strip()
    first = [line.strip() for line in text.splitlines() if line.strip().startswith("kinrank ")][1:4]
    assert [line.split()[1] for line in first] == ["serve", "embed", "rerank"]
    assert "kinrank methods lpmt" in good(folder, "rerank", "--help")
    for verb in ("rerank", "evaluate", "methods", "bench", "demo"):
        assert verb in text
        assert good(folder, verb, "--help")
    assert good(folder, "--version") == f"kinrank {kinrank.__version__}\n"


@pytest.mark.parametrize(
    "words", [["nonsense"], ["--nonsense"], ["evaluate"], ["methods", "--nonsense"], ["bench", "x"]]
)
def test_usage_mistakes(folder: Path, words: list[str]) -> None:
    bad(folder, *words)


def test_demo_writes_its_page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import kinrank.report.demo

    whole = kinrank.report.demo.run_demo
    monkeypatch.setattr("kinrank.cli.report.run_demo", lambda page, show: whole(page, show, objects=3, views=12))
    facts = json.loads(good(folder, "demo", "-o", "@page.html", "--json", "--quiet"))
    assert facts["items"] == 36
    assert [one["method"] for one in facts["methods"]] == ["lpmt", "none"]
    assert (folder / "page.html").read_text().startswith("<!")
    assert good(folder, "demo", "-o", "@page.html", "--quiet") == ""
    text = good(folder, "demo", "-o", "@page.html")
    assert "The page: " in text
    assert "lpmt" in text
    assert "unknown ending" in bad(folder, "demo", "-o", "@page.pdf")


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "kinrank.cli", *words]


def test_in_a_process_of_its_own(folder: Path) -> None:
    words = ["rerank", "--gallery", "g.npy", "--method", "none", "--json", "-o", "r.csv"]
    done = subprocess.run(command(*words), cwd=folder, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["output"] == "r.csv"
    words[2] = "nan.npy"
    failed = subprocess.run(command(*words), cwd=folder, capture_output=True, text=True, check=False)
    assert failed.returncode == 2
    assert failed.stdout == ""
    assert failed.stderr.startswith("kinrank: error: --gallery row 4 contains NaN")
    assert failed.stderr.count("\n") == 1


def test_a_reader_that_leaves_early_is_no_error() -> None:
    pipe = f"{' '.join(command('methods', '--json'))} | head -n 1"
    done = subprocess.run(pipe, shell=True, capture_output=True, text=True, check=True)
    assert done.stdout == "[\n"
    assert done.stderr == ""


def test_control_c_ends_with_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any, **others: Any) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(180)

    monkeypatch.setattr("kinrank.rerank", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where the tests run in the background
    try:
        result = run(folder, *ASK, "--method", "aqe", "-o", "@r.npz")
    finally:
        signal.signal(signal.SIGINT, before)
    assert (result.exit_code, result.stdout, result.stderr.strip()) == (130, "", "kinrank: interrupted")
    assert not (folder / "r.npz").exists()


def test_a_bug_is_not_dressed_up_as_a_mistake(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any, **others: Any) -> None:
        raise AttributeError("not the user's fault")

    monkeypatch.setattr("kinrank.rerank", broken)
    result = run(folder, *ASK, "--method", "aqe", "-o", "@r.npz")
    assert result.exit_code == 1
    assert "AttributeError: not the user's fault" in result.stderr
    assert "this is a bug" in result.stderr
