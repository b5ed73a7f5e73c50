"""A service killed repeatedly while it is changed: acknowledged changes are there, and nothing else."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

import kinrank as kr
from faults.service_writers import WHO, a_gallery, content_of, forking, found_in, made, row_of
from kinrank.manifold.saved_folder import MANIFEST, log_path
from kinrank.manifold.verify import verify
from kinrank.web.writes import gallery_writer as module
from kinrank.web.writes.gallery_writer import FolderInUseError, UnavailableError, Writer
from kinrank.web.writes.replica import Replica
from kinrank.web.writes.writer_socket import WriterSocket

pytestmark = [pytest.mark.faults, pytest.mark.slow]

KILLS = int(os.environ.get("KINRANK_KILLS", "40"))
WRITING = {"change-": 0.0004, "data-": 0.004, ".log.": 0.001, "": 0.15}  # seconds within which it is killed
SMALL = kr.LPMT(k1=8, k2=3, k=3, path_k=3, support=8)
Items = dict[str, int]  # the edition of every item


class Expected:
    """The expected items of each thread: everything acknowledged, and the change under way completely or not at all."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.outcomes = folder, Counter[str]()
        self.sure: dict[str, Items] = {who: {} for who in WHO}
        self.maybe: dict[str, Items | None] = dict.fromkeys(WHO)

    def tell(self) -> None:
        """Write the possible editions of its items for the next process."""
        known: dict[str, dict[str, list[int]]] = {}
        for who in WHO:
            states = [self.sure[who], self.maybe[who] or {}]
            names = {name for state in states for name in state}
            known[who] = {name: sorted({state[name] for state in states if name in state}) for name in names}
        (self.folder.parent / "known").write_text(json.dumps(known))
        for who in WHO:
            (self.folder.parent / who).unlink(missing_ok=True)
        (self.folder.parent / "there").unlink(missing_ok=True)

    def check(self, content: dict[str, list[float]]) -> None:
        """Check the items that a process found when it started."""
        for number in range(60):
            assert found_in(content, f"n{number}", [0]) == 0
        others = {name for name in content if not name.startswith("n")}
        for who in WHO:
            mine = {name for name in others if name.startswith(who)}
            others -= mine
            possible = [state for state in (self.sure[who], self.maybe[who]) if state is not None]
            there = [state for state in possible if set(state) == mine and _same(content, state)]
            assert there, f"{sorted(mine)} is neither of {possible}"
            if self.maybe[who] is not None:
                self.outcomes["made" if there[-1] is self.maybe[who] else "not made"] += 1
            self.sure[who], self.maybe[who] = there[-1], None
        assert not others

    def note(self) -> None:
        """Read what the threads did until they were killed."""
        for who in WHO:
            path = self.folder.parent / who
            lines = path.read_text().splitlines() if path.exists() else []
            for line, answer in zip(lines[::2], [*lines[1::2], ""], strict=False):
                after = made(self.sure[who], json.loads(line))
                if answer == "made":
                    self.sure[who] = after
                    self.outcomes["acknowledged"] += 1
                else:
                    self.maybe[who] = after


def _same(content: dict[str, list[float]], state: Items) -> bool:
    try:
        return all(found_in(content, name, [edition]) == edition for name, edition in state.items())
    except StopIteration:
        return False


def left_over(folder: Path) -> set[str]:
    """Return what a killed process left: files that no manifest lists, and a log that was being restarted."""
    manifest = (folder / MANIFEST).read_text()
    unnamed = {path.name for path in folder.iterdir() if path.name.startswith(("change-", "data-"))}
    parts = {path.name for path in folder.parent.glob(f".{log_path(folder).name}.*")}
    return {name for name in unnamed if name not in manifest} | parts


def awaited(folder: Path, part: str) -> None:
    """Wait until something of this kind is written, at most a second; return at once for nothing."""

    def names() -> set[str]:
        return {*os.listdir(folder), *os.listdir(folder.parent)}

    before, deadline = names(), time.monotonic() + 1
    while part and time.monotonic() < deadline and not any(part in name for name in names() - before):
        pass


def kill(process: subprocess.Popen[str], turn: int, folder: Path, moments: Random) -> None:
    """Start a writer and kill it, at a random moment or while a file is being written."""
    assert process.stdin is not None
    assert process.stdout is not None
    print(turn, file=process.stdin, flush=True)
    writer = int(process.stdout.readline())
    started, deadline = folder.parent / "there", time.monotonic() + 60
    part = moments.choice([*WRITING, ".log.", "start"])
    while part != "start" and not started.exists() and time.monotonic() < deadline:
        time.sleep(0.001)
    awaited(folder, part if part in WRITING else "")
    time.sleep(moments.random() * WRITING.get(part, 0.05))
    os.kill(writer, signal.SIGKILL)
    assert int(process.stdout.readline()) == signal.SIGKILL


Enough = Callable[[Counter[str], Counter[str]], bool]


def kill_often(folder: Path, method: kr.Method, kills: int, enough: Enough) -> tuple[Counter[str], Counter[str]]:
    """Return the outcomes of changes, and the file that was being written at each kill.

    It is killed so often, and then up to 20 times as often until there is `enough` of both: how far a writer comes
    before a kill depends on other programs.
    """
    a_gallery(folder, method)
    moments, hit, expected, seen = Random(7), Counter[str](), Expected(folder), set[str]()
    with forking(folder) as process:
        for turn in range(20 * kills):
            if turn >= kills and enough(expected.outcomes, hit):
                break
            expected.tell()
            kill(process, turn, folder, moments)
            if (there := folder.parent / "there").exists():
                expected.check(json.loads(there.read_text()))
                expected.note()
            fresh = left_over(folder) - seen
            seen |= fresh
            hit += Counter("log" if ".log." in name else name.split("-")[0] for name in fresh)
    with Writer(folder) as writer:
        expected.check(content_of(writer.manifold))
    assert verify(folder).whole
    expected.check(content_of(kr.Manifold.load(folder)))
    assert left_over(folder) == set()
    return expected.outcomes, hit


def test_killed_during_changes(tmp_path: Path) -> None:
    """Half of them in a gallery whose changes are fast, half in one whose changes take longer."""

    def enough(outcomes: Counter[str], hit: Counter[str]) -> bool:
        every = [outcomes["made"], outcomes["not made"], hit["change"], hit["data"], hit["log"]]
        return outcomes["acknowledged"] > 2 * KILLS and min(every) > 0

    for method in (kr.methods.AQE(k=3), SMALL):
        (tmp_path / method.name).mkdir()
        outcomes, hit = kill_often(tmp_path / method.name / "gallery", method, KILLS // 2, enough)
        assert enough(outcomes, hit), (outcomes, hit)


def test_the_lock_ends_with_its_process_and_so_do_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOCK_WAIT_SECONDS", 0.2)
    folder, socket = tmp_path / "gallery", str(tmp_path / "socket")
    a_gallery(folder, kr.methods.AQE(k=3))
    expected = Expected(folder)
    with forking(folder) as process, Replica(folder, None, socket) as worker:
        assert process.stdin is not None
        assert process.stdout is not None
        expected.tell()
        print(0, file=process.stdin, flush=True)
        number = int(process.stdout.readline())
        while not (tmp_path / "there").exists():
            time.sleep(0.01)
        with pytest.raises(FolderInUseError, match=f"is served or changed by process {number} on"):
            Writer(folder)
        with pytest.raises(UnavailableError, match="the writer is not running"):
            worker.remove(["n0"])
        os.kill(number, signal.SIGKILL)
        assert int(process.stdout.readline()) == signal.SIGKILL
        expected.check(json.loads((tmp_path / "there").read_text()))
        expected.note()
        with Writer(folder) as writer:
            listening: Any = WriterSocket(writer, socket)
            assert worker.wait(writer.version, 180)
            expected.check(content_of(worker.manifold))
            assert worker.put(row_of("mine", 0)[None], ["mine"]).version == writer.logged
            listening.close()
