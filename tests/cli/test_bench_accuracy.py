"""Flags of `kinrank bench accuracy`: modes, cache, tables, and the message after an interrupt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from kinrank.cli.app import app
from kinrank_bench import measurement

pytestmark = [pytest.mark.filterwarnings("ignore::kinrank.errors.BenchmarkMismatchWarning"), pytest.mark.slow]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a folder with one small set in the format of ORL. The user's own caches are not touched."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    folder = tmp_path / "data"
    folder.mkdir()
    rng, label = np.random.default_rng(0), np.arange(60) % 4
    rows = rng.normal(size=(4, 8))[label] + 0.7 * rng.normal(size=(60, 8))
    np.savez(folder / "orl_pixels.npz", x=rows.astype(np.float32), label=label)
    return folder


def run(data: Path, *words: str | Path) -> Any:
    given = ["bench", "accuracy", "--data", str(data), "--methods", "aqe,sca", *map(str, words)]
    return CliRunner().invoke(app, given, prog_name="kinrank")


def kept(folder: Path) -> int:
    return len(list(folder.glob("*.json"))) if folder.exists() else 0


def test_measurements_are_kept_unless_told_otherwise(data: Path, tmp_path: Path) -> None:
    home = tmp_path / "home" / "kinrank" / "bench"
    assert run(data, "--no-cache").exit_code == 0
    assert kept(home) == 0
    first = json.loads(run(data, "--json").stdout)
    assert kept(home) == 8  # three modes and three methods; sca is not made to be online
    second = json.loads(run(data, "--json").stdout)
    assert second["results"] == first["results"]
    assert run(data, "--cache", tmp_path / "mine", "--modes", "joint").exit_code == 0
    assert kept(tmp_path / "mine") == 3
    assert kept(home) == 8


def test_modes_and_queries(data: Path) -> None:
    result = run(data, "--modes", "candidates, online", "--queries", "5", "--json")
    rows = json.loads(result.stdout)["results"]
    assert {(row["mode"], row["queries"]) for row in rows} == {("candidates", 5), ("online", 15)}


@pytest.mark.parametrize(
    ("ending", "message"),
    [(".md", "| none |"), (".tex", r"\begin{tabular}"), (".csv", "mode,conditions,set,truth,measure,method")],
)
def test_tables_are_written_beside_what_is_printed(data: Path, tmp_path: Path, ending: str, message: str) -> None:
    path = tmp_path / f"table{ending}"
    result = run(data, "--modes", "joint", "--table", path)
    assert "orl, class: 60 queries, 60 items; joint" in result.stdout
    assert message in path.read_text("utf-8")


def test_a_damaged_entry_is_a_remark(data: Path, tmp_path: Path) -> None:
    words = ("--modes", "joint", "--cache", tmp_path / "mine")
    before = run(data, *words)
    path = next((tmp_path / "mine").iterdir())
    path.write_text("broken")
    result = run(data, *words)
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [f"kinrank: {path} is damaged; measuring again"]
    assert before.stderr == ""


def test_stopped_and_gone_on(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = measurement.rerank

    def stopped(queries: Any, gallery: Any, method: Any, **limits: Any) -> Any:
        if method.name == "sca":
            raise KeyboardInterrupt
        return real(queries, gallery, method, **limits)

    monkeypatch.setattr(measurement, "rerank", stopped)
    words = ("--modes", "joint", "--cache", tmp_path / "mine", "-o", tmp_path / "r.jsonl")
    result = run(data, *words)
    assert result.exit_code == 130
    assert "stopped; the same command continues from here" in result.stderr
    assert kept(tmp_path / "mine") == 2
    assert not (tmp_path / "r.jsonl").exists()
    monkeypatch.setattr(measurement, "rerank", real)
    assert run(data, *words).exit_code == 0
    assert kept(tmp_path / "mine") == 3
    assert len((tmp_path / "r.jsonl").read_text().splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--modes", "alone"], "mode 'alone' is not known"),
        (["--modes", ","], "no mode is named"),
        (["--queries", "0"], "--queries"),
        (["--table", "t.xls"], "unknown ending '.xls'"),
        (["--cache", "kept", "--no-cache"], "give one of them"),
        (["--cache", __file__], "is a file"),
    ],
)
def test_mistakes(data: Path, words: list[str], message: str) -> None:
    result = run(data, *words)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("kinrank: error: ")
    assert message in result.stderr
