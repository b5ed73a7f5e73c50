"""Read-only folders and full disks: one sentence with the path, and everything is unchanged."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank as kr
from faults.corruption import vectors
from kinrank.files.atomic import LOCK_NAME

pytestmark = [pytest.mark.faults, pytest.mark.slow]

ROWS = 200
COMMANDS = {
    "build a new one": ["build", "-g", "@in/g.npy", "-o", "@place/new", "-q"],
    "build over one": ["build", "-g", "@in/g.npy", "-o", "@place/m", "-q"],
    "add": ["add", "@place/m", "--vectors", "@in/more.npy", "-q"],
    "remove": ["remove", "@place/m", "--item", "5", "-q"],
    "rerank over one": ["rerank", "-g", "@in/g.npy", "-o", "@place/r.npz", "-q"],
    "rerank to text": ["rerank", "-g", "@in/g.npy", "-o", "@place/r.trec", "-q"],
}
Run = Callable[[Path, list[str]], "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder `in` of vectors, and a folder `place` with a manifold and rankings."""
    folder = tmp_path_factory.mktemp("prepared")
    (folder / "in").mkdir()
    (folder / "place").mkdir()
    np.save(folder / "in" / "g.npy", vectors(1, ROWS))
    np.save(folder / "in" / "more.npy", vectors(2, 3))
    for words in COMMANDS.values():  # kernels are compiled while there is room for their code
        done = command(folder, words)
        assert done.returncode == 0, done.stderr
    shutil.rmtree(folder / "place" / "new")
    done = command(folder, COMMANDS["build over one"])
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def folder(prepared: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(prepared, tmp_path / "copy"))


def command(folder: Path, words: list[str], before: list[str] | None = None, **options: Any) -> Any:
    """Run `kinrank` in a process, with @ for the folder; `before` is a program that starts it."""
    written = [f"{folder}/{word[1:]}" if word.startswith("@") else word for word in words]
    called = [*(before or []), sys.executable, "-m", "kinrank.cli", *written]
    environment = {**os.environ, "PYTHONPATH": str(Path(kr.__file__).parents[1])}
    return subprocess.run(called, env=environment, capture_output=True, text=True, check=False, **options)


def no_large_files(folder: Path, words: list[str]) -> Any:
    """Limit files to 2 kB, which looks like a quota or a disk that fills up."""
    limit = 2 * 1024
    return command(folder, words, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))


def full_disk(folder: Path, words: list[str]) -> Any:
    """Mount a full disk at `place`."""
    used = sum(-(-path.stat().st_size // 4096) * 4096 + 4096 for path in (folder / "place").rglob("*"))
    mount = f'mount -t tmpfs -o size={used // 1024 + 64}k tmpfs "$0/place"'
    fill = 'head -c 9M /dev/zero > "$0/place/filler" 2> /dev/null || true'
    return elsewhere(folder, words, f'cp -a "$0/place" "$0/store"; {mount}; cp -a "$0/store/." "$0/place/"; {fill}')


def read_only(folder: Path, words: list[str]) -> Any:
    """Mount `place` so that not even root can write there."""
    return elsewhere(folder, words, 'mount --bind "$0/place" "$0/place"; mount -o remount,bind,ro "$0/place"')


def elsewhere(folder: Path, words: list[str], setup: str) -> Any:
    """Run the command after a setup that only it sees; then copy the content of `place` to `after`."""
    mounts = ["unshare", "--mount", "--propagation", "private", "sh", "-c"]
    script = f'set -e; {setup}; set +e; "$@"; code=$?; cp -a "$0/place" "$0/after"; exit $code'
    try:
        tried = subprocess.run([*mounts, f"set -e; {setup}", str(folder)], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("this machine has no `unshare`, which makes mounts that only a test sees")
    if tried.returncode:
        pytest.skip(f"mounts are not allowed here: {tried.stderr.strip()}")
    shutil.rmtree(folder / "store", ignore_errors=True)
    return command(folder, words, [*mounts, script, str(folder)])


def contents(folder: Path) -> dict[str, bytes | None]:
    """Return the content of every file below a folder, and every folder with None."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
        if path.name not in (LOCK_NAME, "filler")  # it contains the last lock owner, and what filled the disk
    }


@pytest.mark.parametrize("what", COMMANDS)
@pytest.mark.parametrize("surroundings", [no_large_files, full_disk, read_only])
def test_nothing_is_lost_and_one_sentence_names_the_place(folder: Path, surroundings: Run, what: str) -> None:
    before = contents(folder / "place")
    done = surroundings(folder, COMMANDS[what])
    after = folder / "after" if (folder / "after").is_dir() else folder / "place"
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == ""
    assert done.stderr.startswith("kinrank: error: ")
    assert done.stderr.count("\n") == 1, done.stderr
    assert f"{folder}/place" in done.stderr
    assert contents(after) == before
