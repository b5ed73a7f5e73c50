"""Tables: columns declared once, and one table rendered as text, Markdown or LaTeX."""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kinrank.memory_limit import format_bytes
from kinrank.tables import align_columns, escape_latex

BEST = "**"  # on both sides of the best cell of a column
Row = Mapping[str, Any]
ERROR_KEYS = {"error", "failed"}  # of a row without measurements


class _RowFormatter(string.Formatter):
    """Formats with two more kinds of numbers: `.1p` is percent without the sign, `bytes` a size with its unit."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if value is None:
            raise LookupError("no value")
        if format_spec == "bytes":
            return format_bytes(value)
        if format_spec.endswith("p"):
            return format(100 * value, f"{format_spec[:-1]}f")
        return format(value, format_spec)


_formatter = _RowFormatter()


def fill(template: str, row: Row, missing: str | None = None) -> str:
    """Fill a template such as `{mean:.1p} ({low:.1p} to {high:.1p})`.

    If a value is missing or None, return `missing`; without that, raise LookupError. Besides Python's formats there are
    `.1p` for percent without the sign, and `bytes`.

    Example:
        >>> fill("{method}: {mean:.1p}, {size:bytes}", {"method": "lpmt", "mean": 0.5, "size": 2000})
        'lpmt: 50.0, 2 KB'
    """
    try:
        return _formatter.vformat(template, (), row)
    except LookupError:
        if missing is None:
            raise
        return missing


@dataclass(frozen=True)
class Column:
    """A column of a table, made from the rows of a record.

    Attributes:
        heading: name of the column.
        value: template for `fill`, or a function of the row.
        missing: text for a row without the value.
        left: True for words, which are aligned left; numbers are aligned right.
    """

    heading: str
    value: str | Callable[[Any], str]
    missing: str = "-"
    left: bool = False

    def text(self, row: Row) -> str:
        """Return the cell of a row."""
        return fill(self.value, row, self.missing) if isinstance(self.value, str) else self.value(row)


@dataclass(frozen=True)
class Table:
    """Rows of text under a heading.

    Attributes:
        title: what the numbers are, in one line.
        head: names of the columns.
        rows: one text per column; a text between two pairs of asterisks is the best of its column.
        notes: sentences below the table.
        left: numbers of the columns with words, which are aligned left; the others hold numbers.
    """

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    left: Collection[int] = (0,)

    @classmethod
    def from_rows(cls, title: str, columns: Sequence[Column], rows: Iterable[Row], notes: Sequence[str] = ()) -> Table:
        """Make a table from the rows of a record; a row that has only an `error` shows it in its first cell."""
        texts = [
            [row["error"], *[""] * (len(columns) - 1)]
            if set(row) <= ERROR_KEYS
            else [column.text(row) for column in columns]
            for row in rows
        ]
        left = [number for number, column in enumerate(columns) if column.left]
        return cls(title, [column.heading for column in columns], texts, notes, left)


def mark_best(text: str) -> str:
    """Mark a cell as the best of its column."""
    return f"{BEST}{text}{BEST}"


def unmark_best(cell: str) -> tuple[str, bool]:
    """Return the text of a cell, and True if it is marked as the best of its column."""
    marked = len(cell) > 2 * len(BEST) and cell.startswith(BEST) and cell.endswith(BEST)
    return (cell[len(BEST) : -len(BEST)], True) if marked else (cell, False)


def render_text(table: Table) -> str:
    """Render for a terminal: title, columns with an asterisk after the best cells, notes."""
    cells = [[f"{text} *" if top else text for text, top in map(unmark_best, row)] for row in table.rows]
    right = set(range(len(table.head))) - set(table.left)
    return "\n".join([*filter(None, [table.title]), align_columns([table.head, *cells], right), *table.notes])


def render_markdown(tables: Sequence[Table]) -> str:
    """Render one section per table."""
    parts = []
    for table in tables:
        rule = ["---" if place in table.left else "---:" for place in range(len(table.head))]
        lines = ["| " + " | ".join(map(_escape_markdown, table.head)) + " |", "|" + "|".join(rule) + "|"]
        for row in table.rows:
            cells = [(_escape_markdown(text), top) for text, top in map(unmark_best, row)]
            lines.append("| " + " | ".join(mark_best(text) if top else text for text, top in cells) + " |")
        parts += [f"## {_escape_markdown(table.title)}", "\n".join(lines), *map(_escape_markdown, table.notes)]
    return "\n\n".join(parts) + "\n"


def _escape_markdown(text: str) -> str:
    return re.sub(r"([\\`*_|<>\[\]])", r"\\\1", " ".join(text.split()))


def render_latex(tables: Sequence[Table]) -> str:
    r"""Render one table environment per table, for `\\input`; needs no package."""
    parts = []
    for table in tables:
        columns = "".join("l" if place in table.left else "r" for place in range(len(table.head)))
        lines = [
            r"\begin{table}",
            rf"\caption{{{escape_latex(table.title)}.}}",
            r"\centering",
            rf"\begin{{tabular}}{{{columns}}}",
            r"\hline",
            " & ".join(map(escape_latex, table.head)) + r" \\",
            r"\hline",
        ]
        for row in table.rows:
            cells = [(escape_latex(text), top) for text, top in map(unmark_best, row)]
            lines.append(" & ".join(rf"\textbf{{{text}}}" if top else text for text, top in cells) + r" \\")
        lines += [r"\hline", r"\end{tabular}"]
        if table.notes:
            lines += [
                r"\par\smallskip",
                "\n".join(rf"{{\footnotesize {escape_latex(note)}\par}}" for note in table.notes),
            ]
        parts.append("\n".join([*lines, r"\end{table}"]))
    return "\n\n".join(parts) + "\n"
