"""Texts beside items: read again when the file was written anew."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kinrank.web.shown import texts as module
from kinrank.web.shown.texts import Texts


def test_texts_that_come_later_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PAUSE", 0.0)
    path = tmp_path / "texts.json"
    path.write_text(json.dumps({"a": "one", "b": "x" * 5000}))
    texts = Texts(str(path), ["a", "b"])
    assert texts.any
    assert texts.get("a") == "one"
    assert len(texts.get("b") or "") == 2000
    path.write_text(json.dumps({"a": "two", "c": "three"}))
    os.utime(path, ns=(1, 1))
    assert (texts.get("a"), texts.get("b"), texts.get("c")) == ("two", None, "three")
    path.write_text("broken")
    os.utime(path, ns=(2, 2))
    assert texts.get("a") == "two"
    path.unlink()
    assert texts.get("a") == "two"


def test_without_a_file_there_are_none() -> None:
    assert not Texts(None, ["a"]).any
    assert Texts(None, ["a"]).get("a") is None
