"""Vectors and names from files, from an id column and from standard input."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from kinrank import Manifold
from kinrank.cli.app import app
from reference.commands import bad, good

pytestmark = pytest.mark.slow

NAMES = [f"item{number}" for number in range(12)]


@pytest.fixture
def folder(tmp_path: Path, rng: np.random.Generator) -> Path:
    """Write a gallery with and without ids, and three queries."""
    rows = rng.standard_normal((12, 4)).astype(np.float32)
    np.save(tmp_path / "g.npy", rows)
    np.save(tmp_path / "q.npy", rows[:3])
    lines = [",".join(map(repr, map(float, row))) for row in rows]
    (tmp_path / "g.csv").write_text("".join(f"{line}\n" for line in lines))
    named = "".join(f"{line},{name}\n" for line, name in zip(lines, NAMES, strict=True))
    (tmp_path / "named.csv").write_text("a,b,c,d,name\n" + named)
    (tmp_path / "few.csv").write_text("".join(f"ask{number},{line}\n" for number, line in enumerate(lines[:3])))
    (tmp_path / "names.txt").write_text("\n".join(NAMES))
    return tmp_path


def piped(content: bytes, *words: object) -> Any:
    """The command with something on standard input."""
    result = CliRunner().invoke(app, [*map(str, words)], input=content, prog_name="kinrank")
    assert result.exit_code == 0, result.stderr
    return result


def test_rerank_names_by_columns(folder: Path) -> None:
    words = ["rerank", "--gallery", "@named.csv", "--id-column", "name", "-m", "aqe", "-k", "2"]
    good(folder, *words, "--queries", "@few.csv", "--query-id-column", "0", "-o", "@r.trec", "-q")
    lines = [line.split() for line in (folder / "r.trec").read_text().splitlines()]
    assert [line[0] for line in lines[::2]] == ["ask0", "ask1", "ask2"]
    assert [line[2] for line in lines[::2]] == NAMES[:3]
    good(folder, *words, "-o", "@all.csv", "-q")
    with (folder / "all.csv").open() as file:
        asked = {row["query_id"] for row in csv.DictReader(file)}
    assert asked == set(NAMES)


def test_build_add_and_search_name_by_columns(folder: Path) -> None:
    good(folder, "build", "--gallery", "@named.csv", "--id-column", "name", "-m", "aqe", "-o", "@m", "-q")
    assert Manifold.load(folder / "m").ids.tolist() == NAMES
    good(folder, "add", "@m", "--vectors", "@few.csv", "--id-column", "0", "-q")
    assert Manifold.load(folder / "m").ids.tolist() == [*NAMES, "ask0", "ask1", "ask2"]
    message = good(folder, "search", "@m", "--queries", "@few.csv", "--id-column", "0", "-k", "1", "--json", "-q")
    assert [entry["query"] for entry in json.loads(message)["results"]] == ["ask0", "ask1", "ask2"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--gallery", "@named.csv"], "--id-column 'name'"),
        (["--gallery", "@g.csv", "--queries", "@few.csv"], "--query-id-column 0"),
        (["--gallery", "@named.csv", "--id-column", "x"], "give --id-column as the name"),
        (["--gallery", "@g.npy", "--id-column", "x"], "--id-column x is for .csv | .tsv | .parquet"),
        (["--gallery", "@g.csv", "--query-id-column", "0"], "--query-id-column needs --queries"),
        (["--gallery", "@named.csv", "--id-column", "name", "--item-ids", "@names.txt"], "--item-ids and --id-column"),
        (["--gallery", "-", "--queries", "-"], "only one input can be -"),
        (["--gallery", "-", "--item-ids", "-"], "only one input can be -"),
        (["--gallery", "-"], "standard input is empty"),
    ],
)
def test_mistakes_name_flags(folder: Path, words: list[str], message: str) -> None:
    assert message in bad(folder, "rerank", *words, "-m", "aqe", "-o", "@r.npz")


@pytest.mark.parametrize("name", ["g.npy", "g.csv"])
def test_vectors_through_standard_input_and_a_ranking_through_standard_output(folder: Path, name: str) -> None:
    words = ["rerank", "--queries", folder / "q.npy", "--gallery", "-", "-m", "aqe", "-k", "2", "-o", "-"]
    done = piped((folder / name).read_bytes(), *words)
    good(
        folder,
        "rerank",
        "--queries",
        "@q.npy",
        "--gallery",
        "@g.npy",
        "-m",
        "aqe",
        "-k",
        "2",
        "-o",
        "@r.csv",
        "-q",
    )
    assert done.stdout_bytes == (folder / "r.csv").read_bytes()
    assert "standard output: 3 queries x 2 items" in done.stderr
    done = piped((folder / name).read_bytes(), *words, "--format", "trec", "--json")
    assert len(done.stdout.splitlines()) == 6
    assert done.stdout.startswith("0 Q0 0 1 ")
    assert json.loads(done.stderr)["output"] == "-"


def test_search_reads_and_writes_streams_too(folder: Path) -> None:
    good(folder, "build", "--gallery", "@g.npy", "--ids", "@names.txt", "-m", "aqe", "-o", "@m", "-q")
    done = piped(
        (folder / "few.csv").read_bytes(),
        "search",
        folder / "m",
        "--queries",
        "-",
        "--id-column",
        0,
        "-k",
        1,
        "-o",
        "-",
    )
    found = list(csv.DictReader(io.StringIO(done.stdout)))
    assert [(row["query_id"], row["item_id"]) for row in found] == [
        (f"ask{number}", NAMES[number]) for number in range(3)
    ]


def test_names_through_standard_input(folder: Path) -> None:
    done = piped(
        (folder / "names.txt").read_bytes(),
        *("rerank", "--gallery", folder / "g.npy", "--item-ids", "-", "-m", "aqe", "-k", 1, "-o", "-"),
    )
    assert {row["query_id"] for row in csv.DictReader(io.StringIO(done.stdout))} == set(NAMES)


def test_a_device_as_standard_input_is_left_at_once(folder: Path) -> None:
    with open("/dev/zero", "rb") as zeros:
        command = [sys.executable, "-m", "kinrank.cli", "rerank", "--gallery", "-", "-o", str(folder / "r.npz")]
        done = subprocess.run(command, stdin=zeros, capture_output=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr == b"kinrank: error: standard input is neither a .npy file nor text; pipe one of these\n"


@pytest.mark.parametrize("flag", ["--gallery", "--item-ids", "--query-ids"])
def test_devices_pipes_and_folders_are_refused_at_once(folder: Path, flag: str) -> None:
    os.mkfifo(folder / "pipe.npy")
    (folder / "zero.npy").symlink_to("/dev/zero")
    (folder / "sub.npy").mkdir()
    for name, kind in (("pipe", "a pipe"), ("zero", "a device"), ("sub", "a folder")):
        words = ["rerank", *([] if flag == "--gallery" else ["--gallery", "@g.npy"]), flag, f"@{name}.npy"]
        assert f"is {kind}, but only regular files are read" in bad(folder, *words, "-m", "aqe", "-o", "@r.npz")
