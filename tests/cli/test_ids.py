"""Ids on the command line: rankings before and after a removal, and their scores."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from reference.commands import bad, good

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path, rng: np.random.Generator) -> Path:
    """Two manifolds of the same 40 items, with names and without; queries are items 10 to 15, a little moved."""
    gallery = rng.standard_normal((40, 6)).astype(np.float32)
    np.save(tmp_path / "g.npy", gallery)
    np.save(tmp_path / "q.npy", gallery[10:16] + np.float32(0.01))
    np.save(tmp_path / "gl.npy", np.arange(40))
    np.save(tmp_path / "ql.npy", np.arange(10, 16))
    (tmp_path / "names.txt").write_text("".join(f"{number + 1}\n" for number in range(40)))
    (tmp_path / "asked.txt").write_text("".join(f"q{number}\n" for number in range(6)))
    (tmp_path / "qrels.txt").write_text("".join(f"{query} 0 {query + 10} 1\n" for query in range(6)))
    (tmp_path / "named.txt").write_text("".join(f"q{query} 0 {query + 11} 1\n" for query in range(6)))
    good(tmp_path, "build", "-g", "@g.npy", "-m", "aqe", "--method-k", "1", "-o", "@m", "-q")
    good(tmp_path, "build", "-g", "@g.npy", "-m", "aqe", "--method-k", "1", "--ids", "@names.txt", "-o", "@named", "-q")
    return tmp_path


def first(folder: Path, name: str) -> list[str]:
    """The first item of every query of a run."""
    words = [line.split() for line in (folder / name).read_text().splitlines()]
    return [item for _, _, item, rank, *_ in words if rank == "1"]


LABELS = ("--query-labels", "@ql.npy", "--gallery-labels", "@gl.npy")


@pytest.mark.parametrize("ending", ["trec", "csv", "npz"])
def test_numbers_stay_when_another_item_is_removed(folder: Path, ending: str) -> None:
    search = ("search", "@m", "--queries", "@q.npy", "-k", "3", "-q", "-o")
    good(folder, *search, f"@before.{ending}")
    good(folder, "remove", "@m", "--item", "0", "--item", "5", "-q")
    good(folder, *search, f"@after.{ending}")
    if ending == "trec":
        assert first(folder, "before.trec") == first(folder, "after.trec") == [str(item) for item in range(10, 16)]
    for name in ("before", "after"):
        for truth in (("--truth", "@qrels.txt"), LABELS):
            found = json.loads(good(folder, "evaluate", f"@{name}.{ending}", *truth, "--measures", "MRR", "--json"))
            assert found["measures"]["MRR"]["mean"] == 1.0, (name, truth)


@pytest.mark.parametrize("ending", ["trec", "csv", "npz"])
def test_names_are_scored_by_name_or_refused(folder: Path, ending: str) -> None:
    """The ids are the item numbers plus 1, so code that confuses the two is off by one."""
    good(folder, "remove", "@named", "--item", "1", "-q")
    words = (
        "search",
        "@named",
        "--queries",
        "@q.npy",
        "-k",
        "3",
        "--query-ids",
        "@asked.txt",
        "-q",
        "-o",
        f"@r.{ending}",
    )
    good(folder, *words)
    evaluate = ("evaluate", f"@r.{ending}", "--measures", "MRR", "--json")
    for truth in (("--truth", "@named.txt"), (*LABELS, "--item-ids", "@names.txt", "--query-ids", "@asked.txt")):
        assert json.loads(good(folder, *evaluate, *truth))["measures"]["MRR"]["mean"] == 1.0
    assert "those of the truth do not" in bad(folder, *evaluate, *LABELS)
    assert "have ids" in bad(folder, *evaluate, *LABELS, "--query-ids", "@asked.txt")


def test_qrels_of_other_names_are_refused(folder: Path) -> None:
    good(folder, "search", "@m", "--queries", "@q.npy", "-k", "3", "-o", "@r.trec", "-q")
    (folder / "other.txt").write_text("0 0 doc7 1\n1 0 doc9 1\n")
    assert "is not an item of the truth" in bad(folder, "evaluate", "@r.trec", "--truth", "@other.txt")
    assert "query 'q0' is judged" in bad(folder, "evaluate", "@r.trec", "--truth", "@named.txt")


def test_ties_of_a_run(folder: Path) -> None:
    (folder / "tied.trec").write_text("".join(f"q Q0 doc{n} {n} 0.5 other\n" for n in range(1, 6)))
    (folder / "right.txt").write_text("q 0 doc1 1\n")
    words = ("evaluate", "@tied.trec", "--truth", "@right.txt", "--measures", "MRR", "--json")
    found = [
        json.loads(good(folder, *words, *more))["measures"]["MRR"]["mean"] for more in ((), ("--ties", "trec_eval"))
    ]
    assert found == [1.0, 0.2]
    assert "1 queries have equal scores" in good(folder, *words[:-1])
    assert "equal scores" not in good(folder, *words[:-1], "--ties", "trec_eval")
    assert "rank | trec_eval" in bad(folder, *words, "--ties", "alphabet")
