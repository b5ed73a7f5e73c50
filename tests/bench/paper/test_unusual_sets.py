"""Unusual sets: no hard items, few distractors, damaged files, methods that refuse."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.paper.conftest import landmarks
from kinrank_bench.measurement_cache import Cache
from kinrank_bench.paper import paper_bench, table_formats
from kinrank_bench.paper.comparison_tables import build_comparison_tables, column_name, distractor_suffix
from kinrank_bench.paper.order_checks import build_orders
from kinrank_bench.paper.paper_bench import paper
from kinrank_bench.paper.paper_numbers import MEASURED, Column, ComparisonTable
from kinrank_bench.paper.paper_page import paper_summary, render_page, write_files
from kinrank_bench.paper.variants import Grids

pytestmark = [pytest.mark.filterwarnings("ignore::kinrank.errors.BenchmarkMismatchWarning"), pytest.mark.slow]
FEW = Grids(neighbors=(5,), parameters={"k1": (10,)}, candidates=(20,), timed=1, items=40, cycles=1)


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with one small set; only two methods of the tables are measured."""
    monkeypatch.setattr(paper_bench, "list_methods", lambda name, features: ["none", "lpmt"])
    folder = tmp_path / "data"
    folder.mkdir()
    landmarks(folder, "roxford5k", "rgem", 1)
    return folder


def printed(record: dict[str, Any]) -> ComparisonTable:
    return next(one for one in build_comparison_tables(record) if one.key == "table-1")


def test_a_level_without_relevant_items_has_no_numbers(data: Path, tmp_path: Path) -> None:
    truth = data / "gnd_roxford5k.pkl"
    content = pickle.loads(truth.read_bytes())
    for entry in content["gnd"]:
        entry["hard"] = []
    truth.write_bytes(pickle.dumps(content))
    record = paper(data, ["tables", "ablations", "sensitivity"], grids=FEW)
    (row,) = (one for one in record["scores"] if (one["method"], one["truth"]) == ("lpmt", "hard"))
    assert [row[part] for part in ("mean", "gain", "gain_low", "gain_high")] == [None] * 4
    assert {one["verdict"] for one in record["orders"] if one["truth"] == "hard"} == {"cannot be told"}
    paths = write_files(record, tmp_path / "made")
    text = next(path for path in paths if path.name == "record.json").read_text("utf-8")
    assert json.loads(text, parse_constant=pytest.fail) == record
    said = " ".join(paper_summary(record))
    assert "rgem, medium, joint: mAP" in said
    assert "rgem, hard, joint" not in said


def test_columns_show_the_number_of_distractors(data: Path, tmp_path: Path) -> None:
    np.save(data / "distractors_rgem.npy", np.random.default_rng(0).normal(size=(1234, 16)).astype(np.float32))
    before = sorted(path.name for path in data.iterdir())
    record = paper(data, ["tables"], cache=Cache(None, tmp_path / "made"))
    assert sorted(path.name for path in data.iterdir()) == before
    assert (tmp_path / "made" / "joined" / "roxford5k_rgem_joined.npy").is_file()
    assert [one.get("distractor_count") for one in record["found"]] == [None, 1234]
    table = printed(record)
    measured = [head.name for head in table.heads if head.block == MEASURED]
    assert measured[:4] == ["ROxf", "ROxf+1,234", "ROxf", "ROxf+1,234"]
    assert "ROxf+1M" in [head.name for head in table.heads if head.block != MEASURED]
    assert any("roxford5k with 1,234 distractors rgem" in sentence for sentence in paper_summary(record))
    assert str(tmp_path) not in json.dumps(record)
    paper(data, ["tables"], cache=Cache(tmp_path / "kept"))
    assert (tmp_path / "kept" / "joined" / "roxford5k_rgem_joined.npy").is_file()
    assert sorted(path.name for path in data.iterdir()) == before


@pytest.mark.parametrize(
    ("count", "name"), [(1_001_001, "ROxf+1M"), (10_000, "ROxf+10,000"), (None, "ROxf+distractors")]
)
def test_a_million_is_about_a_million(count: int | None, name: str) -> None:
    column = Column("Medium", "ROxf+1M", "roxford5k", "medium", "mAP", "rgem", True)
    one = {"set": "roxford5k", "features": "rgem", "distractors": True, "distractor_count": count}
    assert column_name(column, {"found": [one]}) == name
    assert distractor_suffix(one).startswith(" with ")


def test_differences_of_a_set_are_noted_below_the_tables(data: Path) -> None:
    record = paper(data, ["tables"])
    assert any("roxford5k: roxford5k_rgem.npz has 12 queries, but ROxford5k" in note for note in printed(record).notes)


def test_one_damaged_set_does_not_stop_the_others(data: Path) -> None:
    landmarks(data, "rparis6k", "rgem", 2)
    (data / "rparis6k_rgem.npz").write_bytes(b"PK nothing")
    record = paper(data, ["tables"])
    assert {row["set"] for row in record["scores"]} == {"roxford5k"}
    (failed,) = record["failed"]
    assert (failed["set"], failed["features"]) == ("rparis6k", "rgem")
    assert failed["error"].startswith("rparis6k_rgem.npz is truncated, damaged or not an .npz file")
    assert "rparis6k rgem could not be read: rparis6k_rgem.npz is truncated" in render_page(record)
    with pytest.raises(ValueError, match=r"rparis6k_rgem\.npz is truncated"):
        paper(data, ["tables"], ["rparis6k"])


@pytest.mark.parametrize("every", [False, True])
def test_refused_ablations_show_their_sentence(data: Path, monkeypatch: pytest.MonkeyPatch, every: bool) -> None:
    real = paper_bench.measure_cell

    def refusing(bench: Any, method: Any, *rest: Any) -> dict[str, Any]:
        cosine = getattr(method, "distance", "") == "cosine"
        if getattr(method, "name", "") == "lpmt-ablation" and (every or cosine):
            return {"set": bench.name, "mode": "joint", "method": method.name, "error": "it needs 9 GB"}
        return real(bench, "none", *rest)

    monkeypatch.setattr(paper_bench, "measure_cell", refusing)
    record = paper(data, ["ablations"], grids=Grids(neighbors=(), parameters={}))
    json.dumps(record, allow_nan=False)
    for key in ("table-6", "your-tmt-roxford5k-rgem"):
        table = next(one for one in build_comparison_tables(record) if one.key == key)
        line = next(line for line in table.lines if line.name == "Cosine")
        both = zip(table.heads, line.cells, strict=True)
        words = [cell.word for head, cell in both if head.block == MEASURED and not head.absent]
        assert words
        assert set(words) == {"refused"}
        assert "Cosine refused: it needs 9 GB" in table.notes
    order = next(one for one in build_orders(record) if one.key.startswith("order-tmt"))
    assert "Undecided because a variant refused: it needs 9 GB" in order.notes
    assert "it needs 9 GB" in render_page(record)


def test_comments_of_latex_stay_on_their_line(data: Path) -> None:
    record = paper(data, ["tables"])
    record["found"][0]["notes"] = ["one\n\\input{line}\r\nmore"]
    text = table_formats.render_latex(printed(record))
    assert "% roxford5k: one \\input{line} more\n" in text
    assert not any(line.startswith("\\input") for line in text.splitlines())


def test_the_page_has_every_methods_parameters(data: Path) -> None:
    text = render_page(paper(data, ["tables"]))
    assert "<details><summary>Methods with all their parameters</summary>" in text
    assert "<code>LPMT(" in text
