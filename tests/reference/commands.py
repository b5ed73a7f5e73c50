"""The command line as tests call it: with a folder, in words, and what it must say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from kinrank.cli.app import app


def run(folder: Path, *words: str) -> Any:
    """The command, a leading @ standing for the folder."""
    written = [f"{folder}/{word[1:]}" if word.startswith("@") else word for word in words]
    return CliRunner().invoke(app, written, prog_name="kinrank")


def good(folder: Path, *words: str) -> str:
    result = run(folder, *words)
    assert result.exit_code == 0, result.stderr or result.exception
    assert result.stderr == ""
    return str(result.stdout)


def bad(folder: Path, *words: str) -> str:
    """The one line that a mistake ends in."""
    result = run(folder, *words)
    assert result.exit_code == 2, (result.exit_code, result.stdout, result.exception)
    assert result.stdout == ""
    assert result.stderr.startswith("kinrank: error: ")
    assert result.stderr.count("\n") == 1, result.stderr
    return str(result.stderr)
