"""The printed numbers equal those in the paper's source."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kinrank_bench.paper.paper_numbers import BEST_PARAMETERS, PAPER_TABLES


def printed(number: int, name: str) -> tuple[float, ...]:
    (table,) = (table for table in PAPER_TABLES if table.number == number)
    (row,) = (row for row in table.rows if row.name == name)
    return row.numbers


def test_ten_tables_in_the_order_of_the_paper() -> None:
    assert [table.number for table in PAPER_TABLES] == list(range(1, 11))
    assert [table.features for table in PAPER_TABLES] == [
        "rgem", "dolg", "cvnet", "pyretri", "", "", "mac", "rmac", "delg", "senet",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("number", "name", "numbers"),
    [
        (1, "LPMT", (84.7, 64.8, 93.0, 76.1, 67.8, 41.4, 84.1, 60.1)),
        (1, "LAttDBA+LAttQE", (74.0, 60.0, 87.8, 70.5, 54.1, 36.3, 74.1, 48.3)),
        (2, "CAS", (96.8, 95.7, 89.5, 93.6, 76.7, 86.7)),
        (4, "RDP", (39.6, 59.3, 63.9, 80.9, 85.9, 93.1)),
        (5, "Gaussian + k-nn", (78.2, 88.8, 88.7, 58.9, 75.5, 73.7)),
        (6, "Total variation", (79.5, 87.8, 86.4, 61.7, 74.5, 71.1)),
        (7, "MAC", (47.2, 69.7, 34.6, 55.7, 14.3, 32.6)),
        (10, "SG", (96.5, 96.2, 85.5, 92.1, 70.3, 83.1)),
    ],
)
def test_some_rows(number: int, name: str, numbers: tuple[float, ...]) -> None:
    assert printed(number, name) == numbers


def test_every_number_is_in_the_source_of_the_paper(shared_dir: Path) -> None:
    """Compare all numbers table by table, in their order: no row is missing or mistyped."""
    text = re.sub(r"(?m)^\s*%.*$", "", (shared_dir / "paper" / "lpmt.tex").read_text("utf-8"))
    source = re.findall(r"\\begin\{tabular\}(.*?)\\end\{tabular\}", text, flags=re.DOTALL)
    assert len(source) == len(PAPER_TABLES)
    for table, body in zip(PAPER_TABLES, source, strict=True):
        numbers = [float(word) for word in re.findall(r"(?<=[{\s])\d\d\.\d(?=[\s}])", body)]
        assert numbers == [number for row in table.rows for number in row.numbers], table.number
    for name, value in BEST_PARAMETERS.items():
        sign = {"k1": "k_1", "k2": "k_2"}.get(name, f"\\{name}")
        assert f"${sign}={value:g}$" in text
