"""Processes with a writer that change its gallery from three threads until they are killed.

Each thread writes to its own file: a line before a change, and a line after its acknowledgement. Threads change only
items with their own ids, so that the expected content follows from their own lines.
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
from kinrank.files.atomic import atomic_write
from kinrank.manifold import deltas
from kinrank.web.writes.gallery_writer import Writer
from reference.writers import started

WHO = ("t0", "t1", "t2")  # the threads
FOLD = 2000  # bytes: the log is restarted often
CHANGES = 2  # all arrays are written at every third save
OWN = 12  # maximum number of a thread's items


def row_of(name: str, edition: int) -> NDArray[np.float32]:
    """Return the vector of an item, derived from its id and the number of replacements."""
    seed = zlib.crc32(f"{name}/{edition}".encode())
    return np.random.default_rng(seed).normal(size=6).astype(np.float32)


def a_gallery(folder: Path, method: kr.Method) -> None:
    names = [f"n{number}" for number in range(60)]
    kr.Manifold.build(np.stack([row_of(name, 0) for name in names]), method, ids=names).save(folder)


def made(items: dict[str, int], change: dict[str, Any]) -> dict[str, int]:
    """Return the items, by id and edition, after a change."""
    if change["kind"] == "remove":
        return {name: edition for name, edition in items.items() if name not in change["items"]}
    return {**items, **change["items"]}


def next_change(random: Random, items: dict[str, int], who: str, number: int) -> dict[str, Any]:
    """Return a possible change: items are put, replaced or removed."""
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
    """Write the existing items to the file `there`, and change them; `known` contains the state of each thread."""
    writer = Writer(folder, max_obsolete_bytes=FOLD)
    content = content_of(writer.manifold)
    with atomic_write(folder.parent / "there") as file:
        file.write(json.dumps(content).encode())
    known = json.loads((folder.parent / "known").read_text())
    for who in WHO:
        mine = {name: found_in(content, name, editions) for name, editions in known[who].items() if name in content}
        words = [writer, folder, who, mine, turn]
        threading.Thread(target=change_for_ever, args=words, daemon=True).start()
    time.sleep(600)


def content_of(manifold: kr.Manifold) -> dict[str, list[float]]:
    """Return the vector of every item."""
    return {name: row.tolist() for name, row in zip(manifold.ids.tolist(), manifold.snapshot.vectors, strict=True)}


def found_in(content: dict[str, list[float]], name: str, editions: list[int]) -> int:
    """Return which of these editions of an item exists; raise an error if none does."""
    rows = {edition: row_of(name, edition) for edition in editions}
    near = (one for one, row in rows.items() if np.allclose(content[name], row / np.linalg.norm(row), atol=1e-6))
    return next(near)


def _say(word: str) -> None:
    os.write(1, f"{word}\n".encode())


def fork_writers(folder: Path) -> None:
    """For every line of input, fork a process with a writer, and print the signal that killed it."""
    deltas.MAX_CHANGES = CHANGES
    with Writer(folder) as writer:  # everything has run once, so it is compiled
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
    """Start the process that forks writers, and wait until it is ready."""
    return started(folder, program="faults.service_writers")


if __name__ == "__main__":
    fork_writers(Path(sys.argv[1]))
