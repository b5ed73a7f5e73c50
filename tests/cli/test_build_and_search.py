"""The verbs of prepared galleries: what the library answers, on the command line; one line for every mistake."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shlex
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank as kr
from kinrank.errors import ExactSearchWarning
from kinrank.manifold.saved_folder import MANIFEST, seal_manifest
from kinrank.manifold.verify import verify
from kinrank.ranking import Ranking
from reference.commands import bad, good, run

pytestmark = pytest.mark.slow

METHOD = kr.LPMT(k2=4, theta=0.3)
FLAGS = ("--k2", "4", "--theta=0.3")
NAMES = [f"n{i}" for i in range(60)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """60 items around 5 centres and 7 queries, as files; and a folder built from them by the command."""
    folder, rng = tmp_path_factory.mktemp("whole"), np.random.default_rng(5)
    centres = rng.standard_normal((5, 6))
    gallery = (centres[np.arange(60) % 5] + 0.3 * rng.standard_normal((60, 6))).astype(np.float32)
    queries = (centres[np.arange(7) % 5] + 0.3 * rng.standard_normal((7, 6))).astype(np.float32)
    np.save(folder / "g.npy", gallery)
    np.save(folder / "q.npy", queries)
    np.savez(folder / "both.npz", q=queries, d=gallery)
    (folder / "names.txt").write_text("\n".join(NAMES) + "\n")
    (folder / "twice.txt").write_text("\n".join(["n1", *NAMES[1:]]))
    (folder / "few.txt").write_text("a\nb\n")
    nan = queries.copy()
    nan[4, 2] = np.nan
    np.save(folder / "nan.npy", nan)
    np.save(folder / "zero.npy", np.zeros((2, 6), np.float32))
    np.save(folder / "wide.npy", np.ones((5, 9), np.float32))
    np.save(folder / "flat.npy", np.ones(6, np.float32))
    (folder / "foreign").mkdir()
    (folder / "foreign" / "thesis.txt").write_text("years of work")
    message = good(folder, "build", "-g", "@g.npy", "--ids", "@names.txt", *FLAGS, "-o", "@m")
    assert "m: 60 items x 6 dimensions, LPMT(" in message
    good(folder, "build", "-g", "@both.npz:d", *FLAGS, "-o", "@numbered", "-q")
    return folder


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    return tmp_path


def edited(folder: Path, seal: bool, **changes: Any) -> None:
    manifest = json.loads((folder / MANIFEST).read_text()) | changes
    (folder / MANIFEST).write_text(json.dumps(seal_manifest(manifest) if seal else manifest))


ASK = ("search", "@m", "--queries", "@q.npy")


def expected(folder: Path, k: int = 10, **more: Any) -> kr.Ranking:
    built = kr.Manifold.build(np.load(folder / "g.npy"), METHOD, ids=NAMES)
    return built.search(np.load(folder / "q.npy"), k, **more)


def test_build_writes_what_the_library_builds(whole: Path) -> None:
    loaded = kr.Manifold.load(whole / "m")
    assert loaded.method == METHOD
    assert loaded.ids.tolist() == NAMES
    found = loaded.search(np.load(whole / "q.npy"))
    np.testing.assert_array_equal(found.indices, expected(whole).indices)
    assert kr.Manifold.load(whole / "numbered").info()["ids"] == "item numbers"


@pytest.mark.parametrize("store", ["array", "faiss-flat", "faiss-ivf", "faiss-hnsw"])
def test_build_from_any_store(folder: Path, store: str) -> None:
    if store != "array":
        pytest.importorskip("faiss")
    words = ("build", "-g", "@g.npy", "--store", store, *FLAGS, "--max-memory", "1GB", "-o", "@s", "--json")
    facts = json.loads(good(folder, *words, "-q"))
    assert (facts["items"], facts["dimensions"], facts["method"]) == (60, 6, "lpmt")
    assert facts["parameters"]["k2"] == 4
    assert facts["store"] == (None if store == "array" else "FaissStore")
    output = store in ("faiss-ivf", "faiss-hnsw")
    with pytest.warns(ExactSearchWarning) if output else contextlib.nullcontext():
        loaded = kr.Manifold.load(folder / "s")
    found = loaded.search(np.load(folder / "q.npy"))
    np.testing.assert_array_equal(found.indices, expected(folder).indices)  # 60 items: every index finds all
    searched = run(folder, "search", "@s", "--queries", "@q.npy")
    assert ("query is compared with all" in searched.stderr) == output
    assert searched.stderr.count("\n") == output
    assert good(folder, "search", "@s", "--queries", "@q.npy", "-q")


def test_other_methods_serve_and_say_what_they_cannot(folder: Path) -> None:
    good(folder, "build", "-g", "@g.npy", "--method", "aqe", "--method-k", "3", "-o", "@expanded", "-q")
    built = kr.Manifold.build(np.load(folder / "g.npy"), kr.methods.AQE(k=3))
    found = json.loads(good(folder, "search", "@expanded", "--queries", "@q.npy", "--json"))["results"]
    best = built.search(np.load(folder / "q.npy")).indices
    assert [[item["item"] for item in entry["items"]] for entry in found] == best.tolist()
    assert "7 queries x 2 items, online" in good(folder, "search", "@expanded", "--queries", "@q.npy", "-k", "2")
    assert "nothing to explain" in bad(folder, "explain", "@expanded", "--queries", "@q.npy", "--item", "3")


@pytest.mark.parametrize("word", ["none", "None", "auto"])
def test_what_is_measured_can_be_asked_for(folder: Path, word: str) -> None:
    measured = kr.Manifold.build(np.load(folder / "g.npy"), kr.LPMT(gamma=2.5)).info()
    words = ("--rho", word, f"--share={word}", "--gamma", "2.5")
    assert "gamma=2.5" in good(folder, "build", "-g", "@g.npy", "-o", "@own", *words)
    shown = json.loads(good(folder, "info", "@own", "--json"))
    assert shown["facts"] == measured["facts"]
    assert shown["parameters"]["rho"] is None
    assert shown["facts"]["rho"] > 0
    assert shown["facts"]["gamma"] == 2.5
    assert "LPMT(gamma=2.5)" in good(folder, "info", "@own")
    assert kr.Manifold.load(folder / "own").method == kr.LPMT(gamma=2.5)


def test_build_replaces_a_manifold(folder: Path) -> None:
    good(folder, "build", "-g", "@q.npy", "-o", "@m", "-q")
    assert len(kr.Manifold.load(folder / "m")) == 7


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-g", "@absent.npy", "-o", "@x"], "absent.npy"),
        (["-g", "@nan.npy", "-o", "@x"], "gallery row 4 contains NaN"),
        (["-g", "@zero.npy", "-o", "@x"], "gallery row 0"),
        (["-g", "@flat.npy", "-o", "@x"], "2-d numbers, one row per item"),
        (["-g", "@g.npy", "-o", "@x", "--ids", "@few.txt"], "ids has 2 entries, but there are 60 items"),
        (["-g", "@g.npy", "-o", "@x", "--ids", "@twice.txt"], "'n1' occurs twice"),
        (["-g", "@g.npy", "-o", "@x", "--ids", "@absent.txt"], "absent.txt"),
        (["-g", "@g.npy", "-o", "@x", "--store", "cupboard"], "--store 'cupboard' is unknown"),
        (["-g", "@g.npy", "-o", "@x", "--method", "k-reciprocal"], "a Manifold cannot use it"),
        (["-g", "@g.npy", "-o", "@x", "--distance", "cosine"], "--distance is not a parameter of lpmt"),
        (
            ["-g", "@g.npy", "-o", "@x", "--method", "lpmt-ablation", "--distance", "cosine"],
            "cannot use it; use one of: lpmt",
        ),
        (["-g", "@g.npy", "-o", "@x", "--rho", "0"], "> 0 and <= 16, or none to measure it from the data"),
        (["-g", "@g.npy", "-o", "@x", "--share", "-1"], "--share -1.0 is not allowed"),
        (["-g", "@g.npy", "-o", "@x", "--k1", "none"], "--k1 'none' is not allowed"),
        (["-g", "@g.npy", "-o", "@x", "--k9", "3"], "--k9 is not a parameter of lpmt"),
        (["-g", "@g.npy", "-o", "@x", "--theta", "7"], "--theta 7"),
        (["-g", "@g.npy", "-o", "@x", "--max-memory", "1KB"], "--max-memory allows"),
        (["-g", "@g.npy", "-o", "@x", "--max-memory", "much"], "much"),
        (["-g", "@g.npy", "-o", "@no/such"], "create it, or choose another path"),
        (["-g", "@g.npy", "-o", "@q.npy"], "is a file"),
        (["-g", "@g.npy", "-o", "@foreign"], "contains other files (thesis.txt)"),
        (["-g", "@g.npy"], "--output"),
    ],
)
def test_build_mistakes(whole: Path, words: list[str], message: str) -> None:
    assert message in bad(whole, "build", *words, "-q")
    assert not (whole / "x").exists()


def test_build_knows_before_it_works_that_it_cannot_write(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(dir: Path) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(dir))

    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    monkeypatch.setattr(kr.Manifold, "build", lambda *given: pytest.fail("it built"))
    for target in ("@m", "@new"):
        message = bad(folder, "build", "-g", "@g.npy", "-o", target, "-q")
        assert "cannot be written to (Read-only file system)" in message


def test_a_full_disk_leaves_no_new_folder_and_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("kinrank.manifold.saved_folder.write_array", full)
    message = bad(folder, "build", "-g", "@q.npy", "-o", "@fresh", "-q")
    assert f"{folder / 'fresh'} (No space left on device)" in message
    assert not (folder / "fresh").exists()


def test_items_beyond_a_distance_are_left_out(whole: Path) -> None:
    ranking = expected(whole)
    limit = float(np.median(ranking.distances))
    words = ("search", "@m", "--queries", "@q.npy", "--max-distance", str(limit), "--json")
    found = json.loads(good(whole, *words))["results"]
    kept = [[item["distance"] for item in entry["items"]] for entry in found]
    assert kept == [[d for d in row if d <= limit] for row in ranking.distances.tolist()]
    assert 0 < sum(map(len, kept)) < ranking.distances.size
    assert "--max-distance nan" in bad(whole, "search", "@m", "--queries", "@q.npy", "--max-distance", "nan")


def test_a_disk_that_fills_up_leaves_the_old_state(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "vectors.npy")

    monkeypatch.setattr("kinrank.manifold.saved_folder.write_array", full)
    message = bad(folder, "build", "-g", "@q.npy", "-o", "@m", "-q")
    assert "No space left on device" in message
    assert "[Errno" not in message
    monkeypatch.undo()
    assert len(kr.Manifold.load(folder / "m")) == 60


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_searched_and_not_written(folder: Path) -> None:
    (folder / "m").chmod(0o500)
    try:
        assert "cannot be written to" in bad(folder, "build", "-g", "@g.npy", "-o", "@m", "-q")
        good(folder, *ASK)
        good(folder, "verify", "@m")
    finally:
        (folder / "m").chmod(0o700)


@pytest.mark.parametrize("ending", ["npz", "trec", "csv"])
def test_search_writes_what_the_library_returns(folder: Path, ending: str) -> None:
    message = good(folder, *ASK, "-k", "5", "-o", f"@r.{ending}")
    assert f"r.{ending}: 7 queries x 5 items, online" in message
    assert "the first 5 certain for 100%" in message
    found = Ranking.load(folder / f"r.{ending}")
    np.testing.assert_array_equal(found.ids, expected(folder, 5).ids)


def test_search_prints_a_short_table(folder: Path) -> None:
    lines = good(folder, *ASK, "-k", "2").splitlines()
    best = expected(folder, 2)
    assert lines[0].split() == ["query", "rank", "item", "distance"]
    assert lines[1].split() == ["0", "1", best.ids[0, 0], f"{best.distances[0, 0]:.4f}"]
    assert lines[14].split()[:3] == ["6", "2", best.ids[6, 1]]
    assert lines[16].startswith("7 queries x 2 items, online")
    long = good(folder, *ASK, "-k", "10")
    assert "... and 20 more lines" in long
    assert len(long.splitlines()) == 54


def test_search_as_json_has_everything(folder: Path) -> None:
    (folder / "asked.txt").write_text("\n".join("abcdefg"))
    words = ("-k", "3", "--depth", "60", "--budget", "40", "--query-ids", "@asked.txt", "--json")
    facts = json.loads(good(folder, *ASK, *words))
    best = expected(folder, 3, depth=60, budget=40)
    assert (facts["queries"], facts["depth"], facts["mode"], facts["budget"]) == (7, 60, "online", 40)
    assert [entry["query"] for entry in facts["results"]] == list("abcdefg")
    for entry, names, distances in zip(facts["results"], best.ids, best.distances, strict=True):
        assert [item["item"] for item in entry["items"]] == names.tolist()
        assert [item["distance"] for item in entry["items"]] == distances.tolist()
    assert "results" not in json.loads(good(folder, *ASK, "-o", "@r.npz", "--json"))


def test_search_without_names_and_beyond_the_gallery(folder: Path) -> None:
    """k larger than the gallery works on what there is."""
    words = ("search", "@numbered", "--queries", "@both.npz:q", "-k", "1000", "--json")
    facts = json.loads(good(folder, *words))
    assert facts["depth"] == 60
    for entry in facts["results"]:
        assert sorted(item["item"] for item in entry["items"]) == list(range(60))


def test_search_of_no_queries(folder: Path) -> None:
    np.save(folder / "none.npy", np.empty((0, 6), np.float32))
    assert json.loads(good(folder, "search", "@m", "--queries", "@none.npy", "--json"))["results"] == []
    assert good(folder, "search", "@m", "--queries", "@none.npy").startswith("0 queries x 10 items")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["@m", "--queries", "@nan.npy"], "queries row 4 contains NaN"),
        (["@m", "--queries", "@zero.npy"], "queries row 0"),
        (["@m", "--queries", "@wide.npy"], "queries has shape (5, 9) but 6 dimensions are needed"),
        (["@m", "--queries", "@flat.npy"], "2-d numbers, one row per item"),
        (["@m", "--queries", "@absent.npy"], "absent.npy"),
        (["@m", "--queries", "@q.npy", "-k", "0"], "--k 0"),
        (["@m", "--queries", "@q.npy", "-k", "ten"], "'-k'"),
        (["@m", "--queries", "@q.npy", "--depth", "0"], "--depth 0"),
        (["@m", "--queries", "@q.npy", "--query-ids", "@few.txt"], "2 ids but there are 7 queries"),
        (["@m", "--queries", "@q.npy", "-o", "@r.pdf"], "unknown ending"),
        (["@m", "--queries", "@q.npy", "-o", "@no/r.npz"], "create it, or choose another path"),
        (["@m"], "--queries"),
        (["@nothing", "--queries", "@q.npy"], "does not exist"),
        (["@foreign", "--queries", "@q.npy"], "is not a saved manifold"),
        (["@g.npy", "--queries", "@q.npy"], "is not a saved manifold"),
    ],
)
def test_search_mistakes(whole: Path, words: list[str], message: str) -> None:
    assert message in bad(whole, "search", *words)


VERBS = [
    ["search", "@m", "--queries", "@q.npy"],
    ["explain", "@m", "--queries", "@q.npy", "--item", "n1"],
    ["info", "@m"],
    ["remove", "@m", "--item", "n1"],
]


@pytest.mark.parametrize("words", VERBS, ids=lambda words: words[0])
def test_damaged_and_newer_folders_are_refused(folder: Path, words: list[str]) -> None:
    path = next((folder / "m").glob("data-*/step_data.npy"))
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    assert "step_data.npy is truncated or was altered" in bad(folder, *words)
    path.unlink()
    assert "step_data.npy is missing" in bad(folder, *words)
    path.write_bytes(content)
    edited(folder / "m", seal=True, version=5, kinrank="9.0")
    assert "kinrank 9.0 in format 5, newer than format 4" in bad(folder, *words)
    edited(folder / "m", seal=True, version=1)
    assert "in format 1, which this version cannot read" in bad(folder, *words)
    edited(folder / "m", seal=False, version=3)
    assert "manifest.json was altered" in bad(folder, *words)
    (folder / "m" / MANIFEST).write_text("{")
    assert "truncated or is not JSON" in bad(folder, *words)


def test_explain_shows_the_chain_of_the_library(folder: Path) -> None:
    rows = np.load(folder / "q.npy")
    why = kr.Manifold.load(folder / "m").explain(rows[3], "n33")
    words = ("explain", "@m", "--queries", "@q.npy", "--query", "3", "--item", "n33")
    assert good(folder, *words) == f"{why}\n"
    assert json.loads(good(folder, *words, "--json")) == json.loads(json.dumps(why.to_dict()))
    words = ("explain", "@numbered", "--queries", "@q.npy", "--query", "3", "--item", "33", "--json")
    assert json.loads(good(folder, *words))["total"] == why.total


@pytest.mark.parametrize(("ending", "start"), [("png", b"\x89PNG"), ("svg", b"<svg xmlns="), ("PDF", b"%PDF")])
def test_explain_draws_a_figure(folder: Path, ending: str, start: bytes) -> None:
    pytest.importorskip("matplotlib")
    words = ("explain", "@m", "--queries", "@q.npy", "--item", "n33")
    assert good(folder, *words, "-o", f"@chain.{ending}") == good(folder, *words)
    assert (folder / f"chain.{ending}").read_bytes().startswith(start)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["@m", "--queries", "@q.npy", "--item", "n1", "-o", "@chain.txt"], "unknown ending"),
        (["@m", "--queries", "@q.npy", "--item", "n1", "-o", "@no/chain.svg"], "create it, or choose"),
        (["@m", "--queries", "@q.npy", "--item", "somebody"], "'somebody' is not among the ids"),
        (["@m", "--queries", "@q.npy", "--item", "3"], "'3' is not among the ids"),
        (["@numbered", "--queries", "@q.npy", "--item", "60"], "an item number from 0 to 59"),
        (["@numbered", "--queries", "@q.npy", "--item", "n1"], "an item number from 0 to 59"),
        (["@m", "--queries", "@q.npy", "--query", "7", "--item", "n1"], "--query 7 does not exist"),
        (["@m", "--queries", "@q.npy", "--query", "-1", "--item", "n1"], "--query -1 does not exist"),
        (["@m", "--queries", "@wide.npy", "--item", "n1"], "6 dimensions are needed"),
        (["@m", "--queries", "@nan.npy", "--query", "4", "--item", "n1"], "contains NaN"),
        (["@m", "--queries", "@q.npy"], "--item"),
        (["@foreign", "--queries", "@q.npy", "--item", "n1"], "is not a saved manifold"),
    ],
)
def test_explain_mistakes(whole: Path, words: list[str], message: str) -> None:
    assert message in bad(whole, "explain", *words)


def test_info_in_words_and_json(whole: Path) -> None:
    text, facts = good(whole, "info", "@m"), json.loads(good(whole, "info", "@m", "--json"))
    assert facts == {"folder": f"{whole}/m", **kr.Manifold.load(whole / "m").info()}
    assert "k2=4" in text
    assert any(line.split() == ["items", "60"] for line in text.splitlines())
    assert "is not a saved manifold" in bad(whole, "info", "@foreign")


def test_verify_counts_whole_files(whole: Path) -> None:
    count = 1 + len(list((whole / "m").glob("data-*/*.npy")))
    assert good(whole, "verify", "@m") == f"{whole}/m: whole, {count} files\n"
    facts = json.loads(good(whole, "verify", "@m", "--json"))
    assert facts == {"folder": f"{whole}/m", "whole": True, "files": count, "bad": []}


def test_verify_names_every_bad_file(folder: Path) -> None:
    altered, missing, cut = sorted((folder / "m").glob("data-*/*.npy"))[:3]
    content = altered.read_bytes()
    altered.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    missing.unlink()
    cut.write_bytes(cut.read_bytes()[:20])
    result = run(folder, "verify", "@m")
    assert (result.exit_code, result.stderr) == (1, "")
    lines = result.stdout.splitlines()
    assert [line.split()[0] for line in lines] == [str(altered), str(missing), str(cut)]
    assert "is missing" in lines[1]
    result = run(folder, "verify", "@m", "--json")
    facts = json.loads(result.stdout)
    assert (result.exit_code, facts["whole"], len(facts["bad"])) == (1, False, 3)
    assert facts["bad"][1]["file"] == str(missing.relative_to(folder / "m"))


@pytest.mark.parametrize("content", [b"", b"{", b"\x80\x04", None])
def test_verify_names_a_bad_manifest(folder: Path, content: bytes | None) -> None:
    if content is None:
        edited(folder / "m", seal=False, method="dfs")
    else:
        (folder / "m" / MANIFEST).write_bytes(content)
    result = run(folder, "verify", "@m")
    assert result.exit_code == 1
    assert result.stdout.startswith(f"{folder}/m/{MANIFEST} ")
    assert result.stdout.count("\n") == 1


def test_verify_refuses_what_it_does_not_know(folder: Path) -> None:
    assert "does not exist" in bad(folder, "verify", "@nothing")
    assert "is not a saved manifold" in bad(folder, "verify", "@foreign")
    edited(folder / "m", seal=True, version=5)
    assert "newer than format 4" in bad(folder, "verify", "@m")
    edited(folder / "m", seal=True, version=3, format="something else")
    assert "not the manifest of a kinrank manifold" in bad(folder, "verify", "@m")


def test_verify_follows_a_save_that_came_between(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of the old state vanish while they are read; the new state is whole, and that is the answer."""
    from kinrank.manifold import folder_reader

    read, other = folder_reader.read_saved_array, kr.Manifold.load(folder / "numbered", mmap=False)
    seen: list[str] = []

    def slow(place: Path, manifest: dict[str, Any], name: str, mmap: bool) -> Any:
        if not seen:
            other.save(folder / "m")
        seen.append(name)
        return read(place, manifest, name, mmap)

    monkeypatch.setattr(folder_reader, "read_saved_array", slow)
    found = verify(folder / "m")
    assert found.whole
    assert len(seen) > len(found.checked)


ABOUT_PREPARED_GALLERIES = ["prepared-galleries", "changing-galleries", "filters-and-feedback", "observed-queries"]
USUAL = ["build", "add", "remove", "sync", "observe", "info", "verify", "export"]


def test_help_groups_and_teaches(whole: Path) -> None:
    text = good(whole, "--help")
    section = text.split("Prepared galleries:")[1].split("Evaluate:")[0]
    listed = [line.split()[0] for line in section.splitlines() if line.strip()]
    assert listed == USUAL
    for verb in listed:
        assert f"kinrank {verb} " in good(whole, verb, "--help").split("Options:")[0]


def test_the_guide_does_what_it_says(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command about prepared galleries, one after the other, on files of these names."""
    pytest.importorskip("faiss")
    pytest.importorskip("matplotlib")
    guide = Path(__file__).parents[2] / "docs" / "guide"
    text = "\n".join((guide / f"{name}.md").read_text("utf-8") for name in ABOUT_PREPARED_GALLERIES)
    lines = [line for line in text.splitlines() if "://" not in line]  # no database runs here
    commands = [line.split("#")[0] for line in lines if line.startswith("$ kinrank ")]
    assert {line.split()[2] for line in commands} >= {"build", "search", "explain", "observe", "info", "verify"}
    monkeypatch.chdir(folder)
    (folder / "names.txt").write_text("\n".join(f"picture-{number}" for number in range(60)))
    shutil.copy(folder / "q.npy", folder / "new.npy")
    (folder / "new-names.txt").write_text("\n".join(f"new-{number}" for number in range(7)))
    shutil.copy(folder / "q.npy", folder / "some.npy")
    (folder / "some-names.txt").write_text("\n".join(f"picture-{number}" for number in range(57, 64)))
    (folder / "allowed.txt").write_text("\n".join(f"picture-{number}" for number in range(5, 50) if number != 17))
    (folder / "views.txt").write_text("\n".join("aabbccc"))
    np.save(folder / "one.npy", np.load(folder / "q.npy")[:1])
    for line in commands:
        assert good(folder, *shlex.split(line)[2:])
    assert (folder / "run.trec").exists()
    assert (folder / "chain.svg").exists()
