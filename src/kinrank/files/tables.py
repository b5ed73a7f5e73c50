"""csv and tsv files -> rows of numbers, and the names of the rows where a column holds them.

The first line is a heading if none of its cells is a number (the id column left aside), or if `id_column` is a name
that stands in it. Every cell below is a number, quoted or not, except in the id column. What is unclear is refused: an
empty cell, a line of text and numbers, a column whose name says that it holds ids or labels, and a first line
0, 1, 2, ... above rows with decimal points, which only numbers the columns.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from kinrank.files.opening import FileProblem

Array = NDArray[Any]
Column = str | int | None
Ids = list[Any] | None
Rows = Iterator[tuple[int, list[str]]]  # the number of a line, and its cells

_IDS = r"ids?|idx|index|labels?|class|names?|key|uuid|guid"
NAMES_ROWS = re.compile(rf"(?i:(.*[_\s.-])?({_IDS})|doc(id|no)|row|unnamed: 0|__index_level_\d+__|)|.*[a-z](Id|ID)")


class Layout(NamedTuple):
    """What the first lines of a table say: the heading (empty without), the id column, lines before the first row."""

    heading: list[str]
    ids_at: int | None
    skipped: int


def read_text(name: object, opened: Callable[[], IO[str]], delimiter: str, id_column: Column) -> tuple[Array, Ids]:
    """The rows of a file that `opened()` opens, and the cells of its id column as text."""
    with opened() as lines:
        layout = _layout(name, _rows(lines, delimiter), id_column)
    ids: list[str] = []

    def keep(cell: str) -> float:
        ids.append(cell.strip())
        return 0.0

    try:
        with opened() as lines:
            numbers = np.loadtxt(
                (line for line in islice(lines, layout.skipped, None) if not line.isspace()),
                np.float32,
                comments=None,
                delimiter=delimiter,
                quotechar='"',
                encoding="utf-8",
                ndmin=2,
                converters=None if layout.ids_at is None else {layout.ids_at: keep},
            )
        if not all(ids):
            raise ValueError("a row has no id")
    except ValueError:
        with opened() as lines:
            _refuse_bad_cell(name, islice(_rows(lines, delimiter), int(bool(layout.heading)), None), layout)
        raise
    return (numbers, None) if layout.ids_at is None else (np.delete(numbers, layout.ids_at, axis=1), ids)


def _rows(lines: IO[str], delimiter: str) -> Rows:
    """The lines that are not blank."""
    reader = csv.reader(lines, delimiter=delimiter)
    for row in reader:
        cells = [cell.strip() for cell in row]
        if cells not in ([], [""]):
            yield reader.line_num, cells


def _layout(name: object, rows: Rows, id_column: Column) -> Layout:
    """The layout by the first two lines, or a refusal where they leave it open."""
    number, first = next(rows, (0, []))
    _, second = next(rows, (0, []))
    at = position(name, first, id_column)
    named = at is not None and first[at] == id_column and not _is_number(first[at])
    rest = _without(first, at)
    if not named and (not any(rest) or any(map(_is_number, rest))):
        _refuse_numbering(name, rest, _without(second, at))
        number, heading = 0, []
    else:
        heading = first
        refuse_unclear(name, heading, at)
    if not (second if heading else first):
        raise FileProblem(f"{name} holds no row of numbers; write one vector per line")
    return Layout(heading, at, number)


def position(name: object, columns: Sequence[str], id_column: Column) -> int | None:
    """The number of the id column, which is given by its name or its number."""
    if id_column is None:
        return None
    if isinstance(id_column, str) and columns.count(id_column) == 1:
        return columns.index(id_column)
    number = int(id_column) if re.fullmatch(r"[0-9]{1,9}", str(id_column)) else -1
    if 0 <= number < len(columns):
        return number
    listed = ", ".join(map(repr, columns[:8])) + (", ..." if len(columns) > 8 else "")
    raise FileProblem(
        f"{name} has no single column {id_column!r}; pass id_column= with the name, or the number from 0, of one of "
        f"its {len(columns)} columns: {listed}"
    )


def refuse_unclear(name: object, columns: Sequence[str], at: int | None) -> None:
    """A column of numbers that is called id is hardly a dimension."""
    for number, column in enumerate(columns):
        if number != at and NAMES_ROWS.fullmatch(column):
            problem = f"{name}: the column {column!r} looks like ids or labels, not like a dimension"
            _refuse_column(problem, column, number, at, "drop or rename it")


def _refuse_column(problem: str, column: str, number: int, at: int | None, otherwise: str) -> NoReturn:
    if at is not None:
        raise FileProblem(f"{problem}; {otherwise}: only one column can be the id column")
    names = repr(column) if column else number
    raise FileProblem(f"{problem}; if the column names the rows pass id_column={names}, otherwise {otherwise}")


def _refuse_numbering(name: object, first: Sequence[str], second: Sequence[str]) -> None:
    """0,1,2,... above decimal numbers: pandas writes such a line for columns without names."""
    counted = any(list(first) == [str(start + number) for number in range(len(first))] for start in (0, 1))
    if counted and len(first) > 1 and any("." in cell for cell in second):
        raise FileProblem(
            f"{name}: the first line {','.join(first)[:40]} seems to number the columns; delete it, or write its "
            "numbers with decimal points if it is a vector"
        )


def _refuse_bad_cell(name: object, rows: Rows, layout: Layout) -> None:
    """Name the first cell that is empty or no number by its line and column, or the first line of another length."""
    heading, at, _ = layout
    width = len(heading)
    for line, cells in rows:
        width = width or len(cells)
        if len(cells) != width:
            raise FileProblem(f"{name} line {line} has {len(cells)} cells and not {width} as those before; mend it")
        for number, cell in enumerate(cells):
            column = heading[number] if heading else ""
            where = f"{name} line {line}: column {repr(column) if column else f'{number} (counted from 0)'}"
            if not cell:
                raise FileProblem(f"{where} is empty; fill the cell or drop the line")
            if number != at and not _is_number(cell):
                problem = f"{where} holds {cell[:40]!r}, which is not a number"
                if width == 1 and re.search(r"[;\t|]", cell):
                    raise FileProblem(f"{problem}; separate cells by commas in a .csv, by tabs in a .tsv")
                _refuse_column(problem, column, number, at, "mend the cell or drop the column")


def _without(cells: Sequence[str], at: int | None) -> list[str]:
    return [cell for number, cell in enumerate(cells) if number != at]


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return cell.isascii() and "_" not in cell
