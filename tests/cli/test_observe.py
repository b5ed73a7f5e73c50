"""`kinrank observe` and `kinrank search --observe`: what the library does, in the folder; a line for every mistake."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import kinrank as kr
from kinrank.files.atomic import folder_lock
from reference.commands import bad, good, run

pytestmark = pytest.mark.slow

METHOD = kr.LPMT(k2=4, theta=0.3)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """60 items in the folders `m`, `dfs` and `bare`, which cannot change; queries as files."""
    rng = np.random.default_rng(8)
    centres = rng.standard_normal((5, 6))
    rows, asked = (centres[np.arange(n) % 5] + 0.3 * rng.standard_normal((n, 6)) for n in (60, 12))
    np.save(tmp_path / "rows.npy", rows.astype(np.float32))
    np.save(tmp_path / "q.npy", asked.astype(np.float32))
    np.savez(tmp_path / "two.npz", a=asked, b=asked[:3])
    np.save(tmp_path / "wide.npy", np.ones((2, 9), np.float32))
    np.save(tmp_path / "nan.npy", np.full((2, 6), np.nan, np.float32))
    kr.Manifold.build(rows, METHOD).save(tmp_path / "m")
    kr.Manifold.build(rows, kr.DFS()).save(tmp_path / "dfs")
    kr.Manifold.build(rows, METHOD, changes=False).save(tmp_path / "bare")
    return tmp_path


def test_the_folder_remembers_and_forgets(folder: Path) -> None:
    asked = np.load(folder / "q.npy")
    expected = kr.Manifold.build(np.load(folder / "rows.npy"), METHOD)
    expected.observe(asked)
    message = good(folder, "observe", "@m", "--queries", "@q.npy")
    assert "m: 60 items x 6 dimensions, remembered queries: 12 (12 of 12 kept), staleness 0." in message
    loaded = kr.Manifold.load(folder / "m")
    assert (len(loaded), loaded.n_observed) == (60, 12)
    np.testing.assert_array_equal(loaded.search(asked, k=60).indices, expected.search(asked, k=60).indices)
    again = json.loads(good(folder, "observe", "@m", "--queries", "@q.npy", "--json", "-q"))
    assert (again["observed"], again["items"]) == (12, 60)  # copies
    assert "observed" in good(folder, "info", "@m")
    assert json.loads(good(folder, "info", "@m", "--json"))["observed"] == 12
    assert "whole" in good(folder, "verify", "@m")
    message = good(folder, "observe", "@m", "--forget", "--refresh")
    assert "m: 60 items x 6 dimensions, staleness 0.000" in message
    assert kr.Manifold.load(folder / "m").n_observed == 0


def test_search_answers_then_remembers(folder: Path) -> None:
    plain = json.loads(good(folder, "search", "@m", "--queries", "@q.npy", "--json"))
    assert kr.Manifold.load(folder / "m").n_observed == 0
    found = json.loads(good(folder, "search", "@m", "--queries", "@q.npy", "--json", "--observe"))
    assert found["results"] == plain["results"]
    assert kr.Manifold.load(folder / "m").n_observed == 12


def test_one_array_of_several_and_a_limit(folder: Path) -> None:
    good(folder, "build", "--gallery", "@rows.npy", "-o", "@n", "--observed-limit", "2")
    good(folder, "observe", "@n", "--queries", "@two.npz:b")
    assert kr.Manifold.load(folder / "n").n_observed == 2


def test_others_are_waited_for(folder: Path) -> None:
    for words in (["observe", "@m"], ["search", "@m", "--observe"]):
        with folder_lock(folder / "m"):
            result = run(folder, *words, "--queries", "@q.npy", "--wait", "0.1")
        assert result.exit_code != 0
        assert kr.Manifold.load(folder / "m").n_observed == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("observe @m", "give either --queries or --forget"),
        ("observe @m --queries @q.npy --forget", "give either --queries or --forget"),
        ("observe @nowhere --queries @q.npy", "does not exist"),
        ("observe @m --queries @wide.npy", "9"),
        ("observe @m --queries @nan.npy", "row 0"),
        ("observe @m --queries @two.npz", "FILE:KEY"),
        ("observe @dfs --queries @q.npy", "links of chains, and DFS ranks without chains"),
        ("search @dfs --queries @q.npy --observe", "links of chains, and DFS ranks without chains"),
        ("observe @bare --queries @q.npy", "is needed to observe queries; build it with `kinrank build`"),
        ("search @bare --queries @q.npy --observe", "is needed to observe queries; build it with `kinrank build`"),
        ("build --gallery @rows.npy -o @n --observed-limit 0", "--observed-limit 0 is not allowed"),
    ],
)
def test_mistakes(words: str, message: str, folder: Path) -> None:
    assert message in bad(folder, *words.split())
    assert kr.Manifold.load(folder / "m").n_observed == 0
