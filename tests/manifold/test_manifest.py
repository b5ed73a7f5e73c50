"""A manifest with a valid checksum and invalid content raises an InputError."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import kinrank as kr
from faults.corruption import vectors
from kinrank.manifold.saved_folder import MANIFEST, read_manifest, seal_manifest
from kinrank.manifold.verify import verify

WRONG: list[Any] = [float("nan"), None, 3, "text", [], [1], {"vectors": [3]}, {"vectors": {"dtype": 1}}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    kr.Manifold.build(vectors(1, 12), kr.methods.AQE(k=2)).save(tmp_path / "m")
    return tmp_path / "m"


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
@pytest.mark.parametrize("key", ["arrays", "facts", "parameters", "data", "method"])
def test_fields_of_another_kind_are_refused(folder: Path, key: str, wrong: Any) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(seal_manifest(manifest | {key: wrong})))
    with pytest.raises(ValueError):
        kr.Manifold.load(folder)
    assert not verify(folder).whole  # and it terminates


def test_a_manifest_without_end_is_refused(folder: Path) -> None:
    for content in ("[" * 10**5, '{"a":' * 10**5):
        (folder / MANIFEST).write_text(content)
        with pytest.raises(ValueError, match=f"{MANIFEST} is truncated or is not JSON"):
            read_manifest(folder)
        assert list(verify(folder).bad) == [MANIFEST]


def test_a_manifest_that_is_nested_almost_too_deeply_is_refused(folder: Path) -> None:
    """At some depth it can be read, but its checksum cannot be computed."""
    text = json.dumps(json.loads((folder / MANIFEST).read_text()) | {"store": "deep"})
    for depth in range(sys.getrecursionlimit() - 200, sys.getrecursionlimit() + 10):
        (folder / MANIFEST).write_text(text.replace('"deep"', "[" * depth + "]" * depth))
        with pytest.raises(ValueError, match=f"{MANIFEST} (is truncated or is not JSON|was altered)"):
            read_manifest(folder)


def test_a_pipe_for_a_manifest_is_refused(folder: Path) -> None:
    (folder / MANIFEST).unlink()
    os.mkfifo(folder / MANIFEST)
    with pytest.raises(ValueError, match=f"{MANIFEST} is not a file"):
        kr.Manifold.load(folder)
