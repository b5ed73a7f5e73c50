"""The paper's tables as printed, with the method, set and measure of each number; and the parts of finished tables.

The numbers are in paper_tables.txt.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.resources import files

PRINTED, MEASURED = "printed in the paper", "measured here"


@dataclass(frozen=True)
class Column:
    """One column of numbers. `features` is empty if the whole table has one kind of features."""

    group: str
    name: str
    set: str
    truth: str
    measure: str
    features: str = ""
    distractors: bool = False


@dataclass(frozen=True)
class Row:
    """One printed row: name in the paper, method of kinrank (or ablation), numbers, and True for a rule above it."""

    name: str
    method: str
    numbers: tuple[float, ...]
    ruled: bool = False


@dataclass(frozen=True)
class PaperTable:
    """A table as printed. `kind`: landmarks, classes (methods), lse or tmt (ablations)."""

    number: int
    title: str
    kind: str
    features: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class ColumnHead:
    """A column of a finished table: block (printed or measured), group, name, and a note if its features are absent."""

    block: str
    group: str
    name: str
    absent: str = ""
    column: Column | None = None


@dataclass(frozen=True)
class Cell:
    """A number with its interval, in percent, or a word instead."""

    mean: float | None = None
    low: float | None = None
    high: float | None = None
    word: str = ""
    best: bool = False


@dataclass(frozen=True)
class Line:
    """A row of a finished table."""

    name: str
    method: str
    cells: tuple[Cell, ...]
    ruled: bool = False


@dataclass(frozen=True)
class ComparisonTable:
    """A finished table with printed and measured numbers side by side, and notes."""

    key: str
    title: str
    heads: tuple[ColumnHead, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = field(default=())


def _read_sections() -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield the sections of paper_tables.txt: kind (columns or table), parts of the heading, and lines."""
    text = (files(__package__) / "paper_tables.txt").read_text("utf-8")
    for section in text.split("\n\n")[1:]:
        heading, *lines = section.strip().splitlines()
        kind, _, rest = heading.partition(" ")
        yield kind, [part.strip() for part in rest.split("|")], lines


def _parse_columns(lines: list[str]) -> tuple[Column, ...]:
    found = []
    for line in lines:
        group, name, of, truth, measure, *more = (word.strip() for word in line.split("|"))
        features, million = [*more, "", ""][:2]
        found.append(Column(group, name, of, truth, measure, features, bool(million)))
    return tuple(found)


def _parse_table(heading: list[str], lines: list[str]) -> PaperTable:
    number, title, kind, features, columns = heading
    rows = []
    for above, line in zip(["", *lines], lines, strict=False):
        if line != "---":
            name, method, numbers = (word.strip() for word in line.split("|"))
            rows.append(Row(name, method, tuple(map(float, numbers.split())), above == "---"))
    assert all(len(row.numbers) == len(COLUMNS[columns]) for row in rows)
    return PaperTable(int(number), title, kind, features, COLUMNS[columns], tuple(rows))


COLUMNS = {heading[0]: _parse_columns(lines) for kind, heading, lines in _read_sections() if kind == "columns"}
LEVEL_COLUMNS, CLASS_COLUMNS = COLUMNS["level"], COLUMNS["class"]
PAPER_TABLES = tuple(_parse_table(heading, lines) for kind, heading, lines in _read_sections() if kind == "table")
MISPRINTS = {3: "αQE on ROxf medium is printed as 95.8, the number of its easy column; it is quoted as printed."}
BEST_PARAMETERS = {"k1": 60.0, "k2": 7.0, "kappa": 2.0, "theta": 0.5}  # Sec. 5.3; mu and sigma are only drawn
PAPER_SECONDS = 3.0  # "the execution time remains under 3 seconds when k=5000"
