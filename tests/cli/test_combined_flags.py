"""Several features, either metric, filters, marks, groups and remembered queries in one command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import kinrank as kr
from reference.commands import bad, good
from reference.vectors_of_any_length import EUCLIDEAN, made

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two features of 60 items and 6 queries as files, the names of items, some of them, and labels."""
    rows = made(66)
    for name, part in (("g", rows[:60]), ("q", rows[60:])):
        np.save(tmp_path / f"{name}1.npy", part[:, :7])
        np.save(tmp_path / f"{name}2.npy", part[:, 7:])
    (tmp_path / "names.txt").write_text("\n".join(f"n{number}" for number in range(60)))
    (tmp_path / "some.txt").write_text("\n".join(f"n{number}" for number in range(0, 60, 2)))
    (tmp_path / "views.txt").write_text("\n".join("aabbcc"))
    return tmp_path


@pytest.mark.parametrize("metric", ["cosine", EUCLIDEAN])
def test_everything_together(folder: Path, metric: str) -> None:
    both = ("--gallery", "@g1.npy", "--gallery", "@g2.npy")
    asked = ("--queries", "@q1.npy", "--queries", "@q2.npy")
    good(folder, "build", *both, "--ids", "@names.txt", "--metric", metric, "--observed-limit", "5", "-o", "@m", "-q")
    facts = json.loads(good(folder, "info", "@m", "--json"))
    assert (facts["metric"], facts["observed_limit"], facts["items"]) == (metric, 5, 60)
    parts = [np.load(folder / "q1.npy"), np.load(folder / "q2.npy")]
    manifold = kr.Manifold.load(folder / "m")
    some = [f"n{number}" for number in range(0, 60, 2)]

    def search(*flags: str) -> list[list[str]]:
        answer = json.loads(good(folder, "search", "@m", *asked, "--json", *flags))
        assert answer["metric"] == metric
        return [[item["item"] for item in entry["items"]] for entry in answer["results"]]

    assert search("--where", "@some.txt") == manifold.search(parts, where=some).ids.tolist()
    marks = {"positives": [["n3"]] * 6, "negatives": [["n4", "n8"]] * 6}
    marked = manifold.search(parts, **marks, where=some).ids.tolist()
    assert search("--where", "@some.txt", "--positives", "n3", "--negatives", "n4,n8") == marked
    assert search("--groups", "@views.txt") == manifold.search(parts, groups=list("aabbcc")).ids.tolist()
    assert search("--observe") == manifold.search(parts, observe=True).ids.tolist()
    assert kr.Manifold.load(folder / "m").n_observed == manifold.n_observed == 5
    good(folder, "observe", "@m", *asked)  # the one that had no place is new: the oldest leaves
    assert manifold.observe(parts) == 1
    assert kr.Manifold.load(folder / "m").n_observed == 5
    assert search("--where", "@some.txt") == manifold.search(parts, where=some).ids.tolist()
    good(
        folder, "rerank", *both, *asked, "--metric", metric, "--item-ids", "@names.txt", "--where", "@some.txt",
        "--candidates", "20", "-o", "@r.npz", "-q",
    )  # fmt: skip
    gallery = kr.combine([np.load(folder / "g1.npy"), np.load(folder / "g2.npy")])
    expected = kr.rerank(parts, gallery, candidates=20, metric=metric, where=range(0, 60, 2))
    np.testing.assert_array_equal(kr.Ranking.load(folder / "r.npz").indices, expected.indices)


def test_mistakes_with_several_features(folder: Path) -> None:
    good(folder, "build", "--gallery", "@g1.npy", "--gallery", "@g2.npy", "-o", "@m", "-q")
    message = bad(folder, "observe", "@m", "--queries", "@q1.npy")
    assert "queries has shape (6, 7) but 12 dimensions are needed" in message
    message = bad(folder, "observe", "@m", "--queries", "@q1.npy", "--queries", "@q2.npy", "--queries", "@q2.npy")
    assert "holds 3 features but the gallery was combined from 2" in message
    assert "give either --queries" in bad(folder, "observe", "@m")
    assert "give either --queries" in bad(folder, "observe", "@m", "--queries", "@q1.npy", "--forget")
    message = bad(
        folder, "search", "@m", "--queries", "@q1.npy", "--queries", "@q2.npy", "--query-ids", "@names.txt"
    )  # fmt: skip
    assert "--query-ids has 60 ids but there are 6 queries" in message
    assert kr.Manifold.load(folder / "m").n_observed == 0
