"""Texts of items are reloaded when their file changes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kinrank.display import display as module
from kinrank.display.display import ItemTexts


def test_texts_that_come_later_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TEXT_RECHECK_SECONDS", 0.0)
    path = tmp_path / "texts.json"
    path.write_text(json.dumps({"a": "one", "b": "x" * 5000}))
    texts = ItemTexts(str(path), ["a", "b"])
    assert texts
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


def test_no_file_means_no_texts() -> None:
    assert not ItemTexts(None, ["a"])
    assert ItemTexts(None, ["a"]).get("a") is None
