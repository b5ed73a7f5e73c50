"""Mistakes of the user and bugs of kinrank on the command line: messages, flags and exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

import kinrank
from kinrank import stages
from kinrank.cli.app import app
from kinrank.cli.errors import find_command, flag_spelling, format_error
from kinrank.errors import InputError, MemoryLimitError, MissingExtraError
from kinrank.stores import ArrayStore
from reference.commands import bad, good, run

COMMANDS: Any = typer.main.get_command(app)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("errors")
    np.save(path / "rows.npy", np.random.default_rng(0).standard_normal((60, 8)).astype(np.float32))
    (path / "labels.csv").write_text("label\n" + "\n".join(str(number % 6) for number in range(60)))
    good(path, "build", "--gallery", "@rows.npy", "-o", "@m")
    return path


@pytest.mark.parametrize(
    ("command", "error", "expected"),
    [
        ("rerank", InputError(parameter="max_memory", given="x"), "--max-memory 'x' is not allowed"),
        ("rerank", InputError(parameter="k1", given=0, context="LPMT"), "LPMT: --k1 0 is not allowed"),
        ("rerank", InputError("too large", remedy="give `k` or `candidates=5`"), "--k or --candidates 5"),
        ("rerank", InputError("differ", remedy="give `check_rows=False`"), "give --no-check-rows"),
        ("evaluate", InputError(parameter="difficulty", given="x"), "--protocol 'x' is not allowed"),
        ("bench speed", InputError("is empty", parameter="methods"), "--methods is empty"),
        ("fit", InputError("no labels", remedy="give `labels='pseudo'`"), "give --pseudo-labels"),
        ("search", InputError(parameter="k1", given=0), "k1=0 is not allowed"),  # it has no flag --k1
        ("build", InputError("there is no `colour=3`"), "there is no colour=3"),
        ("whiten", InputError("has no rows", parameter="--features"), "--features has no rows"),
        (
            "rerank",
            MemoryLimitError("needs 3 GB; give a larger `max_memory`"),
            "needs 3 GB; give a larger --max-memory",
        ),
        ("rerank", MissingExtraError("install it: pip install '.[io]'"), "install it: pip install '.[io]'"),
    ],
)
def test_parameters_are_written_as_flags_of_the_command(command: str, error: Exception, expected: str) -> None:
    spell = flag_spelling(find_command(COMMANDS, command.split()))
    assert expected in format_error(error, spell)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("rerank --gallery @rows.npy -o @r.npz --max-memory nothing", "--max-memory 'nothing' is not allowed"),
        ("rerank --gallery @rows.npy -o @r.npz --k 0", "--k 0 is not allowed"),
        ("rerank --gallery @rows.npy -o @r.npz --k1 0", "--k1 0 is not allowed"),
        ("search @m --queries @rows.npy -k 0", "--k 0 is not allowed"),
        ("search @m --queries @rows.npy --budget 0", "--budget 0 is not allowed"),
        ("diagnose --gallery @rows.npy --right inf", "--right inf is not allowed"),
        ("diagnose --gallery @rows.npy --metric far", "--metric 'far' is not allowed"),
    ],
)
def test_mistakes_name_flags(words: str, message: str, folder: Path) -> None:
    assert message in bad(folder, *words.split())


def fail(*args: Any, **options: Any) -> Any:
    raise ValueError("operands could not be broadcast together")


def assert_bug(result: Any) -> None:
    """Check for exit code 1, a traceback, and where to report it."""
    assert result.exit_code == 1, (result.exit_code, result.stdout, result.exception)
    assert "Traceback" in result.stderr
    assert "ValueError: operands could not be broadcast together" in result.stderr
    assert result.stderr.splitlines()[-1].startswith("kinrank: this is a bug; please report the lines above: ")


@pytest.mark.parametrize("value", ["", "1"])
def test_a_bug_ends_with_a_traceback(value: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a method, a stage and a store, whatever KINRANK_TRACEBACK says."""
    monkeypatch.setenv("KINRANK_TRACEBACK", value)
    for target, name in ((kinrank.LPMT, "prepare"), (stages.pipeline, "prepare_graph"), (ArrayStore, "search")):
        with monkeypatch.context() as patch:
            patch.setattr(target, name, fail)
            flags = ["--candidates", "20"] if target is ArrayStore else []
            assert_bug(run(folder, "rerank", "--gallery", "@rows.npy", "-o", "@r.npz", *flags))


@pytest.mark.parametrize("target", ["method", "stage", "store"])
def test_a_bug_in_one_method_is_a_failed_row(target: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`compare` goes on with the other methods, prints the table, and ends with exit code 1."""
    flags = ["--labels", "@labels.csv", "--methods", "lpmt,aqe"]
    if target == "method":
        monkeypatch.setattr(kinrank.LPMT, "prepare", fail)
    elif target == "stage":
        monkeypatch.setattr(stages.pipeline, "prepare_graph", fail)
    else:
        flags += ["--candidates", "20"]
        search, calls = ArrayStore.search, iter(range(10_000))

        def fail_later(*args: Any, **options: Any) -> Any:
            return search(*args, **options) if next(calls) == 0 else fail()

        monkeypatch.setattr(ArrayStore, "search", fail_later)
    result = run(folder, "compare", "--gallery", "@rows.npy", *flags)
    assert result.exit_code == 1, (result.stdout, result.stderr)
    assert "lpmt failed: ValueError: operands could not be broadcast together" in result.stdout
    assert "lpmt refused" not in result.stdout
    assert "none" in result.stdout
    assert "failed, which is a bug; please report it: " in result.stderr
    if target != "store":
        assert "aqe failed" not in result.stdout


def test_tune_lists_failed_candidates(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinrank.methods.AQE, "prepare", fail)
    flags = ["--labels", "@labels.csv", "--methods", "aqe", "--no-prepare"]
    result = run(folder, "tune", "--gallery", "@rows.npy", *flags)
    assert result.exit_code == 1
    assert "AQE() failed: ValueError: operands could not be broadcast together" in result.stdout


def test_errors_of_the_system_are_mistakes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def exhaust(*args: Any, **options: Any) -> Any:
        raise MemoryError("cannot allocate 3 TB")

    monkeypatch.setattr(kinrank.LPMT, "prepare", exhaust)
    assert "cannot allocate 3 TB" in bad(folder, "rerank", "--gallery", "@rows.npy", "-o", "@r.npz")
    assert "nothing.npy" in bad(folder, "rerank", "--gallery", "@nothing.npy", "-o", "@r.npz")
