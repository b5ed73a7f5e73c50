"""`kinrank add` and `kinrank remove`: what the library does, in the folder; one line for every mistake."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank as kr
from kinrank.files.atomic import LOCK_NAME, folder_lock
from kinrank.manifold import folder_reader, saved_folder
from reference.commands import bad, good, run

pytestmark = pytest.mark.slow

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


def test_the_folder_becomes_what_the_library_makes(folder: Path) -> None:
    rows = np.load(folder / "all.npy")
    expected = kr.Manifold.build(rows[:50], METHOD, ids=NAMES[:50])
    expected.add(rows[50:], NAMES[50:])
    expected.remove(["n7", "n3", "n50"])
    added = run(folder, "add", "@named", "--vectors", "@new.npz:d", "--ids", "@new.txt")
    assert added.exit_code == 0, added.stderr
    assert "named: 60 items x 6 dimensions, staleness 0." in added.stdout
    removed = run(folder, "remove", "@named", "--item", "n7", "--ids", "@old.txt", "--json", "-q")
    facts = json.loads(removed.stdout)
    assert (facts["items"], facts["ids"], facts["staleness"]) == (57, "given", expected.staleness)
    loaded = kr.Manifold.load(folder / "named")
    assert loaded.ids.tolist() == expected.ids.tolist()
    for name, array in expected.snapshot.state.to_arrays().items():
        np.testing.assert_array_equal(array, loaded.snapshot.state.to_arrays()[name], err_msg=name)


def test_numbers_stay_in_what_search_writes(folder: Path) -> None:
    assert run(folder, "remove", "@numbered", "--item", "0", "--item", "1", "--refresh", "-q").exit_code == 0
    assert kr.Manifold.load(folder / "numbered").staleness == 0.0
    words = ("search", "@numbered", "--queries", "@all.npy", "-k", "1", "-o", "@found.csv", "-q")
    assert run(folder, *words).exit_code == 0
    with (folder / "found.csv").open() as file:
        found = {row["query"]: row["item"] for row in csv.DictReader(file)}
    assert found["30"] == "30"  # each item finds itself, by the number it always had
    assert "0" not in found.values()


def test_the_manifest_is_read_twice(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = saved_folder.read_manifest
    seen: list[Path] = []

    def counted(path: Path) -> Any:
        seen.append(path)
        return read(path)

    monkeypatch.setattr(saved_folder, "read_manifest", counted)
    monkeypatch.setattr(folder_reader, "read_manifest", counted)
    assert run(folder, "add", "@numbered", "--vectors", "@all.npy").exit_code == 0
    assert len(seen) == 2  # to load it, and to see, before it is written, that it is still the same


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("add", "@named", "--vectors", "@wide.npy", "--ids", "@old.txt"), "9"),
        (("add", "@named", "--vectors", "@new.npz:d"), "ids is missing"),
        (
            ("add", "@numbered", "--vectors", "@all.npy", "--ids", "@new.txt"),
            "--ids cannot be given: this manifold has item numbers",
        ),
        (("add", "@dfs", "--vectors", "@all.npy"), "DFS cannot add"),
        (("add", "@nowhere", "--vectors", "@all.npy"), "does not exist"),
        (("remove", "@named"), "nothing to remove"),
        (("remove", "@named", "--item", "n1", "--item", "nobody"), "'nobody'"),
        (("remove", "@numbered", "--item", "first"), "'first'"),
    ],
)
def test_mistakes_are_one_line_and_change_nothing(folder: Path, words: tuple[str, ...], message: str) -> None:
    before = {
        path: os.stat(path).st_mtime_ns for path in folder.rglob("*") if path.is_file() and path.name != LOCK_NAME
    }
    assert message in bad(folder, *words)
    after = {path: os.stat(path).st_mtime_ns for path in folder.rglob("*") if path.is_file() and path.name != LOCK_NAME}
    assert after == before


def test_four_at_once_are_all_there(folder: Path) -> None:
    """Each in a process of its own; all say that they did it, and all did."""
    program = "import sys; from kinrank.cli.app import app; app(sys.argv[1:])"
    rows, running = np.load(folder / "all.npy"), []
    for number in range(4):
        np.save(folder / f"part{number}.npy", rows[50:] + 0.01 * number)
        (folder / f"part{number}.txt").write_text("\n".join(f"p{number}-{row}" for row in range(10)))
        words = ["add", f"{folder}/named", "--vectors", f"{folder}/part{number}.npy"]
        words += ["--ids", f"{folder}/part{number}.txt", "--json"]
        running.append(subprocess.Popen([sys.executable, "-c", program, *words], stdout=subprocess.PIPE, text=True))
    message = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0, 0]
    assert sorted(json.loads(document)["items"] for document in message) == [60, 70, 80, 90]
    there = kr.Manifold.load(folder / "named").ids.tolist()
    assert sorted(there) == sorted(NAMES[:50] + [f"p{number}-{row}" for number in range(4) for row in range(10)])


def test_an_added_item_is_appended(folder: Path) -> None:
    before = {path: os.stat(path).st_mtime_ns for path in folder.glob("numbered/data-*/*")}
    good(folder, "add", "@numbered", "--vectors", "@all.npy", "-q")
    assert {path: os.stat(path).st_mtime_ns for path in folder.glob("numbered/data-*/*")} == before
    assert len(list(folder.glob("numbered/change-*"))) == 1
    assert "whole, " in good(folder, "verify", "@numbered")


def test_ids_in_a_file_are_numbers_where_those_of_the_gallery_are(folder: Path) -> None:
    rows = np.load(folder / "all.npy")
    big = [2**63 + number for number in range(60)]
    kr.Manifold.build(rows[:50], METHOD, ids=big[:50]).save(folder / "big")
    (folder / "big.txt").write_text("\n".join(map(str, big[50:])))
    words = ("add", "@big", "--vectors", "@new.npz:d", "--ids", "@big.txt", "-q")
    good(folder, *words)
    good(folder, *words, "--replace")
    assert kr.Manifold.load(folder / "big").ids.tolist() == big
    (folder / "big.txt").write_text("\n".join(f"0{number}" for number in big[50:]))
    assert "are whole numbers" in bad(folder, *words)
    good(folder, "remove", "@big", "--item", str(big[59]), "-q")
    assert kr.Manifold.load(folder / "big").ids.tolist() == big[:59]


def test_add_replaces_those_that_are_there_if_told_to(folder: Path) -> None:
    (folder / "some.txt").write_text("\n".join(NAMES[45:55]))
    words = ("add", "@named", "--vectors", "@new.npz:d")
    assert "exists already; give another id, or replace the item by" in bad(folder, *words, "--ids", "@some.txt")
    assert "--ids is missing: the items of this manifold have ids" in bad(folder, *words)
    assert json.loads(good(folder, *words, "--ids", "@some.txt", "--replace", "--json", "-q"))["items"] == 55
    expected = kr.Manifold.build(np.load(folder / "all.npy")[:50], METHOD, ids=NAMES[:50])
    expected.upsert(np.load(folder / "new.npz")["d"], NAMES[45:55])
    loaded = kr.Manifold.load(folder / "named")
    assert loaded.ids.tolist() == expected.ids.tolist()
    np.testing.assert_array_equal(loaded.snapshot.vectors, expected.snapshot.vectors)
    assert "--ids" in bad(folder, *words, "--replace")
    assert "item numbers and no ids, so items cannot be replaced by id" in bad(
        folder, "add", "@numbered", *words[2:], "--ids", "@some.txt", "--replace"
    )


def test_who_waits_too_long_is_told(folder: Path) -> None:
    with folder_lock(folder / "named"):
        message = bad(folder, "remove", "@named", "--item", "n1", "--wait", "0.1")
    assert f"named is being changed by process {os.getpid()} on" in message
    assert "did not finish within 0.1 seconds" in message
    assert len(kr.Manifold.load(folder / "named")) == 50
    assert "--wait" in bad(folder, "remove", "@named", "--item", "n1", "--wait", "-1")
    good(folder, "remove", "@named", "--item", "n1", "--wait", "0", "-q")
