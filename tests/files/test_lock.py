"""One writer per folder: others wait, get an error that names it, and continue after it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from kinrank.files.atomic import LOCK_NAME, folder_lock, remove_unused_folder

HOLDER = """
import sys, time
from pathlib import Path
from kinrank.files.atomic import folder_lock
with folder_lock(Path(sys.argv[1])):
    print("in", flush=True)
    time.sleep(600)
"""


def test_one_at_a_time(tmp_path: Path) -> None:
    inside, most = 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(5):
            with folder_lock(tmp_path):
                inside += 1
                most = max(most, inside)
                time.sleep(0.002)
                inside -= 1

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert most == 1


def test_a_timeout_names_the_owner_and_a_killed_process_releases_the_lock(tmp_path: Path) -> None:
    folder = tmp_path / "busy"
    command = [sys.executable, "-c", HOLDER, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "in\n"
        owner = rf"busy is being changed by process {holder.pid} on .* within 0.1 seconds"
        with pytest.raises(TimeoutError, match=owner), folder_lock(folder, wait=0.1):
            pytest.fail("two at once")
        os.kill(holder.pid, signal.SIGKILL)
    with folder_lock(folder, wait=60):
        pass


def test_a_folder_deleted_while_we_wait_is_not_taken_for_the_new_one(tmp_path: Path) -> None:
    """The lock of a deleted folder protects nothing: a waiting process must lock the new folder."""
    folder, got = tmp_path / "gone", []

    def wait_for_it() -> None:
        with folder_lock(folder, wait=120) as made:
            got.append((made, os.stat(folder / LOCK_NAME).st_ino))

    with folder_lock(folder):
        waiting = threading.Thread(target=wait_for_it)
        waiting.start()
        time.sleep(0.1)
        shutil.rmtree(folder)
        with folder_lock(folder):  # another lock, in the new folder
            new = os.stat(folder / LOCK_NAME).st_ino
            time.sleep(0.1)
            assert not got
    waiting.join()
    assert got == [(False, new)]


def test_an_unused_folder_is_removed(tmp_path: Path) -> None:
    with folder_lock(tmp_path / "new") as made:
        assert made
        remove_unused_folder(tmp_path / "new")
    assert not (tmp_path / "new").exists()
    with folder_lock(tmp_path / "kept") as made:
        (tmp_path / "kept" / "file").touch()
        remove_unused_folder(tmp_path / "kept")
    assert (tmp_path / "kept" / "file").exists()
