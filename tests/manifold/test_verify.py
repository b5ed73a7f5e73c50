"""`load` and `verify` on folders with valid checksums and invalid numbers: the error names the array."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank as kr
from faults.corruption import replace, vectors
from kinrank.manifold.saved_folder import MANIFEST, seal_manifest
from kinrank.manifold.verify import verify
from reference.commands import bad, run

pytestmark = pytest.mark.slow

METHODS = {
    "lpmt": kr.LPMT(k1=20, k2=4, k=6, path_k=5, support=20),
    "dfs": kr.DFS(k=8, kq=3),
    "fsr": kr.methods.FSR(k=8, kq=3, rank=20),
    "eir": kr.methods.EIR(kd=8, kq=3, truncation=12),
    "augmented": kr.methods.AugmentedAQE(k=3, kdba=3),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("whole")
    for name, method in METHODS.items():
        kr.Manifold.build(vectors(1), method, ids=[f"n{i}" for i in range(60)]).save(place / name)
    numbered = kr.Manifold.build(vectors(1), METHODS["lpmt"])
    numbered.remove([3])
    numbered.save(place / "numbered")
    return place


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "copy"))


def refused(folder: Path, message: str, file: str) -> None:
    """Check that both refuse the folder and that `verify` names the file."""
    with pytest.raises(ValueError, match=message):
        kr.Manifold.load(folder)
    found = verify(folder)
    assert [Path(name).name for name in found.bad] == [file]
    assert found.bad.popitem()[1].startswith(str(folder))


def test_intact_folders_of_every_prepared_method(whole: Path) -> None:
    for path in whole.iterdir():
        assert verify(path).whole, path.name


NAN, INF, FINITE = np.nan, np.inf, "must hold numbers"
VALUES = [
    ("lpmt", "vectors", 4, NAN, "vectors must hold rows of length 1; that of row 0 is nan"),
    ("lpmt", "vectors", 4, INF, "vectors must hold rows of length 1"),
    ("dfs", "vectors", 4, 3e38, "vectors must hold rows of length 1"),
    ("eir", "vectors", slice(6, 12), 0.0, "vectors must hold rows of length 1; that of row 1 is 0"),
    ("augmented", "augmented", 1, NAN, "augmented must hold rows of length 1"),
    ("lpmt", "lengths", 3, 0.0, f"lengths {FINITE}"),
    ("lpmt", "lengths", 3, NAN, f"lengths {FINITE} .* it holds nan"),
    ("lpmt", "lengths", 3, INF, f"lengths {FINITE}"),
    ("lpmt", "lengths", 3, -1.0, f"lengths {FINITE}"),
    ("lpmt", "state_data", 3, NAN, f"state_data {FINITE} from 0 to"),
    ("lpmt", "state_data", 3, -0.1, f"state_data {FINITE}"),
    ("lpmt", "state_data", 3, 0.9, "state_data must sum to 1 in every row; row 0 sums to"),
    ("lpmt", "step_data", 3, NAN, f"step_data {FINITE} of 0 and above; it holds nan"),
    ("lpmt", "step_data", 3, -1e-3, f"step_data {FINITE}"),
    ("lpmt", "graph_data", 3, 2.0, f"graph_data {FINITE} from 0 to"),
    ("lpmt", "near_distances", 3, NAN, f"near_distances {FINITE}"),
    ("lpmt", "near_distances", 3, INF, "near_distances must be finite where near_indices contains an item"),
    ("lpmt", "near_distances", 3, 1.9, "near_distances must ascend in every row"),
    ("lpmt", "near_indices", 0, 5, "near_indices must start every row with the item itself"),
    ("lpmt", "near_indices", slice(2, 4), 59, "near_indices must not repeat an item within a row"),
    ("lpmt", "near_indices", 2, -1, "near_indices must contain at least .* items"),
    ("lpmt", "nearest", 0, 5, "nearest must start every row with the item itself"),
    ("lpmt", "nearest", 2, 0, "nearest must not repeat an item within a row"),
    ("lpmt", "similar", 2, NAN, f"similar {FINITE}"),
    ("lpmt", "similar", 0, 0.0, f"similar {FINITE}"),
    ("lpmt", "similar", 2, -1.0, f"similar {FINITE}"),
    ("lpmt", "beta", 0, NAN, f"beta {FINITE}"),
    ("lpmt", "beta", slice(None), 1.0, f"beta {FINITE}"),
    ("lpmt", "drift", 2, NAN, f"drift {FINITE}"),
    ("lpmt", "drift", 2, -1.0, f"drift {FINITE}"),
    ("dfs", "graph_data", 2, NAN, f"graph_data {FINITE}"),
    ("dfs", "graph_data", 2, 1e300, f"graph_data {FINITE}"),
    ("fsr", "part_values", 0, NAN, f"part_values {FINITE}"),
    ("fsr", "part_values", 0, 1 / 0.99, f"part_values {FINITE}"),
    ("fsr", "part_vectors", 0, NAN, f"part_vectors {FINITE}"),
    ("fsr", "part_sizes", 0, 10**6, f"part_sizes {FINITE}"),
    ("fsr", "part_items", slice(0, 2), 7, "part_items must not repeat an item within a row"),
    ("eir", "row_values", 2, NAN, f"row_values {FINITE}"),
    ("eir", "row_values", 2, 1e30, f"row_values {FINITE}"),
    ("eir", "row_items", 0, 3, "row_items must start every row with the item itself"),
]


@pytest.mark.parametrize(("method", "name", "at", "value", "message"), VALUES)
def test_numbers_that_cannot_be_are_refused(
    folder: Path, method: str, name: str, at: Any, value: float, message: str
) -> None:
    path = next(folder.glob(f"{method}/data-*/{name}.npy"))
    array = np.load(path)
    array.reshape(-1)[at] = value
    replace(folder / method, path, array)
    refused(folder / method, message, f"{name}.npy")


def test_rows_that_do_not_ascend_are_refused(folder: Path) -> None:
    path = next(folder.glob("lpmt/data-*/state_indices.npy"))
    array = np.load(path)
    array[[0, 1]] = array[[1, 0]]
    replace(folder / "lpmt", path, array)
    refused(folder / "lpmt", "state_indices must ascend in every row", "state_indices.npy")


def test_a_state_without_entries_is_refused(folder: Path) -> None:
    path = next(folder.glob("lpmt/data-*/state_indptr.npy"))
    array = np.load(path)
    array[5] = array[4]
    replace(folder / "lpmt", path, array)
    refused(folder / "lpmt", "state_indptr must give every row 1 to 20 entries", "state_indptr.npy")


def test_repeated_ids_are_refused(folder: Path) -> None:
    path = next(folder.glob("dfs/data-*/ids_text.npy"))
    replace(folder / "dfs", path, np.full(len(np.load(path)), ord("a"), np.uint8))
    refused(folder / "dfs", "ids must be unique", MANIFEST)


def test_repeated_numbers_are_refused(folder: Path) -> None:
    path = next(folder.glob("numbered/data-*/ids.npy"))
    replace(folder / "numbered", path, np.zeros_like(np.load(path)))
    refused(folder / "numbered", "ids must be unique", MANIFEST)


def edited(folder: Path, table: str, **changes: Any) -> None:
    manifest = json.loads((folder / MANIFEST).read_text())
    manifest[table] |= changes
    (folder / MANIFEST).write_text(json.dumps(seal_manifest(manifest)))


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"rho": NAN}, "rho must be a finite number, but it is nan"),
        ({"gamma": 10**400}, "gamma must be a finite number"),
        ({"share": "much"}, "share must be a finite number, but it is 'much'"),
        ({"share": None}, "share must be a finite number"),
        ({"rho": -1.0}, "rho=-1.0 is not allowed"),
        ({"gamma": 0.0}, "gamma=0.0 is not allowed"),
        ({"share": 1.5}, "share=1.5 is not allowed"),
        ({"built": -3.0}, "built=-3.0 is not allowed"),
        ({"contrast_now": 1.0}, "change record are missing"),
    ],
)
def test_facts_that_cannot_be_are_refused(folder: Path, facts: dict[str, Any], message: str) -> None:
    edited(folder / "lpmt", "facts", **facts)
    with pytest.raises(ValueError, match=message):
        kr.Manifold.load(folder / "lpmt")
    assert list(verify(folder / "lpmt").bad) == [MANIFEST]


@pytest.mark.parametrize("number", [0.0, 58.0, 1e300])
def test_a_next_number_that_was_given_already_is_refused(folder: Path, number: float) -> None:
    edited(folder / "numbered", "facts", next_number=number)
    refused(folder / "numbered", "next_number=.* is not allowed", MANIFEST)


def test_parameters_that_do_not_fit_the_arrays_are_refused(folder: Path) -> None:
    edited(folder / "lpmt", "parameters", k1=59)
    refused(folder / "lpmt", "nearest must have the shape", "nearest.npy")
    edited(folder / "lpmt", "parameters", k1=20, support=2)
    refused(folder / "lpmt", "state_indptr must give every row 1 to 2 entries", "state_indptr.npy")
    edited(folder / "lpmt", "parameters", support=10**400)
    with pytest.raises(ValueError, match="support must be a finite number"):
        kr.Manifold.load(folder / "lpmt")


def test_support_beyond_the_number_of_items_takes_no_memory(folder: Path) -> None:
    """Crafted or not, such a parameter has no effect: states have at most as many entries as there are items."""
    expected = kr.Manifold.load(folder / "lpmt").search(vectors(2, 3), 5)
    edited(folder / "lpmt", "parameters", support=10**12)
    manifold = kr.Manifold.load(folder / "lpmt")
    assert manifold.search(vectors(2, 3), 5).indices.shape == expected.indices.shape
    manifold.add(vectors(3, 2), ["new", "newer"])
    assert len(manifold) == 62


def test_the_command_names_the_array(folder: Path) -> None:
    path = next(folder.glob("lpmt/data-*/lengths.npy"))
    replace(folder / "lpmt", path, np.zeros(60, np.float32))
    result = run(folder, "verify", "@lpmt")
    assert (result.exit_code, result.stderr) == (1, "")
    assert result.stdout.startswith(f"{path} has the right checksum, but lengths must hold numbers")
    assert result.stdout.endswith("; build the manifold again\n")
    assert result.stdout.count("\n") == 1
    assert "lengths must hold numbers" in bad(folder, "info", "@lpmt")


def test_checks_hold_after_any_changes(tmp_path: Path) -> None:
    """`load` accepts the result of any changes in galleries of any size, with duplicates."""
    rng = np.random.default_rng(3)
    for method in (kr.LPMT(), METHODS["lpmt"], kr.LPMT(k1=3, k=2, k2=1, path_k=9, support=0)):
        rows = np.concatenate([vectors(7, 30), vectors(7, 9), np.ones((4, 6), np.float32)])
        manifold = kr.Manifold.build(rows, method)
        for _ in range(12):
            if rng.random() < 0.5 and len(manifold) > 3:
                gone = rng.choice(manifold.ids, min(len(manifold), int(rng.integers(1, 12))), replace=False)
                manifold.remove(gone.tolist())
            else:
                manifold.add(vectors(int(rng.integers(50)), int(rng.integers(1, 9))))
            manifold.save(tmp_path / "changed")
            assert verify(tmp_path / "changed").whole
