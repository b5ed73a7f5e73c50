"""`kinrank add` and `kinrank remove`: what the library does, in the folder; one line for every mistake."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import kinrank as kr
from kinrank.cli.app import app
from kinrank.manifold import files

METHOD = kr.LPMT(k2=4, theta=0.3)
NAMES = [f"n{number}" for number in range(60)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """60 items, half of them in the folders `named` and `numbered`; the others, and names, as files."""
    rng = np.random.default_rng(8)
    rows = rng.standard_normal((5, 6))[np.arange(60) % 5] + 0.3 * rng.standard_normal((60, 6))
    np.save(tmp_path / "all.npy", rows.astype(np.float32))
    np.savez(tmp_path / "new.npz", d=rows[50:].astype(np.float32), other=np.ones(3))
    np.save(tmp_path / "wide.npy", np.ones((2, 9), np.float32))
    (tmp_path / "new.txt").write_text("\n".join(NAMES[50:]))
    (tmp_path / "old.txt").write_text("n3\nn50\n")
    kr.Manifold.build(rows[:50], METHOD, ids=NAMES[:50]).save(tmp_path / "named")
    kr.Manifold.build(rows[:50], METHOD).save(tmp_path / "numbered")
    kr.Manifold.build(rows[:50], kr.DFS()).save(tmp_path / "dfs")
    return tmp_path


def run(folder: Path, *words: str) -> Any:
    written = [f"{folder}/{word[1:]}" if word.startswith("@") else word for word in words]
    return CliRunner().invoke(app, written, prog_name="kinrank")


def test_the_folder_becomes_what_the_library_makes(folder: Path) -> None:
    rows = np.load(folder / "all.npy")
    expected = kr.Manifold.build(rows[:50], METHOD, ids=NAMES[:50])
    expected.add(rows[50:], NAMES[50:])
    expected.remove(["n7", "n3", "n50"])
    added = run(folder, "add", "@named", "--vectors", "@new.npz", "--vectors-key", "d", "--ids", "@new.txt")
    assert added.exit_code == 0, added.stderr
    assert "named: 60 items x 6 dimensions, stale 0." in added.stdout
    removed = run(folder, "remove", "@named", "--item", "n7", "--ids", "@old.txt", "--json", "-q")
    facts = json.loads(removed.stdout)
    assert (facts["items"], facts["ids"], facts["stale"]) == (57, "given", expected.stale)
    loaded = kr.Manifold.load(folder / "named")
    assert loaded.ids.tolist() == expected.ids.tolist()
    for name, array in expected._snapshot.kept.arrays.items():
        np.testing.assert_array_equal(array, loaded._snapshot.kept.arrays[name], err_msg=name)


def test_numbers_stay_in_what_search_writes(folder: Path) -> None:
    assert run(folder, "remove", "@numbered", "--item", "0", "--item", "1", "--refresh", "-q").exit_code == 0
    assert kr.Manifold.load(folder / "numbered").stale == 0.0
    words = ("search", "@numbered", "--queries", "@all.npy", "-k", "1", "-o", "@found.csv", "-q")
    assert run(folder, *words).exit_code == 0
    with (folder / "found.csv").open() as file:
        found = {row["query"]: row["item"] for row in csv.DictReader(file)}
    assert found["30"] == "30"  # each item finds itself, by the number it always had
    assert "0" not in found.values()


def test_the_manifest_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = files.read_manifest
    seen: list[Path] = []

    def counted(path: Path) -> Any:
        seen.append(path)
        return read(path)

    monkeypatch.setattr(files, "read_manifest", counted)
    assert run(folder, "add", "@numbered", "--vectors", "@all.npy").exit_code == 0
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add", "@named", "--vectors", "@wide.npy", "--ids", "@old.txt"), "9"),
        (("add", "@named", "--vectors", "@new.npz", "--vectors-key", "d"), "ids is missing"),
        (("add", "@numbered", "--vectors", "@all.npy", "--ids", "@new.txt"), "leave --ids out"),
        (("add", "@dfs", "--vectors", "@all.npy"), "DFS cannot add"),
        (("add", "@nowhere", "--vectors", "@all.npy"), "is not there"),
        (("remove", "@named"), "nothing to remove"),
        (("remove", "@named", "--item", "n1", "--item", "nobody"), "'nobody'"),
        (("remove", "@numbered", "--item", "first"), "'first'"),
    ],
)
def test_mistakes_are_one_line_and_change_nothing(folder: Path, words: tuple[str, ...], said: str) -> None:
    before = {path: os.stat(path).st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    result = run(folder, *words)
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stderr.startswith("kinrank: error: ")
    assert result.stderr.count("\n") == 1
    after = {path: os.stat(path).st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    assert after == before
