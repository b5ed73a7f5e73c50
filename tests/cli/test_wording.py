"""What the library says in words of Python, the command line says in its flags."""

from __future__ import annotations

import ast
import re
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pytest
import typer

import kinrank
from kinrank.cli.app import app
from kinrank.cli.wording import in_flags
from reference.commands import bad, good

COMMANDS: Any = typer.main.get_command(app)
SOURCE = Path(kinrank.__file__).parent
PYTHON_ONLY = {  # rooms that no command enters, or whose errors stand for a mistake of ours
    "augment.py", "datasets", "distributed", "testing", "stores/rows.py", "stages/graph.py", "evaluation/evaluate.py",
    "integrations", "encoders/descriptors", "encoders/published/boxes.py",
}  # fmt: skip
OURS = {"__init__", "array", "changed", "faiss", "found", "keyed", "numbers", "renumbered", "scaled"}
# what engines say when they are opened is about options of the URL, which are written as parameters are
PYTHON_ONLY |= {"client", "web/http", "web/service.py", "web/asked"}  # said over HTTP
PYTHON_ONLY |= {f"stores/{path.name}" for path in (SOURCE / "stores").glob("*.py") if path.stem not in OURS}
SPEAKS_PYTHON = re.compile(r"(?<![-\w/.'\"])[a-z]\w*=|\b[A-Z]\w*\([a-z]*|\b[a-z]+_[a-z_]+\b|\bkinrank\.\w+\(")


def sentences() -> list[tuple[str, str]]:
    """(file, sentence) of every error in the source, what is filled in replaced by a number."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name in PYTHON_ONLY or any(str(room) in PYTHON_ONLY for room in PurePosixPath(name).parents):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                found.append((name, text_of(node.exc.args[0])))
    return found


def text_of(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "7" for part in node.values)
    if isinstance(node, ast.BinOp):
        return text_of(node.left) + text_of(node.right)
    return "7"


def test_no_sentence_speaks_python_on_the_command_line() -> None:
    spoken = [(name, text) for name, text in sentences() if SPEAKS_PYTHON.search(text)]
    assert len(spoken) > 15
    left = {
        f"{name}: {in_flags(text, COMMANDS)}"
        for name, text in spoken
        if SPEAKS_PYTHON.search(in_flags(text, COMMANDS)) and not any(word in text for word in NOT_FLAGS)
    }
    assert left == set()


NOT_FLAGS = (
    "as to_dict makes it",  # of an explanation that came over HTTP
    *("part_sizes", "near_"),  # arrays in a folder
    "colour=red",  # a field of an item
    "state_dict",  # what torch calls weights
    *("crop=", "pool=", "normalize="),  # keys of the JSON file that --preprocessing names
    "give skip or raise",  # a flag has no such value
    "give the path of the .npz file to write",  # a command always has one
    "query_id and item_id",  # columns of a file
    *("kinrank.METHODS", "rankings[7]", "average_precision", "gallery_size"),  # what no command gives
)


@pytest.mark.parametrize(
    ("said", "typed", "worded"),
    [
        ("LPMT: k1=0 is not allowed; give more", "rerank", "--k1 0 is not allowed; give more"),
        ("max_memory='x' is not allowed", "rerank", "--max-memory 'x' is not allowed"),
        ("pass depth= or candidates=", "rerank", "pass --depth or --candidates"),
        ("pass key= with one of: a", "build", "pass --gallery-key with one of: a"),
        ("pass key= with one of: a", "rerank", "pass --queries-key or --gallery-key with one of: a"),
        ("use EIR(variant='paper'), or LPMT()", "build", "use eir --variant 'paper', or lpmt"),
        ("none of them is in doc_ids", "evaluate", "none of them is in --item-ids"),
        ("/data/k=10/max_memory/my_depth.npy is not there", "build", "/data/k=10/max_memory/my_depth.npy is not there"),
        ("'depth=3' is out of place", "build", "'depth=3' is out of place"),
        ("give the truth item_ids=, as text", "evaluate", "give --item-ids, as text"),
        ("give the folder that Manifold.save wrote", "info", "give the folder that `kinrank build` wrote"),
        ("give a number, or None for no limit", "search", "give a number, or leave it out for no limit"),
        ("colour=3 is no flag here", "build", "colour=3 is no flag here"),
    ],
)  # fmt: skip
def test_parameters_become_flags_and_nothing_else_does(said: str, typed: str, worded: str) -> None:
    assert in_flags(said, COMMANDS, [typed]) == worded


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = np.random.default_rng(0).standard_normal((40, 8)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    np.savez(tmp_path / "two.npz", a=rows, b=rows)
    (tmp_path / "three.csv").write_text("label\n" + "\n".join(["same"] * 3 + [f"item {n}" for n in range(37)]))
    good(tmp_path, "build", "--gallery", "@rows.npy", "-o", "@m")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "flag"),
    [
        ("rerank --gallery @two.npz -o @r.npz", "--gallery-key"),
        ("rerank --gallery @rows.npy -o @r.npz --max-memory nothing", "--max-memory 'nothing' is not allowed"),
        ("rerank --gallery @rows.npy -o @r.npz --max-memory 1KB", "pass --depth for shorter results, --candidates"),
        ("rerank --gallery @rows.npy -o @r.npz --candidates 9 --max-memory 1KB", "a larger --max-memory"),
        ("rerank --gallery @rows.npy -o @r.npz --depth 0", "--depth 0 is not allowed"),
        ("rerank --gallery @rows.npy -o @r.npz --k1 0", "error: --k1 0 is not allowed"),
        ("rerank --gallery @rows.npy -o @r.npz --sigma 1e300", "--sigma 1e+300 is not allowed"),
        ("build --gallery @rows.npy -o @n --max-memory 1KB", "or pass a larger --max-memory"),
        ("build --gallery @rows.npy -o @n -m eir --variant joint", "use eir --variant 'paper'"),
        ("build --gallery @rows.npy -o @n -m egt", "`kinrank rerank` with --candidates"),
        ("search @m --queries @two.npz", "pass --queries-key with one of"),
        ("search @m --queries @rows.npy -k 0", "--k 0 is not allowed"),
        ("search @m --queries @rows.npy --budget 0", "--budget 0 is not allowed"),
        ("explain @m --queries @rows.npy --item 77", "--item 77 does not exist"),
        ("tune --gallery @rows.npy --right inf", "--right inf is not allowed; give how many right answers a query has"),
        ("tune --gallery @rows.npy --metric far", "--metric 'far' is not allowed"),
        ("tune --gallery @rows.npy --labels @three.csv -q", "the truth has right items for 3 queries"),
    ],
)
def test_mistakes_name_flags(words: str, flag: str, folder: Path) -> None:
    said = bad(folder, *words.split())
    assert flag in said
    assert not SPEAKS_PYTHON.search(said.replace(str(folder), "")), said


def test_a_tiny_lambda_is_as_good_as_none(folder: Path) -> None:
    good(folder, "rerank", "--gallery", "@rows.npy", "-o", "@tiny.npz", "--lam", "1e-300")
    good(folder, "rerank", "--gallery", "@rows.npy", "-o", "@none.npz", "--lam", "0")
    tiny, none = (kinrank.load_ranking(folder / f"{name}.npz") for name in ("tiny", "none"))
    assert (tiny.indices == none.indices).all()


def test_methods_shows_the_bounds(tmp_path: Path) -> None:
    shown = good(tmp_path, "methods", "BSD")
    assert "a number >= 0.01 and <= 1000" in shown
    assert "a whole number >= 1 and <= 1000" in good(tmp_path, "methods", "lpmt")


@pytest.mark.parametrize("name", ["AQE", "aqe", "Aqe"])
def test_a_method_is_found_however_it_is_written(name: str, folder: Path) -> None:
    assert "AQE()" in good(folder, "rerank", "--gallery", "@rows.npy", "-m", name, "-o", "@r.npz")
    assert "AQE()" in good(folder, "build", "--gallery", "@rows.npy", "-m", name, "-o", "@n")
    assert good(folder, "methods", name).startswith("aqe:")
