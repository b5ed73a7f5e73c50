"""One writer in a folder at a time: others wait, are told, and go on when it is gone."""

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

from kinrank.files.lock import LOCK, alone_in, forget

HOLDER = """
import sys, time
from pathlib import Path
from kinrank.files.lock import alone_in
with alone_in(Path(sys.argv[1])):
    print("in", flush=True)
    time.sleep(60)
"""


def test_one_at_a_time(tmp_path: Path) -> None:
    inside, most = 0, 0

    def work() -> None:
        nonlocal inside, most
        for _ in range(5):
            with alone_in(tmp_path):
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


def test_who_waits_too_long_is_told_for_whom_and_a_killed_process_lets_go(tmp_path: Path) -> None:
    folder = tmp_path / "busy"
    command = [sys.executable, "-c", HOLDER, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "in\n"
        told = rf"busy is being changed by process {holder.pid} on .* within 0.1 seconds"
        with pytest.raises(TimeoutError, match=told), alone_in(folder, wait=0.1):
            pytest.fail("two at once")
        os.kill(holder.pid, signal.SIGKILL)
    with alone_in(folder, wait=5):
        pass


def test_a_folder_deleted_while_we_wait_is_not_taken_for_the_new_one(tmp_path: Path) -> None:
    """The lock of a deleted folder guards nothing: who waited for it must lock what stands there now."""
    folder, got = tmp_path / "gone", []

    def wait_for_it() -> None:
        with alone_in(folder, wait=20) as made:
            got.append((made, os.stat(folder / LOCK).st_ino))

    with alone_in(folder):
        waiting = threading.Thread(target=wait_for_it)
        waiting.start()
        time.sleep(0.1)
        shutil.rmtree(folder)
        with alone_in(folder):  # another one, in the folder made anew
            new = os.stat(folder / LOCK).st_ino
            time.sleep(0.1)
            assert not got
    waiting.join()
    assert got == [(False, new)]


def test_a_folder_made_for_nothing_goes_again(tmp_path: Path) -> None:
    with alone_in(tmp_path / "new") as made:
        assert made
        forget(tmp_path / "new")
    assert not (tmp_path / "new").exists()
    with alone_in(tmp_path / "kept") as made:
        (tmp_path / "kept" / "file").touch()
        forget(tmp_path / "kept")
    assert (tmp_path / "kept" / "file").exists()
