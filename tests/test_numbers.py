"""Printed numbers: those of code that has changed are marked, in the README and in the documentation."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from kinrank_bench.fingerprint import fingerprint_record

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
RENEW = (
    "numbers of code that has changed must be marked: run `make numbers` (`python docs/build.py --numbers`), which "
    "takes seconds and measures nothing; `make bench-all` measures them again"
)


@pytest.fixture(scope="module")
def builder() -> ModuleType:
    sys.path.insert(0, str(DOCS))
    try:
        import build
    finally:
        sys.path.remove(str(DOCS))
    return build


@pytest.fixture(scope="module")
def records(builder: ModuleType) -> list[dict[str, Any]]:
    """Return the published records, as if they were measured with the code of today."""
    lines = (ROOT / "benchmarks" / "results.jsonl").read_text("utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    return [{**record, "fingerprints": fingerprint_record(record["bench"], record)} for record in found]


def pages_of(builder: ModuleType, records: list[dict[str, Any]], folder: Path) -> dict[str, str]:
    (folder / "r.jsonl").write_text("\n".join(map(json.dumps, records)))
    made = builder.build_numbers(builder.read(folder))
    return {path.relative_to(ROOT).as_posix(): text for path, text in made.items()}


def test_committed_pages_mark_what_is_not_of_this_code(builder: ModuleType) -> None:
    until = builder.read_until()
    for path, text in builder.build_numbers(builder.read(builder.RESULTS, until)).items():
        assert path.read_text("utf-8") == text, f"{path.relative_to(ROOT)}: {RENEW}"


def test_numbers_of_this_code_are_not_marked(
    builder: ModuleType, records: list[dict[str, Any]], tmp_path: Path
) -> None:
    for name, text in pages_of(builder, records, tmp_path).items():
        assert "earlier version" not in text.replace("Earlier version: the code", ""), name
        assert "†" not in text, name


def test_records_without_a_fingerprint_are_of_an_earlier_version(builder: ModuleType, tmp_path: Path) -> None:
    lines = (ROOT / "benchmarks" / "results.jsonl").read_text("utf-8").splitlines()
    old = [record for record in map(json.loads, lines) if "fingerprints" not in record]
    pages = pages_of(builder, old, tmp_path)
    assert len(pages) > 30
    for name, text in pages.items():
        if "## Measured" in text or not name.startswith("docs/methods"):
            assert "Measured with an earlier version: kinrank 0.1.0" in text, name
        assert "Measured with kinrank" not in text, name


def test_a_changed_method_is_marked_and_others_are_not(
    builder: ModuleType, records: list[dict[str, Any]], tmp_path: Path
) -> None:
    changed = [
        {**record, "fingerprints": {**record["fingerprints"], "aqe joint": "an earlier one"}} for record in records
    ]
    pages = pages_of(builder, changed, tmp_path)
    page = pages["docs/which-method-when.md"]
    accuracy = page.split("## Accuracy with candidates")[0]
    assert "| [`aqe`](methods/aqe.md) † |" in accuracy
    assert "| [`aqewd`](methods/aqewd.md) |" in accuracy
    assert "†: measured with an earlier version, kinrank 0." in accuracy
    assert "also in the figure" in accuracy
    assert "†" not in page.split("## Accuracy with candidates")[1].split("## Held-out sets")[0]
    assert "Measured with an earlier version: " in pages["docs/methods/aqe.md"]
    assert "earlier version" not in pages["docs/methods/aqewd.md"]
    assert "| earlier version |" not in pages["README.md"]


def test_the_table_of_costs_is_dated(builder: ModuleType, records: list[dict[str, Any]], tmp_path: Path) -> None:
    pages = pages_of(builder, records, tmp_path)
    for page, head, least in (
        ("docs/results.md", "| LPMT | time | relative to | memory | measured |", 7),
        ("README.md", "| LPMT | time | memory | measured |", 4),
    ):
        lines = pages[page].splitlines()
        start = lines.index(head)
        days = [line.split(" | ")[-1].strip("| ") for line in lines[start + 2 :][: lines[start:].index("") - 2]]
        assert len(days) >= least
        assert all(len(day.split("-")) == 3 and len(day) == 10 for day in days)


def rows_of(page: str, *cells: str) -> list[list[str]]:
    """Return the rows of the first table whose heading has these cells, the heading first."""
    lines = page.splitlines()
    start = next(number for number, line in enumerate(lines) if all(f"| {cell} |" in line for cell in cells))
    end = next((number for number, line in enumerate(lines[start:], start) if not line), len(lines))
    return [[cell.strip() for cell in line.strip("| ").split(" | ")] for line in lines[start:end] if "---" not in line]


def made_up(method: str, mean: float, **more: Any) -> dict[str, Any]:
    row = {"set": "roxford5k", "truth": "medium", "measure": "mAP", "method": method, "mode": "joint", "queries": 70}
    return {**row, "items": 4993, "mean": mean, "low": mean - 0.1, "high": mean + 0.1, "seconds": 0.5, "worse": False,
            "gain": mean - 0.2, "gain_low": mean - 0.25, "gain_high": mean - 0.15, **more}  # fmt: skip


def record_of(*rows: dict[str, Any], bench: str = "accuracy") -> dict[str, Any]:
    machine = {"threads": 2, "architecture": "x86_64", "python": "3.11.7"}
    return {"bench": bench, "date": "2026-11-19 05:00 UTC", "version": "0.2.0", "machine": machine, "results": rows}


@pytest.mark.parametrize("published", [True, False])
def test_headline_tables_show_lpmt_as_published_if_it_was_measured(
    builder: ModuleType, tmp_path: Path, published: bool
) -> None:
    rows = [made_up("none", 0.2), made_up("lpmt", 0.613), made_up("lpmt", 0.777, set="coil20", truth="class"),
            made_up("none", 0.2, set="coil20", truth="class")]  # fmt: skip
    rows += [made_up("lpmt-as-published", 0.579)] * published
    left_out = [made_up(name, mean, first=0.5) for name, mean in (("none", 0.2), ("lpmt", 0.61), ("cas", 0.5))]
    pages = pages_of(builder, [record_of(*rows), record_of(*left_out, bench="defaults")], tmp_path)
    heads = ["LPMT as published", "LPMT, kinrank's defaults"] if published else ["LPMT"]
    readme = rows_of(pages["README.md"], "search for", *heads)
    assert readme[1][3:-1] == (["57.9", "**61.3**"] if published else ["**61.3**"])
    results = rows_of(pages["docs/results.md"], "set", *heads)
    assert [row[3] for row in results[1:]] == (
        ["57.9 (47.9 to 67.9)", ""] if published else ["**61.3 (51.3 to 71.3)**", "**77.7 (67.7 to 87.7)**"]
    )
    when = pages["docs/which-method-when.md"]
    assert ("| [LPMT as published](methods/lpmt-as-published.md) | 57.9 ↑ |" in when) == published
    assert ("57.9" in when.split("## Held-out sets")[1]) == published
    own = rows_of(pages["docs/methods/lpmt.md"], "measure", *(heads if published else ["`lpmt`"]))
    assert own[1][2].startswith("61.3")
    assert ("57.9" in own[1]) == published
    for page in ("README.md", "docs/results.md", "docs/which-method-when.md", "docs/methods/lpmt.md"):
        assert ("taken literally" in pages[page]) == published, page


def test_the_readme_shows_the_reproduced_table_if_features_of_the_paper_were_measured(
    builder: ModuleType, tmp_path: Path
) -> None:
    where = {"set": "caltech101", "features": "pyretri", "distractors": False}
    scores = [
        made_up(name, mean, truth="class", **{**where, "measure": "mAP"})
        for name, mean in (
            ("none", 0.766),
            ("cas", 0.863),
            ("adba+aqe", 0.8),
            ("lpmt", 0.891),
            ("lpmt-ablation", 0.87),
            ("lpmt-as-published", 0.862),
        )
    ]
    found = [{**where, "queries": 4310, "items": 4367, "dimensions": 512, "notes": []}]
    empty = dict.fromkeys(("ablations", "orders", "curves", "convergence", "time"), ())
    record = {**record_of(bench="paper"), **empty, "found": found, "scores": scores}
    pages = pages_of(builder, [record_of(made_up("none", 0.2), made_up("lpmt", 0.6)), record], tmp_path)
    brief = rows_of(pages["README.md"], "method", "Caltech101, mAP")
    assert brief[1:] == [["Baseline", "77.9 / 76.6"], ["CAS", "86.8 / 86.3"],
                         ["LPMT, kinrank's defaults", "87.3 / 89.1"], ["LPMT as published", "87.3 / 86.2"]]  # fmt: skip
    whole = rows_of(pages["docs/paper.md"], "method", "Caltech101, mAP")
    assert ["AQE", "85.5 / 80.0", "91.8 / not measured"] in whole
    assert "### Reproduced: Table 4" in pages["docs/paper.md"]
    without = pages_of(builder, [record_of(made_up("none", 0.2), made_up("lpmt", 0.6))], tmp_path)
    assert "printed in the paper" in pages["README.md"]
    assert "printed in the paper" not in without["README.md"]


def test_only_the_numbers_of_a_page_are_replaced(builder: ModuleType) -> None:
    page = (DOCS / "methods" / "lpmt.md").read_text("utf-8")
    without = builder.pages.with_measured(page, [])
    assert "## Measured" not in without
    assert builder.pages.with_measured(without, ["A table.", "A sentence."]) == page.replace(
        page.split("## Measured\n\n")[1].split("\n\n## Example")[0], "A table.\n\nA sentence."
    )
