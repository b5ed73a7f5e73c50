"""`kinrank near-duplicates` and `kinrank export`: what the library finds, as files."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

import kinrank
from reference.commands import bad, good

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path, rng: np.random.Generator) -> Path:
    """30 items, of which the first 4 are nearly the same and 10, 11 are copies; and a gallery prepared of them."""
    rows = rng.standard_normal((30, 16)).astype(np.float32)
    rows[1:4] = rows[0] + 0.01 * rng.standard_normal((3, 16))
    rows[11] = rows[10]
    np.save(tmp_path / "g.npy", rows)
    np.savetxt(tmp_path / "words.csv", rows, delimiter=",")
    names = [f'picture "{number}", a' for number in range(30)]
    (tmp_path / "names.txt").write_text("\n".join(names))
    kinrank.Manifold.build(rows, kinrank.LPMT(k1=8, k=4), ids=names).save(tmp_path / "g.manifold")
    kinrank.Manifold.build(rows, "dfs").save(tmp_path / "dfs.manifold")
    return tmp_path


def test_groups_are_printed_largest_first_and_say_what_the_threshold_was(folder: Path) -> None:
    message = good(folder, "near-duplicates", "--gallery", "@g.npy").splitlines()
    assert [line.split()[0] for line in message[:3]] == ["size", "4", "2"]
    assert "0, 1, 2, 3" in message[1]
    assert message[-1] == "2 groups hold 6 of 30 items (cosine distance at most 0.05)"
    assert good(folder, "near-duplicates", "--gallery", "@g.npy", "-q").splitlines() == message[:3]
    facts = json.loads(good(folder, "near-duplicates", "@g.manifold", "--json", "-q"))
    assert [entry["size"] for entry in facts["found"]] == [4, 2]
    assert facts["found"][1]["items"] == ['picture "10", a', 'picture "11", a']
    assert facts["found"][1]["distances"] == [0, 0]


def test_groups_go_to_a_table(folder: Path) -> None:
    words = ("near-duplicates", "--gallery", "@g.npy", "--item-ids", "@names.txt", "-o", "@groups.csv")
    assert "groups.csv: 2 groups" in good(folder, *words)
    with open(folder / "groups.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["group"] for line in lines] == ["1"] * 4 + ["2"] * 2
    assert lines[0]["id"] == 'picture "0", a'
    assert float(lines[-1]["distance"]) == 0


def test_groups_doubt_a_threshold_that_swallows_the_gallery(folder: Path) -> None:
    message = good(folder, "near-duplicates", "--gallery", "@g.npy", "--max-distance", "2")
    assert "--max-distance is probably too large" in message
    assert "--max-distance is probably too large" not in good(folder, "near-duplicates", "--gallery", "@g.npy")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give either a prepared gallery or --gallery"),
        (["@g.manifold", "--gallery", "@g.npy"], "give either a prepared gallery or --gallery"),
        (["@g.manifold", "--item-ids", "@names.txt"], "need --gallery"),
        (["--gallery", "@g.npy", "--max-distance", "3"], "a cosine distance from 0 to 2"),
        (["--gallery", "@g.npy", "--neighbours", "0"], "--neighbours 0"),
        (["--gallery", "@g.npy", "-o", "@groups.txt"], "give .csv"),
        (["--gallery", "@words.csv", "-o", "@words.csv"], "would overwrite"),
        (["--gallery", "@absent.npy"], "does not exist"),
    ],
)
def test_mistakes_of_groups(folder: Path, words: list[str], message: str) -> None:
    assert message in bad(folder, "near-duplicates", *words, "-q")


def test_export_writes_a_matrix_per_file_and_the_ids(folder: Path) -> None:
    message = good(folder, "export", "@g.manifold", "-o", "@matrices")
    manifold = kinrank.Manifold.load(folder / "g.manifold")
    for name, matrix in kinrank.manifold.export(manifold).items():
        read = sparse.load_npz(folder / "matrices" / f"{name}.npz")
        assert abs(read - matrix).max() == 0
        assert f"{name}.npz" in message
        np.load(folder / "matrices" / f"{name}.npz", allow_pickle=False).close()
    with open(folder / "matrices" / "ids.csv", newline="") as file:
        assert [line["id"] for line in csv.DictReader(file)] == manifold.ids.tolist()


def test_export_of_some(folder: Path) -> None:
    facts = json.loads(good(folder, "export", "@g.manifold", "--only", "states, steps", "-o", "@some", "--json", "-q"))
    assert sorted(file.name for file in (folder / "some").iterdir()) == ["ids.csv", "states.npz", "steps.npz"]
    assert facts["items"] == 30
    assert set(facts["entries"]) == {"states", "steps"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["@g.manifold", "-o", "@g.manifold"], "would overwrite"),
        (["@g.manifold", "-o", "@dfs.manifold"], "is a prepared gallery"),
        (["@g.manifold", "-o", "@g.npy"], "is a file; give a folder"),
        (["@g.manifold", "-o", "@nowhere/matrices"], "does not exist"),
        (["@g.manifold", "-o", "@m", "--only", "state"], "--only has 'state'"),
        (["@dfs.manifold", "-o", "@m"], "was prepared by dfs"),
        (["@absent", "-o", "@m"], "absent"),
    ],
)
def test_mistakes_of_export(folder: Path, words: list[str], message: str) -> None:
    assert message in bad(folder, "export", *words, "-q")
    assert not (folder / "m").exists()
