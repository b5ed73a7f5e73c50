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
    assert "†: measured with an earlier version, kinrank 0.1.0" in accuracy
    assert "also in the figure" in accuracy
    assert "†" not in page.split("## Accuracy with candidates")[1].split("## Held-out sets")[0]
    assert "Measured with an earlier version: " in pages["docs/methods/aqe.md"]
    assert "earlier version" not in pages["docs/methods/aqewd.md"]
    assert "| earlier version |" not in pages["README.md"]


def test_the_table_of_costs_is_dated(builder: ModuleType, records: list[dict[str, Any]], tmp_path: Path) -> None:
    lines = pages_of(builder, records, tmp_path)["README.md"].splitlines()
    start = lines.index("| LPMT | time | relative to | memory | measured |")
    days = [line.split(" | ")[-1].strip("| ") for line in lines[start + 2 :][: lines[start:].index("") - 2]]
    assert len(days) >= 7
    assert all(len(day.split("-")) == 3 and len(day) == 10 for day in days)


def test_only_the_numbers_of_a_page_are_replaced(builder: ModuleType) -> None:
    page = (DOCS / "methods" / "lpmt.md").read_text("utf-8")
    without = builder.pages.with_measured(page, [])
    assert "## Measured" not in without
    assert builder.pages.with_measured(without, ["A table.", "A sentence."]) == page.replace(
        page.split("## Measured\n\n")[1].split("\n\n## Example")[0], "A table.\n\nA sentence."
    )
