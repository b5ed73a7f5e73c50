"""`kinrank rerank`, `build`, `search` and `sync` over a vector database: DuckDB, which is a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinrank as kr
from kinrank.cli.input_files import parse_filter
from reference.commands import bad, good, run

duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed: make test installs it")

ROWS = np.random.default_rng(0).standard_normal((64, 6)).astype(np.float32)
KINDS = ["cat" if place % 3 else "dog" for place in range(60)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    np.save(tmp_path / "g.npy", ROWS[:60])
    np.save(tmp_path / "q.npy", ROWS[60:])
    with duckdb.connect(str(tmp_path / "shop.db")) as connection:
        connection.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, kind TEXT, embedding FLOAT[6])")
        connection.executemany(
            "INSERT INTO items VALUES (?, ?, ?)",
            [(place, KINDS[place], ROWS[place].tolist()) for place in range(60)],
        )
    return tmp_path


def url(folder: Path) -> str:
    return f"duckdb://{folder}/shop.db?table=items&vector=embedding&key=id"


def test_candidates_from_a_store(folder: Path) -> None:
    words = ("--queries", "@q.npy", "--candidates", "20", "-o", "@r.npz")
    message = json.loads(good(folder, "rerank", "--store", url(folder), *words, "--json", "-q"))
    assert message["mode"] == "candidates"
    assert set(message["seconds_in"]) == {"search", "fetch", "rerank", "rest"}
    expected = kr.rerank(ROWS[60:], ROWS[:60], candidates=20)
    np.testing.assert_array_equal(kr.Ranking.load(folder / "r.npz").ids, expected.indices)
    good(folder, "rerank", "--store", url(folder), *words, "--expand", "1", "-q")
    grown = kr.rerank(ROWS[60:], ROWS[:60], candidates=20, expand=1)
    np.testing.assert_array_equal(kr.Ranking.load(folder / "r.npz").ids, grown.indices)
    good(folder, "rerank", "--store", url(folder), *words, "--filter", "kind=dog", "-q")
    dogs = {place for place in range(60) if KINDS[place] == "dog"}
    found = kr.Ranking.load(folder / "r.npz")
    assert set(found.ids[found.indices >= 0].tolist()) == dogs


def test_a_store_is_read_as_a_whole_only_if_asked_for(folder: Path) -> None:
    words = ("rerank", "--store", url(folder), "-o", "@r.npz", "--json")
    over = (*words, "--queries", "@q.npy")
    assert json.loads(good(folder, *over))["mode"] == "candidates"
    assert kr.Ranking.load(folder / "r.npz").meta["candidates"] == 500
    assert json.loads(good(folder, *over, "--candidates", "all"))["mode"] == "joint"
    np.testing.assert_array_equal(kr.Ranking.load(folder / "r.npz").ids, kr.rerank(ROWS[60:], ROWS[:60]).indices)
    message = bad(folder, *words)
    assert "--queries are not given" in message
    assert "--candidates 500, or --candidates 'all'" in message
    assert json.loads(good(folder, *words, "--candidates", "5"))["queries"] == 60
    refused = bad(folder, *over, "--candidates", "some")
    assert "give a whole number >= 1, or all" in refused
    (folder / "qrels.txt").write_text("".join(f"{row} 0 {row} 1\n" for row in range(4)))
    trials = (
        "compare",
        "--store",
        url(folder),
        "--queries",
        "@q.npy",
        "--truth",
        "@qrels.txt",
        "--methods",
        "aqe",
        "--json",
    )
    assert json.loads(good(folder, *trials))["mode"] == "candidates 500"
    assert json.loads(good(folder, *trials, "--candidates", "all"))["mode"] == "joint"


def test_a_manifold_of_a_store(folder: Path) -> None:
    message = json.loads(good(folder, "build", "--store", url(folder), "-o", "@m", "--json", "-q"))
    assert message["items"] == 60
    assert message["store"] == "DuckDBStore"
    over = ("search", "@m", "--store", url(folder), "--queries", "@q.npy", "-k", "5", "--json")
    shown = json.loads(good(folder, *over))
    expected = kr.Manifold.build(ROWS[:60]).search(ROWS[60:], k=5).ids.tolist()
    assert [[item["item"] for item in row["items"]] for row in shown["results"]] == expected
    dogs = json.loads(good(folder, *over, "--filter", "kind=dog"))
    assert {KINDS[item["item"]] for row in dogs["results"] for item in row["items"]} == {"dog"}
    with duckdb.connect(str(folder / "shop.db")) as connection:
        connection.execute("DELETE FROM items WHERE id IN (1, 2)")
        connection.execute("INSERT INTO items VALUES (100, 'cat', ?)", [ROWS[60].tolist()])
        connection.execute("UPDATE items SET embedding = ? WHERE id = 5", [ROWS[61].tolist()])
    message = json.loads(good(folder, "sync", "@m", "--store", url(folder), "--json", "-q"))
    assert (message["added"], message["removed"], message["changed"], message["items"]) == (1, 2, 1, 59)
    shown = json.loads(good(folder, *over))
    assert [row["items"][0]["item"] for row in shown["results"][:2]] == [100, 5]
    line = good(folder, "sync", "@m", "--store", url(folder))
    assert "(0 added, 0 removed, 0 changed)" in line


def test_passwords_are_never_printed(folder: Path) -> None:
    hidden = "postgresql://me:open%20sesame@localhost:1/db?table=items&connect_timeout=1"
    for words in (
        ("rerank", "--store", hidden, "--queries", "@q.npy", "--candidates", "5", "-o", "@r.npz"),
        ("build", "--store", hidden, "-o", "@m"),
        ("rerank", "--store", hidden + "&table=twice", "--queries", "@q.npy", "-o", "@r.npz"),
        ("rerank", "--store", "nothing://me:open%20sesame@h/x", "--queries", "@q.npy", "-o", "@r.npz"),
    ):
        message = bad(folder, *words)
        assert "sesame" not in message
    assert not (folder / "m").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("rerank", "--queries", "@q.npy", "-o", "@r.npz"), "give either --gallery, a file of vectors, or --store"),
        (("rerank", "--gallery", "@g.npy", "--store", "URL", "-o", "@r.npz"), "give either --gallery"),
        (("build", "-o", "@m"), "give either --gallery"),
        (("build", "--gallery", "@g.npy", "--store", "URL", "-o", "@m"), "give either --gallery"),
        (("rerank", "--gallery", "@g.npy", "--filter", "a=b", "-o", "@r.npz"), "--filter needs --store"),
        (
            ("rerank", "--store", "URL", "--filter", "nothing", "-o", "@r.npz"),
            "--filter 'nothing' is not allowed; give n",
        ),
        (("rerank", "--store", "URL", "--id-column", "x", "-o", "@r.npz"), "--id-column is for --gallery"),
        (("rerank", "--store", "URL&vector=nobody", "-o", "@r.npz"), "nobody"),
        (("rerank", "--store", "URL&colour=red", "-o", "@r.npz"), "has no option 'colour'"),
        (("rerank", "--store", "duckdb:///no/such/file.db?table=items", "-o", "@r.npz"), "no/such/file.db"),
        (("rerank", "--gallery", "@g.npy", "--expand", "1", "-o", "@r.npz"), "--expand 1 expands candidates"),
        (("sync", "@g.npy", "--store", "URL"), "g.npy"),
    ],
)
def test_mistakes(folder: Path, words: tuple[str, ...], message: str) -> None:
    written = tuple(word.replace("URL", url(folder)).replace("&vector=nobody", "").replace("embedding", "nobody")
                    if "nobody" in word else word.replace("URL", url(folder)) for word in words)  # fmt: skip
    assert message in bad(folder, *written)


def test_the_store_is_closed_after_an_error(folder: Path) -> None:
    bad(folder, "rerank", "--store", url(folder), "--filter", "nobody=1", "--queries", "@q.npy", "-o", "@r.npz")
    with duckdb.connect(str(folder / "shop.db")) as connection:  # would be refused while another one reads
        connection.execute("DELETE FROM items")
    result = run(folder, "rerank", "--store", url(folder), "--queries", "@q.npy", "--candidates", "5", "-o", "@e.npz")
    assert result.exit_code == 0, result.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (None, None),
        (["kind=cat"], {"kind": "cat"}),
        (["year=2020", "year=2021", "kind=a=b"], {"year": [2020, 2021], "kind": "a=b"}),
        (['code="7"', "rare=true", "x=null", "list=[1]"], {"code": "7", "rare": True, "x": None, "list": "[1]"}),
    ],
)
def test_filters_as_they_are_typed(words: list[str] | None, expected: Any) -> None:
    assert parse_filter(words) == expected
