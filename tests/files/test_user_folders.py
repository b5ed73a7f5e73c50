"""Temporary folders are removed at the end, those of killed processes by the next process, and never while in use."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kinrank.files.atomic import LOCK_NAME
from kinrank.files.user_folders import remove_abandoned_folders, scratch_folder

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="folders of killed processes stay on Windows")

PROGRAM = """
import time
from kinrank.files.user_folders import scratch_folder
with scratch_folder() as folder:
    (folder / "sub").mkdir()
    (folder / "sub" / "file").write_text("content")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder for temporary files of this test and of its processes."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


@contextmanager
def process() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Start a process with a temporary folder; kill it at the end."""
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            yield running, Path(running.stdout.readline().strip())
        finally:
            running.kill()


def test_the_folder_is_removed_after_the_block(place: Path) -> None:
    with scratch_folder() as folder:
        assert folder.parent == place
        assert folder.name.startswith("kinrank-")
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "file").write_text("content")
        remove_abandoned_folders()
        assert (folder / "file").exists()
    assert list(place.iterdir()) == []
    with pytest.raises(KeyError), scratch_folder() as folder:
        raise KeyError
    assert list(place.iterdir()) == []


def test_only_folders_of_killed_processes_are_removed(place: Path) -> None:
    with process() as (running, first), process() as (_, second):
        remove_abandoned_folders()
        assert (first / "sub" / "file").exists()
        running.send_signal(signal.SIGKILL)
        running.wait()
        assert (first / "sub" / "file").exists()
        with scratch_folder() as third:
            assert {path.name for path in place.iterdir()} == {second.name, third.name}
            assert (second / "sub" / "file").exists()


def test_links_folders_of_others_and_folders_without_a_lock_stay(place: Path) -> None:
    kept = place / "kept"
    kept.mkdir()
    (kept / LOCK_NAME).touch()
    (place / "kinrank-link").symlink_to(kept)  # a link to a folder
    for name in ("without-lock", "link-as-lock", "of-another"):
        (place / f"kinrank-{name}").mkdir()
        (place / f"kinrank-{name}" / "file").write_text("content")
    (place / "kinrank-link-as-lock" / LOCK_NAME).symlink_to(kept / LOCK_NAME)
    (place / "kinrank-file").write_text("content")
    (place / "kinrank-of-another" / LOCK_NAME).touch()
    if os.getuid() == 0:
        os.chown(place / "kinrank-of-another", 12345, 12345)
    else:
        (place / "kinrank-of-another" / LOCK_NAME).unlink()
    before = sorted(place.rglob("*"))
    remove_abandoned_folders()
    assert sorted(place.rglob("*")) == before


def test_the_target_of_a_link_in_an_abandoned_folder_stays(place: Path) -> None:
    (place / "kept").mkdir()
    (place / "kept" / "file").write_text("content")
    with process() as (running, folder):
        (folder / "link").symlink_to(place / "kept")
        running.kill()
        running.wait()
        remove_abandoned_folders()
        assert not folder.exists()
    assert (place / "kept" / "file").exists()


def test_a_service_that_is_killed_leaves_nothing_after_the_next_one(place: Path, tmp_path: Path) -> None:
    pytest.importorskip("fastapi", reason="the service needs the extra [web]")
    command = [sys.executable, "-m", "kinrank.cli", "serve", "--port", "0", "-q"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith("http://")
        assert [path.name[:8] for path in place.iterdir()] == ["kinrank-"]
        running.kill()
    assert [path.name[:8] for path in place.iterdir()] == ["kinrank-"]
    with scratch_folder():
        pass
    assert list(place.iterdir()) == []
