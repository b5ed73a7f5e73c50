"""The cache folder of the user."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinrank.files.user_folders import cache_folder


def test_the_environment_decides(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder("bench") == tmp_path / "kinrank" / "bench"


@pytest.mark.parametrize(
    ("system", "place"), [("linux", ".cache"), ("darwin", "Library/Caches"), ("win32", "AppData/Local")]
)
def test_each_system_has_its_place(system: str, place: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("sys.platform", system)
    assert cache_folder("bench") == tmp_path / place / "kinrank" / "bench"
