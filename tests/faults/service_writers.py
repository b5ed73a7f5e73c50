"""Processes that hold a Writer, and change its gallery from three threads until they are killed.

What each thread is about to do, and what was acknowledged, stands in a file of its own: a line before a change, and a
line after it. Threads change items of their own names only, so that what must be there follows from their own lines.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import traceback
import zlib
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kinrank as kr
from kinrank.files.atomic import replacing
from kinrank.manifold import journal
from kinrank.web.lasting.writer import Writer
from reference.writers import started

WHO = ("t0", "t1", "t2")  # the threads
FOLD = 2000  # bytes: the log is begun anew again and again
CHANGES = 2  # the folder is written anew at every third save
OWN = 12  # items that a thread keeps at most


def row_of(name: str, edition: int) -> NDArray[np.float32]:
    """The vector of an item, which follows from its name and from how often it was replaced."""
    seed = zlib.crc32(f"{name}/{edition}".encode())
    return np.random.default_rng(seed).normal(size=6).astype(np.float32)


def a_gallery(folder: Path, method: kr.Method) -> None:
    names = [f"n{number}" for number in range(60)]
    kr.Manifold.build(np.stack([row_of(name, 0) for name in names]), method, ids=names).save(folder)


def made(items: dict[str, int], change: dict[str, Any]) -> dict[str, int]:
    """Items, by name and edition, after a change."""
    if change["kind"] == "remove":
        return {name: edition for name, edition in items.items() if name not in change["items"]}
    return {**items, **change["items"]}


def next_change(random: Random, items: dict[str, int], who: str, number: int) -> dict[str, Any]:
    """Something that can be done with these items: some are put, replaced, or removed."""
    some = random.sample(sorted(items), min(len(items), random.randint(1, 3)))
    kind = random.choice(["put", "replace", "remove"]) if len(items) < OWN else "remove"
    if kind == "remove" and some:
        return {"kind": "remove", "items": some}
    fresh = {f"{who}-{number}-{place}": 0 for place in range(random.randint(1, 3))}
    if kind == "replace" and some:
        fresh |= {name: items[name] + 1 for name in some}
    return {"kind": "put", "items": fresh}


def change_for_ever(writer: Writer, folder: Path, who: str, items: dict[str, int], seed: int) -> None:
    random, number = Random(seed), 0
    lines = os.open(folder.parent / who, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    while True:
        change = next_change(random, items, f"{who}{seed}", number)
        os.write(lines, f"{json.dumps(change)}\n".encode())
        if change["kind"] == "remove":
            writer.remove(change["items"])
        else:
            rows = np.stack([row_of(name, edition) for name, edition in change["items"].items()])
            writer.put(rows, list(change["items"]), replace=True)
        os.write(lines, b"made\n")
        items, number = made(items, change), number + 1


def at_work(folder: Path, turn: int) -> None:
    """Start, say what is there in the file `there`, and change it: for each thread, what the file `known` says."""
    writer = Writer(folder, fold=FOLD)
    content = content_of(writer.manifold)
    with replacing(folder.parent / "there") as file:
        file.write(json.dumps(content).encode())
    known = json.loads((folder.parent / "known").read_text())
    for who in WHO:
        mine = {name: found_in(content, name, editions) for name, editions in known[who].items() if name in content}
        words = [writer, folder, who, mine, turn]
        threading.Thread(target=change_for_ever, args=words, daemon=True).start()
    time.sleep(60)


def content_of(manifold: kr.Manifold) -> dict[str, list[float]]:
    """The vector of every item."""
    return {name: row.tolist() for name, row in zip(manifold.ids.tolist(), manifold._snapshot.vectors, strict=True)}


def found_in(content: dict[str, list[float]], name: str, editions: list[int]) -> int:
    """Which of some editions of an item is there; an error if it is none of them."""
    rows = {edition: row_of(name, edition) for edition in editions}
    near = (one for one, row in rows.items() if np.allclose(content[name], row / np.linalg.norm(row), atol=1e-6))
    return next(near)


def _say(word: str) -> None:
    os.write(1, f"{word}\n".encode())


def fork_writers(folder: Path) -> None:
    """For every turn that comes in: a process with a writer, and once it is killed, the signal that did it."""
    journal.CHANGES = CHANGES
    with Writer(folder) as writer:  # everything has run once, and is compiled
        writer.put(row_of("warm", 0)[None], ["warm"])
        writer.remove(["warm"])
    _say("ready")
    for line in sys.stdin:
        writer_process = os.fork()
        if not writer_process:
            try:
                at_work(folder, int(line))
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        _say(str(writer_process))
        _say(str(os.WTERMSIG(os.waitpid(writer_process, 0)[1])))


def forking(folder: Path) -> AbstractContextManager[subprocess.Popen[str]]:
    """The process that forks writers, when it is ready."""
    return started(folder, program="faults.service_writers")


if __name__ == "__main__":
    fork_writers(Path(sys.argv[1]))
