"""The cache of measurements: what was measured once is read, what is damaged or different is measured again."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank as kr
from kinrank.bench import cache as module
from kinrank.bench.cache import Cache, code, default_folder, digest

KEY = {"what": "test", "k": 3, "name": "é"}


class Measure:
    """Counts how often it is asked."""

    def __init__(self, value: float = 0.1) -> None:
        self.value, self.times = value, 0

    def __call__(self) -> dict[str, Any]:
        self.times += 1
        return {"value": self.value, "list": (1, None)}


def test_measured_once(tmp_path: Path) -> None:
    measure = Measure()
    first = Cache(tmp_path / "new" / "folder").kept(KEY, measure)
    again = Cache(tmp_path / "new" / "folder").kept(dict(reversed(KEY.items())), measure)
    assert first == again == {"value": 0.1, "list": [1, None]}
    assert measure.times == 1
    assert Cache(tmp_path / "new" / "folder").kept({**KEY, "k": 4}, measure) == first
    assert measure.times == 2
    assert [path.suffix for path in (tmp_path / "new" / "folder").iterdir()] == [".json", ".json"]


def test_nothing_is_kept_without_a_folder() -> None:
    measure, nowhere = Measure(), Cache(None)
    assert nowhere.kept(KEY, measure) == nowhere.kept(KEY, measure) == {"value": 0.1, "list": [1, None]}
    assert measure.times == 2
    assert nowhere.path(KEY) is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: b"",
        lambda text: text[: len(text) // 2],
        lambda text: text.replace(b"0.1", b"0.2"),
        lambda text: text.replace(b'"k": 3', b'"k": 4'),
        lambda text: b"\xff\xfe",
        lambda text: b"[]",
        lambda text: b"[" * 100_000,
        lambda text: b'{"measured": 3}',
    ],
)
def test_a_damaged_entry_is_measured_again_and_named(tmp_path: Path, damage: Any) -> None:
    cache, measure = Cache(tmp_path), Measure()
    cache.kept(KEY, measure)
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(UserWarning, match=f"{path.name} is damaged; it is measured again"):
        assert cache.kept(KEY, measure)["value"] == 0.1
    assert measure.times == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.kept(KEY, measure)
    assert measure.times == 2


def test_a_measurement_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def interrupted() -> dict[str, Any]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Cache(tmp_path).kept(KEY, interrupted)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "replacing", full)
    cache, measure = Cache(tmp_path), Measure()
    with pytest.warns(UserWarning, match=r"cannot be kept in .* \(No space left on device\)") as said:
        assert cache.kept(KEY, measure) == cache.kept({**KEY, "k": 5}, measure)
    assert len(said) == 1


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="is a file; what is measured is kept in a folder"):
        Cache(tmp_path / "file")


def test_digests_tell_apart_what_differs(tmp_path: Path) -> None:
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    truth = kr.Truth.from_labels([0, 0, 1, 1])
    parts: list[Any] = [
        rows, rows.reshape(3, 4), rows.astype(np.float64), rows[:, :2], rows[::-1], -rows, truth, truth.subset([0, 1]),
        kr.Truth.from_labels([0, 1, 1, 1]), kr.Truth.from_labels([0, 0, 1, 1], item_ids=list("abcd")), "a", b"a", 1,
        1.0, True, None, ["a"], ["a", None], np.empty((0, 3), np.float32), np.array(["a"]),
    ]  # fmt: skip
    found = [digest(part) for part in parts]
    assert len(set(found)) == len(found)
    assert digest(np.array(["a", None], object)) == digest(["a", None])
    assert digest("ab", "c") != digest("a", "bc") != digest("abc")
    np.save(tmp_path / "rows.npy", rows)
    assert digest(np.load(tmp_path / "rows.npy", mmap_mode="r")) == digest(rows) == digest(np.asfortranarray(rows))
    assert digest(truth) == digest(kr.Truth.from_labels([5, 5, 7, 7]))
    with pytest.raises(TypeError, match="a dict has no digest"):
        digest({})


def test_large_arrays_are_read_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(0).standard_normal((50, 4))
    whole = digest(rows)
    monkeypatch.setattr(module, "BLOCK", 100)
    assert digest(rows) == whole


def test_code_is_a_part_of_the_key_but_help_texts_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("bench/cells.py", "bench/cache.py", "cli/app.py", "stages/graph.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(module, "__file__", str(tmp_path / "bench" / "cache.py"))

    def now() -> str:
        code.cache_clear()
        return code()

    before = now()
    (tmp_path / "cli/app.py").write_text("other words")
    assert now() == before
    (tmp_path / "stages/graph.py").write_text("other graph")
    changed = now()
    assert changed != before
    (tmp_path / "bench/cells.py").write_text("other cells")
    assert now() not in (before, changed)
    code.cache_clear()


def test_the_default_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "kinrank" / "bench"
    monkeypatch.delenv("XDG_CACHE_HOME")
    for system in ("linux", "darwin", "win32"):
        monkeypatch.setattr("sys.platform", system)
        assert default_folder().parts[-2:] == ("kinrank", "bench")


def test_entries_are_plain_json(tmp_path: Path) -> None:
    Cache(tmp_path).kept(KEY, Measure())
    (path,) = tmp_path.iterdir()
    entry = json.loads(path.read_text("utf-8"))
    assert entry["key"] == KEY
    assert entry["measured"] == {"value": 0.1, "list": [1, None]}
