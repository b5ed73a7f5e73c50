"""Processes that change a saved manifold until their time is over or until they are killed.

A change that such a process acknowledges was made and must never be lost. The functions of the command line are called
in the process, as `kinrank` calls them, so that a writer needs no interpreter start.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
import traceback
import zlib
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinrank as kr
from kinrank.errors import ConcurrentSaveError
from kinrank.manifold import deltas
from kinrank.manifold.saved_folder import MANIFEST, read_manifest
from kinrank.manifold.verify import verify
from reference.commands import good

KEPT = 20  # own items that a writer leaves if it also removes
PAUSE = 0.1  # longest pause between two changes in seconds; a writer without a lock has to find a gap
WRITING = {"change-": 0.0004, "data-": 0.004}  # seconds until the manifest lists the new files
CHANGES = 3  # the folder of killed writers is rewritten at every fourth change, not at every seventeenth


def row_of(name: str) -> NDArray[np.float32]:
    """Return the vector of an item, which follows from its name."""
    return np.random.default_rng(zlib.crc32(name.encode())).normal(size=(1, 6)).astype(np.float32)


def a_gallery(folder: Path, method: kr.Method) -> set[str]:
    """Save a small gallery and return the names of its items."""
    names = [f"n{number}" for number in range(90)]
    kr.Manifold.build(np.concatenate([row_of(name) for name in names]), method, ids=names).save(folder)
    return set(names)


def as_given(folder: Path) -> bool:
    """Return True if every item has its original vector."""
    manifold = kr.Manifold.load(folder)
    rows = np.concatenate([row_of(name) for name in manifold.ids.tolist()])
    return np.allclose(manifold.snapshot.vectors, rows / np.linalg.norm(rows, axis=1, keepdims=True), atol=1e-6)


def by_command(folder: Path, add: list[str], remove: list[str]) -> None:
    """Run `kinrank add` or `kinrank remove` with exit code 0."""
    if add:
        given = folder.parent / add[0]
        np.save(f"{given}.npy", np.concatenate([row_of(name) for name in add]))
        Path(f"{given}.txt").write_text("\n".join(add))
        good(folder, "add", str(folder), "--vectors", f"{given}.npy", "--ids", f"{given}.txt", "-q")
    else:
        good(folder, "remove", str(folder), *(word for name in remove for word in ("--item", name)), "-q")


def in_turn(folder: Path, add: list[str], remove: list[str]) -> None:
    """Change with `Manifold.changing`: other writers wait."""
    with kr.Manifold.changing(folder) as manifold:
        _change(manifold, add, remove)


def by_trying(folder: Path, add: list[str], remove: list[str]) -> None:
    """Load, change and save, repeatedly until no other writer interfered."""
    while True:
        manifold = kr.Manifold.load(folder)
        _change(manifold, add, remove)
        with contextlib.suppress(ConcurrentSaveError):
            manifold.save(folder)
            return


def _change(manifold: kr.Manifold, add: list[str], remove: list[str]) -> None:
    if add:
        manifold.add(np.concatenate([row_of(name) for name in add]), add)
    else:
        manifold.remove(remove)


WAYS = {way.__name__: way for way in (by_command, in_turn, by_trying)}


def write(folder: Path, who: str, way: str, seconds: float, enough: bool) -> None:
    """Add items, remove the oldest if there are many, and print a line for each: + or -, and the name.

    With `enough`, it goes on until it has removed something, which takes longer on a busy machine.
    """
    own: deque[str] = deque()
    pauses, deadline, number, removed = Random(who), time.monotonic() + seconds, 0, list[str]()
    while time.monotonic() < deadline or (enough and not removed):
        if len(own) > KEPT:
            removed = [own.popleft(), own.popleft()]
            WAYS[way](folder, [], removed)
            _say(*(f"-{name}" for name in removed))
        else:
            own.append(f"{who}-{number}")
            WAYS[way](folder, [own[-1]], [])
            _say(f"+{own[-1]}")
            number += 1
        time.sleep(pauses.random() * PAUSE)


def read_by_command(folder: Path, who: str) -> None:
    np.save(folder.parent / f"{who}.npy", row_of(who))
    good(folder, "search", str(folder), "--queries", f"{folder.parent}/{who}.npy", "-k", "5", "--json")


def read(folder: Path, who: str) -> None:
    found = kr.Manifold.load(folder).search(row_of(who), 5)
    assert found.ids.shape == (1, 5)


READERS = {reader.__name__: reader for reader in (read_by_command, read)}


def _say(*words: str) -> None:
    os.write(1, "".join(f"{word}\n" for word in words).encode())


def at_work(folder: Path, who: str, how: str, seconds: float, enough: bool) -> None:
    """Run a writer or a reader after the signal to start."""
    _say("ready")
    sys.stdin.readline()
    if how in WAYS:
        write(folder, who, how, seconds, enough)
    deadline = time.monotonic() + seconds
    while how in READERS:
        READERS[how](folder, who)
        _say("found")
        if time.monotonic() > deadline:
            break


def fork_writers(folder: Path, way: str) -> None:
    """Fork a writer for every name that is read; after it was killed, print the signal.

    It is forked from a process in which everything has run once. Its acknowledgements are on disk, in a file of its
    name next to the folder.
    """
    deltas.MAX_CHANGES = CHANGES
    WAYS[way](folder, ["first"], [])
    _say("ready")
    for line in sys.stdin:
        who, writer = line.strip(), os.fork()
        if not writer:
            try:
                _add_for_ever(folder, who, way)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        _say(str(writer))
        _say(str(os.WTERMSIG(os.waitpid(writer, 0)[1])))


def _add_for_ever(folder: Path, who: str, way: str) -> None:
    acknowledged, number = os.open(folder.parent / who, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 0
    while True:
        WAYS[way](folder, [f"{who}-{number}"], [])
        os.write(acknowledged, f"{who}-{number}\n".encode())
        os.fsync(acknowledged)
        number += 1


@contextlib.contextmanager
def started(*words: object, program: str = "reference.writers") -> Iterator[subprocess.Popen[str]]:
    """Start a process of this file, or of another program, and read its first line, which says that it is ready."""
    places = [str(Path(__file__).parents[1]), str(Path(kr.__file__).parents[1])]
    command = [sys.executable, "-m", program, *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places), "KINRANK_THREADS": "1"}
    pipe: Any = subprocess.PIPE
    with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def at_once(folder: Path, how: list[str], seconds: float, enough: bool = False) -> list[list[str]]:
    """Run writers and readers at the same time; return the lines of each."""
    with contextlib.ExitStack() as stack:
        processes = [
            stack.enter_context(started("at_work", folder, f"w{who}", each, seconds, *["enough"] * enough))
            for who, each in enumerate(how)
        ]
        for process in processes:
            assert process.stdin is not None
            print("go", file=process.stdin, flush=True)
        message = [process.communicate(timeout=seconds + 900)[0].split() for process in processes]
        assert [process.returncode for process in processes] == [0] * len(processes)
    return message


def left_by_lines(message: list[list[str]]) -> set[str]:
    """Return what remains after all acknowledged additions and removals; no name occurs twice."""
    lines = [line for each in message for line in each]
    added, removed = ({line[1:] for line in lines if line[0] == sign} for sign in "+-")
    assert removed <= added
    return added - removed


def killed(folder: Path, way: str, kills: int, seed: int, both: bool = False) -> Counter[str]:
    """Kill writers one after the other; return what they were doing: "append", "rewrite", or something else.

    Some are killed at any moment of their first changes, others during an append or a rewrite. With `both`, there are
    more kills, up to 20 times as many, until an append and a rewrite were hit.

    After every kill the folder is intact and holds everything that was acknowledged, at most one more item that its
    writer was about to add, and nothing else.
    """
    moments, hit, seen = Random(seed), Counter[str](), set[str]()
    WAYS[way](folder, ["before"], [])  # all kernels are compiled
    started_at = time.perf_counter()
    WAYS[way](folder, ["pace"], [])
    pace = time.perf_counter() - started_at
    with started("fork_writers", folder, way) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        known = set(kr.Manifold.load(folder).ids.tolist())
        for kill in range(20 * kills):
            if kill >= kills and (not both or (hit["append"] and hit["rewrite"])):
                break
            who = f"k{kill}"
            print(who, file=parent.stdin, flush=True)
            writer = int(parent.stdout.readline())
            part = moments.choice(["", "change-", "change-", "data-"])
            _await(folder, part)
            time.sleep(moments.random() * WRITING.get(part, 4 * pace))
            os.kill(writer, signal.SIGKILL)
            assert int(parent.stdout.readline()) == signal.SIGKILL
            left = _unnamed(folder) - seen
            hit[_work_at(folder, left)] += 1
            seen |= left
            log = folder.parent / who
            acknowledged = log.read_text().split() if log.exists() else []
            assert verify(folder).whole
            there = set(kr.Manifold.load(folder).ids.tolist())
            expected = known | set(acknowledged)
            assert expected <= there <= expected | {f"{who}-{len(acknowledged)}"}
            known = there
    assert as_given(folder)
    return hit


def _await(folder: Path, part: str) -> None:
    """Return as soon as a new part of this kind is being written; at once for none, and after a minute in any case."""
    before, deadline = set(os.listdir(folder)), time.monotonic() + 60
    while part and time.monotonic() < deadline:  # without a pause, which would be longer than the write
        if any(name.startswith(part) for name in set(os.listdir(folder)) - before):
            return


def _unnamed(folder: Path) -> set[str]:
    """Return files and folders that the manifest does not list: a writer was killed before or after it was replaced."""
    manifest = (folder / MANIFEST).read_text()
    return {path.name for path in folder.iterdir() if path.name.startswith(("data-", "change-"))} - {
        path.name for path in folder.iterdir() if path.name in manifest
    }


def _work_at(folder: Path, left: set[str]) -> str:
    """Return what the process that left this was doing.

    After a rewrite a manifest lists no changes until the next one.
    """
    if any(name.startswith("data-") for name in left):
        return "rewrite"
    return "append" if left and read_manifest(folder)["changes"] else "something else"


if __name__ == "__main__":
    what, target, *others = sys.argv[1:]
    if what == "at_work":
        at_work(Path(target), others[0], others[1], float(others[2]), "enough" in others)
    else:
        fork_writers(Path(target), others[0])
