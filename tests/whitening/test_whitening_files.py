"""The repr() of a Whitening, and its file: written, read, damaged, foreign."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinrank import whitening
from kinrank.files.checksummed_npz import _compute_checksum
from kinrank.whitening import Whitening
from reference.whitening import pairs_of, rows_of


def test_repr() -> None:
    found = Whitening.fit(rows_of(), dimensions=3, power=0.25)
    assert repr(found) == "Whitening(pca, 8 -> 3 dimensions, power 0.25, learned on 120 vectors)"
    assert 0.5 < found.facts["variance"] < 1
    learned = Whitening.fit(rows_of(), pairs=pairs_of())
    assert (learned.kind, learned.facts["pairs"], learned.facts["variance"]) == ("learned", 60, pytest.approx(1))
    given = Whitening(np.zeros(3), np.eye(3, 2))
    assert repr(given) == "Whitening(given, 3 -> 2 dimensions, power 0.5)"
    with pytest.raises(ValueError, match="read-only"):
        given.mean[0] = 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros(3), np.eye(2)), r"mean has shape \(3,\) and projection \(2, 2\); give \(d,\) and \(d, r\)"),
        ((np.zeros(3), np.empty((3, 0))), "with r >= 1"),
        ((np.zeros((3, 1)), np.eye(3)), r"mean has shape \(3, 1\)"),
        ((np.full(3, np.nan), np.eye(3)), "mean contains NaN or Inf"),
        ((np.zeros(3), np.full((3, 3), np.inf)), "projection contains NaN or Inf"),
        ((np.zeros(3), np.eye(3), 0.7), "power=0.7 is not allowed"),
        ((np.zeros(3), np.eye(3), 0.5, "zca"), "kind='zca' is unknown; give one of pca, learned, given"),
    ],
)
def test_a_whitening_made_by_hand(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Whitening(*arguments[:3], **dict(zip(("kind",), arguments[3:], strict=False)))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    Whitening.fit(rows_of(), dimensions=5, power=0.25, pairs=pairs_of()).save(tmp_path / "w.npz")
    return tmp_path / "w.npz"


def test_save_and_load(file: Path) -> None:
    found, again = Whitening.fit(rows_of(), dimensions=5, power=0.25, pairs=pairs_of()), Whitening.load(file)
    assert found.mean.tobytes() == again.mean.tobytes()
    assert found.projection.tobytes() == again.projection.tobytes()
    assert (found.power, found.kind, found.facts) == (again.power, again.kind, again.facts)
    assert found.apply(rows_of()).tobytes() == again.apply(rows_of()).tobytes()
    assert [entry.name for entry in file.parent.iterdir()] == ["w.npz"]
    with np.load(file, allow_pickle=False) as arrays:
        assert set(arrays) == set(whitening.FILE_ENTRIES)


def rewritten(file: Path, sealed: bool = True, **changes: Any) -> Path:
    """Write the file with other arrays, and with a valid checksum if `sealed`."""
    with np.load(file) as opened:
        arrays: dict[str, Any] = {**opened, **changes}
    if sealed:
        parts = {name: np.asarray(arrays[name]) for name in whitening.ARRAY_NAMES}
        arrays["sha256"] = np.array(_compute_checksum(int(arrays["version"]), parts, str(arrays["about"])))
    np.savez(file, **{name: array for name, array in arrays.items() if array is not None})
    return file


def about(**changes: Any) -> np.ndarray:
    return np.array(json.dumps({"power": 0.5, "kind": "pca", "facts": {}} | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"version": np.array(2)},
            "version 2 of the format, but this program reads version 1; learn and save it again",
        ),
        ({"mean": np.full(8, np.nan)}, "contains no usable whitening: mean contains NaN or Inf"),
        ({"projection": np.full((8, 5), np.inf)}, "usable whitening: projection contains NaN or Inf"),
        ({"projection": np.ones((7, 5))}, "contains no usable whitening: mean has shape"),
        ({"mean": np.array(["a"] * 8)}, "contains no usable whitening"),
        ({"about": about(power=3)}, "contains no usable whitening: power=3 is not allowed"),
        ({"about": about(kind=["x"])}, "contains no usable whitening: kind="),
        ({"about": about(facts={"a": "b"})}, "contains no usable whitening"),
        ({"about": np.array("[1]")}, "contains no usable whitening"),
        ({"about": np.array("{")}, "is truncated, damaged or not a saved whitening"),
        ({"version": np.arange(3), "sealed": False}, "is truncated, damaged or not a saved whitening"),
        (
            {"mean": np.zeros(8), "sealed": False},
            "is damaged: its checksum differs; learn and save it again",
        ),
        ({"about": about(), "sealed": False}, "is damaged: its checksum differs"),
        ({"sha256": None, "sealed": False}, "is not a saved whitening: it has no 'sha256'; give a file that"),
        ({"mean": np.array([{}] * 8), "sealed": False}, "contains Python objects, which are never loaded"),
    ],
)
def test_files_that_hold_something_else(file: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=r".") as refused:
        Whitening.load(rewritten(file, **changes))
    assert message in str(refused.value)
    assert str(file) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_files_cut_short_and_altered(file: Path) -> None:
    content, whole = file.read_bytes(), Whitening.load(file)
    for size in range(0, len(content), 97):
        file.write_bytes(content[:size])
        with pytest.raises(ValueError, match=r"w.npz is truncated, damaged or not a saved whitening"):
            Whitening.load(file)
    for place in np.random.default_rng(0).integers(0, len(content), 200):
        file.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
        with contextlib.suppress(ValueError):
            found = Whitening.load(file)  # a byte without meaning was altered, such as the date of an entry
            assert found.mean.tobytes() == whole.mean.tobytes()
            assert found.projection.tobytes() == whole.projection.tobytes()


def test_paths(file: Path, tmp_path: Path) -> None:
    found = Whitening.load(file)
    with pytest.raises(ValueError, match=r"w.npy has the unknown ending '.npy'; a whitening is saved as .npz"):
        found.save(tmp_path / "w.npy")
    with pytest.raises(FileNotFoundError, match="does not exist; create it, or choose another path"):
        found.save(tmp_path / "absent" / "w.npz")
    with pytest.raises(FileNotFoundError, match="does not exist, or is not a file; check the path"):
        Whitening.load(tmp_path / "absent.npz")
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(ValueError, match="is a folder, but only regular files are read"):
        Whitening.load(tmp_path / "folder.npz")
    np.savez(tmp_path / "foreign.npz", x=np.ones((3, 3)))
    with pytest.raises(ValueError, match="is not a saved whitening: it has no 'version'"):
        Whitening.load(tmp_path / "foreign.npz")
