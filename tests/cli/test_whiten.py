"""`kinrank whiten`: what the library whitens, from files to files; learned once, used again; mistakes in one line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import kinrank
from kinrank.diagnosis.vector_preparation import PreparationEffect
from kinrank.whitening import Whitening, whiten
from reference.commands import bad, good, run

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path, rng: np.random.Generator) -> Path:
    rows = (rng.standard_normal((90, 6)) * np.linspace(2, 0.5, 6) + 1).astype(np.float32)
    np.save(tmp_path / "g.npy", rows[:40])
    np.save(tmp_path / "q.npy", rows[40:50])
    np.save(tmp_path / "other.npy", rows[50:])
    np.savez(tmp_path / "two.npz", a=rows[:40], b=rows[50:])
    np.save(tmp_path / "wide.npy", np.ones((3, 7)))
    np.save(tmp_path / "nan.npy", np.full((9, 6), np.nan))
    pairs = rng.permutation(40).reshape(20, 2)
    np.save(tmp_path / "pairs.npy", pairs)
    np.save(tmp_path / "floats.npy", pairs.astype(np.float64))
    (tmp_path / "pairs.csv").write_text("row,match\n" + "".join(f"{a}, {b}\n" for a, b in pairs))
    (tmp_path / "named.csv").write_text("name," + ",".join("abcdef") + "\n" + lines(rows[:40]))
    (tmp_path / "bad.csv").write_text("1,2\n3,x\n")
    (tmp_path / "far.csv").write_text("1,77\n")
    return tmp_path


def lines(rows: np.ndarray) -> str:
    return "".join(f"item {number},{','.join(map(repr, row.tolist()))}\n" for number, row in enumerate(rows))


def test_learned_and_applied_at_once(folder: Path) -> None:
    message = good(folder, "whiten", "--features", "@g.npy", "-o", "@w.npy")
    assert message.endswith(
        "w.npy: 40 vectors x 6, Whitening(pca, 6 -> 6 dimensions, power 0.5, learned on 40 vectors)\n"
    )
    found = np.load(folder / "w.npy")
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, whiten(np.load(folder / "g.npy")))


@pytest.mark.parametrize("pairs", [(), ("--pairs", "@pairs.npy"), ("--pairs", "@pairs.csv")])
def test_learned_on_others_and_used_again(folder: Path, pairs: tuple[str, ...]) -> None:
    learned = ("--learn", "@other.npy", *pairs, "--dimensions", "4", "--power", "0.25")
    good(folder, "whiten", "--features", "@g.npy", *learned, "-o", "@gw.npy", "--save", "@w.npz")
    good(folder, "whiten", "--features", "@q.npy", "--with", "@w.npz", "-o", "@qw.npy")
    matching = np.load(folder / "pairs.npy") if pairs else None
    expected = Whitening.fit(np.load(folder / "other.npy"), dimensions=4, power=0.25, pairs=matching)
    np.testing.assert_array_equal(np.load(folder / "gw.npy"), expected.apply(np.load(folder / "g.npy")))
    np.testing.assert_array_equal(np.load(folder / "qw.npy"), expected.apply(np.load(folder / "q.npy")))
    assert Whitening.load(folder / "w.npz").kind == ("learned" if pairs else "pca")


def test_only_learned(folder: Path) -> None:
    message = good(folder, "whiten", "--features", "@g.npy", "--power", "0", "--save", "@w.npz")
    assert message.endswith("w.npz: Whitening(pca, 6 -> 6 dimensions, power 0, learned on 40 vectors)\n")
    assert Whitening.load(folder / "w.npz").power == 0


def test_other_files_and_json(folder: Path) -> None:
    rows = np.load(folder / "g.npy")
    words = ("whiten", "--features", "@two.npz:a", "--learn", "@two.npz:b", "-o", "@w.npy", "--json")
    found = json.loads(good(folder, *words))
    assert (found["rows"], found["dimensions"], found["kind"], found["power"]) == (40, 6, "pca", 0.5)
    assert found["learned_vectors"] == 40
    assert found["saved"] is None
    np.testing.assert_array_equal(np.load(folder / "w.npy"), whiten(rows, on=np.load(folder / "other.npy")))
    good(folder, "whiten", "--features", "@named.csv", "--id-column", "name", "-o", "@w.npy")
    np.testing.assert_array_equal(np.load(folder / "w.npy"), whiten(rows))
    assert good(folder, "whiten", "--features", "@g.npy", "-o", "@w.npy", "--quiet") == ""


def test_few_rows_are_told(folder: Path) -> None:
    np.save(folder / "few.npy", np.random.default_rng(0).standard_normal((4, 6)))
    result = run(folder, "whiten", "--features", "@few.npy", "-o", "@w.npy")
    assert result.exit_code == 0
    assert "--features has 4 rows for 3 directions: at power 0.5" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--features @g.npy", "there is no output; give -o for the whitened vectors, --save for the whitening"),
        ("--features @g.npy -o @g.npy", "would overwrite"),
        ("--features @g.npy --learn @other.npy -o @other.npy", "would overwrite"),
        ("--features @g.npy --with @w.npz --save @w.npz", "would overwrite"),
        ("--features @g.npy -o @w.txt", "has the unknown ending '.txt'; give .npy"),
        ("--features @g.npy -o @w.npy --save @w.npy", "has the unknown ending '.npy'; give .npz"),
        ("--features @g.npy -o @absent/w.npy", "does not exist; create it, or choose another path"),
        ("--features @g.npy --with @w.npz --power 0.25 -o @x.npy", "--power is for learning one; give one of them"),
        ("--features @g.npy --with @two.npz -o @x.npy", "is not a saved whitening: it has no 'version'"),
        ("--features @g.npy --with @g.npy -o @x.npy", "has the unknown ending '.npy'; a whitening is saved as .npz"),
        ("--features @wide.npy --with @w.npz -o @x.npy", "--features has shape (3, 7) but 6 dimensions are needed"),
        ("--features @g.npy --learn @nan.npy -o @x.npy", "--learn row 0 contains NaN or Inf"),
        ("--features @nan.npy -o @x.npy", "--features row 0 contains NaN or Inf"),
        ("--features @g.npy --dimensions 7 -o @x.npy", "--dimensions 7 is not allowed"),
        ("--features @g.npy --power 0.7 -o @x.npy", "'--power'"),
        ("--features @two.npz -o @x.npy", "choose one with FILE:KEY: "),
        (
            "--features @g.npy --pairs @bad.csv -o @x.npy",
            "line 2 is '3,x'; write two row numbers, counted from 0",
        ),
        (
            "--features @g.npy --pairs @far.csv -o @x.npy",
            "--pairs contains row 77, but --features has the rows 0 to 39",
        ),
        ("--features @g.npy --pairs @floats.npy -o @x.npy", "--pairs has shape (20, 2) and dtype float64"),
        ("--features @g.npy --pairs @two.npz -o @x.npy", "has the unknown suffix '.npz'; give pairs as .csv | .npy"),
        ("--features @named.csv -o @x.npy", "--id-column"),
    ],
)
def test_mistakes_in_one_line(folder: Path, words: str, message: str) -> None:
    good(folder, "whiten", "--features", "@g.npy", "--save", "@w.npz")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert message in bad(folder, "whiten", *words.split())
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(("way", "power"), [("centred", "0"), ("half-whitened", "0.25")])
def test_advice_names_the_function_and_the_command(way: str, power: str) -> None:
    seen = kinrank.diagnose(np.random.default_rng(1).standard_normal((40, 6)))
    found = replace(seen, preparations=(PreparationEffect(way, 0.0, 0.05, 0.0),)).sentences[-1]
    assert f"worth a trial with labels: tune, or whiten with power {power}." in found


def test_help_teaches(folder: Path) -> None:
    message = good(folder, "whiten", "--help")
    assert "kinrank whiten --features q.npy --with w.npz -o q.white.npy" in message
    assert "Learn on another set" in message
