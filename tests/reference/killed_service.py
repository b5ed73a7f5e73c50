"""A service that acknowledges changes and is killed before it applies them: they are only in its log."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np

import kinrank as kr
from kinrank.web.writes.checkpointer import Checkpointer
from kinrank.web.writes.gallery_writer import Writer

Change = dict[str, Any]  # {"put": {name: vector}} or {"remove": [name, ...]}


def leave_log(folder: Path, changes: list[Change]) -> None:
    """Start a process that acknowledges these changes to a folder, then kill it with SIGKILL."""
    command = [sys.executable, "-m", "reference.killed_service", str(folder), json.dumps(changes)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]) as process:
        assert process.stdout is not None
        message = process.stdout.readline()
        process.kill()
    assert message == "acknowledged\n", message
    assert process.returncode == -signal.SIGKILL


def vectors_in(folder: Path) -> dict[Any, list[float]]:
    """Return the rows of all items, by name, that a service has after starting on the folder."""
    with Writer(folder) as writer:
        return rows_of(writer.manifold)


def rows_of(manifold: kr.Manifold) -> dict[Any, list[float]]:
    """Return the rows of all items by name, rounded, of length 1."""
    snapshot = manifold.snapshot
    rows = np.asarray(snapshot.vectors)[snapshot.remembered.items]
    return dict(zip(manifold.ids.tolist(), rows.round(4).tolist(), strict=True))


def _acknowledge(folder: Path, changes: list[Change]) -> None:
    Checkpointer.apply = lambda *_: threading.Event().wait()  # type: ignore[method-assign]  # logged changes stay in the log
    writer = Writer(folder)
    for change in changes:
        if "remove" in change:
            writer.remove(change["remove"])
        else:
            writer.put(list(change["put"].values()), list(change["put"]), replace=True)
    os.write(1, b"acknowledged\n")
    threading.Event().wait()


if __name__ == "__main__":
    _acknowledge(Path(sys.argv[1]), json.loads(sys.argv[2]))
