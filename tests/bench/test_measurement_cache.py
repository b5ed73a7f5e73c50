"""Cache of measurements: entries are read again; damaged or different ones are measured again."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank as kr
from kinrank_bench import measurement_cache as module
from kinrank_bench.measurement_cache import Cache, digest

KEY = {"what": "test", "k": 3, "name": "é"}


class Measure:
    """A measurement that counts its calls."""

    def __init__(self, value: float = 0.1) -> None:
        self.value, self.times = value, 0

    def __call__(self) -> dict[str, Any]:
        self.times += 1
        return {"value": self.value, "list": (1, None)}


def test_measured_once(tmp_path: Path) -> None:
    measure = Measure()
    first = Cache(tmp_path / "new" / "folder").get_or_measure(KEY, measure)
    again = Cache(tmp_path / "new" / "folder").get_or_measure(dict(reversed(KEY.items())), measure)
    assert first == again == {"value": 0.1, "list": [1, None]}
    assert measure.times == 1
    assert Cache(tmp_path / "new" / "folder").get_or_measure({**KEY, "k": 4}, measure) == first
    assert measure.times == 2
    assert [path.suffix for path in (tmp_path / "new" / "folder").iterdir()] == [".json", ".json"]


def test_nothing_is_cached_without_a_folder() -> None:
    measure, nowhere = Measure(), Cache(None)
    assert (
        nowhere.get_or_measure(KEY, measure)
        == nowhere.get_or_measure(KEY, measure)
        == {"value": 0.1, "list": [1, None]}
    )
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
    cache.get_or_measure(KEY, measure)
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(UserWarning, match=f"{path.name} is damaged; measuring again"):
        assert cache.get_or_measure(KEY, measure)["value"] == 0.1
    assert measure.times == 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.get_or_measure(KEY, measure)
    assert measure.times == 2


def test_a_measurement_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def interrupted() -> dict[str, Any]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Cache(tmp_path).get_or_measure(KEY, interrupted)
    assert list(tmp_path.iterdir()) == []


def test_a_read_only_folder_causes_one_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "atomic_write", full)
    cache, measure = Cache(tmp_path), Measure()
    with pytest.warns(UserWarning, match=r"cannot be written to .* \(No space left on device\)") as said:
        assert cache.get_or_measure(KEY, measure) == cache.get_or_measure({**KEY, "k": 5}, measure)
    assert len(said) == 1


def test_a_file_instead_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="is a file; give the path of a folder for the measurements"):
        Cache(tmp_path / "file")


def test_digests_of_different_values_differ(tmp_path: Path) -> None:
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
    monkeypatch.setattr(module, "BLOCK_BYTES", 100)
    assert digest(rows) == whole


def test_entries_are_plain_json(tmp_path: Path) -> None:
    Cache(tmp_path).get_or_measure(KEY, Measure())
    (path,) = tmp_path.iterdir()
    entry = json.loads(path.read_text("utf-8"))
    assert entry["key"] == KEY
    assert entry["measured"] == {"value": 0.1, "list": [1, None]}
