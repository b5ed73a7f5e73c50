"""No output overwrites an input, however it is spelled; rankings go to standard output whole."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import kinrank
from kinrank.cli.output import STDIO_PATH, OutputOptions, RankingFile, check_paths_differ
from reference.commands import bad, good

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A gallery under four names: itself, a link, a second name of the same file, and around a corner."""
    np.savez(tmp_path / "mine.npz", x=rng.standard_normal((12, 4)).astype(np.float32))
    (tmp_path / "link.npz").symlink_to(tmp_path / "mine.npz")
    os.link(tmp_path / "mine.npz", tmp_path / "hard.npz")
    (tmp_path / "sub").mkdir()
    (tmp_path / "names.csv").write_text("".join(f"item{number}\n" for number in range(12)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


NAMES = ["@mine.npz", "@link.npz", "@hard.npz", "@sub/../mine.npz", "mine.npz", "./mine.npz"]


@pytest.mark.parametrize("output", NAMES)
@pytest.mark.parametrize("place", ["--gallery", "--queries"])
def test_a_ranking_does_not_replace_its_vectors(folder: Path, output: str, place: str) -> None:
    before = (folder / "mine.npz").read_bytes()
    np.save(folder / "other.npy", np.eye(4))
    words = (
        ["--gallery", "@mine.npz"] if place == "--gallery" else ["--gallery", "@other.npy", "--queries", "@mine.npz"]
    )
    assert "would overwrite" in bad(folder, "rerank", *words, "-m", "aqe", "-o", output)
    assert (folder / "mine.npz").read_bytes() == before
    assert (folder / "link.npz").is_symlink()


@pytest.mark.parametrize("flag", ["--query-ids", "--item-ids"])
def test_a_ranking_does_not_replace_a_file_of_names(folder: Path, flag: str) -> None:
    message = bad(folder, "rerank", "--gallery", "@mine.npz", flag, "@names.csv", "-m", "aqe", "-o", "@names.csv")
    assert "would overwrite" in message
    assert (folder / "names.csv").read_text().startswith("item0\n")


def test_every_verb_keeps_its_inputs(folder: Path) -> None:
    good(folder, "build", "--gallery", "@mine.npz", "-m", "aqe", "-o", "@m", "-q")
    inside = next(path for path in (folder / "m").rglob("*.npy") if path.name == "vectors.npy")
    kept = {path: path.read_bytes() for path in (folder / "m").rglob("*") if path.is_file()}
    (folder / "m" / "names.txt").write_text("x")
    for words, message in (
        (["build", "--gallery", str(inside), "-m", "aqe", "-o", "@m"], "copy it to another place"),
        (["build", "--gallery", "@mine.npz", "--ids", "@m/names.txt", "-m", "aqe", "-o", "@m"], "copy it"),
        (["add", "@m", "--vectors", str(inside)], "copy it"),
        (["add", "@m", "--vectors", "@mine.npz", "--ids", "@m/names.txt"], "copy it"),
        (["remove", "@m", "--ids", "@m/names.txt"], "copy it"),
        (["search", "@m", "--queries", "@mine.npz", "-o", "@mine.npz"], "would overwrite"),
        (["search", "@m", "--queries", "@mine.npz", "-o", "@m/found.npz"], "choose another path"),
        (["search", "@m", "--queries", "@mine.npz", "--query-ids", "@names.csv", "-o", "@names.csv"], "overwrite"),
        (["explain", "@m", "--queries", "@mine.npz", "--item", "1", "-o", "@m/x.svg"], "is inside the input"),
    ):
        assert message in bad(folder, *words), words
    assert all(path.read_bytes() == content for path, content in kept.items())


def test_paths_that_are_apart(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    check_paths_differ(tmp_path / "b", tmp_path / "a", None, tmp_path / "absent", STDIO_PATH)
    check_paths_differ(tmp_path / "b", tmp_path / "b")  # is not there: nothing can be lost
    check_paths_differ(None, tmp_path / "a")
    check_paths_differ(STDIO_PATH, STDIO_PATH)
    with pytest.raises(ValueError, match="only one input can be -"):
        check_paths_differ(None, STDIO_PATH, tmp_path / "a", STDIO_PATH)


def test_where_a_ranking_can_go(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    with pytest.raises(ValueError, match="--format is for -o - only"):
        RankingFile(output=tmp_path / "r.csv", format="csv").check()
    with pytest.raises(ValueError, match="--format 'npz' is unknown; give csv or trec"):
        RankingFile(output=STDIO_PATH, format="npz").check()
    ranking = kinrank.rerank(None, np.eye(3), "none")
    with pytest.raises(ValueError, match="2 ids"):
        RankingFile(output=STDIO_PATH, format="trec").save(ranking, ["a", "b"])
    assert capfdbinary.readouterr().out == b""
    ranking.save(tmp_path / "r.trec")
    RankingFile(output=STDIO_PATH, format="trec").save(ranking)
    assert capfdbinary.readouterr().out == (tmp_path / "r.trec").read_bytes()


@pytest.mark.parametrize("output", [STDIO_PATH, Path("r.csv"), None])
def test_what_was_done_does_not_mix_with_the_result(output: Path | None, capsys: pytest.CaptureFixture[str]) -> None:
    for json, quiet, message in ((False, False, "3 items\n"), (True, True, '{\n  "items": 3\n}\n'), (False, True, "")):
        OutputOptions(json=json, quiet=quiet).print_summary("{items} items", {"items": 3}, output)
        assert capsys.readouterr() == (("", message) if output == STDIO_PATH else (message, ""))
