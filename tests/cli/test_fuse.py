"""`kinrank fuse`: what the library fuses, from files to a file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import kinrank
from reference.commands import bad, good

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path, rng: np.random.Generator) -> Path:
    """Two rankings of the same 4 queries and 12 items, with and without names."""
    names = [f"item{number}" for number in range(12)]
    (tmp_path / "items.txt").write_text("\n".join(names))
    (tmp_path / "queries.txt").write_text("\n".join("abcd"))
    for name in "xy":
        run = kinrank.rerank(rng.standard_normal((4, 8)), rng.standard_normal((12, 8)), "none")
        run.save(tmp_path / f"{name}.npz")
        run.save(tmp_path / f"{name}.trec")
        run.with_ids(query_ids=list("abcd"), item_ids=names).save(tmp_path / f"{name}_named.npz")
        run.with_ids(query_ids=list("abcd"), item_ids=names).save(tmp_path / f"{name}_named.trec")
    return tmp_path


@pytest.mark.parametrize("ending", ["npz", "trec", "csv"])
def test_fuse_writes_what_the_library_returns(folder: Path, ending: str) -> None:
    words = ("fuse", "@x.npz", "@y.trec", "--rank-constant", "10", "--weights", "2,1", "-k", "7", "-o", f"@f.{ending}")
    message = good(folder, *words)
    assert "4 queries x 7 items, reciprocal rank fusion of 2, k=10" in message
    runs = [kinrank.Ranking.load(folder / file) for file in ("x.npz", "y.trec")]
    expected = kinrank.fuse(runs, rank_constant=10, weights=[2, 1], k=7)
    np.testing.assert_array_equal(kinrank.Ranking.load(folder / f"f.{ending}").indices, expected.indices)
    assert json.loads(good(folder, *words, "--json"))["mode"] == "fused"


def test_names_of_the_files_are_written_again(folder: Path) -> None:
    ids = ("--query-ids", "@queries.txt", "--item-ids", "@items.txt")
    good(folder, "fuse", "@x.npz", "@y.npz", "-o", "@plain.trec")
    plain = [line.split() for line in (folder / "plain.trec").read_text().splitlines()]
    for others in (["@x_named.npz", "@y_named.npz"], ["@x_named.npz", "@y_named.trec", *ids]):
        good(folder, "fuse", *others, "-o", "@f.trec")
        lines = [line.split() for line in (folder / "f.trec").read_text().splitlines()]
        assert {line[0] for line in lines} == set("abcd")
        named = [["abcd".index(line[0]), int(line[2].removeprefix("item"))] for line in lines]
        # the same items in the same order, but for ties: these go by the alphabet here, and by number there
        assert sorted(named) == sorted([int(line[0]), int(line[2])] for line in plain)
        assert [line[4] for line in lines] == [line[4] for line in plain]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["@x.npz", "@absent.npz"], "does not exist"),
        (["@x.npz", "@y.npz", "--weights", "1,many"], "--weights '1,many' is not allowed"),
        (["@x.npz", "@y.npz", "--weights", "1"], "give one for each"),
        (["@x.npz", "@y.npz", "--rank-constant", "-1"], "give a number >= 0"),
        (["@x.npz", "@y_named.npz"], "has no query ids"),
        ([], "argument 'rankings'"),
    ],
)
def test_mistakes(folder: Path, words: list[str], message: str) -> None:
    assert message in bad(folder, "fuse", *words, "-o", "@f.npz")
    assert not (folder / "f.npz").exists()
