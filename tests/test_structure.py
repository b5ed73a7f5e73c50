"""Calls touch few files, functions take few parameters, and no package uses private names of another."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.slow
def test_counts_stay_within_their_limits() -> None:
    pytest.importorskip("duckdb")
    pytest.importorskip("fastapi")
    done = subprocess.run([sys.executable, ROOT / "benchmarks" / "structure.py"], capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\nbenchmarks/structure.py --list names them"
