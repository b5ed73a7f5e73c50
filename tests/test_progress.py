"""Progress on a stderr that is no terminal: lines of text at intervals, also within a long step."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import numpy as np
import pytest

from kinrank import progress as progress_module
from kinrank.progress import Progress, ProgressLines, tee_progress
from reference.commands import run
from reference.waiting import soon


def count_threads() -> int:
    return sum(thread.name == "kinrank-progress" for thread in threading.enumerate())


def test_a_line_every_ten_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    now = 100.0
    lines = ProgressLines(10.0, lambda: now)
    for done, seconds in enumerate((1, 9, 11, 20, 21, 40, 60), start=1):
        now = 100.0 + seconds
        lines("encoding pictures", done, 7)
    assert capsys.readouterr().err.splitlines() == [
        "kinrank: encoding pictures, 3 of 7, 11 s",
        "kinrank: encoding pictures, 5 of 7, 21 s",
        "kinrank: encoding pictures, 6 of 7, 40 s",
    ]


def test_a_long_step_prints_too_and_the_thread_ends(capsys: pytest.CaptureFixture[str]) -> None:
    printed: list[str] = []

    def has_printed(label: str) -> bool:
        printed.append(capsys.readouterr().err)
        return f"kinrank: {label}, 0 of " in "".join(printed)

    before = count_threads()
    progress = Progress(ProgressLines(0.001))
    progress.run("opening", lambda: soon(lambda: has_printed("opening")))
    for _ in progress.each("queries", [1, 2], 2):
        soon(lambda: has_printed("queries"))
        break  # the loop is never finished, as after an error
    del progress
    soon(lambda: count_threads() == before)


def test_a_callback_and_lines_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    now, calls = 0.0, list[tuple[str, int, int]]()
    both = tee_progress(lambda *call: calls.append(call), ProgressLines(10.0, lambda: now))
    assert callable(both)
    both("graph", 0, 2)
    now = 10.0
    both("states", 1, 2)
    both("states", 2, 2)
    assert calls == [("graph", 0, 2), ("states", 1, 2), ("states", 2, 2)]
    assert capsys.readouterr().err == "kinrank: states, 1 of 2, 10 s\n"
    assert tee_progress(None, None) is None


@pytest.mark.slow
def test_commands_print_lines_without_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_module, "LINE_SECONDS", 0.0001)
    rows = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    np.save(tmp_path / "g.npy", rows)
    words = "build", "--gallery", str(tmp_path / "g.npy"), "-o", str(tmp_path / "g.manifold")
    lines = run(tmp_path, *words).stderr.splitlines()
    assert lines
    assert all(re.fullmatch(r"kinrank: [a-z ]+, \d of \d, \d+ s", line) for line in lines), lines
    assert run(tmp_path, *words, "--quiet").stderr == ""
