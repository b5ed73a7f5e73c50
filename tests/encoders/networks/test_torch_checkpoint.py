"""Weight files: old and new formats are read without executing code; other files raise one sentence."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import tarfile
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch")

from kinrank.encoders.torch_checkpoint import read_checkpoint, unwrap_array  # noqa: E402

WEIGHTS = {"a.weight": torch.arange(6.0).reshape(2, 3), "a.bias": torch.zeros(2)}


class Calls:
    """Object whose pickle creates a folder when it is loaded."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def __reduce__(self) -> Any:
        return os.mkdir, (self.folder,)


def saved(path: Path, content: Any, old: bool = False) -> Path:
    torch.save(content, path, _use_new_zipfile_serialization=not old)
    return path


def refused(path: Path, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        read_checkpoint(path)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400 + len(str(path))


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("where", ["state_dict", "model_state", None])
def test_weights_come_back(tmp_path: Path, where: str | None, old: bool) -> None:
    content = OrderedDict(WEIGHTS) if where is None else {"epoch": 3, where: OrderedDict(WEIGHTS)}
    found = read_checkpoint(saved(tmp_path / "x.pth", content, old))
    assert list(found.weights) == list(WEIGHTS)
    assert all(torch.equal(found.weights[name], value) for name, value in WEIGHTS.items())
    assert found.meta == {}


def test_names_from_several_cards(tmp_path: Path) -> None:
    several = {f"module.{name}": value for name, value in WEIGHTS.items()}
    assert list(read_checkpoint(saved(tmp_path / "x.pth", several)).weights) == list(WEIGHTS)


def test_weights_of_an_unavailable_device(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.pth", dict(WEIGHTS), old=True)
    there = path.read_bytes().replace(b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:0")
    assert b"cuda:0" in there
    path.write_bytes(there)
    assert torch.equal(read_checkpoint(path).weights["a.weight"], WEIGHTS["a.weight"])


ARRAYS = [
    np.arange(6.0).reshape(2, 3),
    np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
    np.arange(6, dtype=">f8"),
    np.arange(300, dtype=np.int64),
]


@pytest.mark.parametrize("core", [b"_core", b"core"])
@pytest.mark.parametrize("array", ARRAYS)
def test_arrays_of_numpy_1_and_2(tmp_path: Path, array: np.ndarray[Any, Any], core: bytes) -> None:
    path = saved(tmp_path / "x.pth", {"state_dict": WEIGHTS, "meta": {"m": array, "n": np.float64(2.5)}}, old=True)
    content = path.read_bytes()
    for name in (b"_core", b"core"):
        content = content.replace(b"cnumpy." + name + b".", b"cnumpy.%s." % core)
    path.write_bytes(content)
    meta = read_checkpoint(path).meta
    assert np.array_equal(unwrap_array(meta["m"]), array)
    assert unwrap_array(meta["m"]).shape == array.shape
    assert unwrap_array(meta["n"]) == 2.5
    assert unwrap_array("text") == "text"


@pytest.mark.parametrize("array", [np.array([None, 1]), np.array(["a"]), np.zeros(2, "f8,i4"), np.zeros(1, "M8[s]")])
def test_arrays_of_anything_but_numbers_are_refused(tmp_path: Path, array: Any) -> None:
    refused(
        saved(tmp_path / "x.pth", {"state_dict": WEIGHTS, "meta": {"m": array}}),
        "is truncated or not a torch checkpoint",
    )


@pytest.mark.parametrize("old", [False, True])
def test_nothing_is_called(tmp_path: Path, old: bool) -> None:
    marker = tmp_path / "marker"
    path = saved(tmp_path / "x.pth", {"state_dict": {**WEIGHTS, "b": Calls(marker)}}, old)
    refused(path, r"refers to (posix|nt)\.mkdir, which is never loaded; nothing was executed")
    assert not marker.exists()
    torch.load(path, weights_only=False)  # the attack works without protection
    assert marker.exists()


@pytest.mark.parametrize("protocol", range(6))
def test_nothing_is_called_from_a_bare_pickle(tmp_path: Path, protocol: int) -> None:
    marker, path = tmp_path / "marker", tmp_path / "x.pth"
    path.write_bytes(pickle.dumps(Calls(marker), protocol))
    refused(path, "never loaded|not a torch checkpoint")
    assert not marker.exists()


def test_allowed_names_are_not_global(tmp_path: Path) -> None:
    path = saved(tmp_path / "x.pth", {"m": np.arange(3.0)})
    refused(path, "does not contain a dict of names and weights; it has m")
    assert not any("numpy" in str(name) for name in torch.serialization.get_safe_globals())


NO_WEIGHTS: dict[str, tuple[Any, str]] = {
    "a tensor": (torch.zeros(3), "contains one tensor instead of a dict of weights; save the state_dict"),
    "a list": ([torch.zeros(3)], "contains a list instead of a dict of weights"),
    "nothing": ({}, "it has nothing"),
    "numbers": ({"a": 1, "b": 2, "c": 3, "d": 4}, "it has a, b, c and 1 more"),
    "numbers among weights": ({**WEIGHTS, "epoch": 3}, "contains epoch among its weights"),
    "no weights inside": ({"state_dict": {"a": 1}, "meta": {}}, "it has a;"),
    "weights without names": ({1: torch.zeros(3)}, "a dict of names and weights; it has 1"),
}


@pytest.mark.parametrize("case", NO_WEIGHTS)
def test_files_without_weights(tmp_path: Path, case: str) -> None:
    content, message = NO_WEIGHTS[case]
    refused(saved(tmp_path / "x.pth", content), message)


def packed(path: Path) -> None:
    """Write a checkpoint of zeros that is compressed by a factor of a thousand."""
    plain_file = saved(path.with_suffix(".plain"), {"a": torch.zeros(1_000_000)})
    with zipfile.ZipFile(plain_file) as source, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target:
        for name in source.namelist():
            target.writestr(name, source.read(name))


def archived(path: Path) -> None:
    with tarfile.open(path, "w") as archive:
        archive.addfile(tarfile.TarInfo("storages"), io.BytesIO())


FOREIGN: dict[str, tuple[Any, str]] = {
    "empty": (lambda path: path.write_bytes(b""), "is empty, not a torch checkpoint"),
    "text": (lambda path: path.write_text("weights, of course"), "is truncated or not a torch checkpoint"),
    "zeros": (lambda path: path.write_bytes(bytes(1000)), "not a torch checkpoint"),
    "an array": (lambda path: np.save(path.open("wb"), np.zeros(3)), "not a torch checkpoint"),
    "another zip": (lambda path: zipfile.ZipFile(path, "w").close(), "not a torch checkpoint"),
    "a tar": (archived, "not a torch checkpoint"),
    "packed": (packed, r"unpacks to \d+ bytes, more than its own size"),
    "a folder": (lambda path: path.mkdir(), "is a folder, but only regular files are read"),
    "a pipe": (os.mkfifo, "is a pipe, but only regular files are read"),
}


@pytest.mark.parametrize("case", FOREIGN)
def test_files_that_are_something_else(tmp_path: Path, case: str) -> None:
    write, message = FOREIGN[case]
    path = tmp_path / "x.pth"
    write(path)
    refused(path, message)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"x\.pth does not exist"):
        read_checkpoint(tmp_path / "x.pth")


@pytest.mark.parametrize("old", [False, True])
def test_every_truncation_raises_one_sentence(tmp_path: Path, old: bool) -> None:
    whole = saved(tmp_path / "whole.pth", {"state_dict": WEIGHTS, "meta": {"m": np.arange(4.0)}}, old).read_bytes()
    path = tmp_path / "x.pth"
    for size in range(1, len(whole) - 1, 1 + len(whole) // 60):
        path.write_bytes(whole[:size])
        refused(path, "truncated|a dict|never loaded")  # of a truncated name only the beginning is reported


@pytest.mark.parametrize("old", [False, True])
def test_damage_is_detected_or_harmless(tmp_path: Path, old: bool, rng: np.random.Generator) -> None:
    whole = saved(tmp_path / "whole.pth", {"state_dict": WEIGHTS, "meta": {"m": np.arange(4.0)}}, old).read_bytes()
    path = tmp_path / "x.pth"
    for _ in range(150):
        broken = bytearray(whole)
        for place in rng.integers(0, len(whole), 4):
            broken[place] = rng.integers(0, 256)
        path.write_bytes(broken)
        with contextlib.suppress(ValueError):  # any other error fails the test
            read_checkpoint(path)
