"""Files of weights: written, read, damaged, of another method, of other sizes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinrank import weight_files
from kinrank.files import checksummed_npz
from kinrank.methods import CSA, SSR
from kinrank_bench.random_weights import NETWORK_SIZES, add_random_weights


@pytest.fixture
def file(tmp_path: Path) -> Path:
    add_random_weights("csa", tmp_path / "csa.npz")
    return tmp_path / "csa.npz"


def load(path: Path) -> weight_files.Weights:
    return weight_files.load(path, "csa", CSA.layout, CSA.size_types)


def test_what_is_written_is_read(file: Path) -> None:
    found = load(file)
    assert found.sizes == NETWORK_SIZES["csa"]
    assert {name: array.shape for name, array in found.arrays.items()} == CSA.layout(found.sizes)
    assert found.record["method"] == "csa"
    assert len(found.record["sha256"]) == 64
    assert load(file) is found  # read once
    with pytest.raises(ValueError, match="read-only"):
        found.arrays["topk_proj.bias"][0] = 1
    assert [entry.name for entry in file.parent.iterdir()] == [file.name]
    flat = weight_files.flatten_weights(found)
    again = weight_files.unflatten_weights(flat, found.sizes, CSA.layout)
    assert all((again.arrays[name] == array).all() for name, array in found.arrays.items())


def test_a_file_that_changed_is_read_again(file: Path) -> None:
    before = load(file)
    add_random_weights("csa", file, seed=3)
    assert load(file).record["sha256"] != before.record["sha256"]


def test_the_same_weights_are_the_same_bytes(file: Path) -> None:
    before = file.read_bytes()
    add_random_weights("csa", file)
    assert file.read_bytes() == before


def rewritten(
    file: Path, arrays: dict[str, Any] | None = None, version: int = weight_files.FORMAT_VERSION, **about: Any
) -> Path:
    """Return the file with other arrays (None removes one) and facts, with a valid checksum."""
    with np.load(file) as opened:
        kept = {name: opened[name] for name in opened if name not in checksummed_npz.SEAL_KEYS} | (arrays or {})
        output = json.loads(str(opened["about"])) | about
    kept = {name: array for name, array in kept.items() if array is not None}
    checksummed_npz.write_npz(file, kept, {**output, "arrays": about.get("arrays", list(kept))}, version)
    return file


SMALL = np.zeros(16, np.float32)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"version": 2}, "has version 2 of the format, but this program reads version 1; fit them again"),
        ({"method": None}, "does not name the weights that it holds; fit them again"),
        ({"sizes": [1]}, "does not name the weights that it holds"),
        ({"arrays": {"topk_proj.bias": None}}, "lacks the array 'topk_proj.bias'; fit them again"),
        ({"arrays": {"odd": SMALL}}, "has the unexpected array 'odd'"),
        ({"arrays": {"topk_proj.bias": SMALL[:3]}}, r"topk_proj.bias is float32 \(3,\), and must be float32 \(16,\)"),
        ({"arrays": {"topk_proj.bias": SMALL.astype(np.float64)}}, "topk_proj.bias is float64"),
        ({"arrays": {"topk_proj.bias": SMALL + np.nan}}, "topk_proj.bias contains NaN or Inf"),
        ({"sizes": {"width": 16}}, r"does not hold its sizes \(anchors, width, depth, heads\) as kinrank writes"),
        ({"sizes": NETWORK_SIZES["csa"] | {"heads": 2.0}}, "does not hold its sizes"),
        ({"sizes": NETWORK_SIZES["csa"] | {"heads": True}}, "does not hold its sizes"),
        (
            {"sizes": NETWORK_SIZES["csa"] | {"heads": 3}},
            r"sizes that no such network can have \(width=16 is not a multiple of heads=3\)",
        ),
        ({"sizes": NETWORK_SIZES["csa"] | {"heads": 0}}, r"\(heads=0\)"),
        ({"sizes": NETWORK_SIZES["csa"] | {"depth": 10**12}}, r"\(depth=1000000000000\)"),
        (
            {"sizes": NETWORK_SIZES["csa"] | {"depth": 65}},
            r"\(depth=65\)",
        ),  # before anything of that depth is allocated
        ({"sizes": NETWORK_SIZES["csa"] | {"depth": 3}}, "lacks the array 'blocks.2"),
    ],
)
def test_files_that_hold_something_else(file: Path, changes: dict[str, Any], message: str) -> None:
    arrays = changes.pop("arrays", None)
    with pytest.raises(ValueError, match=message):
        load(rewritten(file, arrays, **changes))


@pytest.mark.parametrize(
    "sizes", [{"lr": float("nan")}, {"lr": -1.0}, {"steps": 0}, {"steps": 10**6}, {"variant": "x"}]
)
def test_sizes_of_ssr_that_make_no_sense(tmp_path: Path, sizes: dict[str, Any]) -> None:
    add_random_weights("ssr", tmp_path / "ssr.npz")
    path = rewritten(tmp_path / "ssr.npz", sizes=NETWORK_SIZES["ssr"] | sizes)
    with pytest.raises(ValueError, match=r"sizes that no such network can have \(steps="):
        weight_files.load(path, "ssr", SSR.layout, SSR.size_types)


def test_names_are_sealed_too(file: Path) -> None:
    with pytest.raises(ValueError, match="does not name the weights that it holds"):
        load(_renamed(file))


def _renamed(file: Path) -> Path:
    """Swap two arrays of one shape under the old checksum."""
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
        message = _refusal(file)
        if message is None:  # a byte without effect, such as a date in the archive
            assert load(file).record["sha256"] == str(np.load(file)["sha256"])
        else:
            assert str(file) in message


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
        ValueError,
        match=r"(damaged or|is) not a file of weights.*; give a file that kinrank.fit or `kinrank fit` wrote",
    ):
        load(file)


def test_a_folder_and_objects_are_refused(tmp_path: Path) -> None:
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(ValueError, match="is a folder, but only regular files are read"):
        load(tmp_path / "folder.npz")
    np.savez(tmp_path / "o.npz", version=1, about="{}", sha256="", odd=np.array([print], object))
    with pytest.raises(ValueError, match="contains Python objects, which are never loaded"):
        load(tmp_path / "o.npz")
