"""Helpers that run the command line in a folder and check its exit code and messages."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from kinrank.cli.app import app


def run(folder: Path, *words: str) -> Any:
    """Run the command; a leading @ in an argument stands for the folder."""
    written = [f"{folder}/{word[1:]}" if word.startswith("@") else word for word in words]
    return CliRunner().invoke(app, written, prog_name="kinrank")


def good(folder: Path, *words: str) -> str:
    result = run(folder, *words)
    assert result.exit_code == 0, result.stderr or result.exception
    assert result.stderr == ""
    return str(result.stdout)


def bad(folder: Path, *words: str) -> str:
    """Run a command that must fail; return the last line, which describes the mistake."""
    result = run(folder, *words)
    assert result.exit_code == 2, (result.exit_code, result.stdout, result.exception)
    assert result.stdout == ""
    assert result.stderr.startswith("kinrank: error: ")
    assert result.stderr.count("\n") == 1, result.stderr
    return str(result.stderr)


def hear_ctrl_c() -> None:
    """Reset SIGINT in a child process, because background jobs of a shell ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
