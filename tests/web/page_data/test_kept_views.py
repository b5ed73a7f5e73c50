"""Uploads and marks of the page under short ids."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kinrank.errors import InputError
from kinrank.web.page_data import kept_views
from kinrank.web.page_data.kept_views import KeptViews


def test_equal_views_have_the_same_short_id(tmp_path: Path) -> None:
    views, other = KeptViews(str(tmp_path)), KeptViews(str(tmp_path))
    name = views.put('{"right":["ü"]}')
    assert other.get(name) == '{"right":["ü"]}', "another process"
    assert other.put('{"right":["ü"]}') == name
    assert len(name) == 10
    assert views.put("{}") != name


@pytest.mark.parametrize("name", ["", "..", "../x", "absent", "a/b", "ü", "nul\0", "a" * 400])
def test_other_names_are_no_files(tmp_path: Path, name: str) -> None:
    (tmp_path / "x").write_text("secret")
    assert KeptViews(str(tmp_path)).get(name) is None


def test_the_oldest_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_views, "MAX_VIEWS", 3)
    views = KeptViews(str(tmp_path))
    ids = []
    for number in range(5):
        ids.append(views.put(str(number)))
        os.utime(tmp_path / "views" / ids[-1], (number, number))
    assert [views.get(name) for name in ids] == [None, None, "2", "3", "4"]


def test_limits(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="keeps no views"):
        KeptViews("").put("{}")
    with pytest.raises(InputError, match="bytes"):
        KeptViews(str(tmp_path)).put("x" * (kept_views.MAX_VIEW_BYTES + 1))
    assert KeptViews("").get("abc") is None
