"""Every command with unexpected arguments."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from faults.fuzz_commands import verbs

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("fuzz_commands.py")
SECONDS = float(os.environ.get("KINRANK_FUZZ_SECONDS", "8"))
AT_ONCE = 9  # all commands run in a few rounds; with more at once a call may take too long


def _fuzz(verb: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), verb, str(SECONDS)]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=SECONDS + 600)


@pytest.mark.faults
def test_no_verb_ends_in_a_traceback_or_hangs() -> None:
    subprocess.run([sys.executable, "-m", "kinrank.cli", "warmup"], check=True)  # before the time is measured
    with ThreadPoolExecutor(AT_ONCE) as pool:
        ended = dict(zip(verbs(), pool.map(_fuzz, verbs()), strict=True))
    failed = {verb: run.stderr[-3000:] for verb, run in ended.items() if run.returncode}
    assert not failed, "\n\n".join(f"{verb}:\n{text}" for verb, text in failed.items())
    assert all(int(run.stdout.split()[0]) > 0 for run in ended.values())
