"""Atomic writing: files left by killed writers, and several writers of one path."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kinrank.files.atomic import atomic_write

KILLED = (
    "import os, signal, sys\n"
    "from kinrank.files.atomic import atomic_write\n"
    "with atomic_write(sys.argv[1]) as file:\n"
    "    file.write(b'half' * 10_000)\n"
    "    file.flush()\n"
    "    os.kill(os.getpid(), signal.SIGKILL)\n"
)


def write(path: Path, content: bytes) -> None:
    with atomic_write(path) as file:
        file.write(content)


def test_the_next_writer_reuses_the_file_of_a_killed_one(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    for _ in range(3):
        assert subprocess.run([sys.executable, "-c", KILLED, str(path)]).returncode == -9
    assert len(list(tmp_path.iterdir())) == 1
    write(path, b"whole")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {"a.bin": b"whole"}


def test_writers_of_one_path_do_not_disturb_each_other(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    with atomic_write(path) as outer:
        outer.write(b"outer")
        write(path, b"inner")
        assert path.read_bytes() == b"inner"
        write(path, b"again")
        assert path.read_bytes() == b"again"
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {"a.bin": b"outer"}
    with pytest.raises(RuntimeError), atomic_write(path):
        raise RuntimeError
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == {"a.bin": b"outer"}


def test_many_processes_write_one_path(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    program = (
        "import sys\n"
        "from kinrank.files.atomic import atomic_write\n"
        "for _ in range(200):\n"
        "    with atomic_write(sys.argv[1]) as file:\n"
        "        file.write(sys.argv[2].encode() * 5000)\n"
        "    content = open(sys.argv[1], 'rb').read()\n"
        "    assert len(content) == 5000 and len(set(content)) == 1, content[:20]\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", program, str(path), letter]) for letter in "abc"]
    assert [one.wait(timeout=300) for one in running] == [0, 0, 0]
    assert [file.name for file in tmp_path.iterdir()] == ["a.bin"]


def test_links_and_hard_links_under_the_temporary_name_are_not_written_to(tmp_path: Path) -> None:
    victim, temporary = tmp_path / "victim", tmp_path / ".a.bin.new.part"
    victim.write_bytes(b"precious")
    for link in (os.symlink, os.link):
        link(victim, temporary)
        write(tmp_path / "a.bin", b"content")
        assert victim.read_bytes() == b"precious"
        assert (tmp_path / "a.bin").read_bytes() == b"content"
        temporary.unlink()


def test_permissions_are_those_of_a_new_file(tmp_path: Path) -> None:
    write(tmp_path / "a.bin", b"content")
    (tmp_path / "b.bin").write_bytes(b"content")
    assert (tmp_path / "a.bin").stat().st_mode == (tmp_path / "b.bin").stat().st_mode
