"""Services that misbehave on purpose, by a `sitecustomize` that all their interpreters run.

While the file `slow` exists in the folder, searches for 7 results and changes of an item named "slow" take ten
minutes, without looking at their deadline; they leave the file `began` or `changing`. While the file `stuck` exists,
`/health` blocks the event loop.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

PROGRAM = """
import pathlib, time

FOLDER = pathlib.Path({folder!r})


def sabotage():
    from kinrank.manifold import Manifold
    from kinrank.web.http import http_app
    from kinrank.web.writes.gallery_writer import Writer
    from kinrank.web.server import worker_process

    worker_process.HUNG_SECONDS = {hung}
    search, put, respond = Manifold.search, Writer.put, http_app.make_json_response

    def wait(name):
        if (FOLDER / "slow").exists():
            (FOLDER / name).touch()
            time.sleep(600)

    def slow_search(self, queries, k=10, *given, **named):
        if k == 7:
            wait("began")
        return search(self, queries, k, *given, **named)

    def slow_put(self, vectors, ids=None, replace=False):
        if ids == ["slow"]:
            wait("changing")
        return put(self, vectors, ids, replace)

    def stuck(content, *given):
        if content == {{"status": "alive"}} and (FOLDER / "stuck").exists():
            (FOLDER / "stuck").unlink()
            time.sleep(600)
        return respond(content, *given)

    Manifold.search, Writer.put, http_app.make_json_response = slow_search, slow_put, stuck


sabotage()
"""


def sabotage(folder: Path, monkeypatch: pytest.MonkeyPatch, hung: float = 10.0) -> None:
    """Let services started from now on misbehave; `hung`: seconds after which a worker counts as hung."""
    code = folder / "sabotage"
    code.mkdir()
    (code / "sitecustomize.py").write_text(PROGRAM.format(folder=str(folder), hung=hung))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(code), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep))
