"""Exit codes and last messages of commands: a closed pipe, a wrong environment, -q."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reference.commands import bad, good, run

pytestmark = pytest.mark.slow

KINRANK = [sys.executable, "-m", "kinrank.cli"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("commands")
    rows = np.random.default_rng(0).standard_normal((60, 8)).astype(np.float32)
    np.save(path / "rows.npy", rows)
    np.save(path / "few.npy", rows[:2])
    good(path, "build", "--gallery", "@rows.npy", "-o", "@m")
    return path


@pytest.mark.parametrize(
    "words",
    [
        ["search", "@m", "--queries", "@rows.npy", "-k", "60", "--json"],
        ["search", "@m", "--queries", "@rows.npy", "-k", "60", "-q"],
        ["methods", "lpmt", "--json"],
        ["methods"],
        ["--help"],
        ["rerank", "--help"],
        ["info", "@m"],
    ],
    ids=" ".join,
)
def test_a_reader_that_leaves_early_is_left_in_peace(words: list[str], folder: Path) -> None:
    """As `kinrank ... | head -0` would, but sure to be gone before anything is written."""
    reader, writer = os.pipe()
    os.close(reader)
    written = [f"{folder}/{word[1:]}" if word.startswith("@") else word for word in words]
    done = subprocess.run([*KINRANK, *written], stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert done.stderr == ""
    assert done.returncode == 141


@pytest.mark.parametrize("value", ["0", "-1", "abc", "1.5", "²", " ", "1000000"])
def test_a_wrong_number_of_threads_is_refused(value: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINRANK_THREADS", value)
    message = f"KINRANK_THREADS={value!r} is not allowed; set it to a whole number from 1 to 1024, or unset it"
    assert message in bad(folder, "rerank", "--gallery", "@rows.npy", "-o", "@r.npz")
    assert message in bad(folder, "search", "@m", "--queries", "@few.npy")
    assert message in bad(folder, "build", "--gallery", "@rows.npy", "-o", "@n")


@pytest.mark.parametrize("value", ["1", "3", ""])
def test_a_right_one_is_not(value: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINRANK_THREADS", value)
    good(folder, "rerank", "--gallery", "@rows.npy", "-o", "@r.npz")


@pytest.mark.parametrize(("value", "shown"), [("", False), ("0", False), ("no", False), ("1", True), ("yes", True)])
def test_a_traceback_is_shown_to_those_who_want_one(
    value: str, shown: bool, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KINRANK_TRACEBACK", value)
    ended: Any = run(folder, "info", "@nowhere")
    assert isinstance(ended.exception, OSError) is shown


@pytest.mark.parametrize(
    "words",
    [
        "rerank --gallery @rows.npy -o @r.npz -q",
        "build --gallery @rows.npy -o @n -q",
        "search @m --queries @few.npy -o @s.npz -q",
        "add @m --vectors @few.npy -q",
        "remove @m --item 0 -q",
    ],
)
def test_quiet_prints_nothing(words: str, folder: Path) -> None:
    assert good(folder, *words.split()) == ""


def test_quiet_prints_what_was_asked_for_and_no_more(folder: Path) -> None:
    lines = good(folder, "search", "@m", "--queries", "@few.npy", "-k", "40", "-q").splitlines()
    assert lines[0].split() == ["query", "rank", "item", "distance"]
    assert len(lines) == 1 + 2 * 40
    assert '"results"' in good(folder, "search", "@m", "--queries", "@few.npy", "-q", "--json")


def test_quiet_keeps_the_compiler_quiet_too(folder: Path, tmp_path: Path) -> None:
    command = [*KINRANK, "rerank", "--gallery", f"{folder}/rows.npy", "-m", "dfs", "-o", f"{tmp_path}/r.npz"]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "code"), "KINRANK_THREADS": "1"}
    quiet = subprocess.run([*command, "-q"], env=environment, capture_output=True, text=True)
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")


def test_a_method_is_shown_by_what_differs(folder: Path) -> None:
    assert "LPMT()" in good(folder, "rerank", "--gallery", "@rows.npy", "-o", "@r.npz")
    assert "LPMT(k2=7)" in good(folder, "build", "--gallery", "@rows.npy", "--k2", "7", "-o", "@n")
    shown = good(folder, "info", "@n")
    assert "LPMT(k2=7)" in shown
    assert "kappa" not in shown
    assert '"kappa": 3.0' in good(folder, "info", "@n", "--json")
