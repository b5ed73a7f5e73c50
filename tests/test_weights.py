"""Files of weights: written, read, damaged, foreign, of other sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinrank import weights
from kinrank.files import sealed
from kinrank.stages import csa, ssr
from kinrank.testing.made_up import SIZES, made_up


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made_up("csa", tmp_path / "csa.npz")
    return tmp_path / "csa.npz"


def load(path: Path) -> weights.Weights:
    return weights.load(path, "csa", csa.layout, csa.FIELDS)


def test_what_is_written_is_read(file: Path) -> None:
    found = load(file)
    assert found.sizes == SIZES["csa"]
    assert {name: array.shape for name, array in found.arrays.items()} == csa.layout(found.sizes)
    assert found.record["method"] == "csa"
    assert len(found.record["sha256"]) == 64
    assert load(file) is found  # read once
    with pytest.raises(ValueError, match="read-only"):
        found.arrays["topk_proj.bias"][0] = 1
    assert [entry.name for entry in file.parent.iterdir()] == [file.name]
    flat = weights.flat(found)
    again = weights.unflat(flat, found.sizes, csa.layout)
    assert all((again.arrays[name] == array).all() for name, array in found.arrays.items())


def test_a_file_that_changed_is_read_again(file: Path) -> None:
    before = load(file)
    made_up("csa", file, seed=3)
    assert load(file).record["sha256"] != before.record["sha256"]


def test_the_same_weights_are_the_same_bytes(file: Path) -> None:
    before = file.read_bytes()
    made_up("csa", file)
    assert file.read_bytes() == before


def rewritten(file: Path, arrays: dict[str, Any] | None = None, version: int = weights.VERSION, **about: Any) -> Path:
    """The file with other arrays (None takes one away) and facts, sealed as they are."""
    with np.load(file) as opened:
        kept = {name: opened[name] for name in opened if name not in sealed.SEAL} | (arrays or {})
        told = json.loads(str(opened["about"])) | about
    kept = {name: array for name, array in kept.items() if array is not None}
    sealed.write(file, kept, {**told, "arrays": about.get("arrays", list(kept))}, version)
    return file


SMALL = np.zeros(16, np.float32)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"version": 2}, "has version 2 of the format and this program reads 1; fit them again"),
        ({"method": None}, "does not say which weights it holds; fit them again"),
        ({"sizes": [1]}, "does not say which weights it holds"),
        ({"arrays": {"topk_proj.bias": None}}, "lacks array 'topk_proj.bias'; fit it again"),
        ({"arrays": {"odd": SMALL}}, "has a foreign array 'odd'"),
        ({"arrays": {"topk_proj.bias": SMALL[:3]}}, r"topk_proj.bias is float32 \(3,\), and must be float32 \(16,\)"),
        ({"arrays": {"topk_proj.bias": SMALL.astype(np.float64)}}, "topk_proj.bias is float64"),
        ({"arrays": {"topk_proj.bias": SMALL + np.nan}}, "topk_proj.bias contains NaN or Inf"),
        ({"sizes": {"width": 16}}, r"does not tell its sizes \(anchors, width, depth, heads\) as kinrank does"),
        ({"sizes": SIZES["csa"] | {"heads": 2.0}}, "does not tell its sizes"),
        ({"sizes": SIZES["csa"] | {"heads": True}}, "does not tell its sizes"),
        (
            {"sizes": SIZES["csa"] | {"heads": 3}},
            r"sizes that no such network has \(width=16 is no multiple of heads=3\)",
        ),
        ({"sizes": SIZES["csa"] | {"heads": 0}}, r"\(heads=0\)"),
        ({"sizes": SIZES["csa"] | {"depth": 10**12}}, r"\(depth=1000000000000\)"),
        ({"sizes": SIZES["csa"] | {"depth": 65}}, r"\(depth=65\)"),  # before anything of that depth is made
        ({"sizes": SIZES["csa"] | {"depth": 3}}, "lacks array 'blocks.2"),
    ],
)
def test_files_that_hold_something_else(file: Path, changes: dict[str, Any], said: str) -> None:
    arrays = changes.pop("arrays", None)
    with pytest.raises(ValueError, match=said):
        load(rewritten(file, arrays, **changes))


@pytest.mark.parametrize(
    "sizes", [{"lr": float("nan")}, {"lr": -1.0}, {"steps": 0}, {"steps": 10**6}, {"variant": "x"}]
)
def test_sizes_of_ssr_that_make_no_sense(tmp_path: Path, sizes: dict[str, Any]) -> None:
    made_up("ssr", tmp_path / "ssr.npz")
    path = rewritten(tmp_path / "ssr.npz", sizes=SIZES["ssr"] | sizes)
    with pytest.raises(ValueError, match=r"sizes that no such network has \(steps="):
        weights.load(path, "ssr", ssr.layout, ssr.FIELDS)


def test_names_are_sealed_too(file: Path) -> None:
    with pytest.raises(ValueError, match="does not say which weights it holds"):
        load(_renamed(file))


def _renamed(file: Path) -> Path:
    """Two arrays of one shape change places, the seal stays."""
    with np.load(file) as opened:
        arrays = dict(opened)
    first, second = "blocks.0.norm1.weight", "blocks.0.norm2.weight"
    names = [{first: second, second: first}.get(name, name) for name in arrays]
    np.savez(file, **dict(zip(names, arrays.values(), strict=True)))
    return file


def test_every_truncation_and_many_flipped_bytes_are_refused_in_a_sentence(file: Path) -> None:
    content = file.read_bytes()
    rng = np.random.default_rng(0)
    for stop in rng.integers(0, len(content), 40):
        file.write_bytes(content[:stop])
        with pytest.raises((ValueError, OSError)):
            load(file)
    for place in rng.integers(0, len(content), 150):
        damaged = bytearray(content)
        damaged[place] ^= 0x55
        file.write_bytes(damaged)
        said = _refusal(file)
        if said is None:  # a byte that says nothing, such as a date in the archive
            assert load(file).record["sha256"] == str(np.load(file)["sha256"])
        else:
            assert str(file) in said


def _refusal(file: Path) -> str | None:
    try:
        load(file)
    except (ValueError, OSError, MemoryError) as error:
        return str(error)
    return None


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x05\x06" + bytes(18)])
def test_foreign_files(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(
        ValueError, match=r"(damaged or|is) no file of weights.*; give what kinrank.fit or `kinrank fit` wrote"
    ):
        load(file)


def test_a_folder_and_objects_are_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(ValueError, match="is a folder and not a file"):
        load(tmp_path / "folder.npz")
    np.savez(tmp_path / "o.npz", version=1, about="{}", sha256="", odd=np.array([print], object))
    with pytest.raises(ValueError, match="holds Python objects, which are never loaded"):
        load(tmp_path / "o.npz")
