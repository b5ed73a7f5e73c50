"""Columns, rows and tables: how the paper lays its numbers out, and what a finished table is made of."""

from __future__ import annotations

from dataclasses import dataclass, field

PRINTED, MEASURED = "printed in the paper", "measured here"


@dataclass(frozen=True)
class Column:
    """One column of numbers. `features` is empty where the whole table is about one kind of features."""

    group: str
    name: str
    set: str
    truth: str
    measure: str
    features: str = ""
    distractors: bool = False


@dataclass(frozen=True)
class Row:
    """One printed row: the name the paper uses, the method of kinrank (or the ablation), the numbers, a rule above."""

    name: str
    method: str
    numbers: tuple[float, ...]
    ruled: bool = False


@dataclass(frozen=True)
class Printed:
    """A table as it is printed. `kind`: landmarks, classes (methods), lse or tmt (ablations)."""

    number: int
    title: str
    kind: str
    features: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Head:
    """A column of a finished table: its block (printed or measured), its group, its name, and a sentence where the
    features it needs are absent."""

    block: str
    group: str
    name: str
    absent: str = ""
    column: Column | None = None


@dataclass(frozen=True)
class Cell:
    """A number with its interval, in percent, or a word that stands in its place."""

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
class Filled:
    """A finished table: what is printed and what was measured side by side, and what has to be said about it."""

    key: str
    title: str
    heads: tuple[Head, ...]
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = field(default=())
